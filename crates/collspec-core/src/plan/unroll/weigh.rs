//! The cost of evaluating the numbers of a step on one rank.
use super::super::cost;
use crate::scenario::{
    BufferRef, CommCreation, CommDef, NumberByRank, NumberByRankKind, OneSidedCall, Ranks, Step, StepCounts, StepKind,
    StepReduction,
};

/// Number of operations to evaluate all numbers of a step on one rank. Names are looked up among `axes` axes; `n` is the world size.
pub fn operations(step: &Step, axes: usize, n: u64) -> u64 {
    let num = |num: &NumberByRank| of_num(num, axes);
    let some = |num: &Option<NumberByRank>| num.as_ref().map_or(0, |num| of_num(num, axes));
    let reduction = |reduce: &Option<StepReduction>| match reduce {
        Some(StepReduction::PreMulSum { scalar, .. }) => num(scalar),
        Some(StepReduction::Builtin(_)) | None => 0,
    };
    let own = match &step.kind {
        StepKind::Collective(c) => some(&c.root) + some(&c.in_place) + reduction(&c.reduce),
        StepKind::AllToAllV { counts, .. } => of_counts(&counts.value, axes, n),
        StepKind::ReduceScatterV { counts, reduce, .. } => of_counts(&counts.value, axes, n) + reduction(reduce),
        StepKind::Send { peer, .. } => num(peer),
        StepKind::Recv { peer, size, .. } => num(peer) + some(&size.count),
        StepKind::SendRecv { to, from, .. } => num(to) + num(from),
        StepKind::Map { size, .. } => some(&size.count),
        StepKind::Sleep { seconds } => num(seconds),
        StepKind::OneSided(one_sided) => {
            some(&one_sided.context)
                + some(&one_sided.signal_index)
                + some(&one_sided.flags)
                + match &one_sided.call {
                    OneSidedCall::Put { peer, .. } | OneSidedCall::Signal { peer } => num(peer),
                    OneSidedCall::WaitSignal { peer, signals } => some(peer) + some(signals).saturating_mul(n),
                }
        }
        StepKind::NewComm(def) => of_comm(def, axes),
        _ => 0,
    };
    let slices = step.input().into_iter().chain(step.output()).map(|part| of_slice(part, axes)).sum::<u64>();
    let ranks = if let Ranks::Expr(expr) = &step.ranks { cost::operations(&expr.value, axes) } else { 0 };
    1 + own + slices + ranks + step.times.as_deref().map_or(0, num)
}

/// Operations of the counts that the rank sends to each other rank and receives from each.
fn of_counts<T>(counts: &StepCounts<T>, axes: usize, n: u64) -> u64 {
    match counts {
        StepCounts::Expr(expr) => cost::operations(expr, axes).saturating_mul(2 * n),
        StepCounts::Listed(_) => 0,
    }
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
