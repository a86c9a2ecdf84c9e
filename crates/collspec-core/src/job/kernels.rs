//! Kernels of software GPUs that are other than their library's PTX says: what can be changed, and what was executed.
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// What is different about the kernels of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kernels {
    /// They note which instructions are executed.
    Noted,
    /// They note the same without its text, and the library's host code notes which of its functions are entered.
    NotedByNumber,
    /// One instruction is changed.
    Mutant(Mutant),
}

/// A changed instruction. Its numbers mean the same in every process that has loaded the same library.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Mutant {
    /// The number of the program, of those that the library consists of.
    pub program: u32,
    /// The number of the function in the program.
    pub function: u32,
    /// The number of the instruction in the function.
    pub operation: u32,
    /// What is different about it.
    pub change: ChangeKind,
}

impl fmt::Display for Mutant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { program, function, operation, change } = self;
        write!(f, "{program}.{function}.{operation}.{change}")
    }
}

impl FromStr for Mutant {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parse = || {
            let mut parts = text.split('.');
            let mut number = || parts.next()?.parse().ok();
            let (program, function, operation) = (number()?, number()?, number()?);
            let change = parts.next()?;
            let change = ChangeKind::all().find(|kind| kind.name() == change)?;
            parts.next().is_none().then_some(Self { program, function, operation, change })
        };
        parse().ok_or_else(|| "expected a mutant as reports name it, such as 0.12.345.operator".to_owned())
    }
}

/// A kind of change of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    Operator,
    Comparison,
    Constant,
    Rounding,
    LeftOut,
    Negated,
}

/// Every kind, its name, and what it is.
const KINDS: [(ChangeKind, &str, &str); 6] = [
    (ChangeKind::Operator, "operator", "another operator, such as a difference in place of a sum"),
    (ChangeKind::Comparison, "comparison", "another relation, such as less or equal in place of less"),
    (ChangeKind::Constant, "constant", "a constant that is larger by one"),
    (ChangeKind::Rounding, "rounding", "floating-point rounding towards zero"),
    (ChangeKind::LeftOut, "left_out", "a store, fence or barrier that is left out"),
    (ChangeKind::Negated, "negated", "a predicate that is negated"),
];

impl ChangeKind {
    /// All kinds.
    pub fn all() -> impl Iterator<Item = Self> {
        KINDS.iter().map(|(kind, ..)| *kind)
    }

    fn entry(self) -> Option<&'static (Self, &'static str, &'static str)> {
        KINDS.iter().find(|(kind, ..)| *kind == self)
    }

    pub fn name(self) -> &'static str {
        self.entry().map_or("", |(_, name, _)| name)
    }

    /// What it is, in words.
    pub fn describe(self) -> &'static str {
        self.entry().map_or("", |(_, _, words)| words)
    }
}

impl fmt::Display for ChangeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The instructions of a function that were executed in a process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecutedFunction {
    /// As in a [`Mutant`].
    pub program: u32,
    /// As in a [`Mutant`].
    pub function: u32,
    /// Its name.
    pub name: String,
    /// The unit of PTX in which it stands.
    pub unit: String,
    /// In the order of the text.
    pub instructions: Vec<ExecutedInstruction>,
}

/// An instruction that was executed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecutedInstruction {
    /// Its number in the function.
    pub operation: u32,
    /// Its line in the unit, from 1.
    pub line: u32,
    /// The text of this line.
    pub text: String,
    /// The changes that it allows, each in words.
    pub changes: Vec<(ChangeKind, String)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_are_those_of_the_reports() {
        for kind in ChangeKind::all() {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
            assert!(!kind.describe().is_empty());
        }
    }

    #[test]
    fn a_mutant_is_found_by_its_name() {
        for change in ChangeKind::all() {
            let mutant = Mutant { program: 1, function: 20, operation: 345, change };
            assert_eq!(mutant.to_string().parse(), Ok(mutant));
        }
        for wrong in ["", "1.2.3", "1.2.3.4", "1.2.operator", "1.2.3.operator.", "-1.2.3.operator"] {
            assert!(wrong.parse::<Mutant>().is_err(), "{wrong}");
        }
    }
}
