//! The operations of a function, and the blocks that control flow cuts them into.
use super::decode::decode;
use super::op::{Op, Operation};
use crate::error::Error;
use crate::module::{Function, Type};
use crate::text::Unit;
use std::ops::Range;

/// A function's operations. An unknown one is an error that is raised when it is executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Body {
    /// The operations, in the order of the text.
    pub operations: Vec<Result<Operation, Error>>,
    /// The types of the registers.
    pub registers: Vec<Type>,
}

impl Body {
    /// The operations of a function.
    pub fn of(unit: &Unit, function: &Function) -> Self {
        let operations = function.instructions.iter().map(|instruction| decode(unit, function, instruction)).collect();
        Self { operations, registers: function.registers.clone() }
    }

    /// The basic blocks: in each all operations are executed, or none.
    pub fn blocks(&self) -> Vec<Range<usize>> {
        let count = self.operations.len();
        let mut begins = vec![false; count + 1];
        for (at, operation) in self.operations.iter().enumerate() {
            // What is not known ends the launch.
            if operation.as_ref().map_or(true, |operation| operation.op.ends_block()) {
                begins[at + 1] = true;
            }
            if let Ok(Operation { op: Op::Branch { target }, .. }) = operation
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
