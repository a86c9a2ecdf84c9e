//! Makes the calls of the ranks: on a thread per rank, or on one thread for all.
use super::rank::{Halt, Rank, is_in_progress};
use super::session::Run;
use super::timed;
use crate::backend::CallError;
use crate::job::{Call, CallKind, RankEnd};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Runs one rank, from making its communicators to saving its memory.
pub fn one_rank(run: &Arc<Run>, rank: usize) {
    let mut r = Rank::new(run, rank);
    run.backend.device.set_patient(true);
    let ended = run_rank(run, &mut r);
    run.backend.device.set_patient(false);
    match ended {
        Ok(figures) => run.end(rank, RankEnd::Done, figures),
        Err(HaltAt { halt, call, prelude }) => {
            if let Some(end) = r.halted(halt, call, prelude) {
                run.end(rank, end, Vec::new());
            }
        }
    }
    let dies = r.dies();
    drop(r);
    run.leave();
    if let Some((death, status)) = dies
        && run.deaths.wait(death, || run.stopped())
    {
        super::deaths::end_process(status);
    }
}

/// The place at which a rank halted.
pub(super) struct HaltAt {
    halt: Halt,
    call: Option<usize>,
    prelude: bool,
}

impl HaltAt {
    fn at(call: usize, prelude: bool) -> impl Fn(Halt) -> HaltAt {
        move |halt| HaltAt { halt, call: Some(call), prelude }
    }
    pub(super) fn outside(prelude: bool) -> impl Fn(Halt) -> HaltAt {
        move |halt| HaltAt { halt, call: None, prelude }
    }
}

type Figures = Vec<crate::job::Figure>;

fn run_rank(run: &Arc<Run>, r: &mut Rank<'_>) -> Result<Figures, HaltAt> {
    let job = run.job();
    r.bind().map_err(HaltAt::outside(true))?;
    if run.loads_itself {
        open(run, r)?;
    }
    match job.timed {
        Some(timed) => timed::run(run, r, timed)?,
        None => run_program(r, &job.programs[r.rank])?,
    }
    // Work that a dying rank has not waited for is left unfinished.
    match r.dies() {
        None => r.drain().map_err(HaltAt::outside(false))?,
        Some(_) => run.backend.device.begin(),
    }
    r.save().map_err(HaltAt::outside(false))
}

/// Makes a rank's communicators, loads its memory, and waits for the other ranks.
fn open(run: &Arc<Run>, r: &mut Rank<'_>) -> Result<(), HaltAt> {
    run.share_ids(r.rank);
    if run.first && !run.session.reused {
        for (index, call) in run.job().prelude[r.rank].iter().enumerate() {
            r.call(index, call, true).map_err(HaltAt::at(index, true))?;
        }
    }
    r.load().map_err(HaltAt::outside(true))?;
    run.meet().map_err(HaltAt::outside(true))
}

/// Loads the memory of all ranks on the calling thread.
///
/// # Errors
///
/// A rank's memory cannot be loaded. Nothing is loaded then.
pub fn load_all(run: &Arc<Run>) -> Result<(), Halt> {
    let n = run.job().n as usize;
    let done = (0..n).try_for_each(|rank| {
        let mut r = Rank::new(run, rank);
        r.bind()?;
        r.load()
    });
    match done {
        Ok(()) => run.loaded(),
        Err(_) if run.first => (0..n).for_each(|rank| run.session.state(rank).unload()),
        Err(_) => {}
    }
    done
}

/// Makes a rank's calls, once.
pub(super) fn run_program(r: &mut Rank<'_>, program: &[Call]) -> Result<(), HaltAt> {
    for (index, call) in program.iter().enumerate() {
        r.call(index, call, false).map_err(HaltAt::at(index, false))?;
    }
    Ok(())
}

/// Runs all ranks on the calling thread.
pub fn all_ranks(run: &Arc<Run>) {
    let n = run.job().n as usize;
    let mut ranks: Vec<Rank<'_>> = (0..n).map(|rank| Rank::new(run, rank)).collect();
    run.backend.device.set_patient(true);
    let ended = together(run, &mut ranks);
    run.backend.device.set_patient(false);
    match ended {
        Ok(figures) => {
            for (rank, figures) in figures.into_iter().enumerate() {
                run.end(rank, RankEnd::Done, figures);
            }
        }
        Err((failed_rank, HaltAt { halt, call, prelude })) => {
            let end = ranks.get_mut(failed_rank).and_then(|r| r.halted(halt, call, prelude));
            if let Some(end) = end {
                for rank in 0..n {
                    run.end(rank, if rank == failed_rank { end.clone() } else { RankEnd::Stopped }, Vec::new());
                }
            }
        }
    }
    drop(ranks);
    run.leave();
}

type Blamed<T> = Result<T, (usize, HaltAt)>;

fn together(run: &Arc<Run>, ranks: &mut [Rank<'_>]) -> Blamed<Vec<Figures>> {
    let job = run.job();
    let blame = |rank: usize, prelude: bool| move |halt: Halt| (rank, HaltAt::outside(prelude)(halt));
    if run.first && !run.session.reused {
        Prelude { calls: &job.prelude, comms: &job.comms, next: vec![0; ranks.len()] }.run(run, ranks)?;
    }
    for r in ranks.iter_mut() {
        r.bind().and_then(|()| r.load()).map_err(blame(r.rank, true))?;
    }
    run.loaded();
    let steps: BTreeSet<u32> = job.programs.iter().flatten().map(|call| call.step).collect();
    let mut next = vec![0; ranks.len()];
    for step in steps {
        one_step(run, ranks, &job.programs, &mut next, step)?;
    }
    if let Some(rank) = (0..ranks.len()).find(|&rank| next[rank] < job.programs[rank].len()) {
        let text = format!("call {} comes at no step's turn on one thread", next[rank]);
        return Err(blame(rank, false)(Halt::Trouble(text)));
    }
    for r in ranks.iter_mut() {
        r.drain().map_err(blame(r.rank, false))?;
    }
    ranks.iter_mut().map(|r| r.save().map_err(blame(r.rank, false))).collect()
}

/// True if the call is one of NCCL's functions, so that it belongs in the group over all ranks.
fn is_nccl(kind: &CallKind) -> bool {
    use CallKind::*;
    match kind {
        Collective { .. } | Send { .. } | Recv { .. } | GroupStart | GroupEnd => true,
        Init { .. } | Split { .. } | Finalize { .. } | Destroy { .. } | Abort { .. } => true,
        Register { .. } | Deregister { .. } => true,
        Shrink { .. } | Grow { .. } => true,
        Put { .. } | Signal { .. } | WaitSignal { .. } | FirstSignal { .. } => true,
        Map { .. }
        // one thread drives no graphs
        | BeginCapture { .. }
        | Captured { .. }
        | EndCapture { .. }
        | Launch { .. }
        | Replayed { .. }
        | Release { .. }
        | Checkpoint { .. }
        | After { .. }
        | Wait { .. }
        | Sleep { .. }
        | Exit { .. }
        | AwaitDeath { .. }
        | AwaitError { .. }
        // One rank's own business, for which it waits on no other rank.
        | GrowId { .. }
        | Revoke { .. }
        | Suspend { .. }
        | Resume { .. }
        | Begin { .. }
        | End { .. } => false,
    }
}

/// All ranks' calls of one step, in rounds: first the calls that are not NCCL's, then one group with those that are.
fn one_step(
    run: &Arc<Run>,
    ranks: &mut [Rank<'_>],
    programs: &[Vec<Call>],
    next: &mut [usize],
    step: u32,
) -> Blamed<()> {
    // The end of a named loop or group belongs to a step before those inside.
    let due = |rank: usize, at: usize| programs[rank].get(at).filter(|call| call.step <= step);
    loop {
        // waits come after every rank's other calls: a wait for work that a later rank completes would never end
        for waits in [false, true] {
            for r in ranks.iter_mut() {
                let rank = r.rank;
                while let Some(call) = due(rank, next[rank]).filter(|c| !is_nccl(&c.kind)) {
                    if !waits && matches!(call.kind, CallKind::Wait { .. } | CallKind::Sleep { .. }) {
                        break;
                    }
                    single(r, next[rank], call, false)?;
                    next[rank] += 1;
                }
            }
        }
        let turn: Vec<usize> = (0..ranks.len()).filter(|&rank| due(rank, next[rank]).is_some()).collect();
        if turn.is_empty() {
            return Ok(());
        }
        let mut takes = vec![Vec::new(); ranks.len()];
        for &rank in &turn {
            while due(rank, next[rank]).is_some_and(|c| is_nccl(&c.kind)) {
                for _ in 0..bracket(&programs[rank][next[rank]..]) {
                    takes[rank].push((next[rank], &programs[rank][next[rank]]));
                    next[rank] += 1;
                }
            }
        }
        grouped(run, ranks, &takes, false)?;
    }
}

/// Number of calls that belong together: a group with everything inside it, whichever steps that belongs to; otherwise one.
fn bracket(calls: &[Call]) -> usize {
    let mut depth = 0usize;
    for (index, call) in calls.iter().enumerate() {
        match call.kind {
            CallKind::GroupStart => depth += 1,
            CallKind::GroupEnd => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return index + 1;
        }
    }
    calls.len()
}

fn single(r: &mut Rank<'_>, index: usize, call: &Call, prelude: bool) -> Blamed<()> {
    let rank = r.rank;
    r.call(index, call, prelude).map_err(|halt| (rank, HaltAt::at(index, prelude)(halt)))
}

/// Calls of several ranks as one group. An error of the group's end counts for every rank that has calls in it.
fn grouped(run: &Arc<Run>, ranks: &mut [Rank<'_>], takes: &[Vec<(usize, &Call)>], prelude: bool) -> Blamed<()> {
    let library = &run.backend.library;
    let refuse = |rank: usize| move |error: CallError| (rank, HaltAt::outside(prelude)(Halt::Call(error)));
    let first = takes.iter().position(|calls| !calls.is_empty()).unwrap_or(0);
    // A rank that joins may come before the one that gives the id for it.
    let gives_id = |call: &Call| matches!(call.kind, CallKind::GrowId { .. });
    for r in ranks.iter_mut() {
        for (index, call) in takes[r.rank].iter().filter(|(_, call)| gives_id(call)) {
            single(r, *index, call, prelude)?;
        }
    }
    library.group_start().map_err(refuse(first))?;
    for r in ranks.iter_mut() {
        r.inside(true).map_err(|halt| (r.rank, HaltAt::outside(prelude)(halt)))?;
        for (index, call) in takes[r.rank].iter().filter(|(_, call)| !gives_id(call)) {
            single(r, *index, call, prelude)?;
        }
    }
    let mut done = library.group_end();
    let left = takes.iter().flatten().any(|(_, call)| call.left_in_progress);
    let unsettled = done.is_ok() && ranks.iter().any(Rank::is_unsettled);
    if (is_in_progress(&done) || unsettled) && !left {
        done = Ok(());
        for r in ranks.iter_mut() {
            match r.settle() {
                Err(Halt::Call(error)) if takes[r.rank].iter().any(|(_, call)| call.tolerate) => done = Err(error),
                settled => settled.map_err(|halt| (r.rank, HaltAt::outside(prelude)(halt)))?,
            }
        }
    }
    for r in ranks.iter_mut() {
        r.inside(false).map_err(|halt| (r.rank, HaltAt::outside(prelude)(halt)))?;
    }
    let Err(error) = done else { return Ok(()) };
    for (rank, calls) in takes.iter().enumerate() {
        let Some((index, call)) = calls.last() else { continue };
        if !call.tolerate {
            return Err((rank, HaltAt::at(*index, prelude)(Halt::Call(error))));
        }
        run.record_code(rank, *index as u32, error.code().0, error.to_string());
        ranks[rank].keep_errors_of_calls(calls.iter().map(|(_, call)| &call.kind));
    }
    Ok(())
}

/// The prelude of all ranks on one thread: one communicator after another, each as soon as all its members have reached it.
struct Prelude<'a> {
    calls: &'a [Vec<Call>],
    comms: &'a [Vec<u32>],
    next: Vec<usize>,
}

impl Prelude<'_> {
    /// The communicator whose members must all be at the same call.
    fn meets(kind: &CallKind) -> Option<u32> {
        match kind {
            CallKind::Init { comm, .. } => Some(*comm),
            CallKind::Split { parent, .. } => Some(*parent),
            _ => None,
        }
    }

    fn run(mut self, run: &Arc<Run>, ranks: &mut [Rank<'_>]) -> Blamed<()> {
        loop {
            let current = |rank: usize| self.calls[rank].get(self.next[rank]);
            let Some(waiting) = (0..ranks.len()).find(|&rank| current(rank).is_some()) else { return Ok(()) };
            let same = |comm: u32| {
                let at = |rank: &u32| current(*rank as usize).and_then(|c| Self::meets(&c.kind)) == Some(comm);
                self.comms.get(comm as usize).filter(|members| members.iter().all(at))
            };
            let mut ready = (0..ranks.len()).filter_map(|rank| current(rank).and_then(|c| Self::meets(&c.kind)));
            let members = ready.find_map(same).cloned();
            let members = members.unwrap_or_else(|| vec![waiting as u32]);
            let mut takes = vec![Vec::new(); ranks.len()];
            for rank in members.into_iter().map(|rank| rank as usize) {
                if let Some(call) = current(rank) {
                    takes[rank].push((self.next[rank], call));
                }
            }
            for (rank, calls) in takes.iter().enumerate() {
                self.next[rank] += calls.len();
            }
            grouped(run, ranks, &takes, true)?;
        }
    }
}
