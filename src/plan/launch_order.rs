//! Warns of collectives of two communicators that the ranks issue in different orders and that nothing orders on a device. NCCL asks for
//! one order on all devices, or for streams or hosts that order such calls: if a device has room for one of the two only, each
//! of two ranks may wait for the call that the other one holds back.
use super::lower::LoweredProgram;
use super::progress::Progress;
use super::rank_op::RankOp;
use super::types::{CommId, StepId};
use crate::scenario::Diagnostic;
use rustc_hash::{FxHashMap, FxHashSet};

/// A collective, the same on all ranks: its communicator, and its number among the communicator's.
type Call = (CommId, usize);

/// Where a rank issues a collective: the end of its group, and its step.
type Place = (u32, StepId);

/// Pairs of calls that are looked at on a rank; in longer programs the first ones tell.
const MOST_PAIRS: usize = 100_000;

/// A warning for each pair of communicators.
pub fn warnings(lowered: &LoweredProgram) -> Vec<Diagnostic> {
    let several = |rank: usize| {
        let ops = lowered.ops[rank].iter().flatten();
        let streams: FxHashSet<(CommId, u32)> = ops.filter_map(|op| Some((RankOp::comm(op)?, op.stream()))).collect();
        streams.len() > 1
    };
    if !(0..lowered.unrolled.n).any(several) {
        return Vec::new();
    }
    let places: Vec<FxHashMap<Call, Place>> = (0..lowered.unrolled.n).map(|rank| places(lowered, rank)).collect();
    let mut told = FxHashSet::default();
    let mut warnings = Vec::new();
    for rank in 0..lowered.unrolled.n {
        for (first, second) in unordered(lowered, rank) {
            let pair = (first.0.min(second.0), first.0.max(second.0));
            let turned = |other: &&usize| {
                let at = |call: &Call| places[**other].get(call).map(|(end, _)| *end);
                at(&first).zip(at(&second)).is_some_and(|(first, second)| second < first)
            };
            let members = &lowered.unrolled.comms.list[first.0].members;
            if told.contains(&pair) {
                continue;
            }
            if let Some(other) = members.iter().filter(|other| **other < places.len()).find(turned) {
                told.insert(pair);
                warnings.push(warning(lowered, &places[rank], (rank, *other), (first, second)));
            }
        }
    }
    warnings
}

/// Where a rank issues each of its collectives.
fn places(lowered: &LoweredProgram, rank: usize) -> FxHashMap<Call, Place> {
    collectives(lowered, rank)
        .map(|(call, index, _)| (call, (lowered.ends[rank][index], lowered.step((rank, index)))))
        .collect()
}

/// A rank's collectives in the order in which it issues them: the call, its index and its stream.
fn collectives(lowered: &LoweredProgram, rank: usize) -> impl Iterator<Item = (Call, usize, u32)> + '_ {
    let mut numbers: FxHashMap<CommId, usize> = FxHashMap::default();
    lowered.ops[rank].iter().enumerate().filter_map(move |(index, op)| match op {
        Some(RankOp::Collective(op)) if op.size.count > 0 => {
            let number = numbers.entry(op.comm).or_insert(0);
            *number += 1;
            Some(((op.comm, *number), index, RankOp::Collective(op.clone()).stream()))
        }
        _ => None,
    })
}

/// Pairs of collectives of two communicators that a rank issues one after the other and that nothing orders there.
fn unordered(lowered: &LoweredProgram, rank: usize) -> Vec<(Call, Call)> {
    let streams = lowered.unrolled.streams as usize;
    let mut progress = Progress::new(streams);
    let mut issued: Vec<Vec<(usize, Call, u32)>> = vec![Vec::new(); streams];
    let mut pairs = Vec::new();
    let mut calls = collectives(lowered, rank).peekable();
    for (index, call) in lowered.programs[rank].iter().enumerate() {
        progress.follow(call.kind.effect());
        let Some(op) = lowered.op((rank, index)) else { continue };
        let stream = op.stream() as usize;
        let number = progress.issue(stream);
        let Some((own, _, _)) = calls.next_if(|(_, at, _)| *at == index) else { continue };
        let end = lowered.ends[rank][index];
        for (other, earlier) in issued.iter().enumerate().filter(|(other, _)| *other != stream) {
            let open = earlier.iter().rev().take_while(|(number, ..)| !progress.is_before(other, *number, stream));
            let apart = open.filter(|(_, call, its_end)| call.0 != own.0 && *its_end != end);
            pairs.extend(apart.map(|(_, call, _)| (*call, own)).take(MOST_PAIRS.saturating_sub(pairs.len())));
        }
        issued[stream].push((number, own, end));
        if pairs.len() >= MOST_PAIRS {
            break;
        }
    }
    pairs
}

fn warning(
    lowered: &LoweredProgram,
    places: &FxHashMap<Call, Place>,
    (rank, other): (usize, usize),
    (first, second): (Call, Call),
) -> Diagnostic {
    let step = |call: &Call| places.get(call).map(|(_, step)| &lowered.unrolled.steps[*step as usize]);
    let named = |comm: CommId| match &lowered.unrolled.comms.list[comm].name {
        Some(name) => format!("`{name}`"),
        None => "one of a step's `groups`".to_owned(),
    };
    let label = |call: &Call| step(call).map_or(String::new(), |step| step.label.clone());
    let span = |call: &Call| step(call).map_or(lowered.unrolled.case.span, |step| step.span);
    let text = format!(
        "rank {rank} issues {} on {} before {} on {}, rank {other} issues them the other way round, and nothing orders them on rank \
         {rank}: NCCL may block where a device has room for one of them only",
        label(&first),
        named(first.0),
        label(&second),
        named(second.0),
    );
    Diagnostic::warning(span(&second), text)
        .related(span(&first), "the other call")
        .help("issue the calls of different communicators in the same order on all ranks, or order them with `after` or a `wait`")
}
