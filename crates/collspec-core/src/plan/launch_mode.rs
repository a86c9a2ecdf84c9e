//! Warns of NCCL_LAUNCH_MODE = GROUP with calls that only some ranks of a process make. In that mode NCCL lets the ranks of a
//! communicator in one process launch their kernels together, so each launch waits for one of every other rank.
use super::lower::LoweredProgram;
use super::rank_op::RankOp;
use crate::scenario::{Diagnostic, EnvValue, Placement};
use std::collections::{BTreeMap, BTreeSet};

/// A warning, if ranks of a communicator launch unequally often.
pub fn warning(lowered: &LoweredProgram) -> Option<Diagnostic> {
    let case = &lowered.unrolled.case;
    let is_group = |value: &EnvValue| match value {
        EnvValue::All(text) => text.eq_ignore_ascii_case("group"),
        EnvValue::PerRank(texts) => texts.iter().any(|text| text.eq_ignore_ascii_case("group")),
    };
    let variable = case.env.iter().find(|v| v.name.value == "NCCL_LAUNCH_MODE" && is_group(&v.value))?;
    if case.placement == Placement::Processes {
        return None;
    }
    // The calls of a group launch together; each is known by the call that ends it.
    let mut launches: BTreeMap<(usize, usize), BTreeSet<u32>> = BTreeMap::new();
    for (rank, ops) in lowered.ops.iter().enumerate() {
        for (index, op) in ops.iter().enumerate() {
            if let Some(comm) = op.as_ref().and_then(RankOp::comm) {
                launches.entry((comm, rank)).or_default().insert(lowered.ends[rank][index]);
            }
        }
    }
    let count = |comm: usize, rank: usize| launches.get(&(comm, rank)).map_or(0, BTreeSet::len);
    let uneven = |comm: usize| {
        let members = &lowered.unrolled.comms.list[comm].members;
        let (first, others) = members.split_first()?;
        let other = others.iter().find(|other| count(comm, **other) != count(comm, *first))?;
        Some((*first, count(comm, *first), *other, count(comm, *other)))
    };
    let comms: BTreeSet<usize> = launches.keys().map(|(comm, _)| *comm).collect();
    let (one, ones, other, others) = comms.into_iter().find_map(uneven)?;
    let text = format!(
        "with NCCL_LAUNCH_MODE = GROUP the ranks of a process launch their kernels together, and rank {one} launches {ones} \
         times on a communicator on which rank {other} launches {others} times: NCCL may wait without end"
    );
    Some(
        Diagnostic::warning(variable.name.span, text)
            .help("let every rank make as many calls or groups, or leave the variable out (NVIDIA/nccl#787)"),
    )
}
