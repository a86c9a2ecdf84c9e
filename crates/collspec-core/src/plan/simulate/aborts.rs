//! Aborts end the calls of a communicator that are not over. Which calls those are depends on timing, so a simulation with one order
//! is not enough: a call may be cut short unless it is over before the abort in every order. The program is simulated again with the
//! calls that may be cut short: each of them is over when its own rank aborts the communicator, and not before.
use super::super::lower::{Index, LoweredProgram};
use super::super::rank_op::RankOp;
use super::super::types::{CommId, Event, Write};
use super::clocks::{Clock, Moment, size_in_words};
use super::connecting::HostWaits;
use super::{Played, Simulation};
use crate::scenario::Diagnostic;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeSet;

/// The reason a rank is stuck that waits for a call which another rank may cut short.
pub const MAY_BE_ABORTED: &str = "which may abort the communicator before the call is over";

/// Limit on the number of simulations: the program is simulated until no further calls are found that may be cut short.
const MOST_PLAYS: usize = 8;

/// The effects of aborts in a simulation.
#[derive(Debug, Default)]
pub struct Aborts {
    /// For each call that may be cut short: the rank whose abort may do so.
    cut: FxHashMap<Index, usize>,
    /// Calls whose ranks have done their part.
    over: FxHashSet<Index>,
    /// Calls that an abort ended before their streams reached them.
    ended: FxHashSet<Index>,
    /// Calls that an abort ended before their partners came, each with the abort.
    withdrawn: FxHashMap<Index, Moment>,
    met: Vec<Abort>,
}

/// An abort, and the calls of its rank and communicator for which its host had not waited.
#[derive(Debug)]
struct Abort {
    at: Index,
    comm: CommId,
    /// What the rank's host knew; `None` if the program is too large for clocks.
    host: Option<Clock>,
    /// The affected calls with their nodes.
    calls: Vec<(Index, usize)>,
}

impl Aborts {
    /// True if an abort may come before the call is over.
    pub(super) fn may_be_cut(&self, at: Index) -> bool {
        self.cut.contains_key(&at)
    }
}

/// Simulates the program; with `buffered`, sends do not wait.
pub fn play(lowered: &LoweredProgram, buffered: bool) -> Played {
    let mut cut = FxHashMap::default();
    for _ in 0..MOST_PLAYS {
        let known = cut.len();
        let mut simulation = Simulation::new(lowered, buffered, Aborts { cut, ..Aborts::default() });
        simulation.run();
        let more = simulation.find_cut();
        if !simulation.out.mismatches.is_empty() || !simulation.out.waiting.is_empty() {
            return simulation.out;
        }
        cut = std::mem::take(&mut simulation.aborts.cut);
        for (at, by) in more {
            cut.entry(at).or_insert(by);
        }
        if cut.len() == known {
            return simulation.out;
        }
    }
    let text = "the aborts of this program depend on each other in too many ways";
    let help = "wait for the operations of a communicator before it is aborted";
    let mismatches = vec![Diagnostic::new(lowered.unrolled.case.span, text).help(help)];
    Played { mismatches, ..Played::default() }
}

/// Simulates a program that is known to finish, with hosts that wait as NCCL's do: when pairs of ranks connect, when communicators
/// end, and if `collectives` is set in the first collective of each. `None` if such waits are unknown.
pub fn play_hosts(lowered: &LoweredProgram, collectives: bool) -> Option<Played> {
    HostWaits::of(lowered, collectives, false).map(|waits| play_with(lowered, waits))
}

/// As [`play_hosts`] with collectives that connect, where the ranks of a communicator launch their kernels together.
pub fn play_launches_together(lowered: &LoweredProgram) -> Option<Played> {
    HostWaits::of(lowered, true, true).map(|waits| play_with(lowered, waits))
}

fn play_with(lowered: &LoweredProgram, waits: HostWaits) -> Played {
    let mut simulation = Simulation::new(lowered, false, Aborts::default());
    simulation.host_waits = Some(waits);
    simulation.run();
    simulation.out
}

impl Simulation<'_> {
    /// Aborts this rank's calls on `comm` that its host has not waited for.
    pub(super) fn abort(&mut self, rank: usize, comm: CommId) {
        let lowered = self.lowered;
        self.release(rank, comm);
        let (mut calls, mut withdrawn) = (Vec::new(), Vec::new());
        for id in self.unwaited(rank) {
            for index in self.nodes[id].calls.clone() {
                let at = (rank, index);
                if lowered.op(at).and_then(RankOp::comm) != Some(comm) {
                    continue;
                }
                if lowered.programs[rank][index].left_in_progress {
                    // It may have taken effect until now.
                    self.undefine(at);
                    continue;
                }
                calls.push((at, id));
                let is_over = self.aborts.over.contains(&at);
                if self.nodes[id].done || is_over && !self.is_kept(at) {
                    continue;
                }
                if !self.nodes[id].active {
                    self.aborts.ended.insert(at);
                    withdrawn.push(at);
                    continue;
                }
                if !is_over {
                    self.undefine(at);
                    self.withdraw(at);
                    withdrawn.push(at);
                }
                self.happened(id);
            }
        }
        if calls.is_empty() {
            return;
        }
        let at = (rank, self.ranks[rank].cursor);
        let host = self.clocks.as_ref().map(|clocks| clocks.host(rank).clone());
        self.aborts.met.push(Abort { at, comm, host, calls });
        if let Some(clocks) = &mut self.clocks {
            let abort = clocks.aborts(rank);
            self.aborts.withdrawn.extend(withdrawn.into_iter().map(|at| (at, abort)));
        }
    }

    /// True if a call stays on its stream until its communicator is aborted, although its partners have done their part.
    fn is_kept(&self, at: Index) -> bool {
        self.aborts.may_be_cut(at) || self.stands_still(at)
    }

    /// True if an abort has ended the call before its stream reached it.
    pub(super) fn is_ended(&self, at: Index) -> bool {
        self.aborts.ended.contains(&at)
    }

    /// True if the results of a call are unknown, because it may not have ended when its communicator was aborted or lost a rank.
    pub(super) fn is_unknown(&self, at: Index) -> bool {
        self.is_lost(at) || self.aborts.may_be_cut(at)
    }

    /// A call's partners have done their part: it is over, unless a dead rank may have left it unfinished, or an abort may
    /// come first.
    pub(super) fn over(&mut self, at: Index, node: usize) {
        if self.clocks.is_some() {
            self.aborts.over.insert(at);
        }
        if self.is_unknown(at) {
            self.undefine(at);
        }
        if !self.is_kept(at) {
            self.happened(node);
        }
    }

    /// A one-sided operation is over. One that an abort may cut short is refused, so its stream is never kept.
    pub(super) fn over_one_sided(&mut self, at: Index, node: usize) {
        if self.clocks.is_some() {
            self.aborts.over.insert(at);
        }
        self.happened(node);
    }

    /// Removes an aborted call from what its partners wait for.
    fn withdraw(&mut self, at: Index) {
        let number = self.number_of(at);
        match self.lowered.op(at) {
            Some(RankOp::Collective(op)) => {
                if let Some(meeting) = self.meetings.get_mut(&(op.comm, number))
                    && let Some(place) = meeting.arrived.iter().position(|other| *other == at)
                {
                    meeting.arrived.remove(place);
                    meeting.nodes.remove(place);
                }
            }
            Some(op @ (RankOp::Send(_) | RankOp::Recv(_))) => {
                if let Some(message) = op.route().and_then(|route| self.messages.get_mut(&(route, number))) {
                    message.send = message.send.filter(|(send, _)| *send != at);
                    message.recv = message.recv.filter(|(recv, _)| *recv != at);
                }
            }
            _ => {}
        }
    }

    /// The calls that may be cut short, with the aborting ranks: those not over before an abort of their communicator in every order.
    fn find_cut(&mut self) -> FxHashMap<Index, usize> {
        let mut cut = FxHashMap::default();
        let mut aborts = std::mem::take(&mut self.aborts.met);
        // If several may cut a call short, the lowest rank's is told.
        aborts.sort_by_key(|abort| abort.at);
        for abort in aborts {
            let Some(host) = &abort.host else {
                self.out.mismatches.push(self.too_many(&abort));
                return cut;
            };
            for (at, node) in &abort.calls {
                if self.is_over_for(host, *node) || self.is_lost(*at) {
                    continue;
                }
                self.report_cut_one_sided(*at, abort.at);
                cut.entry(*at).or_insert(abort.at.0);
                for (partner, node) in self.partners_of(*at, abort.comm) {
                    if !self.is_over_for(host, node) {
                        cut.entry(partner).or_insert(abort.at.0);
                    }
                }
            }
        }
        cut
    }

    fn is_over_for(&self, host: &Clock, node: usize) -> bool {
        self.clocks.as_ref().is_some_and(|clocks| clocks.is_over(node, host))
    }

    fn too_many(&self, abort: &Abort) -> Diagnostic {
        let lowered = self.lowered;
        let span = lowered.unrolled.steps[lowered.step(abort.at) as usize].span;
        let size = size_in_words(lowered);
        let text = format!("there are too many calls before this abort to tell which of them are over: {size}");
        Diagnostic::new(span, text).help("wait for the operations of the communicator before it is aborted")
    }

    /// The calls of other ranks, with their nodes, that a call has met.
    fn partners_of(&self, at: Index, comm: CommId) -> Vec<(Index, usize)> {
        let number = self.number_of(at);
        match self.lowered.op(at) {
            Some(RankOp::Collective(_)) => {
                let Some(meeting) = self.meetings.get(&(comm, number)) else { return Vec::new() };
                let all = meeting.arrived.iter().copied().zip(meeting.nodes.iter().copied());
                all.filter(|(other, _)| *other != at).collect()
            }
            Some(op @ (RankOp::Send(_) | RankOp::Recv(_))) => {
                let message = op.route().and_then(|route| self.messages.get(&(route, number)));
                let both = message.into_iter().flat_map(|message| [message.send, message.recv]).flatten();
                both.filter(|(other, _)| *other != at).collect()
            }
            _ => Vec::new(),
        }
    }

    /// The ranks whose own call would have met this one, had they not aborted the communicator first. In another run it may: a call that
    /// comes after the abort in every run is left out.
    pub(super) fn withdrawn_partners(&self, at: Index, node: usize) -> Vec<usize> {
        let (lowered, number) = (self.lowered, self.number_of(at));
        let Some(clocks) = &self.clocks else { return Vec::new() };
        let meets = |other: &Index| match (lowered.op(at), lowered.op(*other)) {
            (Some(RankOp::Collective(one)), Some(RankOp::Collective(two))) => one.comm == two.comm,
            (Some(one), Some(two)) => one.route().is_some_and(|route| two.route() == Some(route)),
            _ => false,
        };
        let withdrawn = self.aborts.withdrawn.iter();
        let partners =
            withdrawn.filter(|(other, _)| **other != at && self.number_of(**other) == number && meets(other));
        let in_time = partners.filter(|(_, abort)| !clocks.starts_after(node, **abort));
        in_time.map(|(other, _)| other.0).collect::<BTreeSet<usize>>().into_iter().collect()
    }

    /// The reason a call is not over although its partners have done their part.
    pub(super) fn waits_for_abort(&self, at: Index) -> Option<(Vec<usize>, String)> {
        let by = self.aborts.cut.get(&at).filter(|_| self.aborts.over.contains(&at))?;
        Some((vec![*by], MAY_BE_ABORTED.to_owned()))
    }

    /// Marks a call's results as undefined, including its factor in device memory, which is written on the stream right
    /// before the call.
    pub(super) fn undefine(&mut self, at: Index) {
        let lowered = self.lowered;
        let after = lowered.ends[at.0][at.1];
        let factor = lowered.factor_in_device_memory(at);
        let of = |op: &RankOp<_>| -> Vec<Write> {
            let regions = op.writes().iter().copied().chain(factor);
            regions.map(|region| Write { region, after, stream: op.stream() }).collect()
        };
        let out = lowered.op(at).map(of).unwrap_or_default();
        self.out.events.push(Event::Undefined { step: lowered.step(at), out });
    }
}
