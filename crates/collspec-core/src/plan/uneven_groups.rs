//! Warns of collectives of one communicator that ranks put into groups differently. NCCL orders the calls of a group by rules of its own,
//! such as their sizes, so that ranks which group them differently may meet in different collectives: they hang, or compute wrong results.
use super::lower::LoweredProgram;
use super::rank_op::RankOp;
use super::types::{CommId, StepId};
use crate::scenario::Diagnostic;
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;

/// How a rank makes a collective.
struct Grouped {
    rank: usize,
    /// The number on the communicator of the first collective in the same call or group.
    first: usize,
    step: StepId,
}

/// A warning for each communicator whose ranks group their collectives differently.
pub fn warnings(lowered: &LoweredProgram) -> Vec<Diagnostic> {
    let mut known: FxHashMap<(CommId, usize), Grouped> = FxHashMap::default();
    let mut told: BTreeSet<CommId> = BTreeSet::new();
    let mut warnings = Vec::new();
    for (rank, ops) in lowered.ops.iter().enumerate() {
        // For each communicator: its collectives so far, and the call that ends the last one's group with that group's first number.
        let mut so_far: FxHashMap<CommId, (usize, u32, usize)> = FxHashMap::default();
        for (index, op) in ops.iter().enumerate() {
            let Some(RankOp::Collective(call)) = op.as_ref().filter(|op| op.comm().is_some()) else { continue };
            if call.size.count == 0 {
                continue;
            }
            let end = lowered.ends[rank][index];
            let (number, last_end, first) = so_far.entry(call.comm).or_insert((0, end, 0));
            if *last_end != end {
                (*last_end, *first) = (end, *number);
            }
            let (own, first) = (*number, *first);
            *number += 1;
            let step = lowered.programs[rank][index].step;
            match known.get(&(call.comm, own)) {
                None => _ = known.insert((call.comm, own), Grouped { rank, first, step }),
                Some(other) if other.first != first && told.insert(call.comm) => {
                    warnings.push(warning(lowered, other, &Grouped { rank, first, step }));
                }
                Some(_) => {}
            }
        }
    }
    warnings
}

fn warning(lowered: &LoweredProgram, one: &Grouped, other: &Grouped) -> Diagnostic {
    let span = |step: StepId| lowered.unrolled.steps[step as usize].span;
    let text = format!(
        "ranks {} and {} put this collective into different groups: NCCL orders the calls of a group by rules of its own, so the ranks may \
         hang or compute with each other's data",
        one.rank, other.rank
    );
    let warning =
        Diagnostic::warning(span(one.step), text).help("let all ranks group the collectives of a communicator alike");
    if span(one.step) == span(other.step) {
        return warning;
    }
    warning.related(span(other.step), format!("rank {} makes it here", other.rank))
}
