//! The deaths of a job: the ranks that have reached each, and the processes that have ended as the program says.
//!
//! The parent waits until the rank that ends has saved and reported its results and every other rank has reached that place, then tells
//! its part to end, and the others when it is gone. A worker that has lost a part serves no other case.
use super::worker::Worker;
use crate::job::{CallKind, Job, Request};
use std::collections::BTreeMap;

/// One death: ranks that end together while the others continue.
#[derive(Debug, Default)]
struct Death {
    /// Parts of the ranks that die, with their progress: over with the program, and ended.
    dying: BTreeMap<usize, Progress>,
    /// Number of ranks that outlive it and have not reached it.
    awaited: usize,
    /// True once the parts have been told to end.
    told: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Progress {
    ready: bool,
    ended: bool,
}

/// All deaths of a job, and the ends of the processes.
#[derive(Debug, Default)]
pub struct Deaths {
    by_number: BTreeMap<u32, Death>,
    /// World ranks, and the ways their processes ended.
    pub ends: Vec<(u32, String)>,
}

impl Deaths {
    /// The deaths of a job whose ranks live in this worker. Each rank that dies is the only one in its process.
    pub fn of(job: &Job, worker: &Worker) -> Self {
        let mut deaths = Self::default();
        for (rank, program) in job.programs.iter().enumerate() {
            let part = || (0..worker.parts()).find(|part| worker.ranks(*part, job.n).contains(&(rank as u32)));
            for call in program {
                match &call.kind {
                    CallKind::Exit { death: Some(death), .. } => {
                        let Some(part) = part() else { continue };
                        deaths.by_number.entry(*death).or_default().dying.insert(part, Progress::default());
                    }
                    CallKind::AwaitDeath { death, .. } => {
                        deaths.by_number.entry(*death).or_default().awaited += 1;
                    }
                    _ => {}
                }
            }
        }
        deaths
    }

    /// A rank that outlives a death has reached it.
    pub fn come(&mut self, worker: &mut Worker, death: u32) {
        if let Some(there) = self.by_number.get_mut(&death) {
            there.awaited = there.awaited.saturating_sub(1);
        }
        self.go_on(worker);
    }

    /// A part's program is over.
    pub fn over(&mut self, worker: &mut Worker, part: usize) {
        for there in self.by_number.values_mut() {
            if let Some(progress) = there.dying.get_mut(&part) {
                progress.ready = true;
            }
        }
        self.go_on(worker);
    }

    /// True if the part's end is expected: it was told to end and is not yet known to have ended.
    pub fn expected(&self, part: usize) -> bool {
        let told = |there: &Death| there.told && there.dying.get(&part).is_some_and(|progress| !progress.ended);
        self.by_number.values().any(told)
    }

    /// A part has ended as requested.
    pub fn ended(&mut self, worker: &mut Worker, part: usize, ranks: u32) {
        let how = worker.bury(part);
        self.ends.extend(worker.ranks(part, ranks).map(|rank| (rank, how.clone())));
        let mut over = Vec::new();
        for (number, there) in &mut self.by_number {
            let Some(progress) = there.dying.get_mut(&part) else { continue };
            progress.ended = true;
            if there.dying.values().all(|progress| progress.ended) {
                over.push(*number);
            }
        }
        for number in over {
            // Dead parts do not receive it.
            let _ = worker.send(&Request::Death(number));
        }
    }

    /// Ends the processes of deaths for which everything is ready.
    fn go_on(&mut self, worker: &mut Worker) {
        for (number, there) in &mut self.by_number {
            let ready = there.awaited == 0 && there.dying.values().all(|progress| progress.ready);
            if !ready || std::mem::replace(&mut there.told, true) {
                continue;
            }
            for part in there.dying.keys() {
                // A part that cannot receive it has ended already, which its end shows.
                let _ = worker.send_to(*part, &Request::Death(*number));
            }
        }
    }
}
