//! The operations that ranks carry out together, told apart by the numbers of their calls.
use super::lower::LoweredProgram;
use super::rank_op::{Placed, RankOp, Route};
use super::types::CommId;
use rustc_hash::FxHashMap;

/// An operation, the same on all ranks that take part in it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operation {
    /// A collective, by its number on the communicator.
    Collective(CommId, usize),
    /// A message, by its number on its route.
    Message(Route, usize),
    /// A one-sided operation, by rank and call.
    OneSided(usize, usize),
}

/// The calls of a rank that need others, with their indices. A collective of no elements is dropped before it is launched.
pub fn speaking(lowered: &LoweredProgram, rank: usize) -> impl Iterator<Item = (usize, &RankOp<Placed>)> {
    let ops = lowered.ops[rank].iter().enumerate().filter_map(|(index, op)| Some((index, op.as_ref()?)));
    ops.filter(|(_, op)| match op {
        RankOp::Collective(op) => op.size.count > 0,
        RankOp::Map(_) => false,
        op => op.route().is_none_or(|route| route.from != route.to),
    })
}

/// The calls of a rank that need others, with their indices and operations.
pub fn operations(lowered: &LoweredProgram, rank: usize) -> impl Iterator<Item = (usize, &RankOp<Placed>, Operation)> {
    let mut numbers: FxHashMap<Operation, usize> = FxHashMap::default();
    speaking(lowered, rank).filter_map(move |(index, op)| {
        let mut number = |operation| {
            let number = numbers.entry(operation).or_insert(0);
            *number += 1;
            *number
        };
        let operation = match op {
            RankOp::Collective(c) => Operation::Collective(c.comm, number(Operation::Collective(c.comm, 0))),
            RankOp::OneSided(_) => Operation::OneSided(rank, index),
            // A rank that sends to another one never receives on the same route.
            op => op.route().map(|route| Operation::Message(route, number(Operation::Message(route, 0))))?,
        };
        Some((index, op, operation))
    })
}
