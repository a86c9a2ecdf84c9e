//! Warns of operations that ranks issue in circular orders and that nothing orders on a device. NCCL requires one order on all
//! devices, or streams or hosts that order such calls: if a device has room for only one of them, each rank of the circle may
//! wait for the call that the next one holds back.
//!
//! A device with room for one call runs a rank's calls in the order in which it issues them. So the search is for cycles in the
//! graph of all operations, in which one is before another if some rank issues it before.
use super::lower::LoweredProgram;
use super::operation::{Operation, operations, speaking};
use super::progress::walk;
use super::rank_op::{RankOp, rank_or_none};
use super::types::CommId;
use crate::ops::OneSided;
use crate::scenario::{Diagnostic, Span};
use graph::{Graph, Vertex};
use rustc_hash::{FxHashMap, FxHashSet};

mod graph;

/// Limit on the circles that are searched for.
const MOST_WARNINGS: usize = 8;

/// The meaning of a vertex.
#[derive(Clone, Copy)]
enum Stands {
    Operation,
    /// The time between two calls or groups of a rank.
    Between(usize),
}

/// The key of signals that are counted together: communicator, sender, receiver, context and index.
type Signals = (CommId, usize, usize, i128, i128);

/// The operations of some communicators, and the orders in which ranks issue them.
#[derive(Default)]
struct Orders {
    graph: Graph,
    stands: Vec<Stands>,
    /// For each rank: the operations in the order in which it issues them, with the calls.
    issued: Vec<Vec<(Vertex, usize)>>,
}

/// One rank issues a call before another: the rank, and the two calls' indices and operations.
struct Hop {
    rank: usize,
    calls: [usize; 2],
    operations: [Vertex; 2],
}

/// A warning for each circle.
pub fn warnings(lowered: &LoweredProgram) -> Vec<Diagnostic> {
    let several = |rank: usize| {
        let mut streams = speaking(lowered, rank).map(|(_, op)| op.stream());
        streams.next().is_some_and(|first| streams.any(|stream| stream != first))
    };
    if !(0..lowered.unrolled.n).any(several) {
        return Vec::new();
    }
    let mut told = FxHashSet::default();
    let mut warnings = Vec::new();
    for _ in 0..MOST_WARNINGS {
        let orders = Orders::of(lowered, &told);
        let Some(hops) = orders.circle() else { break };
        let Some(comm) = hops.first().and_then(|hop| lowered.op((hop.rank, hop.calls[0]))).and_then(RankOp::comm)
        else {
            break;
        };
        told.insert(comm);
        // A circle of calls that wait for each other in any case is reported elsewhere.
        let open = hops.iter().enumerate().filter(|(_, hop)| !hop.is_ordered(lowered));
        if let Some((at, _)) = open.min_by_key(|(_, hop)| hop.rank) {
            let (after, before) = hops.split_at(at);
            warnings.push(warning(lowered, &before.iter().chain(after).collect::<Vec<_>>()));
        }
    }
    warnings
}

impl Orders {
    fn of(lowered: &LoweredProgram, without: &FxHashSet<CommId>) -> Self {
        let mut orders = Self::default();
        let mut vertices: FxHashMap<Operation, Vertex> = FxHashMap::default();
        let mut sent: FxHashMap<Signals, Vec<Vertex>> = FxHashMap::default();
        let mut awaited: Vec<(Signals, usize, Vertex)> = Vec::new();
        for rank in 0..lowered.unrolled.n {
            let mut issued = Vec::new();
            let mut so_far: FxHashMap<Signals, usize> = FxHashMap::default();
            let (mut between, mut open) = (orders.vertex(Stands::Between(rank)), None);
            for (index, op, operation) in operations(lowered, rank) {
                if RankOp::comm(op).is_some_and(|comm| without.contains(&comm)) {
                    continue;
                }
                let vertex = *vertices.entry(operation).or_insert_with(|| orders.vertex(Stands::Operation));
                // The calls of a group begin at the same time.
                let end = lowered.ends[rank][index];
                if open.is_some_and(|(open, _)| open != end) {
                    between = open.map_or(between, |(_, next)| next);
                    open = None;
                }
                let (_, next) = *open.get_or_insert_with(|| {
                    let next = orders.vertex(Stands::Between(rank));
                    orders.graph.edge(between, next);
                    (end, next)
                });
                orders.graph.edge(between, vertex);
                orders.graph.edge(vertex, next);
                issued.push((vertex, index));
                if let RankOp::OneSided(op) = op {
                    for (peer, count) in &op.peers {
                        let peer = rank_or_none(*peer);
                        if op.kind == OneSided::WaitSignal {
                            let signals = (op.comm, peer, op.rank, op.context, op.signal_index);
                            let so_far = so_far.entry(signals).or_insert(0);
                            *so_far = so_far.saturating_add(usize::try_from(*count).unwrap_or(usize::MAX));
                            awaited.push((signals, *so_far, vertex));
                        } else {
                            let signals = (op.comm, op.rank, peer, op.context, op.signal_index);
                            sent.entry(signals).or_default().push(vertex);
                        }
                    }
                }
            }
            orders.issued.push(issued);
        }
        for (signals, count, wait) in awaited {
            if let Some(last) = count.checked_sub(1).and_then(|last| sent.get(&signals)?.get(last)) {
                orders.graph.edge(*last, wait);
            }
        }
        orders
    }

    fn vertex(&mut self, stands: Stands) -> Vertex {
        self.stands.push(stands);
        self.graph.vertex()
    }

    /// The ranks of a circle, each with two operations that it issues one before the other.
    fn circle(&self) -> Option<Vec<Hop>> {
        let cycle = self.graph.cycle()?;
        let is_operation = |vertex: &Vertex| matches!(self.stands[*vertex], Stands::Operation);
        let first = cycle.iter().position(is_operation)?;
        let around: Vec<Vertex> = cycle[first..].iter().chain(&cycle[..=first]).copied().collect();
        let mut hops = Vec::new();
        let (mut from, mut on) = (around[0], None);
        for vertex in &around[1..] {
            match (self.stands[*vertex], on) {
                (Stands::Between(rank), _) => on = Some(rank),
                (Stands::Operation, Some(rank)) => {
                    let call = |of: Vertex| {
                        let found = self.issued[rank].iter().find(|(vertex, _)| *vertex == of);
                        found.map(|(_, index)| *index)
                    };
                    hops.push(Hop { rank, calls: [call(from)?, call(*vertex)?], operations: [from, *vertex] });
                    (from, on) = (*vertex, None);
                }
                // An edge from a signal to the wait for it.
                (Stands::Operation, None) => from = *vertex,
            }
        }
        Some(hops)
    }
}

impl Hop {
    /// True if the second call is certain to begin after the first one has ended, however much room the device has.
    fn is_ordered(&self, lowered: &LoweredProgram) -> bool {
        let (mut first, mut ordered) = (None, true);
        walk(lowered, self.rank, |now| {
            let Some(stream) = now.op.map(|op| op.stream() as usize) else { return };
            if now.index == self.calls[0] {
                first = Some((stream, now.number));
            }
            if now.index == self.calls[1] {
                let is_over = |(other, number)| other == stream || now.progress.is_before(other, number, stream);
                ordered = first.is_some_and(is_over);
            }
        });
        ordered
    }

    /// The places of its calls.
    fn spans(&self, lowered: &LoweredProgram) -> [Span; 2] {
        self.calls.map(|index| lowered.unrolled.steps[lowered.step((self.rank, index)) as usize].span)
    }

    /// A description of the issued operation.
    fn text(&self, lowered: &LoweredProgram) -> String {
        let [first, second] = self.calls.map(|index| {
            let comm = lowered.op((self.rank, index)).and_then(RankOp::comm);
            let name = comm.and_then(|comm| lowered.unrolled.comms.list[comm].name.as_ref());
            let label = &lowered.unrolled.steps[lowered.step((self.rank, index)) as usize].label;
            match name {
                Some(name) => format!("{label} on `{name}`"),
                None => format!("{label} on one of a step's `groups`"),
            }
        });
        format!("rank {} issues {first} before {second}", self.rank)
    }
}

/// The warning about a circle; its first two calls are not ordered.
fn warning(lowered: &LoweredProgram, hops: &[&Hop]) -> Diagnostic {
    let first = hops[0];
    let [earlier, later] = first.spans(lowered);
    let others = match hops {
        [_, other] if other.operations == [first.operations[1], first.operations[0]] => {
            format!("rank {} issues them the other way round", other.rank)
        }
        _ => hops[1..].iter().map(|hop| hop.text(lowered)).collect::<Vec<_>>().join(", "),
    };
    let text = format!(
        "{}, {others}, and nothing orders them on rank {}: NCCL may block where a device has room for one of them only",
        first.text(lowered),
        first.rank,
    );
    let mut warning = Diagnostic::warning(later, text).related(earlier, "the other call");
    let mut told = vec![earlier, later];
    for hop in &hops[1..] {
        for span in hop.spans(lowered) {
            if !told.contains(&span) {
                told.push(span);
                warning = warning.related(span, format!("rank {} issues this", hop.rank));
            }
        }
    }
    warning.help("issue the calls of different communicators in the same order on all ranks, or order them with `after` or a `wait`")
}
