//! Waits of NCCL's hosts other than those for communicators to be created. The ranks of a message connect when a group first uses
//! the pair: the host goes through the distances 1, 2, ... and at each exchanges addresses with the ranks at that distance after and
//! before its own, then goes through them again to learn that they are done. All_to_all, gather and scatter count as messages; all
//! other collectives connect all ranks of a communicator at the first one. The ranks also wait for each other when it ends.
use super::super::lower::LoweredProgram;
use super::super::rank_op::{Placed, RankCollective, RankOp, Route};
use super::super::types::{CommId, StepId, Waiting};
use super::Simulation;
use crate::job::CallKind;
use crate::ops::NcclCall;
use crate::scenario::Placement;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::{BTreeSet, VecDeque};

/// The reason a rank waits for others with which it connects.
pub const CONNECTS: &str = "the ranks of a message connect when a group first uses their pair, nearest ranks first, and the call waits until all have answered";
/// The reason a rank waits for others in its first collective of a communicator.
const FIRST_COLLECTIVE: &str =
    "the ranks of a communicator may connect at its first collective, and the call waits until all have come to it";
/// The reason a rank waits for others in a suspend or resume.
pub const CHANGES_TOGETHER: &str = "in NCCL all ranks of a communicator suspend it, or resume it, together";
/// The reason a rank waits for others in a launch, if the ranks of a process launch together.
const LAUNCHES_TOGETHER: &str = "it has launched less often on this communicator";
/// The reason a rank waits for others that still use a communicator.
pub const ENDS_TOGETHER: &str = "NCCL may let the end of a communicator wait for all its ranks on the machine";

/// A pair that connects.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Pair {
    distance: u32,
    /// True on the side of the sender.
    sends: bool,
    from: u32,
    to: u32,
}

/// The connections of one communicator's pairs that a rank opens in a call. It goes through its distances twice: first the ranks
/// exchange their addresses, then they confirm that they are done. At each distance it sends before it waits for the other side.
struct Rounds {
    comm: u32,
    /// The pairs, sorted.
    pairs: Vec<Pair>,
    /// The position of the first pair at the current distance.
    at: usize,
    /// True in the second pass.
    done: bool,
    /// True if the rank has spoken at this distance.
    said: bool,
}

/// A rank whose host connects, and the calls that it issues afterwards.
pub(super) struct Connecting {
    step: StepId,
    pairs: Vec<Rounds>,
    /// Communicators whose first collective it makes, once its pairs are connected.
    collectives: Vec<CommId>,
    /// Communicators on which it then launches, one after the other, together with the others.
    launches: VecDeque<CommId>,
    /// True if it has come to the first of these launches.
    has_come: bool,
    calls: Vec<usize>,
}

/// By communicator and rank.
type Counts = FxHashMap<(CommId, usize), usize>;

/// The progress of hosts that connect, change or end communicators.
#[derive(Default)]
pub(super) struct HostWaits {
    /// True if first collectives connect.
    collectives: bool,
    /// For each communicator the launches to which each rank has come, if the ranks launch together.
    launched: Option<Counts>,
    /// For each communicator, sender and receiver: the messages sent so far, one bit for each side and pass.
    said: FxHashMap<(u32, u32, u32), u8>,
    /// Collectives that consist of messages and need not be examined again.
    spread: FxHashSet<(CommId, usize, NcclCall, usize)>,
    /// For each communicator: the ranks that have reached its first collective.
    first: FxHashMap<CommId, BTreeSet<usize>>,
    connecting: FxHashMap<usize, Connecting>,
    /// For each communicator: the world ranks that have reached its end.
    ending: FxHashMap<CommId, BTreeSet<usize>>,
    /// For each communicator and rank, its suspends and resumes so far.
    changed: Counts,
    /// Ranks that have come to a suspend or resume, with its place in their programs.
    changing: FxHashSet<(usize, usize)>,
    /// For each rank: the communicators that its open group ends.
    in_group: FxHashMap<usize, Vec<CommId>>,
    /// Communicators that a rank has finalized, so that it ends them without the others.
    finalized: FxHashSet<(usize, CommId)>,
}

impl HostWaits {
    /// The state for a program whose first collectives connect or not, and whose ranks launch together or not. `None` where such waits are unknown: calls may be cut short,
    /// or a process may end.
    pub(super) fn of(lowered: &LoweredProgram, collectives: bool, launch_together: bool) -> Option<Self> {
        let cuts = |kind: &CallKind| {
            matches!(
                kind,
                CallKind::Abort { .. }
                    | CallKind::Revoke { .. }
                    | CallKind::Exit { .. }
                    | CallKind::Shrink { abort: true, .. }
            )
        };
        let cut = lowered.programs.iter().flatten().any(|call| cuts(&call.kind) || call.left_in_progress);
        let launched = launch_together.then(FxHashMap::default);
        (!cut).then(|| Self { collectives, launched, ..Self::default() })
    }

    fn has_said(&self, comm: u32, pair: Pair, done: bool) -> bool {
        self.said.get(&(comm, pair.from, pair.to)).is_some_and(|said| said & pair.bit(done) != 0)
    }

    /// True if the other sides of all current pairs have sent the same message.
    fn are_answered(&self, rounds: &Rounds) -> bool {
        rounds.now().iter().all(|pair| self.has_said(rounds.comm, pair.other(), rounds.done))
    }
}

impl Simulation<'_> {
    /// Issues calls once their ranks are connected; false as long as the host waits for that. Captured calls connect, and launches issue
    /// them.
    pub(super) fn connect_and_issue(&mut self, rank: usize, calls: Vec<usize>) -> bool {
        let step = self.lowered.programs[rank][self.ranks[rank].cursor].step;
        let (pairs, collectives) = self.unconnected(rank, &calls);
        let launches = self.launches_together(rank, &calls);
        let is_free = pairs.is_empty() && collectives.is_empty() && launches.is_empty();
        let Some(waits) = self.host_waits.as_mut().filter(|_| !is_free) else {
            self.issue(rank, calls);
            return true;
        };
        waits.connecting.insert(rank, Connecting { step, pairs, collectives, launches, has_come: false, calls });
        self.goes_on_connecting(rank)
    }

    /// True if the rank's host is in a call that connects.
    pub(super) fn is_connecting(&self, rank: usize) -> bool {
        self.host_waits.as_ref().is_some_and(|waits| waits.connecting.contains_key(&rank))
    }

    /// The connections that calls need and that the rank has not made yet: those of pairs, and communicators' first collectives.
    fn unconnected(&mut self, rank: usize, calls: &[usize]) -> (Vec<Rounds>, Vec<CommId>) {
        let lowered = self.lowered;
        // One thread ends the groups of all ranks in one call, so they connect together.
        let alone = lowered.unrolled.case.placement == Placement::OneThread;
        let Some(waits) = self.host_waits.as_mut().filter(|_| !alone) else { return (Vec::new(), Vec::new()) };
        let mut pairs: Vec<(CommId, BTreeSet<Pair>)> = Vec::new();
        let mut collectives = Vec::new();
        for index in calls {
            // The work of a launch was connected when it was captured.
            let replayed = matches!(lowered.programs[rank][*index].kind, CallKind::Replayed { .. });
            let Some(op) = lowered.given_op((rank, *index)).filter(|_| !replayed) else { continue };
            let Some(comm) = RankOp::comm(op) else { continue };
            let n = lowered.unrolled.comms.list[comm].members.len();
            let routes = match op {
                RankOp::Collective(c) if c.size.count > 0 && n > 1 => match routes(c, n) {
                    Some(routes) => {
                        let new = waits.spread.insert((comm, c.rank, c.op.call, c.root()));
                        if new { routes } else { Vec::new() }
                    }
                    None => {
                        let come = waits.first.get(&comm).is_some_and(|come| come.contains(&rank));
                        if waits.collectives && !come && !collectives.contains(&comm) {
                            collectives.push(comm);
                        }
                        Vec::new()
                    }
                },
                op => op.route().into_iter().map(|route| (route, matches!(op, RankOp::Send(_)))).collect(),
            };
            for (route, sends) in routes {
                let distance = ((route.to + n - route.from) % n) as u32;
                let pair = Pair { distance, sends, from: route.from as u32, to: route.to as u32 };
                if distance == 0 || waits.has_said(comm as u32, pair, true) {
                    continue;
                }
                match pairs.iter_mut().find(|(of, _)| *of == comm) {
                    Some((_, set)) => _ = set.insert(pair),
                    None => pairs.push((comm, BTreeSet::from([pair]))),
                }
            }
        }
        let rounds = |(comm, pairs): (CommId, BTreeSet<Pair>)| Rounds {
            comm: comm as u32,
            pairs: pairs.into_iter().collect(),
            at: 0,
            done: false,
            said: false,
        };
        (pairs.into_iter().map(rounds).collect(), collectives)
    }

    /// The communicators on which these calls launch kernels, if the ranks launch together. NCCL chooses the order of a group's
    /// communicators, and chooses alike on all ranks. The calls of a graph do not count: they waited for the other ranks when they
    /// were captured.
    fn launches_together(&self, rank: usize, calls: &[usize]) -> VecDeque<CommId> {
        if self.host_waits.as_ref().is_none_or(|waits| waits.launched.is_none()) {
            return VecDeque::new();
        }
        let calls = calls
            .iter()
            .filter(|index| !matches!(self.lowered.programs[rank][**index].kind, CallKind::Replayed { .. }));
        let launches = calls.filter_map(|index| match self.lowered.given_op((rank, *index))? {
            RankOp::Collective(c) => (c.size.count > 0).then_some(c.comm),
            op => op.comm(),
        });
        launches.collect::<BTreeSet<CommId>>().into_iter().collect()
    }

    /// Advances a connecting host as far as possible; true if it has issued its calls.
    pub(super) fn goes_on_connecting(&mut self, rank: usize) -> bool {
        let lowered = self.lowered;
        let Some(waits) = &mut self.host_waits else { return true };
        let Some(mut connecting) = waits.connecting.remove(&rank) else { return true };
        let mut told = BTreeSet::new();
        for rounds in &mut connecting.pairs {
            while !rounds.now().is_empty() {
                if !std::mem::replace(&mut rounds.said, true) {
                    for pair in rounds.now() {
                        let said = waits.said.entry((rounds.comm, pair.from, pair.to)).or_default();
                        *said |= pair.bit(rounds.done);
                        told.insert(other_side(lowered, rounds.comm, *pair));
                    }
                }
                if !waits.are_answered(rounds) {
                    break;
                }
                rounds.goes_on();
            }
        }
        let connected = connecting.pairs.iter().all(|rounds| rounds.now().is_empty());
        for comm in connecting.collectives.iter().filter(|_| connected) {
            let come = self.host_waits.as_mut().is_some_and(|w| w.first.entry(*comm).or_default().insert(rank));
            if come && self.silent(*comm).is_empty() {
                told.extend(lowered.unrolled.comms.list[*comm].members.iter().filter(|other| **other != rank));
            }
        }
        let met = connected && connecting.collectives.iter().all(|comm| self.silent(*comm).is_empty());
        while let Some(comm) = connecting.launches.front().copied().filter(|_| met) {
            if !std::mem::replace(&mut connecting.has_come, true) {
                if let Some(launched) = self.host_waits.as_mut().and_then(|waits| waits.launched.as_mut()) {
                    *launched.entry((comm, rank)).or_default() += 1;
                }
                told.extend(lowered.unrolled.comms.list[comm].members.iter().filter(|other| **other != rank));
            }
            if !self.unlaunched(comm, rank).is_empty() {
                break;
            }
            connecting.launches.pop_front();
            connecting.has_come = false;
        }
        // Ranks beyond the case's world have no program.
        drop(told.split_off(&self.ranks.len()));
        told.into_iter().for_each(|other| self.wake(other));
        let all = met && connecting.launches.is_empty();
        if all {
            self.issue(rank, connecting.calls);
        } else if let Some(waits) = &mut self.host_waits {
            waits.connecting.insert(rank, connecting);
        }
        all
    }

    /// The ranks of a communicator that have not reached its first collective.
    fn silent(&self, comm: CommId) -> Vec<usize> {
        let come = self.host_waits.as_ref().and_then(|waits| waits.first.get(&comm));
        let members = self.lowered.unrolled.comms.list[comm].members.iter().copied();
        let live = members.filter(|member| *member < self.ranks.len());
        live.filter(|member| come.is_none_or(|come| !come.contains(member))).collect()
    }

    /// The ranks of a communicator with a smaller count than this one.
    fn behind(&self, counts: Option<&Counts>, comm: CommId, rank: usize) -> Vec<usize> {
        let count = |of: usize| counts.and_then(|counts| counts.get(&(comm, of))).copied().unwrap_or(0);
        let members = self.lowered.unrolled.comms.list[comm].members.iter().copied();
        // Ranks beyond the case's world have no program.
        let live = members.filter(|member| *member < self.ranks.len());
        live.filter(|member| count(*member) < count(rank)).collect()
    }

    /// The ranks that have launched less often than this one, if ranks launch together.
    fn unlaunched(&self, comm: CommId, rank: usize) -> Vec<usize> {
        self.behind(self.host_waits.as_ref().and_then(|waits| waits.launched.as_ref()), comm, rank)
    }

    /// The host of a rank reaches the end of a communicator; true once it may continue.
    pub(super) fn may_end(&mut self, rank: usize, kind: &CallKind) -> bool {
        // One thread can only handle one rank after the other, as NCCL's examples do.
        let alone = self.lowered.unrolled.case.placement == Placement::OneThread;
        let in_group = self.ranks[rank].group.is_some();
        let Some(waits) = self.host_waits.as_mut().filter(|_| !alone) else { return true };
        let comm = match kind {
            CallKind::Finalize { comm } => *comm as usize,
            CallKind::Destroy { comm } => *comm as usize,
            _ => return true,
        };
        if waits.finalized.contains(&(rank, comm)) {
            return true;
        }
        if waits.ending.entry(comm).or_default().insert(rank) {
            self.wake_members(comm);
        }
        if in_group {
            self.host_waits.iter_mut().for_each(|waits| waits.in_group.entry(rank).or_default().push(comm));
            return true;
        }
        let met = self.still_used(rank, comm).is_empty();
        if let (true, CallKind::Finalize { .. }, Some(waits)) = (met, kind, &mut self.host_waits) {
            waits.finalized.insert((rank, comm));
        }
        met
    }

    /// The host of a rank reaches a suspend or resume; true once every rank of the communicator has come to as many.
    pub(super) fn all_change(&mut self, rank: usize, index: usize, comm: CommId) -> bool {
        // One thread makes the calls of all ranks, so it cannot wait in one of them for another.
        let alone = self.lowered.unrolled.case.placement == Placement::OneThread;
        let Some(waits) = self.host_waits.as_mut().filter(|_| !alone) else { return true };
        if waits.changing.insert((rank, index)) {
            *waits.changed.entry((comm, rank)).or_default() += 1;
            self.wake_members(comm);
        }
        self.unchanged(rank, comm).is_empty()
    }

    /// The ranks of a communicator that have come to fewer suspends and resumes than this one.
    fn unchanged(&self, rank: usize, comm: CommId) -> Vec<usize> {
        self.behind(self.host_waits.as_ref().map(|waits| &waits.changed), comm, rank)
    }

    /// True once the communicators that a group ends may end.
    pub(super) fn may_end_group(&mut self, rank: usize) -> bool {
        let Some(comms) = self.host_waits.as_ref().and_then(|waits| waits.in_group.get(&rank)).cloned() else {
            return true;
        };
        let met = comms.iter().all(|comm| self.still_used(rank, *comm).is_empty());
        if let (true, Some(waits)) = (met, &mut self.host_waits) {
            waits.in_group.remove(&rank);
            waits.finalized.extend(comms.into_iter().map(|comm| (rank, comm)));
        }
        met
    }

    /// The program of a rank has ended, and all its communicators with it.
    pub(super) fn ends_all(&mut self, rank: usize) {
        if self.host_waits.is_some() && self.ranks[rank].cursor >= self.lowered.programs[rank].len() {
            (0..self.ranks.len()).filter(|other| *other != rank).for_each(|other| self.wake(other));
        }
    }

    fn wake_members(&mut self, comm: CommId) {
        let lowered = self.lowered;
        lowered.unrolled.comms.list[comm].members.iter().for_each(|member| self.wake(*member));
    }

    /// The ranks of a communicator that have not reached its end.
    fn still_used(&self, rank: usize, comm: CommId) -> Vec<usize> {
        let there = |other: usize| {
            self.ranks[other].cursor >= self.lowered.programs[other].len()
                || self
                    .host_waits
                    .as_ref()
                    .and_then(|waits| waits.ending.get(&comm))
                    .is_some_and(|e| e.contains(&other))
        };
        let members = &self.lowered.unrolled.comms.list[comm].members;
        // Ranks beyond the case's world have no program.
        let live = members.iter().copied().filter(|other| *other < self.ranks.len());
        live.filter(|other| *other != rank && !there(*other)).collect()
    }

    /// The reason a host that connects or ends a communicator waits.
    pub(super) fn host_waiting(&self, rank: usize) -> Option<Waiting> {
        let waits = self.host_waits.as_ref()?;
        if let Some(connecting) = waits.connecting.get(&rank) {
            let mut on = BTreeSet::new();
            for rounds in &connecting.pairs {
                let silent = rounds.now().iter().filter(|pair| !waits.has_said(rounds.comm, pair.other(), rounds.done));
                on.extend(silent.map(|pair| other_side(self.lowered, rounds.comm, *pair)));
            }
            let mut what = CONNECTS;
            if on.is_empty() {
                what = FIRST_COLLECTIVE;
                on.extend(connecting.collectives.iter().flat_map(|comm| self.silent(*comm)));
            }
            if let (true, Some(comm)) = (on.is_empty(), connecting.launches.front()) {
                what = LAUNCHES_TOGETHER;
                on.extend(self.unlaunched(*comm, rank));
            }
            return Some(Waiting { rank, step: connecting.step, what: what.to_owned(), on: on.into_iter().collect() });
        }
        let call = self.lowered.programs[rank].get(self.ranks[rank].cursor)?;
        if let CallKind::Suspend { comm } | CallKind::Resume { comm } = call.kind {
            let on = Some(self.unchanged(rank, comm as usize)).filter(|on| !on.is_empty())?;
            return Some(Waiting { rank, step: call.step, what: CHANGES_TOGETHER.to_owned(), on });
        }
        let comms = match call.kind {
            CallKind::Finalize { comm } | CallKind::Destroy { comm } => vec![comm as usize],
            CallKind::GroupEnd => waits.in_group.get(&rank)?.clone(),
            _ => return None,
        };
        let on = comms.into_iter().map(|comm| self.still_used(rank, comm)).find(|on| !on.is_empty())?;
        Some(Waiting { rank, step: call.step, what: ENDS_TOGETHER.to_owned(), on })
    }
}

impl Pair {
    /// The other side of the pair.
    fn other(self) -> Self {
        Self { sends: !self.sends, ..self }
    }

    /// The bit for this side's first message, or for its confirmation.
    fn bit(self, done: bool) -> u8 {
        1 << (2 * u8::from(done) + u8::from(self.sends))
    }
}

impl Rounds {
    /// The pairs of the current distance; empty once all are connected.
    fn now(&self) -> &[Pair] {
        let left = &self.pairs[self.at..];
        left.chunk_by(|one, other| one.distance == other.distance).next().unwrap_or_default()
    }

    fn goes_on(&mut self) {
        (self.at, self.said) = (self.at + self.now().len(), false);
        if self.at == self.pairs.len() && !std::mem::replace(&mut self.done, true) {
            self.at = 0;
        }
    }
}

/// The routes of a rank's side of a collective, each with true if it sends on it; `None` if NCCL does not build it from messages.
fn routes(op: &RankCollective<Placed>, n: usize) -> Option<Vec<(Route, bool)>> {
    let (comm, own, root) = (op.comm, op.rank, op.root());
    let others = (0..n).filter(|other| *other != own);
    let to = |other: usize| (Route { comm, from: own, to: other }, true);
    let from = |other: usize| (Route { comm, from: other, to: own }, false);
    Some(match op.op.call {
        NcclCall::AlltoAll => others.flat_map(|other| [to(other), from(other)]).collect(),
        NcclCall::Gather if own == root => others.map(from).collect(),
        NcclCall::Scatter if own == root => others.map(to).collect(),
        NcclCall::Gather => vec![to(root)],
        NcclCall::Scatter => vec![from(root)],
        _ => return None,
    })
}

/// The connections that an operation needs.
pub enum Needs {
    Nothing,
    Routes(Vec<Route>),
    /// Those between all ranks of its communicator.
    All(CommId),
}

/// What a rank connects in the first call of this kind.
pub fn needs(lowered: &LoweredProgram, op: &RankOp<Placed>) -> Needs {
    match op {
        RankOp::Collective(c) if c.size.count == 0 => Needs::Nothing,
        RankOp::Collective(c) => match routes(c, lowered.unrolled.comms.list[c.comm].members.len()) {
            Some(all) => Needs::Routes(all.into_iter().map(|(route, _)| route).collect()),
            None => Needs::All(c.comm),
        },
        RankOp::Send(_) | RankOp::Recv(_) => Needs::Routes(op.route().into_iter().collect()),
        RankOp::OneSided(_) | RankOp::Map(_) => Needs::Nothing,
    }
}

/// The world rank that has to answer.
fn other_side(lowered: &LoweredProgram, comm: u32, pair: Pair) -> usize {
    let rank = if pair.sends { pair.to } else { pair.from };
    lowered.unrolled.comms.list[comm as usize].members[rank as usize]
}
