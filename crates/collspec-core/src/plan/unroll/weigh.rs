//! The cost of evaluating the numbers of a step on one rank.
use super::super::cost;
use crate::scenario::{
    AllToAllCounts, BufferRef, CommCreation, CommDef, NumberByRank, NumberByRankKind, Ranks, Step, StepReduction,
};

/// Number of operations to evaluate all numbers of a step on one rank. Names are looked up among `axes` axes; `n` is the world size.
pub fn operations(step: &Step, axes: usize, n: u64) -> u64 {
    let num = |num: &Option<Box<NumberByRank>>| num.as_ref().map_or(0, |v| of_num(v, axes));
    let signal = &step.signal;
    let nums = [
        &signal.context,
        &signal.index,
        &step.root,
        &step.in_place,
        &step.times,
        &step.peer,
        &step.to,
        &step.from,
        &step.count,
        &step.seconds,
    ];
    let mut sum = 1 + nums.into_iter().map(num).sum::<u64>();
    sum += [&step.input, &step.output].into_iter().flatten().map(|r| of_slice(r, axes)).sum::<u64>();
    if let Ranks::Expr(expr) = &step.ranks {
        sum += cost::operations(&expr.value, axes);
    }
    if let Some(StepReduction::PreMulSum { scalar, .. }) = step.reduce.as_ref().map(|r| &r.value) {
        sum += of_num(scalar, axes);
    }
    if let Some(AllToAllCounts::Expr(expr)) = step.counts.as_ref().map(|c| &c.value) {
        // The counts that the rank sends to each other rank and receives from each.
        sum += cost::operations(expr, axes).saturating_mul(2 * n);
    }
    sum += num(&signal.signals).saturating_mul(n);
    sum + step.new.as_ref().map_or(0, |def| of_comm(def, axes))
}

/// Operations of the colour and key of a communicator on one rank.
pub fn of_comm(def: &CommDef, axes: usize) -> u64 {
    match &def.creation {
        CommCreation::Groups(_) => 0,
        CommCreation::Split { color, key, .. } => of_num(color, axes) + key.as_ref().map_or(0, |key| of_num(key, axes)),
        CommCreation::Shrink { without: ranks, .. } | CommCreation::Grow { with: ranks, .. } => match &ranks.value {
            Ranks::Expr(expr) => cost::operations(&expr.value, axes),
            Ranks::List(_) | Ranks::All => 0,
        },
    }
}

fn of_num(num: &NumberByRank, axes: usize) -> u64 {
    match &num.kind {
        NumberByRankKind::Int(_) | NumberByRankKind::Float(_) => 1,
        NumberByRankKind::Expr(expr) => cost::operations(expr, axes),
        // A rank uses its own entry only.
        NumberByRankKind::List(list) => list.iter().map(|entry| of_num(entry, axes)).max().unwrap_or(0),
    }
}

fn of_slice(part: &BufferRef, axes: usize) -> u64 {
    let bounds = part.slice.iter().flat_map(|(from, to)| from.iter().chain(to));
    bounds.map(|expr| cost::operations(expr, axes)).sum()
}
