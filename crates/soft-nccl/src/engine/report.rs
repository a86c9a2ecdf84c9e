//! A text that says which rank waits for which.
use super::State;
use super::task::Parked;
use std::collections::{BTreeMap, BTreeSet};

impl State {
    /// A line for every waiting task and host thread, and one for every operation on which ranks disagree.
    pub(crate) fn who_waits(&self) -> String {
        let mut lines = BTreeSet::new();
        // The request of each rank, by communicator, collective and the rank.
        let mut asked: BTreeMap<(u64, u64), BTreeMap<usize, String>> = BTreeMap::new();
        for task in self.work.tasks.values() {
            let what = format!(
                "{}, {} number {} ({}): rank {}",
                self.comms.text(task.shared()),
                if task.spec.kind.is_collective() { "operation" } else { "message" },
                task.sequence(),
                task.spec.text(),
                task.rank()
            );
            if task.spec.kind.is_collective() {
                let ranks = asked.entry((task.shared(), task.sequence())).or_default();
                ranks.insert(task.rank(), task.spec.text());
            }
            match task.parked {
                Parked::Broken => lines.insert(format!("{what} was stopped by a bug in the library")),
                Parked::No => lines.insert(format!("{what} can go on")),
                Parked::Message(peer) => lines.insert(format!("{what} waits for a message from rank {peer}")),
                Parked::Slot(peer) => lines.insert(format!("{what} waits for rank {peer} to take what is under way")),
                Parked::Signal(peer) => lines.insert(format!("{what} waits for signals from rank {peer}")),
                Parked::Turn(peer) => {
                    lines.insert(format!("{what} waits for an earlier operation to rank {peer} in its context"))
                }
                Parked::Room(peer) => {
                    lines.insert(format!("{what} waits for rank {peer}'s process to take what is under way"))
                }
                Parked::Taken(peer) => lines.insert(format!("{what} waits for rank {peer} to take its last message")),
            };
        }
        // Of each rank and communicator the first operations that wait for their stream, and how many batches come after them.
        let mut behind: BTreeMap<(u64, usize), Vec<(u64, String)>> = BTreeMap::new();
        for batch in self.work.batches.values().filter(|batch| !batch.started) {
            if let Some(member) = self.comms.members.get(&batch.comm) {
                let of_rank = behind.entry((member.shared, member.rank)).or_default();
                of_rank.push((batch.first_sequence(), batch.text()));
            }
        }
        for ((shared, rank), mut batches) in behind {
            batches.sort();
            let Some(((_, first), later)) = batches.split_first() else { continue };
            let later = match later.len() {
                0 => String::new(),
                1 => " (1 later call is queued after it)".to_owned(),
                later => format!(" ({later} later calls are queued after it)"),
            };
            let comm = self.comms.text(shared);
            lines.insert(format!("{comm}, {first}: rank {rank} waits for its stream{later}"));
        }
        lines.extend(self.hosts.texts().cloned());
        for ((shared, sequence), ranks) in asked {
            let different: BTreeSet<&String> = ranks.values().collect();
            if different.len() > 1 {
                let comm = self.comms.text(shared);
                let asked: Vec<String> =
                    ranks.iter().map(|(rank, text)| format!("rank {rank} asked for {text}")).collect();
                let asked = asked.join("; ");
                lines.insert(format!("{comm}, operation number {sequence}: the ranks disagree: {asked}"));
            }
        }
        lines.extend(self.comms.unconnected());
        for there in self.meetings.by_id.values() {
            let missing: Vec<String> =
                (0..there.n).filter(|rank| !there.arrived.contains_key(rank)).map(|rank| rank.to_string()).collect();
            lines.insert(format!("a communicator of {} waits for the ranks {}", there.n, missing.join(", ")));
        }
        for (place, there) in &self.meetings.splits {
            let missing: Vec<String> = place.missing(there).iter().map(usize::to_string).collect();
            let (what, comm) = (place.text(), self.comms.text(place.shared));
            lines.insert(format!("the {what} of {comm} waits for the ranks {}", missing.join(", ")));
        }
        lines.into_iter().collect::<Vec<_>>().join("\n")
    }
}
