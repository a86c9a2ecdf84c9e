//! Warns where ranks put their calls on one communicator into different groups. NCCL reorders the calls of a group, for example by size, and
//! launches collectives separately from messages. Ranks with different groups may then hang, or combine the data of different calls.
use super::lower::LoweredProgram;
use super::rank_op::{RankOp, Route};
use super::types::{CommId, StepId};
use crate::scenario::Diagnostic;
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;

/// A call that several ranks make together.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Shared {
    /// A collective, by its number on the communicator.
    Collective(CommId, usize),
    /// A message, by its number on its route.
    Message(Route, usize),
}

/// How a rank makes it.
#[derive(Clone, Copy)]
struct Grouped {
    rank: usize,
    /// The number on the communicator of the first collective in the same call or group, if there is one.
    first: Option<usize>,
    step: StepId,
}

/// A warning for each communicator whose ranks group their calls differently.
pub fn warnings(lowered: &LoweredProgram) -> Vec<Diagnostic> {
    let mut known: FxHashMap<Shared, Grouped> = FxHashMap::default();
    let mut told: BTreeSet<CommId> = BTreeSet::new();
    let mut warnings = Vec::new();
    for rank in 0..lowered.ops.len() {
        for (comm, shared, own) in calls(lowered, rank) {
            match known.get(&shared) {
                None => _ = known.insert(shared, own),
                Some(other) if other.first != own.first && told.insert(comm) => {
                    warnings.push(warning(lowered, *other, own));
                }
                Some(_) => {}
            }
        }
    }
    warnings
}

fn calls(lowered: &LoweredProgram, rank: usize) -> Vec<(CommId, Shared, Grouped)> {
    let mut numbers: FxHashMap<Shared, usize> = FxHashMap::default();
    let mut number = |of: Shared| {
        let next = numbers.entry(of).or_insert(0);
        *next += 1;
        *next - 1
    };
    // By communicator and the call that ends a group.
    let mut firsts: FxHashMap<(CommId, u32), usize> = FxHashMap::default();
    let mut calls = Vec::new();
    for (index, op) in lowered.ops[rank].iter().enumerate() {
        let Some((op, comm)) = op.as_ref().and_then(|op| Some((op, op.comm()?))) else { continue };
        let end = lowered.ends[rank][index];
        let shared = match op {
            RankOp::Collective(collective) if collective.size.count > 0 => {
                let number = number(Shared::Collective(comm, 0));
                firsts.entry((comm, end)).or_insert(number);
                Shared::Collective(comm, number)
            }
            RankOp::Send(_) | RankOp::Recv(_) => match op.route().filter(|route| route.from != route.to) {
                Some(route) => Shared::Message(route, number(Shared::Message(route, 0))),
                None => continue,
            },
            _ => continue,
        };
        calls.push((comm, shared, end, lowered.programs[rank][index].step));
    }
    let grouped =
        |(comm, shared, end, step)| (comm, shared, Grouped { rank, first: firsts.get(&(comm, end)).copied(), step });
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
