//! What NCCL's hosts wait for besides communicators that are made. The ranks of a message connect when a group first uses the pair: the
//! host goes through the distances 1, 2, ... and at each exchanges addresses with the ranks so far after and before its own, then
//! goes through them once more to hear that they are done. And the ranks of a communicator wait for each other when it ends.
use super::super::lower::LoweredProgram;
use super::super::rank_op::{RankOp, Route};
use super::super::types::{CommId, StepId, Waiting};
use super::Simulation;
use crate::job::CallKind;
use crate::scenario::Placement;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeSet;

/// Why a rank waits for others with which it connects.
pub const CONNECTS: &str = "the ranks of a message connect when a group first uses their pair, nearest ranks first, and the call waits until all have answered";
/// Why a rank waits for others that use a communicator still.
pub const ENDS_TOGETHER: &str = "NCCL may let the end of a communicator wait for all its ranks on the machine";

/// A pair that connects: the distance, whether this rank sends, the sender and the receiver.
type Pair = (usize, bool, usize, usize);

/// What a rank tells another one about the connection of a route: first its address, then that it is done. `sends` on the side of
/// the sender.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Word {
    route: Route,
    done: bool,
    sends: bool,
}

/// The connections of one communicator that a rank makes in a call.
struct Rounds {
    /// The words that the rank says at each distance, before it waits for those of the other side.
    words: Vec<Vec<Word>>,
    /// The round that it is in, and whether it has said its words.
    at: usize,
    said: bool,
}

/// A rank whose host connects, and the calls that it issues afterwards.
pub(super) struct Connecting {
    step: StepId,
    comms: Vec<Rounds>,
    calls: Vec<usize>,
}

/// Where the hosts are.
#[derive(Default)]
pub(super) struct HostWaits {
    said: FxHashSet<Word>,
    connecting: FxHashMap<usize, Connecting>,
    /// By communicator: the world ranks that have come to its end.
    ending: FxHashMap<CommId, BTreeSet<usize>>,
    /// By rank: the communicators that its open group ends.
    in_group: FxHashMap<usize, Vec<CommId>>,
    /// Communicators that a rank has finalized, so that it ends them alone.
    finalized: FxHashSet<(usize, CommId)>,
}

impl HostWaits {
    /// `None` where nothing is known of such waits: calls may be cut short, or a process may end.
    pub(super) fn of(lowered: &LoweredProgram) -> Option<Self> {
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
        (!cut).then(Self::default)
    }
}

impl Simulation<'_> {
    /// Issues calls once the pairs of their messages are connected; false as long as the host waits for that.
    pub(super) fn connect_and_issue(&mut self, rank: usize, calls: Vec<usize>) -> bool {
        let step = self.lowered.programs[rank][self.ranks[rank].cursor].step;
        let comms = self.rounds(rank, &calls);
        let Some(waits) = self.host_waits.as_mut().filter(|_| !comms.is_empty()) else {
            self.issue(rank, calls);
            return true;
        };
        waits.connecting.insert(rank, Connecting { step, comms, calls });
        self.goes_on_connecting(rank)
    }

    /// True if the rank's host is in a call that connects.
    pub(super) fn is_connecting(&self, rank: usize) -> bool {
        self.host_waits.as_ref().is_some_and(|waits| waits.connecting.contains_key(&rank))
    }

    /// The connections that calls need and that the rank has not made, by communicator.
    fn rounds(&mut self, rank: usize, calls: &[usize]) -> Vec<Rounds> {
        let lowered = self.lowered;
        // One thread ends the groups of all ranks in one call, so they connect together.
        let alone = lowered.unrolled.case.placement == Placement::OneThread;
        let Some(waits) = self.host_waits.as_mut().filter(|_| !alone) else { return Vec::new() };
        let mut pairs: Vec<(CommId, BTreeSet<Pair>)> = Vec::new();
        for index in calls {
            let Some(op @ (RankOp::Send(_) | RankOp::Recv(_))) = lowered.op((rank, *index)) else { continue };
            let Some(route) = op.route().filter(|route| route.from != route.to) else { continue };
            let sends = matches!(op, RankOp::Send(_));
            let replayed = matches!(lowered.programs[rank][*index].kind, CallKind::Replayed { .. });
            if replayed || waits.said.contains(&Word { route, done: true, sends }) {
                // A captured call has connected when it was captured.
                waits.said.extend([false, true].map(|done| Word { route, done, sends }));
                continue;
            }
            let n = lowered.unrolled.comms.list[route.comm].members.len();
            let distance = (route.to + n - route.from) % n;
            let pair = (distance, sends, route.from, route.to);
            match pairs.iter_mut().find(|(comm, _)| *comm == route.comm) {
                Some((_, set)) => _ = set.insert(pair),
                None => pairs.push((route.comm, BTreeSet::from([pair]))),
            }
        }
        pairs.into_iter().map(|(comm, pairs)| Rounds::new(comm, &pairs)).collect()
    }

    /// Lets a host that connects go as far as it can; true if it has issued its calls.
    pub(super) fn goes_on_connecting(&mut self, rank: usize) -> bool {
        let lowered = self.lowered;
        let Some(waits) = &mut self.host_waits else { return true };
        let Some(connecting) = waits.connecting.get_mut(&rank) else { return true };
        let mut told = BTreeSet::new();
        for rounds in &mut connecting.comms {
            while let Some(words) = rounds.words.get(rounds.at) {
                if !rounds.said {
                    rounds.said = true;
                    waits.said.extend(words.iter().copied());
                    told.extend(words.iter().map(|word| other_side(lowered, word)));
                }
                if !words.iter().all(|word| waits.said.contains(&word.answer())) {
                    break;
                }
                (rounds.at, rounds.said) = (rounds.at + 1, false);
            }
        }
        let all = connecting.comms.iter().all(|rounds| rounds.at == rounds.words.len());
        let calls = all.then(|| waits.connecting.remove(&rank)).flatten().map(|connecting| connecting.calls);
        told.into_iter().for_each(|other| self.wake(other));
        match calls {
            Some(calls) => {
                self.issue(rank, calls);
                true
            }
            None => false,
        }
    }

    /// The host of a rank comes to the end of a communicator; true once it may go on.
    pub(super) fn may_end(&mut self, rank: usize, kind: &CallKind) -> bool {
        // One thread can only come to one rank after the other, and NCCL's examples do.
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

    /// The program of a rank has ended, and with it all its communicators.
    pub(super) fn ends_all(&mut self, rank: usize) {
        if self.host_waits.is_some() && self.ranks[rank].cursor >= self.lowered.programs[rank].len() {
            (0..self.ranks.len()).filter(|other| *other != rank).for_each(|other| self.wake(other));
        }
    }

    fn wake_members(&mut self, comm: CommId) {
        let lowered = self.lowered;
        lowered.unrolled.comms.list[comm].members.iter().for_each(|member| self.wake(*member));
    }

    /// The ranks of a communicator that have not come to its end.
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

    /// What a host waits for that connects or ends a communicator.
    pub(super) fn host_waiting(&self, rank: usize) -> Option<Waiting> {
        let waits = self.host_waits.as_ref()?;
        if let Some(connecting) = waits.connecting.get(&rank) {
            let open = connecting.comms.iter().filter_map(|rounds| rounds.words.get(rounds.at)).flatten();
            let silent = open.filter(|word| !waits.said.contains(&word.answer()));
            let on: BTreeSet<usize> = silent.map(|word| other_side(self.lowered, word)).collect();
            return Some(Waiting {
                rank,
                step: connecting.step,
                what: CONNECTS.to_owned(),
                on: on.into_iter().collect(),
            });
        }
        let call = self.lowered.programs[rank].get(self.ranks[rank].cursor)?;
        let comms = match call.kind {
            CallKind::Finalize { comm } | CallKind::Destroy { comm } => vec![comm as usize],
            CallKind::GroupEnd => waits.in_group.get(&rank)?.clone(),
            _ => return None,
        };
        let on = comms.into_iter().map(|comm| self.still_used(rank, comm)).find(|on| !on.is_empty())?;
        Some(Waiting { rank, step: call.step, what: ENDS_TOGETHER.to_owned(), on })
    }
}

impl Word {
    fn answer(self) -> Self {
        Self { sends: !self.sends, ..self }
    }
}

/// The world rank that is to answer.
fn other_side(lowered: &LoweredProgram, word: &Word) -> usize {
    let rank = if word.sends { word.route.to } else { word.route.from };
    lowered.unrolled.comms.list[word.route.comm].members[rank]
}

impl Rounds {
    /// The rounds of these pairs.
    fn new(comm: CommId, pairs: &BTreeSet<Pair>) -> Self {
        let mut words: Vec<Vec<Word>> = Vec::new();
        for done in [false, true] {
            let mut last = None;
            for (distance, sends, from, to) in pairs {
                let word = Word { route: Route { comm, from: *from, to: *to }, done, sends: *sends };
                match words.last_mut().filter(|_| last == Some(distance)) {
                    Some(round) => round.push(word),
                    None => words.push(vec![word]),
                }
                last = Some(distance);
            }
        }
        Self { words, at: 0, said: false }
    }
}
