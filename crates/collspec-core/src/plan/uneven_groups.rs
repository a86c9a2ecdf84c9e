//! Warns where ranks put their calls on one communicator into different groups. NCCL reorders the calls of a group, for example by size, and
//! launches collectives separately from messages. Ranks with different groups may then hang, or combine the data of different calls.
use super::lower::LoweredProgram;
use super::operation::{Operation, operations};
use super::types::{CommId, StepId};
use crate::scenario::Diagnostic;
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;

/// How a rank makes a call that several ranks make together.
#[derive(Clone, Copy)]
struct Grouped {
    rank: usize,
    /// The number on the communicator of the first collective in the same call or group, if there is one.
    first: Option<usize>,
    step: StepId,
}

/// A warning for each communicator whose ranks group their calls differently.
pub fn warnings(lowered: &LoweredProgram) -> Vec<Diagnostic> {
    let mut known: FxHashMap<Operation, Grouped> = FxHashMap::default();
    let mut told: BTreeSet<CommId> = BTreeSet::new();
    let mut warnings = Vec::new();
    for rank in 0..lowered.ops.len() {
        for (comm, operation, own) in calls(lowered, rank) {
            match known.get(&operation) {
                None => _ = known.insert(operation, own),
                Some(other) if other.first != own.first && told.insert(comm) => {
                    warnings.push(warning(lowered, *other, own));
                }
                Some(_) => {}
            }
        }
    }
    warnings
}

fn calls(lowered: &LoweredProgram, rank: usize) -> Vec<(CommId, Operation, Grouped)> {
    // By communicator and the call that ends a group.
    let mut firsts: FxHashMap<(CommId, u32), usize> = FxHashMap::default();
    let mut calls = Vec::new();
    for (index, _, operation) in operations(lowered, rank) {
        let end = lowered.ends[rank][index];
        let comm = match operation {
            Operation::Collective(comm, number) => {
                firsts.entry((comm, end)).or_insert(number);
                comm
            }
            Operation::Message(route, _) => route.comm,
            Operation::OneSided(..) => continue,
        };
        calls.push((comm, operation, end, lowered.programs[rank][index].step));
    }
    let grouped = |(comm, operation, end, step)| {
        (comm, operation, Grouped { rank, first: firsts.get(&(comm, end)).copied(), step })
    };
    calls.into_iter().map(grouped).collect()
}

fn warning(lowered: &LoweredProgram, one: Grouped, other: Grouped) -> Diagnostic {
    let span = |grouped: Grouped| lowered.unrolled.steps[grouped.step as usize].span;
    let text = format!(
        "ranks {} and {} put this call into different groups: NCCL orders the calls of a group by rules of its own, so the ranks may hang or \
         compute with each other's data",
        one.rank, other.rank
    );
    let warning = Diagnostic::warning(span(one), text).help("let all ranks group the calls of a communicator alike");
    if span(one) == span(other) {
        return warning;
    }
    warning.related(span(other), format!("rank {} makes it here", other.rank))
}
