//! One-sided operations: puts and signals happen in the order of their calls to a rank in a context, waits when enough signals
//! have arrived. The data of a put counts as written when a wait has seen its signal, or a later one of the same order.
use super::super::lower::{Index, LoweredProgram};
use super::super::rank_op::{Placed, RankMessage, RankOneSided, RankOp, rank_or_none};
use super::super::types::{AllocId, CommId, Event, RankCall, Region, StepId};
use super::clocks::{Access, Clocks};
use super::{Sequence, Simulation};
use crate::job::CallKind;
use crate::ops::OneSided;
use crate::scenario::{Diagnostic, Span};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;
use std::ops::Range;

/// Limit on the pairs of a put and a use of the same buffer that are compared.
const MOST_PAIRS: usize = 20_000_000;

/// The key of operations that happen in the order of their calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Lane {
    comm: CommId,
    from: usize,
    to: usize,
    context: i128,
}

/// The key of signals that are counted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Counter {
    lane: Lane,
    index: i128,
}

/// A sent signal: the call, its node, and its number among the operations of its lane.
#[derive(Clone, Copy)]
struct Sent {
    at: Index,
    node: usize,
    number: usize,
}

/// Data that was put.
struct Put {
    node: usize,
    lane: Lane,
    number: usize,
    message: usize,
    call: RankCall<()>,
    region: Region,
    alloc: AllocId,
    /// Bytes of the payload.
    bytes: Range<u64>,
    window: Option<u32>,
    /// The waits after which the put is visible: the first one of each stream.
    waits: Vec<usize>,
}

#[derive(Default)]
struct LaneState {
    /// Number of operations that have happened.
    over: usize,
    waiting: BTreeMap<usize, (Index, usize)>,
    last: Option<(Index, usize)>,
    /// Its puts, by index.
    puts: Vec<usize>,
    /// For each stream of the waiting rank: the number of puts that its waits have made visible.
    visible: FxHashMap<u32, usize>,
    /// Number of puts that some wait has made visible.
    received: usize,
}

/// The state of all one-sided operations.
#[derive(Default)]
pub(super) struct OneSidedState {
    lanes: FxHashMap<Lane, LaneState>,
    sent: BTreeMap<Counter, Vec<Sent>>,
    /// Number of signals that were requested by waits.
    awaited: FxHashMap<Counter, usize>,
    /// For each stream of the waiting rank: the number of signals that had arrived when its latest wait ended.
    seen: FxHashMap<(Counter, u32), usize>,
    /// For each wait: the number of signals that must have arrived.
    wanted: FxHashMap<Index, Vec<(Counter, usize)>>,
    /// Waits that have reached the heads of their streams, by communicator and rank.
    waits: FxHashMap<(CommId, usize), Vec<(Index, usize)>>,
    puts: Vec<Put>,
    disorders: Vec<Diagnostic>,
}

fn lane_of(op: &RankOneSided<Placed>) -> Lane {
    let peer = op.peers.first().map_or(usize::MAX, |(peer, _)| rank_or_none(*peer));
    Lane { comm: op.comm, from: op.rank, to: peer, context: op.context }
}

fn awaited(op: &RankOneSided<Placed>) -> impl Iterator<Item = (Counter, usize)> {
    op.peers.iter().map(|(peer, count)| {
        let lane = Lane { comm: op.comm, from: rank_or_none(*peer), to: op.rank, context: op.context };
        (Counter { lane, index: op.signal_index }, usize::try_from(*count).unwrap_or(usize::MAX))
    })
}

/// Checks the signals of one thread that drives all ranks: it makes the calls of one step at a time, and waits on the host where
/// a step requires it.
///
/// # Errors
///
/// A wait whose signals come from a later step.
pub fn check_one_thread(lowered: &LoweredProgram) -> Result<(), Vec<Diagnostic>> {
    let mut sent: FxHashMap<Counter, Vec<StepId>> = FxHashMap::default();
    let calls = |rank: usize| lowered.ops[rank].iter().zip(&lowered.programs[rank]);
    let one_sided = |rank: usize| {
        calls(rank).filter_map(|(op, call)| match op {
            Some(RankOp::OneSided(op)) => Some((&**op, call.step)),
            _ => None,
        })
    };
    for (op, step) in (0..lowered.unrolled.n).flat_map(one_sided).filter(|(op, _)| op.kind != OneSided::WaitSignal) {
        sent.entry(Counter { lane: lane_of(op), index: op.signal_index }).or_default().push(step);
    }
    let unit = |step: StepId| lowered.unrolled.units[step as usize];
    for rank in 0..lowered.unrolled.n {
        let mut before: FxHashMap<Counter, usize> = FxHashMap::default();
        for (op, step) in one_sided(rank).filter(|(op, _)| op.kind == OneSided::WaitSignal) {
            for (counter, count) in awaited(op) {
                let so_far = before.entry(counter).or_default();
                *so_far += count;
                let last = sent.get(&counter).and_then(|list| list.get(*so_far - 1));
                if let Some(last) = last.filter(|last| unit(**last) > unit(step)) {
                    let span = |step: StepId| lowered.unrolled.steps[step as usize].span;
                    let text =
                        "this wait is for a signal of a later step, and one thread makes the calls of a step at a time";
                    return Err(vec![Diagnostic::new(span(step), text).related(span(*last), "the signal")]);
                }
            }
        }
    }
    Ok(())
}

impl Simulation<'_> {
    /// The sequence in which an operation is numbered when its host issues it; a wait also gets its signals then.
    pub(super) fn number_one_sided(&mut self, at: Index, op: &RankOneSided<Placed>) -> Option<Sequence> {
        if op.kind != OneSided::WaitSignal {
            return Some(Sequence::OneSided(lane_of(op)));
        }
        let state = &mut self.one_sided;
        let wanted = awaited(op).map(|(counter, count)| {
            let total = state.awaited.entry(counter).or_default();
            *total = total.saturating_add(count);
            (counter, *total)
        });
        let wanted = wanted.collect();
        state.wanted.insert(at, wanted);
        None
    }

    /// A one-sided operation has reached the head of its stream.
    pub(super) fn arrive_one_sided(&mut self, at: Index, node: usize, op: &RankOneSided<Placed>) {
        if op.kind == OneSided::WaitSignal {
            self.one_sided.waits.entry((op.comm, op.rank)).or_default().push((at, node));
            return self.look_for_signals(op.comm, op.rank);
        }
        let (lane, number) = (lane_of(op), self.number_of(at));
        self.one_sided.lanes.entry(lane).or_default().waiting.insert(number, (at, node));
        while let Some((number, (at, node))) = self.next_of(lane) {
            self.happen_one_sided(lane, number, at, node);
        }
        self.look_for_signals(lane.comm, lane.to);
    }

    fn next_of(&mut self, lane: Lane) -> Option<(usize, (Index, usize))> {
        let state = self.one_sided.lanes.get_mut(&lane)?;
        let next = state.waiting.remove(&state.over)?;
        state.over += 1;
        Some((state.over - 1, next))
    }

    fn happen_one_sided(&mut self, lane: Lane, number: usize, at: Index, node: usize) {
        let lowered = self.lowered;
        let Some(RankOp::OneSided(op)) = lowered.op(at) else { return };
        let state = &mut self.one_sided;
        let of_lane = state.lanes.entry(lane).or_default();
        let before = of_lane.last.replace((at, node));
        if let (Some((other, other_node)), Some(clocks)) = (before, &self.clocks)
            && !clocks.is_before(other_node, node)
            && lowered.ends[at.0][at.1] != lowered.ends[other.0][other.1]
        {
            state.disorders.push(unordered(lowered, at, other));
        }
        let counter = Counter { lane, index: op.signal_index };
        state.sent.entry(counter).or_default().push(Sent { at, node, number });
        if let Some((source, target)) = op.put.filter(|(source, _)| source.len > 0)
            && let Some((alloc, bytes)) = payload_bytes(lowered, &target)
        {
            let message = self.next_message;
            self.next_message += 1;
            of_lane.puts.push(state.puts.len());
            let call = lowered.rank_call(at, ());
            let region = target;
            let window = match lowered.programs[at.0][at.1].kind.effect() {
                CallKind::Put { window, .. } => *window,
                _ => None,
            };
            let waits = Vec::new();
            state.puts.push(Put { node, lane, number, message, call, region, alloc, bytes, window, waits });
            let sent = lowered.rank_call(at, message_of(op, source));
            self.out.events.push(Event::Sent { message, call: sent });
        }
        self.over_one_sided(at, node);
    }

    /// Completes the waits of a rank for which enough signals have arrived.
    fn look_for_signals(&mut self, comm: CommId, rank: usize) {
        let waits = self.one_sided.waits.remove(&(comm, rank)).unwrap_or_default();
        let mut left = Vec::new();
        for (at, node) in waits {
            let state = &self.one_sided;
            let come = |(counter, total): &(Counter, usize)| state.sent.get(counter).map_or(0, Vec::len) >= *total;
            if state.wanted.get(&at).is_some_and(|wanted| wanted.iter().all(come)) {
                self.see_signals(at, node);
            } else {
                left.push((at, node));
            }
        }
        if !left.is_empty() {
            self.one_sided.waits.entry((comm, rank)).or_default().extend(left);
        }
    }

    /// A wait completes: puts before the signals that must have arrived are visible after it. These include the signals of earlier
    /// waits, which may run on other streams and end later.
    fn see_signals(&mut self, at: Index, node: usize) {
        let lowered = self.lowered;
        let Some(RankOp::OneSided(wait)) = lowered.op(at) else { return };
        let mut senders = Vec::new();
        for (counter, total) in self.one_sided.wanted.get(&at).cloned().unwrap_or_default() {
            let state = &mut self.one_sided;
            let seen = state.seen.entry((counter, wait.stream)).or_default();
            let new = state.sent.get(&counter).and_then(|sent| sent.get(*seen..total)).unwrap_or_default();
            *seen = (*seen).max(total);
            senders.extend(new.iter().map(|sent| sent.node));
            let Some(last) = new.iter().map(|sent| sent.number).max() else { continue };
            let Some(of_lane) = state.lanes.get_mut(&counter.lane) else { continue };
            let puts = &mut state.puts;
            let end = of_lane.puts.partition_point(|put| puts[*put].number <= last);
            let visible = of_lane.visible.entry(wait.stream).or_default();
            for put in of_lane.puts.get(*visible..end).unwrap_or_default() {
                puts[*put].waits.push(node);
            }
            *visible = (*visible).max(end);
            let received = of_lane.puts.get(of_lane.received..end).unwrap_or_default();
            of_lane.received = of_lane.received.max(end);
            for put in received {
                let put = &puts[*put];
                let received = RankMessage::<Placed> {
                    comm: wait.comm,
                    rank: wait.rank,
                    peer: counter.lane.from as i32,
                    memory: put.region,
                    size: message_size(lowered, &put.region),
                    null_pointers: false,
                    stream: wait.stream,
                };
                let call = RankCall { op: received, step: put.call.step, after: lowered.ends[at.0][at.1] };
                self.out.events.push(Event::Received { message: put.message, call });
            }
        }
        self.clocks_message(senders, at, node);
        self.over_one_sided(at, node);
    }

    /// The ranks that a one-sided operation waits for, and the reason.
    pub(super) fn signals_missing(&self, at: Index, op: &RankOneSided<Placed>) -> Option<(Vec<usize>, String)> {
        let world = |rank: usize| {
            let members = &self.lowered.unrolled.comms.list[op.comm].members;
            members.get(rank).copied().unwrap_or(rank)
        };
        if op.kind != OneSided::WaitSignal {
            let over = self.one_sided.lanes.get(&lane_of(op)).map_or(0, |lane| lane.over);
            let waits = self.number_of(at) >= over;
            return waits
                .then(|| (vec![at.0], "an earlier operation to the same rank in the same context comes first".into()));
        }
        let come = |counter: &Counter| self.one_sided.sent.get(counter).map_or(0, Vec::len);
        let wanted = self.one_sided.wanted.get(&at)?;
        let lacking = || wanted.iter().filter(|(counter, total)| come(counter) < *total);
        let missing: usize = lacking().map(|(counter, total)| total - come(counter)).sum();
        let on: Vec<usize> = lacking().map(|(counter, _)| world(counter.lane.from)).collect();
        let what = match (missing, on.as_slice()) {
            (_, []) => return None,
            (1, _) => "the wait needs one more signal of that rank".to_owned(),
            (_, [_]) => format!("the wait needs {missing} more signals of that rank"),
            _ => format!("the wait needs {missing} more signals of these ranks"),
        };
        Some((on, what))
    }

    /// Reports data that no wait ever sees, and data that is put where a rank may use it in the meantime.
    pub(super) fn report_one_sided(&mut self) {
        let Some(clocks) = &self.clocks else { return };
        if !self.out.waiting.is_empty() {
            return;
        }
        let state = std::mem::take(&mut self.one_sided);
        let lowered = self.lowered;
        let step = |step: StepId| &lowered.unrolled.steps[step as usize];
        let mut found = state.disorders;
        for (counter, sent) in &state.sent {
            let awaited = state.awaited.get(counter).copied().unwrap_or(0);
            let Some(first) = sent.get(awaited) else { continue };
            let step = step(lowered.step(first.at));
            let Lane { from, to, .. } = counter.lane;
            let text = format!("rank {to} never waits for the signal that rank {from} sends it here");
            found.push(
                Diagnostic::new(step.span, text)
                    .help("add a `wait_signal`: data are visible after it, and a signal that is left over counts for whatever waits next"),
            );
        }
        let (clashes, hidden) = clashes(lowered, clocks, &state.puts);
        found.extend(clashes);
        self.out.events.retain(|event| !matches!(event, Event::Received { message, .. } if hidden.contains(message)));
        self.out.mismatches.extend(found);
    }

    /// A one-sided operation that an abort may cut short leaves its counters undefined.
    pub(super) fn report_cut_one_sided(&mut self, at: Index, abort: Index) {
        if !matches!(self.lowered.op(at), Some(RankOp::OneSided(_))) {
            return;
        }
        let Some(call) = self.lowered.programs[abort.0].get(abort.1) else { return };
        let (how, op) = match call.kind {
            CallKind::Revoke { .. } => ("its communicator is revoked", "revoke"),
            CallKind::Shrink { .. } => ("a shrink aborts its communicator", "shrink"),
            _ => ("its communicator is aborted", "abort"),
        };
        let span = |step: StepId| self.lowered.unrolled.steps[step as usize].span;
        let text = format!("this one-sided operation may not be over when {how}");
        let diagnostic = Diagnostic::new(span(self.lowered.step(at)), text)
            .related(span(call.step), format!("the `{op}`"))
            .help(format!("add a `wait` before the `{op}`"));
        self.out.mismatches.push(diagnostic);
    }
}

fn message_of(op: &RankOneSided<Placed>, memory: Region) -> RankMessage<Placed> {
    RankMessage {
        comm: op.comm,
        rank: op.rank,
        peer: op.peers.first().map_or(0, |(peer, _)| *peer),
        memory,
        size: op.size,
        null_pointers: false,
        stream: op.stream,
    }
}

fn message_size(lowered: &LoweredProgram, region: &Region) -> super::super::rank_op::Size {
    super::super::rank_op::Size { count: region.len, dtype: lowered.placed.buffers[region.buf].dtype }
}

/// The bytes of a region in its allocation's payload.
fn payload_bytes(lowered: &LoweredProgram, region: &Region) -> Option<(AllocId, Range<u64>)> {
    let buffer = &lowered.placed.buffers[region.buf];
    let place = buffer.places[region.rank]?;
    let size = buffer.dtype.size() as u64;
    let start = place.offset + region.start * size;
    Some((place.alloc, start..start + region.len * size))
}

fn is_inside(put: &Put, other: &Put) -> bool {
    put.alloc == other.alloc && other.bytes.start <= put.bytes.start && put.bytes.end <= other.bytes.end
}

fn overlap(a: &Range<u64>, b: &Range<u64>) -> bool {
    a.start < b.end && b.start < a.end
}

fn unordered(lowered: &LoweredProgram, at: Index, other: Index) -> Diagnostic {
    let step = |at: Index| &lowered.unrolled.steps[lowered.step(at) as usize];
    let text = format!(
        "{} and {} go to the same rank in the same context, on two streams of rank {}: nothing says which comes first",
        step(other).label,
        step(at).label,
        at.0
    );
    Diagnostic::new(step(at).span, text)
        .related(step(other).span, "the other step")
        .help("add `after = [\"...\"]` to the later step, or use another `context`")
}

/// Uses of memory that are unordered with a put to it; and the messages of puts that may be overwritten, by a later put of
/// their order, before they are seen.
fn clashes(lowered: &LoweredProgram, clocks: &Clocks, puts: &[Put]) -> (Vec<Diagnostic>, FxHashSet<usize>) {
    let (mut found, mut hidden) = (Vec::new(), FxHashSet::default());
    // One finding for each step is enough.
    let mut told: FxHashSet<Span> = FxHashSet::default();
    let span = |step: StepId| lowered.unrolled.steps[step as usize].span;
    let mut by_alloc: BTreeMap<AllocId, (Vec<&Put>, Vec<&Access>)> = BTreeMap::new();
    puts.iter().for_each(|put| by_alloc.entry(put.alloc).or_default().0.push(put));
    clocks.accesses.iter().for_each(|access| by_alloc.entry(access.alloc).or_default().1.push(access));
    let mut left = MOST_PAIRS;
    for (puts, accesses) in by_alloc.values() {
        let pairs = puts.len().saturating_mul(puts.len() + accesses.len());
        if pairs > left {
            let Some(put) = puts.first() else { continue };
            let step = &lowered.unrolled.steps[put.call.step as usize];
            let text =
                format!("this buffer has {} puts and {} other uses: too many to compare", puts.len(), accesses.len());
            let refused = Diagnostic::new(step.span, text).help("use several buffers, or fewer rounds");
            return (vec![refused], hidden);
        }
        left -= pairs;
        for (index, put) in puts.iter().enumerate() {
            let seen_before = |node: usize| put.waits.iter().any(|wait| clocks.is_before(*wait, node));
            for access in accesses.iter().filter(|access| overlap(&access.bytes, &put.bytes)) {
                let unordered = !clocks.is_before(access.node, put.node) && !seen_before(access.node);
                if unordered && told.insert(span(access.step)) {
                    found.push(clash(lowered, put, access));
                }
            }
            for other in puts[..index].iter().filter(|other| overlap(&other.bytes, &put.bytes)) {
                let other_seen = other.waits.iter().any(|wait| clocks.is_before(*wait, put.node));
                let (first, last) = if other.number < put.number { (other, put) } else { (put, other) };
                let in_turn = other.lane == put.lane && is_inside(first, last);
                if other_seen || seen_before(other.node) {
                    continue;
                }
                if in_turn {
                    hidden.insert(first.message);
                } else if told.insert(span(put.call.step)) {
                    found.push(two_puts(lowered, put, other));
                }
            }
        }
    }
    let mut by_window: FxHashMap<(usize, u32), Vec<&Put>> = FxHashMap::default();
    for put in puts.iter().filter(|put| !put.waits.is_empty()) {
        by_window.entry((put.region.rank, put.window.unwrap_or(u32::MAX))).or_default().push(put);
    }
    for ended in &clocks.deregistered {
        let through = by_window.get(&(ended.rank, ended.window)).into_iter().flatten();
        let unwaited = through.copied().find(|put| !put.waits.iter().any(|wait| clocks.is_waited(*wait, ended)));
        if let Some(put) = unwaited {
            let step = |step: StepId| &lowered.unrolled.steps[step as usize];
            let text = format!(
                "{} ends a window while {} may still write it",
                step(ended.step).label,
                step(put.call.step).label
            );
            found.push(
                Diagnostic::new(step(ended.step).span, text)
                    .related(step(put.call.step).span, "the put")
                    .help("wait for its signal, and add a `wait` on the host after that"),
            );
        }
    }
    (found, hidden)
}

fn clash(lowered: &LoweredProgram, put: &Put, access: &Access) -> Diagnostic {
    let step = |step: StepId| &lowered.unrolled.steps[step as usize];
    let name = &lowered.placed.buffers[access.region.buf].name;
    let text = format!(
        "{} {} `{name}` on rank {}, and {} of another rank writes it: nothing says which comes first",
        step(access.step).label,
        if access.writes { "writes" } else { "reads" },
        access.region.rank,
        step(put.call.step).label,
    );
    Diagnostic::new(step(access.step).span, text)
        .related(step(put.call.step).span, "the put")
        .help("a use after a put needs a `wait_signal` for it in between; a put after a use needs something that the putting rank waits for")
}

fn two_puts(lowered: &LoweredProgram, put: &Put, other: &Put) -> Diagnostic {
    let step = |step: StepId| &lowered.unrolled.steps[step as usize];
    let name = &lowered.placed.buffers[put.region.buf].name;
    let text = format!(
        "{} and {} write the same part of `{name}` on rank {}: nothing says which comes first",
        step(other.call.step).label,
        step(put.call.step).label,
        put.region.rank
    );
    Diagnostic::new(step(put.call.step).span, text)
        .related(step(other.call.step).span, "the other put")
        .help("let the rank wait for the first signal, and the second put for the rank; or put both in one context, the later one over all that the earlier one has written")
}
