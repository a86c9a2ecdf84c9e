//! The operations of a function, and the blocks that control flow cuts them into.
use super::change::Change;
use super::decode::decode_at_no_place;
use super::op::{Op, Operation};
use crate::module::{Function, Type};
use crate::text::Unit;
use std::ops::Range;

/// A function's operations. An unknown one is a fault where it is executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Body {
    /// The operations, in the order of the text.
    pub operations: Vec<Operation>,
    pub registers: Vec<Type>,
}

impl Body {
    /// The operations of a function.
    pub fn of(unit: &Unit, function: &Function) -> Self {
        let operations = function.instructions.iter().map(|instruction| {
            let unknown = |why| Operation { guard: instruction.guard, op: Op::Unknown(why) };
            decode_at_no_place(unit, function, instruction).unwrap_or_else(unknown)
        });
        Self { operations: operations.collect(), registers: function.registers.clone() }
    }

    /// Changes the operation with this number, if it allows such a change.
    pub fn change(&mut self, number: usize, change: Change) {
        if let Some(operation) = self.operations.get_mut(number)
            && let Some((changed, _)) = change.of(operation)
        {
            *operation = changed;
        }
    }

    /// The basic blocks: the operations of a block are executed all or not at all.
    pub fn blocks(&self) -> Vec<Range<usize>> {
        let count = self.operations.len();
        let mut begins = vec![false; count + 1];
        for (at, operation) in self.operations.iter().enumerate() {
            if operation.op.ends_block() {
                begins[at + 1] = true;
            }
            if let Op::Branch { target } = &operation.op
                && let Some(begins) = begins.get_mut(*target)
            {
                *begins = true;
            }
        }
        let mut blocks = Vec::new();
        let mut start = 0;
        for (at, begins) in begins.iter().enumerate().skip(1) {
            if *begins || at == count {
                blocks.push(start..at);
                start = at;
            }
        }
        blocks
    }
}
