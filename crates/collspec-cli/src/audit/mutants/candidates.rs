//! The instructions that cases execute, and the changes that they allow.
use collspec_core::job::{ChangeKind, ExecutedFunction, Mutant};
use std::collections::BTreeMap;
use std::sync::Arc;

/// An instruction's place in the PTX of a library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// The name of its kernel or function.
    pub function: Arc<str>,
    /// The unit of PTX in which it stands.
    pub unit: Arc<str>,
    /// Its line in the unit, from 1.
    pub line: u32,
    /// The text of this line.
    pub text: String,
}

/// An instruction that cases execute.
#[derive(Debug)]
pub struct Candidate {
    pub instruction: Instruction,
    /// The changes that it allows, each in words.
    pub changes: Vec<(ChangeKind, String)>,
    /// The numbers of the cases.
    pub cases: Vec<u32>,
}

/// A function, by the number of its program and its own.
pub type FunctionKey = (u32, u32);

/// All that cases executed: by function, and by the instruction's number.
#[derive(Debug, Default)]
pub struct Candidates {
    functions: BTreeMap<FunctionKey, BTreeMap<u32, Candidate>>,
}

impl Candidates {
    /// Adds all that a case executed.
    pub fn add(&mut self, case: u32, executed: Vec<ExecutedFunction>) {
        for ExecutedFunction { program, function, name, unit, instructions } in executed {
            let (name, unit): (Arc<str>, Arc<str>) = (name.into(), unit.into());
            let known = self.functions.entry((program, function)).or_default();
            for seen in instructions {
                let candidate = known.entry(seen.operation).or_insert_with(|| Candidate {
                    instruction: Instruction {
                        function: name.clone(),
                        unit: unit.clone(),
                        line: seen.line,
                        text: seen.text,
                    },
                    changes: seen.changes,
                    cases: Vec::new(),
                });
                // Each process of a case tells what it executed.
                if candidate.cases.last() != Some(&case) {
                    candidate.cases.push(case);
                }
            }
        }
    }

    fn all(&self) -> impl Iterator<Item = (FunctionKey, u32, &Candidate)> {
        self.functions.iter().flat_map(|(key, of)| of.iter().map(|(number, candidate)| (*key, *number, candidate)))
    }

    /// The number of instructions, and of the changes that they allow.
    pub fn counts(&self) -> (usize, usize) {
        (self.all().count(), self.all().map(|(.., candidate)| candidate.changes.len()).sum())
    }

    /// The mutants of a kind, by function.
    pub fn mutants(&self, kind: ChangeKind) -> BTreeMap<FunctionKey, Vec<Mutant>> {
        let mut mutants: BTreeMap<FunctionKey, Vec<Mutant>> = BTreeMap::new();
        for ((program, function), operation, candidate) in self.all() {
            if candidate.changes.iter().any(|(change, _)| *change == kind) {
                let mutant = Mutant { program, function, operation, change: kind };
                mutants.entry((program, function)).or_default().push(mutant);
            }
        }
        mutants
    }

    /// The instruction that a mutant changes, and the change in words.
    pub fn find(&self, mutant: Mutant) -> Option<(&Candidate, &str)> {
        let candidate = self.functions.get(&(mutant.program, mutant.function))?.get(&mutant.operation)?;
        let (_, words) = candidate.changes.iter().find(|(change, _)| *change == mutant.change)?;
        Some((candidate, words))
    }
}
