//! Warns of NCCL_LAUNCH_MODE = GROUP with calls that only some ranks of a process make, or make in another order. In that mode NCCL lets
//! the ranks of a communicator in one process launch their kernels together, so each launch waits for one of every other rank; and a
//! rank that connects to another one before its launch waits for a call which that rank may only make after the launch.
use super::lower::LoweredProgram;
use super::rank_op::{Placed, RankOp, Route};
use super::simulate::{Needs, needs};
use super::types::CommId;
use crate::scenario::{Case, Diagnostic, EnvValue, EnvVar, Placement};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// A warning, if ranks of a communicator launch unequally often, or do not connect in launches of the same number.
pub fn warning(lowered: &LoweredProgram) -> Option<Diagnostic> {
    let case = &lowered.unrolled.case;
    let variable = group_mode(case).filter(|_| case.placement != Placement::Processes)?;
    let problem = uneven_launches(lowered).or_else(|| uneven_connections(lowered))?;
    let text = format!(
        "with NCCL_LAUNCH_MODE = GROUP the ranks of a process launch their kernels together, and {problem}: NCCL may wait without end"
    );
    Some(Diagnostic::warning(variable.name.span, text).help(
        "let every rank make as many calls or groups, in the same order, or leave the variable out (NVIDIA/nccl#787)",
    ))
}

fn group_mode(case: &Case) -> Option<&EnvVar> {
    let is_group = |value: &EnvValue| match value {
        EnvValue::All(text) => text.eq_ignore_ascii_case("group"),
        EnvValue::PerRank(texts) => texts.iter().any(|text| text.eq_ignore_ascii_case("group")),
    };
    case.env.iter().find(|v| v.name.value == "NCCL_LAUNCH_MODE" && is_group(&v.value))
}

/// Calls `visit` for each operation of a rank, with its communicator and the number of its launch on that. The calls of a group launch
/// together; each is known by the call that ends it.
fn for_each_launch<'a>(
    lowered: &'a LoweredProgram,
    rank: usize,
    mut visit: impl FnMut(&'a RankOp<Placed>, CommId, usize),
) {
    let mut launches: HashMap<CommId, BTreeSet<u32>> = HashMap::new();
    for (index, op) in lowered.ops[rank].iter().enumerate() {
        let Some((op, comm)) = op.as_ref().and_then(|op| Some((op, op.comm()?))) else { continue };
        let ends = launches.entry(comm).or_default();
        ends.insert(lowered.ends[rank][index]);
        visit(op, comm, ends.len() - 1);
    }
}

fn uneven_launches(lowered: &LoweredProgram) -> Option<String> {
    let mut counts: BTreeMap<(CommId, usize), usize> = BTreeMap::new();
    for rank in 0..lowered.ops.len() {
        for_each_launch(lowered, rank, |_, comm, number| _ = counts.insert((comm, rank), number + 1));
    }
    let count = |comm: CommId, rank: usize| counts.get(&(comm, rank)).copied().unwrap_or(0);
    let uneven = |comm: CommId| {
        let members = &lowered.unrolled.comms.list[comm].members;
        let (first, others) = members.split_first()?;
        let other = others.iter().find(|other| count(comm, **other) != count(comm, *first))?;
        Some((*first, count(comm, *first), *other, count(comm, *other)))
    };
    let comms: BTreeSet<CommId> = counts.keys().map(|(comm, _)| *comm).collect();
    let (one, ones, other, others) = comms.into_iter().find_map(uneven)?;
    Some(format!("rank {one} launches {ones} times on a communicator on which rank {other} launches {others} times"))
}

fn uneven_connections(lowered: &LoweredProgram) -> Option<String> {
    #[derive(Clone, Copy, PartialEq, Eq, Hash)]
    enum Connection {
        Pair(Route),
        All(CommId),
    }
    let mut first: HashMap<Connection, (usize, usize)> = HashMap::new();
    let mut uneven = None;
    for rank in 0..lowered.ops.len() {
        let mut own: HashSet<Connection> = HashSet::new();
        for_each_launch(lowered, rank, |op, _, number| {
            let opens = match needs(lowered, op) {
                Needs::Nothing => Vec::new(),
                Needs::Routes(routes) => {
                    routes.into_iter().filter(|route| route.from != route.to).map(Connection::Pair).collect()
                }
                Needs::All(comm) => vec![Connection::All(comm)],
            };
            for connection in opens.into_iter().filter(|connection| own.insert(*connection)) {
                let (other, its) = *first.entry(connection).or_insert((rank, number));
                if its != number {
                    uneven.get_or_insert((other, its + 1, rank, number + 1));
                }
            }
        });
    }
    let (one, its, other, others) = uneven?;
    Some(format!(
        "rank {one} connects to rank {other} in its launch {its} on a communicator, but rank {other} to rank {one} in its launch {others}"
    ))
}
