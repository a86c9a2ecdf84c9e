//! Simulates a program without data: hosts issue calls to streams, streams run them in order, calls wait for their partners.
use super::lower::{Index, LoweredProgram};
use super::rank_op::{RankOp, Route};
use super::types::{CommId, Event, Waiting};
use crate::job::CallKind;
use crate::scenario::Diagnostic;
use aborts::Aborts;
use clocks::Clocks;
use connecting::HostWaits;
use one_sided::{Lane, OneSidedState};
use rustc_hash::FxHashMap;
use std::collections::{BTreeSet, VecDeque};
use turns::Turns;

mod aborts;
mod clocks;
mod connecting;
mod deaths;
mod matching;
mod one_sided;
mod partners;
mod turns;
mod unmatched;

pub use aborts::{MAY_BE_ABORTED, play, play_hosts, play_launches_together};
pub use clocks::check_size;
pub use connecting::{CHANGES_TOGETHER, CONNECTS, ENDS_TOGETHER, Needs, needs};
pub use deaths::ENDED;
pub use matching::{check_one_thread, lone_message_to_oneself};

/// The result of a simulation.
#[derive(Debug, Default)]
pub struct Played {
    /// The events in the order in which they happened.
    pub events: Vec<Event>,
    /// The ranks that could not continue.
    pub waiting: Vec<Waiting>,
    /// Diagnostics on ranks' calls that do not match.
    pub mismatches: Vec<Diagnostic>,
}

/// Calls that are enqueued as one: a single call, or those of a group.
struct Node {
    rank: usize,
    calls: Vec<usize>,
    streams: Vec<u32>,
    /// For each stream: the number of nodes that precede this one on it.
    numbers: Vec<usize>,
    /// Number of calls that have not happened.
    left: usize,
    /// Dependencies: (stream, number of nodes that must have left it).
    after: Vec<(u32, usize)>,
    active: bool,
    done: bool,
}

#[derive(Default)]
struct Stream {
    queue: VecDeque<usize>,
    /// All nodes that were issued, in order.
    nodes: Vec<usize>,
    finished: usize,
    /// Number of its nodes that have certainly ended, because the host has waited for them or for later work on the stream.
    waited: usize,
    /// Dependencies of the next node, in the same form.
    after: Vec<(u32, usize)>,
}

struct SimulatedRank {
    cursor: usize,
    streams: Vec<Stream>,
    group: Option<OpenGroup>,
}

#[derive(Default)]
struct OpenGroup {
    depth: usize,
    calls: Vec<usize>,
    /// Calls that make communicators.
    makers: Vec<usize>,
}

#[derive(Default)]
struct Meeting {
    arrived: Vec<Index>,
    nodes: Vec<usize>,
    happened: bool,
}

#[derive(Default)]
struct Message {
    /// The send that has arrived, and its node.
    send: Option<(Index, usize)>,
    /// The receive that has arrived, and its node.
    recv: Option<(Index, usize)>,
    /// True once the sender's buffer has been read.
    sent: bool,
    number: usize,
}

/// The key of calls that are numbered consecutively, because the n-th of one rank meets the n-th of another.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Sequence {
    Collectives { comm: CommId, rank: usize },
    Sends(Route),
    Recvs(Route),
    Inits { comm: u32, rank: usize },
    Splits { comm: u32, rank: usize },
    Windows { comm: u32, rank: usize },
    OneSided(Lane),
}

struct Simulation<'a> {
    lowered: &'a LoweredProgram,
    /// True if sends do not wait for their receives.
    buffered: bool,
    out: Played,
    ranks: Vec<SimulatedRank>,
    nodes: Vec<Node>,
    meetings: FxHashMap<(CommId, usize), Meeting>,
    /// The ranks that have come to each meeting of hosts.
    hosts: FxHashMap<(u32, usize), BTreeSet<usize>>,
    messages: FxHashMap<(Route, usize), Message>,
    /// For each call: its number in its sequence, assigned when the host issues it.
    numbers: FxHashMap<Index, usize>,
    counters: FxHashMap<Sequence, usize>,
    aborts: Aborts,
    one_sided: OneSidedState,
    toll: deaths::Toll,
    /// The order across ranks; only for programs with one-sided operations or aborts.
    clocks: Option<Clocks>,
    /// The step of the single thread; only for programs that one thread drives.
    turns: Option<Turns>,
    /// Waits of hosts other than those for communicators to be created; only if requested.
    host_waits: Option<HostWaits>,
    next_message: usize,
    ready: VecDeque<usize>,
    queued: Vec<bool>,
}

impl<'a> Simulation<'a> {
    fn new(lowered: &'a LoweredProgram, buffered: bool, aborts: Aborts) -> Self {
        let n = lowered.unrolled.n;
        let stream = |_| Stream::default();
        let rank =
            |_| SimulatedRank { cursor: 0, streams: (0..lowered.unrolled.streams).map(stream).collect(), group: None };
        Self {
            lowered,
            buffered,
            out: Played::default(),
            ranks: (0..n).map(rank).collect(),
            nodes: Vec::new(),
            meetings: FxHashMap::default(),
            hosts: FxHashMap::default(),
            messages: FxHashMap::default(),
            numbers: FxHashMap::default(),
            counters: FxHashMap::default(),
            aborts,
            one_sided: OneSidedState::default(),
            toll: deaths::Toll::default(),
            clocks: Clocks::of(lowered),
            turns: Turns::of(lowered),
            host_waits: None,
            next_message: 0,
            ready: (0..n).collect(),
            queued: vec![true; n],
        }
    }
}

impl Simulation<'_> {
    fn run(&mut self) {
        while let Some(rank) = self.ready.pop_front() {
            self.queued[rank] = false;
            self.advance(rank);
        }
        for rank in 0..self.lowered.unrolled.n {
            self.report_waiting(rank);
        }
        self.report_unreceived();
        self.report_one_sided();
    }

    fn wake(&mut self, rank: usize) {
        if !self.queued[rank] {
            self.queued[rank] = true;
            self.ready.push_back(rank);
        }
    }

    /// Advances a rank's host and streams as far as possible.
    fn advance(&mut self, rank: usize) {
        loop {
            let moved = self.host(rank);
            let ran = self.streams(rank);
            if !moved && !ran {
                break;
            }
        }
    }

    /// Issues calls until the host has to wait; true if it advanced.
    fn host(&mut self, rank: usize) -> bool {
        let mut moved = false;
        let lowered = self.lowered;
        if self.is_connecting(rank) {
            if !self.goes_on_connecting(rank) {
                return false;
            }
            self.goes_on(rank);
            moved = true;
        }
        while let Some(call) = lowered.programs[rank].get(self.ranks[rank].cursor) {
            if !self.is_at(call.step) {
                return moved;
            }
            let index = self.ranks[rank].cursor;
            match call.kind.effect() {
                CallKind::Captured { call, .. } if self.host_waits.is_some() => {
                    let goes_on = match &**call {
                        CallKind::GroupStart => self.opens_group(rank),
                        CallKind::GroupEnd => self.closes_group(rank),
                        _ if lowered.given_op((rank, index)).is_some() => self.give(rank, index),
                        _ => true,
                    };
                    if !goes_on {
                        return moved;
                    }
                }
                CallKind::GroupStart => _ = self.opens_group(rank),
                CallKind::GroupEnd
                    if !self.group_has_met(rank) || !self.may_end_group(rank) || !self.closes_group(rank) =>
                {
                    return moved;
                }
                CallKind::After { stream, on } => {
                    let deps: Vec<(u32, usize)> =
                        on.iter().map(|s| (*s, self.ranks[rank].streams[*s as usize].nodes.len())).collect();
                    self.ranks[rank].streams[*stream as usize].after.extend(deps);
                    self.node(rank, Vec::new(), vec![*stream]);
                }
                CallKind::Wait { stream } => {
                    let idle = |s: &Stream| s.queue.is_empty();
                    let streams = &self.ranks[rank].streams;
                    let free = |s: usize| idle(&streams[s]) && !self.holds(rank, s as u32);
                    let done = match stream {
                        Some(s) => free(*s as usize),
                        None => (0..streams.len()).all(free),
                    };
                    if !done {
                        return moved;
                    }
                    self.clocks_host_waits(rank, *stream);
                    match stream {
                        Some(stream) => self.host_has_waited(rank, *stream),
                        None => (0..self.ranks[rank].streams.len()).for_each(|s| self.host_has_waited(rank, s as u32)),
                    }
                }
                CallKind::Init { .. }
                | CallKind::Split { .. }
                | CallKind::Shrink { new: Some(_), .. }
                | CallKind::Grow { new: Some(_), .. }
                | CallKind::Register { window: true, .. }
                    if !call.tolerate =>
                {
                    if let CallKind::Shrink { parent, abort: true, .. } = call.kind
                        && !self.numbers.contains_key(&(rank, index))
                    {
                        self.abort(rank, parent as usize);
                    }
                    // At the end of a group NCCL makes all of its communicators at the same time, each in a separate thread.
                    if let Some(group) = &mut self.ranks[rank].group {
                        group.makers.push(index);
                    } else if !self.hosts_meet(rank, &[index]) {
                        return moved;
                    }
                }
                CallKind::Revoke { comm } if !call.tolerate || call.left_in_progress => {
                    self.abort(rank, *comm as usize)
                }
                CallKind::Finalize { comm } | CallKind::Destroy { comm } if !call.left_in_progress => {
                    let comm = *comm as usize;
                    let busy =
                        self.ranks[rank].streams.iter().flat_map(|s| &s.queue).any(|node| self.speaks(*node, comm));
                    if busy || !call.tolerate && !self.may_end(rank, call.kind.effect()) {
                        return moved;
                    }
                    // No abort can follow a destroy.
                    if self.clocks.is_some() && matches!(call.kind.effect(), CallKind::Finalize { .. }) {
                        let mut over = self.unwaited(rank);
                        over.retain(|node| self.speaks(*node, comm));
                        self.clocks_host_knows(rank, &over);
                    }
                }
                CallKind::Suspend { comm } | CallKind::Resume { comm }
                    if !call.tolerate && !self.all_change(rank, index, *comm as usize) =>
                {
                    return moved;
                }
                CallKind::Deregister { .. } => self.clocks_deregisters((rank, index)),
                CallKind::Abort { comm } => self.abort(rank, *comm as usize),
                CallKind::Exit { death, .. } => {
                    if let Some(death) = death {
                        self.meets_death(rank, *death);
                    }
                    self.ranks[rank].cursor = lowered.programs[rank].len();
                    return true;
                }
                CallKind::AwaitDeath { death, .. } if !self.meets_death(rank, *death) => return moved,
                _ if lowered.ops[rank][index].is_some() && !self.give(rank, index) => return moved,
                _ => {}
            }
            self.goes_on(rank);
            moved = true;
        }
        if moved {
            self.ends_all(rank);
        }
        moved
    }

    fn opens_group(&mut self, rank: usize) -> bool {
        self.ranks[rank].group.get_or_insert_default().depth += 1;
        true
    }

    /// True unless the host has to wait at the end of the group.
    fn closes_group(&mut self, rank: usize) -> bool {
        let Some(group) = &mut self.ranks[rank].group else { return true };
        group.depth -= 1;
        if group.depth > 0 {
            return true;
        }
        let calls = std::mem::take(&mut group.calls);
        self.ranks[rank].group = None;
        self.connect_and_issue(rank, calls)
    }

    /// True unless the host has to wait at the end of the group for the other ranks of communicators that it makes.
    fn group_has_met(&mut self, rank: usize) -> bool {
        let outermost = self.ranks[rank].group.as_ref().filter(|group| group.depth == 1);
        let makers = outermost.map_or_else(Vec::new, |group| group.makers.clone());
        self.hosts_meet(rank, &makers)
    }

    /// Adds a call to the open group, or issues it; true unless the host waits in it.
    fn give(&mut self, rank: usize, index: usize) -> bool {
        match &mut self.ranks[rank].group {
            Some(group) => {
                group.calls.push(index);
                true
            }
            None => self.connect_and_issue(rank, vec![index]),
        }
    }

    /// The meeting of hosts that a call of a rank waits for, and the communicator all of whose ranks make such a call.
    fn meeting_of(&mut self, rank: usize, index: usize) -> Option<((u32, usize), u32)> {
        let (comm, sequence, kind) = match self.lowered.programs[rank][index].kind {
            CallKind::Init { comm, .. } => (comm, Sequence::Inits { comm, rank }, 0),
            CallKind::Split { parent, .. } => (parent, Sequence::Splits { comm: parent, rank }, 1),
            CallKind::Register { comm, window: true, .. } => (comm, Sequence::Windows { comm, rank }, 2),
            // A shrink or grow creates one new communicator, and the ranks of that one meet.
            CallKind::Shrink { new: Some(comm), .. } | CallKind::Grow { new: Some(comm), .. } => {
                (comm, Sequence::Inits { comm, rank }, 0)
            }
            _ => return None,
        };
        let number = match self.numbers.get(&(rank, index)) {
            Some(number) => *number,
            None => self.number((rank, index), sequence),
        };
        Some(((comm * 3 + kind, number), comm))
    }

    /// Lets calls that make communicators, and `Register` of a window, wait on the host for every member; true once all have come.
    fn hosts_meet(&mut self, rank: usize, calls: &[usize]) -> bool {
        let lowered = self.lowered;
        let meetings: Vec<_> = calls.iter().filter_map(|index| self.meeting_of(rank, *index)).collect();
        let mut met = Vec::with_capacity(meetings.len());
        for (key, comm) in &meetings {
            let here = self.hosts.entry(*key).or_default();
            let comes = here.insert(rank);
            let all = here.len() >= lowered.unrolled.comms.list[*comm as usize].members.len();
            let others = if comes && all { here.clone() } else { BTreeSet::new() };
            if comes {
                self.clocks_host_comes(rank, *key);
            }
            others.into_iter().filter(|other| *other != rank).for_each(|other| self.wake(other));
            met.extend(all.then_some(*key));
        }
        let all = met.len() == meetings.len();
        if all {
            met.into_iter().for_each(|key| self.clocks_hosts_met(rank, key));
        }
        all
    }

    fn number(&mut self, at: Index, sequence: Sequence) -> usize {
        let counter = self.counters.entry(sequence).or_insert(0);
        let number = *counter;
        *counter += 1;
        self.numbers.insert(at, number);
        number
    }

    /// Issues calls. Those of a group on one communicator start together; its communicators take turns on a stream, in the order in
    /// which the group first names them.
    fn issue(&mut self, rank: usize, calls: Vec<usize>) {
        let mut parts: Vec<(Option<CommId>, Vec<usize>)> = Vec::new();
        for index in calls {
            // Captured calls are issued by launches.
            if matches!(self.lowered.programs[rank][index].kind, CallKind::Captured { .. }) {
                continue;
            }
            let comm = self.lowered.op((rank, index)).and_then(RankOp::comm);
            match parts.iter_mut().find(|(c, _)| *c == comm) {
                Some((_, list)) => list.push(index),
                None => parts.push((comm, vec![index])),
            }
        }
        for (_, part) in parts {
            self.issue_part(rank, part);
        }
    }

    fn issue_part(&mut self, rank: usize, calls: Vec<usize>) {
        let lowered = self.lowered;
        let op = |index: &usize| lowered.op((rank, *index));
        let mut streams: Vec<u32> = calls.iter().filter_map(op).map(RankOp::stream).collect();
        streams.sort_unstable();
        streams.dedup();
        for index in &calls {
            let sequence = match op(index) {
                Some(RankOp::Collective(c)) => Some(Sequence::Collectives { comm: c.comm, rank: c.rank }),
                Some(op @ RankOp::Send(_)) => op.route().map(Sequence::Sends),
                Some(op @ RankOp::Recv(_)) => op.route().map(Sequence::Recvs),
                Some(RankOp::OneSided(op)) => self.number_one_sided((rank, *index), op),
                Some(RankOp::Map(_)) | None => None,
            };
            if let Some(sequence) = sequence {
                self.number((rank, *index), sequence);
            }
        }
        if !calls.is_empty() {
            self.node(rank, calls, streams);
        }
    }

    fn node(&mut self, rank: usize, calls: Vec<usize>, streams: Vec<u32>) {
        let id = self.nodes.len();
        let (mut after, mut numbers) = (Vec::new(), Vec::with_capacity(streams.len()));
        for s in &streams {
            let stream = &mut self.ranks[rank].streams[*s as usize];
            after.append(&mut stream.after);
            numbers.push(stream.nodes.len());
            stream.nodes.push(id);
            stream.queue.push_back(id);
        }
        let left = calls.len();
        self.clocks_issue(id, rank, &streams);
        self.nodes.push(Node { rank, calls, streams, numbers, left, after, active: false, done: false });
    }

    /// The host has waited for a stream: all work issued to it has ended, and all work that this depended on.
    fn host_has_waited(&mut self, rank: usize, stream: u32) {
        let mut ended = vec![(stream, self.ranks[rank].streams[stream as usize].nodes.len())];
        while let Some((stream, count)) = ended.pop() {
            let stream = &mut self.ranks[rank].streams[stream as usize];
            for node in stream.nodes.get(stream.waited..count).unwrap_or_default() {
                let node = &self.nodes[*node];
                ended.extend(node.streams.iter().zip(&node.numbers).map(|(stream, number)| (*stream, number + 1)));
                ended.extend_from_slice(&node.after);
            }
            stream.waited = stream.waited.max(count);
        }
    }

    /// The nodes of a rank that its host does not know to have ended, in the order in which they were issued.
    fn unwaited(&self, rank: usize) -> Vec<usize> {
        let streams = self.ranks[rank].streams.iter();
        let mut nodes: Vec<usize> = streams.flat_map(|stream| &stream.nodes[stream.waited..]).copied().collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    }

    fn speaks(&self, node: usize, comm: CommId) -> bool {
        let rank = self.nodes[node].rank;
        self.nodes[node].calls.iter().any(|index| self.lowered.op((rank, *index)).and_then(RankOp::comm) == Some(comm))
    }

    /// Runs the heads of a rank's streams; true if something finished.
    fn streams(&mut self, rank: usize) -> bool {
        let mut ran = false;
        for s in 0..self.ranks[rank].streams.len() {
            while let Some(id) = self.ranks[rank].streams[s].queue.front().copied() {
                if self.holds(rank, s as u32) {
                    break;
                }
                if !self.nodes[id].active {
                    let node = &self.nodes[id];
                    let streams = &self.ranks[rank].streams;
                    let heads = node.streams.iter().all(|s| streams[*s as usize].queue.front() == Some(&id));
                    let deps = node.after.iter().all(|(s, count)| streams[*s as usize].finished >= *count);
                    if !heads || !deps {
                        break;
                    }
                    self.nodes[id].active = true;
                    self.clocks_begin(id);
                    for index in self.nodes[id].calls.clone() {
                        let call = &self.lowered.programs[rank][index];
                        if call.left_in_progress || self.is_ended((rank, index)) {
                            // Whether it happens is unknown, and calls before it on its streams may have written to its output.
                            self.undefine((rank, index));
                            self.happened(id);
                        } else {
                            self.arrive((rank, index), id);
                        }
                    }
                }
                if self.nodes[id].left > 0 {
                    break;
                }
                self.finish(id);
                ran = true;
            }
        }
        ran
    }

    fn finish(&mut self, id: usize) {
        let node = &mut self.nodes[id];
        node.done = true;
        let (rank, streams) = (node.rank, node.streams.clone());
        self.clocks_end(id);
        for s in streams {
            let stream = &mut self.ranks[rank].streams[s as usize];
            stream.queue.pop_front();
            stream.finished += 1;
        }
        self.wake(rank);
    }

    fn happened(&mut self, node: usize) {
        let node = &mut self.nodes[node];
        node.left = node.left.saturating_sub(1);
        let rank = node.rank;
        self.wake(rank);
    }
}
