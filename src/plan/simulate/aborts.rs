//! Aborts end the calls that a rank's host has not waited for. Whether such a call happens before the abort depends on time. If one
//! does, the program is played again with these calls as late as they can be. What is written by those that still happen before the
//! abort, because the abort itself waits for them, is undefined from there on.
use super::super::lower::{Index, LoweredProgram};
use super::super::rank_op::RankOp;
use super::super::types::{CommId, Event, Write};
use super::{Played, Simulation};
use std::collections::{HashMap, HashSet, VecDeque};

/// The calls that aborts may end.
#[derive(Debug, Default)]
pub struct Aborts {
    /// Calls that some abort may end, known from playing the program before.
    foreseen: HashSet<Index>,
    /// Calls that an abort has met, over or not.
    met: HashSet<Index>,
    /// Calls that an abort ended before their streams came to them.
    ended: HashSet<Index>,
    /// True if a call that an abort has met had begun.
    late: bool,
    /// By call that is foreseen: the number of events when it had written.
    written: HashMap<Index, usize>,
    /// What is unknown behind that many events.
    unknown: Vec<(usize, Event)>,
    /// Nodes at the heads of their streams with calls that are foreseen.
    waiting: VecDeque<usize>,
    /// Nodes that no longer wait, because nothing else could go on.
    admitted: HashSet<usize>,
}

/// Plays the program; `buffered` sends do not wait.
pub fn play(lowered: &LoweredProgram, buffered: bool) -> Played {
    let mut simulation = Simulation::new(lowered, buffered, Aborts::default());
    simulation.run();
    if !simulation.aborts.late || !simulation.out.mismatches.is_empty() {
        return simulation.out;
    }
    let foreseen = std::mem::take(&mut simulation.aborts.met);
    let mut again = Simulation::new(lowered, buffered, Aborts { foreseen, ..Aborts::default() });
    again.run();
    again.out
}

impl Simulation<'_> {
    /// Aborts this rank's calls on `comm` that its host has not waited for. What they have written is undefined.
    pub(super) fn abort(&mut self, rank: usize, comm: CommId) {
        let lowered = self.lowered;
        self.release(rank, comm);
        for id in self.unwaited(rank) {
            for index in self.nodes[id].calls.clone() {
                let at = (rank, index);
                let op = lowered.op(at);
                if op.and_then(RankOp::comm) != Some(comm) {
                    continue;
                }
                let mut others = Vec::new();
                let mut over = false;
                if let (Some(RankOp::Collective(_)), Some(number)) = (op, self.numbers.get(&at)) {
                    let meeting = self.meetings.entry((comm, *number)).or_default();
                    over = meeting.happened;
                    others.extend(meeting.arrived.iter().copied().filter(|a| *a != at));
                }
                // What a rank's own abort has ended, no later abort of another rank changes.
                others.retain(|(other, _)| !self.has_released(*other, comm));
                self.aborts.met.insert(at);
                self.aborts.late |= over || self.nodes[id].active;
                if let Some(written) = self.aborts.written.get(&at).copied() {
                    let unknown = self.undefined((rank, index), &others);
                    self.aborts.unknown.push((written, unknown));
                }
                self.undefine(at, &others);
                self.abort_one_sided(at, self.nodes[id].done);
                if (!over || self.is_lost(at)) && !self.nodes[id].done {
                    if self.nodes[id].active {
                        self.happened(id);
                    } else {
                        self.aborts.ended.insert(at);
                    }
                }
            }
        }
    }

    /// Marks what a call and its partners' calls have written as undefined, their factors in device memory among it: those are
    /// written on the stream right before the call.
    pub(super) fn undefine(&mut self, at: Index, partners: &[Index]) {
        let undefined = self.undefined(at, partners);
        self.out.events.push(undefined);
    }

    fn undefined(&self, at: Index, partners: &[Index]) -> Event {
        let lowered = self.lowered;
        let writes = |at: &Index| {
            let after = lowered.ends[at.0][at.1];
            let factor = lowered.factor_in_device_memory(*at);
            let of = move |op: &'_ RankOp<_>| -> Vec<Write> {
                let regions = op.writes().iter().copied().chain(factor);
                regions.map(|region| Write { region, after, stream: op.stream() }).collect()
            };
            lowered.op(*at).map(of).unwrap_or_default()
        };
        let out = [at].iter().chain(partners).flat_map(writes).collect();
        Event::Undefined { step: lowered.step(at), out }
    }

    /// True if an abort has ended the call before its stream came to it.
    pub(super) fn is_ended(&self, at: Index) -> bool {
        self.aborts.ended.contains(&at)
    }

    /// The calls have just written. If an abort has met one of them meanwhile, what they have written is unknown.
    pub(super) fn note_writers(&mut self, calls: &[Index]) {
        if let Some((first, others)) = calls.split_first()
            && calls.iter().any(|at| self.aborts.met.contains(at))
        {
            self.undefine(*first, others);
        }
        let events = self.out.events.len();
        let aborts = &mut self.aborts;
        let foreseen = calls.iter().filter(|at| aborts.foreseen.contains(at));
        aborts.written.extend(foreseen.map(|at| (*at, events)));
    }

    /// True if the node, at the head of its streams, has to wait because an abort may come before it.
    pub(super) fn awaits_abort(&mut self, id: usize) -> bool {
        let (node, aborts) = (&self.nodes[id], &mut self.aborts);
        let may_come = |at: Index| aborts.foreseen.contains(&at) && !aborts.ended.contains(&at);
        let waits = !aborts.admitted.contains(&id) && node.calls.iter().any(|index| may_come((node.rank, *index)));
        if waits && !aborts.waiting.contains(&id) {
            aborts.waiting.push_back(id);
        }
        waits
    }

    /// Nothing can go on: lets one call happen that an abort may end. False if there is none.
    pub(super) fn admit_one(&mut self) -> bool {
        let Some(id) = self.aborts.waiting.pop_front() else { return false };
        self.aborts.admitted.insert(id);
        self.wake(self.nodes[id].rank);
        true
    }

    /// Puts what is unknown right behind the events that have written it, so that it is unknown to all that read it.
    pub(super) fn place_unknown(&mut self) {
        let mut unknown = std::mem::take(&mut self.aborts.unknown);
        if unknown.is_empty() {
            return;
        }
        unknown.sort_by_key(|(events, _)| *events);
        let mut unknown = unknown.into_iter().peekable();
        let events = std::mem::take(&mut self.out.events);
        for (before, event) in events.into_iter().enumerate() {
            while let Some((_, event)) = unknown.next_if(|(events, _)| *events == before) {
                self.out.events.push(event);
            }
            self.out.events.push(event);
        }
        self.out.events.extend(unknown.map(|(_, event)| event));
    }
}
