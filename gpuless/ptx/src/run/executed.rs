//! What of a program was executed, while this is noted.
use super::executable::Executable;
use crate::code::{Body, Change};
use crate::error::Error;
use crate::link::FunctionId;

/// An operation that was executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Executed {
    /// Its number in the function's text.
    pub operation: u32,
    /// Its line in the unit, from 1.
    pub line: u32,
    /// The text of this line.
    pub text: String,
    /// The changes that it allows, each in words.
    pub changes: Vec<(Change, String)>,
}

impl Executable {
    /// The operations that were executed since this is noted, by function.
    ///
    /// # Errors
    ///
    /// A function's text cannot be read.
    pub fn executed(&self) -> Result<Vec<(FunctionId, Vec<Executed>)>, Error> {
        let all = self.noted().into_iter();
        all.map(|(id, operations)| Ok((id, self.described(id, &operations)?))).collect()
    }

    /// These operations of a function, which are in ascending order.
    fn described(&self, id: FunctionId, operations: &[u32]) -> Result<Vec<Executed>, Error> {
        let program = self.program();
        let (unit, function) = (program.unit(program.unit_of(id)), program.function(id)?);
        let body = Body::of(unit, function);
        // Lines are counted from one place to the next: the way from the start of a unit is long.
        let (mut line, mut counted) = (1, 0);
        let mut described = Vec::with_capacity(operations.len());
        for number in operations {
            let at = *number as usize;
            let (Some(instruction), Some(operation)) = (function.instructions.get(at), body.operations.get(at)) else {
                continue;
            };
            let place = instruction.opcode.start as usize;
            let between = unit.text().as_bytes().get(counted..place).unwrap_or_default();
            line += between.iter().filter(|byte| **byte == b'\n').count() as u32;
            counted = counted.max(place);
            let changes =
                Change::ALL.into_iter().filter_map(|change| Some((change, change.of(operation)?.1))).collect();
            described.push(Executed { operation: *number, line, text: unit.line(place).to_owned(), changes });
        }
        Ok(described)
    }
}
