//! Processes that end: the others' hosts meet the death, and operations lost with it stay unfinished until their
//! communicator is aborted.
use super::super::lower::Index;
use super::super::rank_op::RankOp;
use super::super::types::{CommId, Waiting};
use super::Simulation;
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;

/// The reason a rank is stuck that waits for an operation of a communicator with a dead rank.
pub const ENDED: &str = "its process has ended";

/// The deaths so far.
#[derive(Default)]
pub struct Toll {
    /// The ranks that have reached each death.
    come: FxHashMap<u32, BTreeSet<usize>>,
    dead: BTreeSet<usize>,
    /// For each rank: the operations that may be unfinished on their streams, although all ranks had called them.
    held: FxHashMap<usize, Vec<Held>>,
    /// Ranks, with communicators whose operations they have ended.
    released: BTreeSet<(usize, CommId)>,
}

struct Held {
    at: Index,
    comm: CommId,
    streams: Vec<u32>,
}

impl Simulation<'_> {
    /// A rank's host reaches a death; true once all ranks have that die in it or outlive it.
    pub(super) fn meets_death(&mut self, rank: usize, death: u32) -> bool {
        let lowered = self.lowered;
        let deaths = &lowered.deaths;
        let come = self.toll.come.entry(death).or_default();
        let new = come.insert(rank);
        let all = come.len() >= deaths.expected(death);
        if new {
            self.clocks_host_comes(rank, death_key(death));
        }
        if new && all {
            let come = come_list(&self.toll, death);
            let dying = deaths.dying(death);
            self.toll.dead.extend(dying.iter().copied());
            for at in deaths.lost_with(&dying) {
                self.undefine(at);
            }
            for survivor in come.iter().filter(|rank| !dying.contains(rank)) {
                self.hold_lost(*survivor);
            }
            come.into_iter().filter(|other| *other != rank).for_each(|other| self.wake(other));
        }
        if all {
            self.clocks_hosts_met(rank, death_key(death));
        }
        all
    }

    /// Keeps a rank's streams held by operations that the dead may have left unfinished.
    fn hold_lost(&mut self, rank: usize) {
        let mut held = Vec::new();
        for node in self.nodes.iter().filter(|node| node.rank == rank && node.done) {
            let lost = node.calls.iter().map(|index| (rank, *index)).find(|at| self.stands_still(*at));
            if let Some((at, comm)) = lost.and_then(|at| Some((at, self.comm_of(at)?))) {
                held.push(Held { at, comm, streams: node.streams.clone() });
            }
        }
        let known = self.toll.held.entry(rank).or_default();
        let released = &self.toll.released;
        held.retain(|held| !known.iter().any(|other| other.at == held.at) && !released.contains(&(rank, held.comm)));
        known.append(&mut held);
    }

    fn comm_of(&self, at: Index) -> Option<CommId> {
        self.lowered.op(at).and_then(RankOp::comm)
    }

    /// The dead ranks of a call's communicator.
    fn dead_of(&self, at: Index) -> Vec<usize> {
        let members = self.comm_of(at).and_then(|comm| self.lowered.unrolled.comms.list.get(comm));
        let members = members.map(|comm| comm.members.as_slice()).unwrap_or_default();
        members.iter().copied().filter(|member| self.toll.dead.contains(member)).collect()
    }

    /// True if a call of a living rank is lost with one that has died.
    pub(super) fn stands_still(&self, at: Index) -> bool {
        self.is_lost(at) && !self.toll.dead.contains(&at.0) && !self.dead_of(at).is_empty()
    }

    /// True if the rank's process has ended, so that it does not wait.
    pub(super) fn is_dead(&self, rank: usize) -> bool {
        self.toll.dead.contains(&rank)
    }

    /// True if the call's results are unknown.
    pub(super) fn is_lost(&self, at: Index) -> bool {
        self.lowered.deaths.is_lost(at)
    }

    /// True if an operation on the stream may be unfinished.
    pub(super) fn holds(&self, rank: usize, stream: u32) -> bool {
        self.toll.held.get(&rank).is_some_and(|held| held.iter().any(|held| held.streams.contains(&stream)))
    }

    /// An abort ends operations that stand still.
    pub(super) fn release(&mut self, rank: usize, comm: CommId) {
        self.toll.released.insert((rank, comm));
        if let Some(held) = self.toll.held.get_mut(&rank) {
            held.retain(|held| held.comm != comm);
        }
    }

    /// The operation a rank waits for that a death has made impossible.
    pub(super) fn waits_for_the_dead(&self, rank: usize) -> Option<Waiting> {
        let held = self.toll.held.get(&rank).and_then(|held| held.first()).map(|held| held.at);
        let stands = |node: &&super::Node| node.rank == rank && node.active && !node.done;
        let active = self.nodes.iter().filter(stands).flat_map(|node| &node.calls);
        let active = active.map(|index| (rank, *index)).find(|at| self.stands_still(*at));
        let at = held.or(active)?;
        Some(Waiting { rank, step: self.lowered.step(at), what: ENDED.to_owned(), on: self.dead_of(at) })
    }

    /// The ranks that have not reached a death.
    pub(super) fn absent(&self, death: u32) -> Vec<usize> {
        let come = come_list(&self.toll, death);
        (0..self.lowered.unrolled.n).filter(|rank| !come.contains(rank) && !self.toll.dead.contains(rank)).collect()
    }
}

fn come_list(toll: &Toll, death: u32) -> Vec<usize> {
    toll.come.get(&death).into_iter().flatten().copied().collect()
}

/// The key under which a death is a meeting of hosts.
fn death_key(death: u32) -> (u32, usize) {
    (u32::MAX, death as usize)
}
