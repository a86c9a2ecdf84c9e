//! Calls that connect to a rank whose process has ended. NCCL connects two ranks, or those of a communicator, when a call first needs
//! them, on the host and inside the call: it waits for the other side, which no longer answers, and nothing else of the rank can end
//! that wait. The simulation of hosts leaves out programs in which processes end, so this is looked for here.
use super::super::lower::LoweredProgram;
use super::super::rank_op::{RankOp, Route};
use super::super::simulate::routes;
use super::super::types::{CommId, Waiting};
use crate::job::CallKind;
use std::collections::{BTreeSet, HashSet};

/// The reason a rank waits for one that has ended.
pub const CONNECTS_TO_THE_DEAD: &str =
    "NCCL connects to a rank in the first call that needs it, and the call waits for its answer";

/// The first call of each rank that connects to a rank whose process has ended.
pub fn connect_to_the_dead(lowered: &LoweredProgram) -> Vec<Waiting> {
    let exits = |kind: &CallKind| matches!(kind, CallKind::AwaitDeath { .. });
    if !lowered.programs.iter().flatten().any(|call| exits(&call.kind)) {
        return Vec::new();
    }
    (0..lowered.unrolled.n).filter_map(|rank| first_call(lowered, rank)).collect()
}

fn first_call(lowered: &LoweredProgram, rank: usize) -> Option<Waiting> {
    let mut dead: BTreeSet<usize> = BTreeSet::new();
    let mut routes_used: HashSet<Route> = HashSet::new();
    let mut comms_used: HashSet<CommId> = HashSet::new();
    // A communicator that has reported the death refuses calls at once.
    let mut refuses: HashSet<CommId> = HashSet::new();
    for (index, call) in lowered.programs[rank].iter().enumerate() {
        match call.kind.effect() {
            CallKind::AwaitDeath { ranks, .. } => dead.extend(ranks.iter().map(|rank| *rank as usize)),
            CallKind::AwaitError { comm } => _ = refuses.insert(*comm as usize),
            _ => {}
        }
        let Some(op) = lowered.given_op((rank, index)) else { continue };
        let Some(comm) = RankOp::comm(op).filter(|comm| !refuses.contains(comm)) else { continue };
        let members = &lowered.unrolled.comms.list[comm].members;
        let own = match op {
            RankOp::Collective(c) if c.size.count == 0 => continue,
            RankOp::Collective(c) => {
                routes(c, members.len()).map(|all| all.into_iter().map(|(route, _)| route).collect())
            }
            RankOp::Send(_) | RankOp::Recv(_) => Some(op.route().into_iter().collect::<Vec<_>>()),
            RankOp::OneSided(_) | RankOp::Map(_) => continue,
        };
        let others: Vec<usize> = match own {
            Some(own) => own
                .into_iter()
                .filter(|route| routes_used.insert(*route))
                .flat_map(|route| [route.from, route.to])
                .filter_map(|rank| members.get(rank).copied())
                .collect(),
            None if comms_used.insert(comm) => members.clone(),
            None => Vec::new(),
        };
        let on: BTreeSet<usize> = others.into_iter().filter(|other| dead.contains(other)).collect();
        if !on.is_empty() {
            let on = on.into_iter().collect();
            return Some(Waiting { rank, step: call.step, what: CONNECTS_TO_THE_DEAD.to_owned(), on });
        }
    }
    None
}
