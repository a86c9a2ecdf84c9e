//! The order across ranks that holds in every run, as far as it follows from what ranks wait for; a simulation shows only one of the
//! possible orders. Memory that a put writes is used by another rank's streams too, and an operation that the simulation finishes
//! before an abort may still be running when a real run aborts.
//!
//! A clock gives the number of finished nodes for every stream of every rank, and the number of its aborts for every rank. A node
//! begins when everything is over that its streams, its `after` and its host have waited for; it ends when the starts of the calls
//! that supplied its data are over too.
use super::super::lower::{Index, LoweredProgram};
use super::super::race::uses;
use super::super::rank_op::RankOp;
use super::super::types::{AllocId, Region, StepId};
use super::Simulation;
use crate::job::CallKind;
use crate::scenario::Diagnostic;
use rustc_hash::{FxHashMap, FxHashSet};
use std::ops::Range;

/// Limit on the total number of entries of a program's clocks.
const MOST_ENTRIES: usize = 1 << 24;

pub(super) type Clock = Vec<u32>;

/// The end of a node or an abort, as a clock counts it: the entry of the clock, and the value that it has from then on.
pub(super) type Moment = (usize, u32);

/// A use of memory into which some rank puts data.
pub(super) struct Access {
    pub node: usize,
    pub alloc: AllocId,
    pub bytes: Range<u64>,
    pub writes: bool,
    pub step: StepId,
    pub region: Region,
}

/// The end of a window on a rank.
pub(super) struct Deregistered {
    pub rank: usize,
    pub window: u32,
    pub step: StepId,
    host: Clock,
}

/// The clocks of a simulation.
pub(super) struct Clocks {
    streams: usize,
    /// The clock of each rank's host.
    host: Vec<Clock>,
    /// For each rank and stream: the clock after the last node that has ended on it.
    stream: Vec<Clock>,
    /// For each rank and stream: the nodes that have ended on it.
    ended: Vec<Vec<usize>>,
    /// The clock at which each node starts.
    start: Vec<Clock>,
    end: Vec<Clock>,
    /// For each node: its end on its first stream.
    ends: Vec<Moment>,
    /// Clocks of meetings of hosts.
    met: FxHashMap<(u32, usize), Clock>,
    /// Allocations into which some rank puts data.
    targets: FxHashSet<AllocId>,
    pub accesses: Vec<Access>,
    pub deregistered: Vec<Deregistered>,
}

fn join(into: &mut [u32], other: &[u32]) {
    into.iter_mut().zip(other).for_each(|(a, b)| *a = (*a).max(*b));
}

/// Allocations into which the program puts data.
fn targets(lowered: &LoweredProgram) -> FxHashSet<AllocId> {
    let puts = lowered.ops.iter().flatten().flatten().filter_map(|op| match op {
        RankOp::OneSided(op) => op.put.map(|(_, to)| to),
        _ => None,
    });
    puts.filter_map(|region| lowered.placed.buffers[region.buf].places[region.rank]).map(|place| place.alloc).collect()
}

/// Refuses a program of one-sided operations whose clocks would be too large.
///
/// # Errors
///
/// Too many calls on too many ranks and streams.
pub fn check_size(lowered: &LoweredProgram) -> Result<(), Diagnostic> {
    let one_sided = |op: &&RankOp<_>| matches!(op, RankOp::OneSided(_));
    let first = (0..lowered.unrolled.n)
        .flat_map(|rank| lowered.ops[rank].iter().enumerate().map(move |(call, op)| ((rank, call), op)))
        .find(|(_, op)| op.as_ref().filter(one_sided).is_some());
    let Some((at, _)) = first else { return Ok(()) };
    if is_small(lowered) {
        return Ok(());
    }
    let span = lowered.unrolled.steps[lowered.step(at) as usize].span;
    let text = format!("there are too many calls for a program with one-sided operations: {}", size_in_words(lowered));
    Err(Diagnostic::new(span, text).help("fewer ranks, streams or rounds"))
}

/// The size of a program, with the limit that it exceeds.
pub fn size_in_words(lowered: &LoweredProgram) -> String {
    let (lanes, calls) = (lanes(lowered), calls(lowered));
    format!("{calls} calls on {lanes} streams of all ranks, and the product of both may be {MOST_ENTRIES}")
}

fn lanes(lowered: &LoweredProgram) -> usize {
    lowered.unrolled.n.saturating_mul(lowered.unrolled.streams as usize)
}

fn calls(lowered: &LoweredProgram) -> usize {
    lowered.programs.iter().map(Vec::len).sum()
}

fn is_small(lowered: &LoweredProgram) -> bool {
    lanes(lowered).saturating_mul(calls(lowered)) <= MOST_ENTRIES
}

/// True if the meaning of a program depends on the order across ranks.
fn needs_order(lowered: &LoweredProgram) -> bool {
    let aborts = |kind: &CallKind| {
        matches!(kind, CallKind::Abort { .. } | CallKind::Revoke { .. } | CallKind::Shrink { abort: true, .. })
    };
    lowered.programs.iter().flatten().any(|call| aborts(&call.kind))
        || lowered.ops.iter().flatten().flatten().any(|op| matches!(op, RankOp::OneSided(_)))
}

impl Clocks {
    /// `None` if the program has neither one-sided operations nor aborts, or the clocks would be too large.
    pub fn of(lowered: &LoweredProgram) -> Option<Self> {
        if !needs_order(lowered) || !is_small(lowered) {
            return None;
        }
        let (n, streams) = (lowered.unrolled.n, lowered.unrolled.streams as usize);
        let zero = vec![0; n * streams + n];
        Some(Self {
            streams,
            host: vec![zero.clone(); n],
            stream: vec![zero; n * streams],
            ended: vec![Vec::new(); n * streams],
            start: Vec::new(),
            end: Vec::new(),
            ends: Vec::new(),
            met: FxHashMap::default(),
            targets: targets(lowered),
            accesses: Vec::new(),
            deregistered: Vec::new(),
        })
    }

    fn lane(&self, rank: usize, stream: u32) -> usize {
        rank * self.streams + stream as usize
    }

    /// True if a node is over before another one begins.
    pub fn is_before(&self, first: usize, second: usize) -> bool {
        self.starts_after(second, self.ends[first])
    }

    pub fn starts_after(&self, node: usize, (lane, number): Moment) -> bool {
        self.start[node][lane] >= number
    }

    /// What a rank's host knows now.
    pub fn host(&self, rank: usize) -> &Clock {
        &self.host[rank]
    }

    /// True if a host with this clock knows that a node is over.
    pub fn is_over(&self, node: usize, host: &Clock) -> bool {
        let (lane, number) = self.ends[node];
        host[lane] >= number
    }

    /// A rank aborts a communicator; all that its host does later comes after that.
    pub fn aborts(&mut self, rank: usize) -> Moment {
        let lane = self.stream.len() + rank;
        self.host[rank][lane] += 1;
        (lane, self.host[rank][lane])
    }

    /// True if the host knew that a node was over when it ended a registration.
    pub fn is_waited(&self, node: usize, by: &Deregistered) -> bool {
        self.is_over(node, &by.host)
    }

    /// Makes a node's end follow the starts of others.
    fn follows(&mut self, node: usize, others: impl IntoIterator<Item = usize>) {
        for other in others {
            let start = std::mem::take(&mut self.start[other]);
            join(&mut self.end[node], &start);
            self.start[other] = start;
        }
    }
}

impl Simulation<'_> {
    pub(super) fn clocks_issue(&mut self, id: usize, rank: usize, streams: &[u32]) {
        let Some(clocks) = &mut self.clocks else { return };
        let number = |stream: &u32| self.ranks[rank].streams[*stream as usize].nodes.len() as u32;
        let end = streams.first().map_or((0, 0), |stream| (clocks.lane(rank, *stream), number(stream)));
        debug_assert_eq!(clocks.start.len(), id);
        clocks.start.push(clocks.host[rank].clone());
        clocks.end.push(vec![0; clocks.host[rank].len()]);
        clocks.ends.push(end);
    }

    pub(super) fn clocks_begin(&mut self, id: usize) {
        let Some(clocks) = &mut self.clocks else { return };
        let node = &self.nodes[id];
        let mut start = std::mem::take(&mut clocks.start[id]);
        for stream in &node.streams {
            join(&mut start, &clocks.stream[clocks.lane(node.rank, *stream)]);
        }
        for (stream, count) in &node.after {
            let ended = &clocks.ended[clocks.lane(node.rank, *stream)];
            if let Some(last) = count.checked_sub(1).and_then(|last| ended.get(last)) {
                join(&mut start, &clocks.end[*last]);
            }
        }
        clocks.start[id] = start;
        for call in &node.calls {
            let at = (node.rank, *call);
            let Some(op) = self.lowered.op(at) else { continue };
            let step = self.lowered.step(at);
            let used = uses(self.lowered, op).into_iter().filter(|used| clocks.targets.contains(&used.alloc));
            clocks.accesses.extend(used.map(|used| Access {
                node: id,
                alloc: used.alloc,
                bytes: used.start..used.end,
                writes: used.writes,
                step,
                region: used.region,
            }));
        }
    }

    pub(super) fn clocks_end(&mut self, id: usize) {
        let Some(clocks) = &mut self.clocks else { return };
        let node = &self.nodes[id];
        let mut end = std::mem::take(&mut clocks.end[id]);
        join(&mut end, &clocks.start[id]);
        for stream in &node.streams {
            let lane = clocks.lane(node.rank, *stream);
            clocks.ended[lane].push(id);
            end[lane] = clocks.ended[lane].len() as u32;
        }
        for stream in &node.streams {
            let lane = clocks.lane(node.rank, *stream);
            clocks.stream[lane].clone_from(&end);
        }
        clocks.end[id] = end;
    }

    pub(super) fn clocks_host_waits(&mut self, rank: usize, stream: Option<u32>) {
        let Some(clocks) = &mut self.clocks else { return };
        let all = 0..clocks.streams as u32;
        for stream in stream.map_or(all, |stream| stream..stream + 1) {
            let lane = clocks.lane(rank, stream);
            join(&mut clocks.host[rank], &clocks.stream[lane]);
        }
    }

    /// The host of a rank knows that these nodes are over.
    pub(super) fn clocks_host_knows(&mut self, rank: usize, nodes: &[usize]) {
        let Some(clocks) = &mut self.clocks else { return };
        for node in nodes {
            join(&mut clocks.host[rank], &clocks.end[*node]);
        }
    }

    /// The thread that drives all ranks moves to another step: from now on all hosts know what one rank's host knows.
    pub(super) fn clocks_thread_goes_on(&mut self) {
        let Some(clocks) = &mut self.clocks else { return };
        let Some((first, others)) = clocks.host.split_first_mut() else { return };
        others.iter().for_each(|other| join(first, other));
        others.iter_mut().for_each(|other| other.clone_from(first));
    }

    pub(super) fn clocks_host_comes(&mut self, rank: usize, meeting: (u32, usize)) {
        let Some(clocks) = &mut self.clocks else { return };
        let lanes = clocks.host[rank].len();
        join(clocks.met.entry(meeting).or_insert_with(|| vec![0; lanes]), &clocks.host[rank]);
    }

    pub(super) fn clocks_hosts_met(&mut self, rank: usize, meeting: (u32, usize)) {
        let Some(clocks) = &mut self.clocks else { return };
        if let Some(met) = clocks.met.get(&meeting) {
            join(&mut clocks.host[rank], met);
        }
    }

    /// The ranks that receive data of a collective wait for the starts of those that send some, unless an abort may end their call
    /// before that.
    pub(super) fn clocks_collective(&mut self, arrived: &[Index], nodes: &[usize]) {
        let Some(clocks) = &mut self.clocks else { return };
        let lowered = self.lowered;
        let calls = arrived.iter().zip(nodes).filter_map(|(at, node)| match lowered.op(*at) {
            Some(RankOp::Collective(op)) if op.size.count > 0 => Some((*at, op, *node)),
            _ => None,
        });
        let calls: Vec<_> = calls.collect();
        let mut given = vec![0; clocks.stream.len() + clocks.host.len()];
        for (_, _, node) in calls.iter().filter(|(_, op, _)| op.op.readers.includes(op.rank, op.root())) {
            join(&mut given, &clocks.start[*node]);
        }
        for (at, op, node) in calls {
            if op.op.writers.includes(op.rank, op.root()) && !self.aborts.may_be_cut(at) {
                join(&mut clocks.end[node], &given);
            }
        }
    }

    /// A receive, or a wait for signals, has received what other nodes have sent.
    pub(super) fn clocks_message(&mut self, from: impl IntoIterator<Item = usize>, at: Index, node: usize) {
        if let Some(clocks) = &mut self.clocks
            && !self.aborts.may_be_cut(at)
        {
            clocks.follows(node, from);
        }
    }

    pub(super) fn clocks_deregisters(&mut self, at: Index) {
        let Some(clocks) = &mut self.clocks else { return };
        let Some(ended) = self.lowered.registrations.ended_by(at).filter(|ended| ended.window) else { return };
        let (rank, step, host) = (at.0, self.lowered.step(at), clocks.host[at.0].clone());
        clocks.deregistered.push(Deregistered { rank, window: ended.id, step, host });
    }
}
