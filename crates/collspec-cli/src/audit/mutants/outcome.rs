//! What is asked of an audit of kernels, and what it found.
use super::candidates::Instruction;
use collspec_core::job::{ChangeKind, Mutant};
use collspec_core::judge::Verdict;
use collspec_core::scenario::Case;
use std::sync::Arc;

/// What to try.
#[derive(Clone, Debug)]
pub struct Request {
    /// Only these mutants; if there are none, `mutants` of all.
    pub only: Vec<Mutant>,
    /// The number of mutants.
    pub mutants: usize,
    /// Decides which of the possible ones are made.
    pub seed: u64,
    /// The most cases that are run with a mutant.
    pub most_cases: usize,
    /// How many mutants run at the same time.
    pub jobs: usize,
}

/// An event during an audit.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// So many runs follow, without a change or with mutants.
    Begun {
        /// Their number.
        runs: usize,
        /// True with mutants.
        mutants: bool,
    },
    /// A case ran without a change, or a mutant with all cases that it needed.
    Done(&'a str),
}

/// An audit of a library's kernels.
#[derive(Debug)]
pub struct Report {
    /// Cases that ran without a change.
    pub cases: usize,
    /// Cases that were not run, with the reason.
    pub skipped: Vec<(Arc<Case>, String)>,
    /// Cases that do not pass without a change; if there are any, no mutants were made.
    pub failed: Vec<(Arc<Case>, Box<Verdict>)>,
    /// Instructions that cases executed, and the changes that these allow.
    pub instructions: usize,
    /// See `instructions`.
    pub candidates: usize,
    /// The mutants, in the order in which they were chosen.
    pub mutants: Vec<Tried>,
    /// The most cases that were run with a mutant.
    pub most_cases: usize,
    /// Runs with mutants.
    pub runs: usize,
}

/// A mutant that was tried.
#[derive(Debug)]
pub struct Tried {
    pub mutant: Mutant,
    /// Its place in the PTX.
    pub instruction: Instruction,
    /// The change in words.
    pub words: String,
    /// The cases that were run with it, in this order.
    pub ran: Vec<Arc<Case>>,
    /// Number of cases that execute the instruction.
    pub executed_by: usize,
    pub fate: Fate,
}

/// What became of a mutant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The last case that ran with it fails.
    Noticed {
        /// How it fails: `wrong`, `error`, `hang` or `crash`.
        outcome: &'static str,
        /// The verdict's reason.
        reason: String,
    },
    /// All cases that were run pass.
    Survived,
    /// No case fails, and one could not be run.
    Undecided(String),
}

impl Report {
    /// The numbers of mutants that were made, noticed, survived and are undecided.
    pub fn counts(&self, of: impl Fn(&Tried) -> bool) -> [usize; 4] {
        let mut counts = [0; 4];
        for tried in self.mutants.iter().filter(|tried| of(tried)) {
            counts[0] += 1;
            match tried.fate {
                Fate::Noticed { .. } => counts[1] += 1,
                Fate::Survived => counts[2] += 1,
                Fate::Undecided(_) => counts[3] += 1,
            }
        }
        counts
    }

    /// The counts of a kind of change.
    pub fn counts_of(&self, kind: ChangeKind) -> [usize; 4] {
        self.counts(|tried| tried.mutant.change == kind)
    }
}
