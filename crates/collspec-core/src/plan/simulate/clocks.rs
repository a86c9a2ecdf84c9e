//! The known happens-before order across ranks. Memory that a put writes is used by another rank's streams too, so an order must
//! follow from what ranks wait for, not from the course that a simulation happens to take.
//!
//! A clock gives the number of finished nodes for every stream of every rank. A node begins when everything is over that its
//! streams, its `after` and its host have waited for; it ends when the starts of the calls that supplied its data are over too.
use super::super::lower::{Index, LoweredProgram};
use super::super::race::uses;
use super::super::rank_op::RankOp;
use super::super::types::{AllocId, Region, StepId};
use super::Simulation;
use crate::scenario::Diagnostic;
use rustc_hash::{FxHashMap, FxHashSet};
use std::ops::Range;

/// Limit on the total number of entries of a program's clocks.
const MOST_ENTRIES: usize = 1 << 24;

type Clock = Vec<u32>;

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
    /// For each node: its first stream, counted over all ranks, and its number on it.
    place: Vec<(usize, u32)>,
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
    let lanes = lowered.unrolled.n.saturating_mul(lowered.unrolled.streams as usize);
    let calls: usize = lowered.programs.iter().map(Vec::len).sum();
    if lanes.saturating_mul(calls) <= MOST_ENTRIES {
        return Ok(());
    }
    let span = lowered.unrolled.steps[lowered.step(at) as usize].span;
    let text = format!(
        "{calls} calls on {lanes} streams of all ranks are too many for a program with one-sided operations: the product may be {MOST_ENTRIES}"
    );
    Err(Diagnostic::new(span, text).help("fewer ranks, streams or rounds"))
}

impl Clocks {
    /// `None` if the program does not have one-sided operations.
    pub fn of(lowered: &LoweredProgram) -> Option<Self> {
        lowered.ops.iter().flatten().flatten().find(|op| matches!(op, RankOp::OneSided(_)))?;
        let (n, streams) = (lowered.unrolled.n, lowered.unrolled.streams as usize);
        let zero = vec![0; n * streams];
        Some(Self {
            streams,
            host: vec![zero.clone(); n],
            stream: vec![zero; n * streams],
            ended: vec![Vec::new(); n * streams],
            start: Vec::new(),
            end: Vec::new(),
            place: Vec::new(),
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
        let (lane, number) = self.place[first];
        self.start[second][lane] >= number
    }

    /// True if the host knew that a node was over when it ended a registration.
    pub fn is_waited(&self, node: usize, by: &Deregistered) -> bool {
        let (lane, number) = self.place[node];
        by.host[lane] >= number
    }

    /// Makes a node's end follow the starts of others.
    pub fn follows(&mut self, node: usize, others: impl IntoIterator<Item = usize>) {
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
        let place = streams.first().map_or((0, 0), |stream| (clocks.lane(rank, *stream), number(stream)));
        debug_assert_eq!(clocks.start.len(), id);
        clocks.start.push(clocks.host[rank].clone());
        clocks.end.push(vec![0; clocks.host[rank].len()]);
        clocks.place.push(place);
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

    /// The ranks that receive data of a collective wait for the starts of those that send some.
    pub(super) fn clocks_collective(&mut self, arrived: &[Index], nodes: &[usize]) {
        let Some(clocks) = &mut self.clocks else { return };
        let lowered = self.lowered;
        let calls = arrived.iter().zip(nodes).filter_map(|(at, node)| match lowered.op(*at) {
            Some(RankOp::Collective(op)) if op.size.count > 0 => Some((op, *node)),
            _ => None,
        });
        let calls: Vec<_> = calls.collect();
        let mut given = vec![0; lowered.unrolled.n * clocks.streams];
        for (op, node) in calls.iter().filter(|(op, _)| op.op.readers.includes(op.rank, op.root())) {
            debug_assert!(op.rank < lowered.unrolled.n);
            join(&mut given, &clocks.start[*node]);
        }
        for (_, node) in calls.iter().filter(|(op, _)| op.op.writers.includes(op.rank, op.root())) {
            join(&mut clocks.end[*node], &given);
        }
    }

    pub(super) fn clocks_message(&mut self, from: Option<usize>, to: usize) {
        if let Some(clocks) = &mut self.clocks {
            clocks.follows(to, from);
        }
    }

    pub(super) fn clocks_deregisters(&mut self, at: Index) {
        let Some(clocks) = &mut self.clocks else { return };
        let Some(ended) = self.lowered.registrations.ended_by(at).filter(|ended| ended.window) else { return };
        let (rank, step, host) = (at.0, self.lowered.step(at), clocks.host[at.0].clone());
        clocks.deregistered.push(Deregistered { rank, window: ended.id, step, host });
    }
}
