//! How the public test suites would check the same operations: what they put in, what they expect, what they look at and
//! how closely. The audit runs them against the same faults as a corpus, so that the ways of checking can be compared.
//!
//! Nothing is copied; each suite's file says which public source its facts are from and what is not modelled. Where a suite
//! leaves something open it gets the benefit of the doubt.
//!
//! The way of a case: `recipe` reads from a corpus case which one operation it is, if it is one; a `Suite` says how it
//! would run that, or why it cannot; `exam` fills the inputs of its plan and judges what was seen. `sweep` holds the
//! programs that a suite runs of its own accord.
mod exam;
mod floats;
mod nccl_tests;
mod rccl;
mod recipe;
mod sweep;
#[cfg(test)]
mod tests;
mod ucc;
mod way;

pub use exam::PeerCheck;
pub use recipe::SingleOperation;
pub use way::As;

use crate::num::DType;
use crate::ops::{Kind, Op};
use crate::plan::Reduction;
use crate::scenario::{Case, Placement, SourceFile, parse};
use std::fmt;
use std::sync::Arc;

/// A public test suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Peer {
    /// NVIDIA's performance tests, which verify what they time.
    NcclTests,
    /// The unit tests of AMD's library.
    Rccl,
    /// The gtests of Unified Collective Communication.
    Ucc,
}

impl Peer {
    /// All that there are.
    pub const ALL: [Self; 3] = [Self::NcclTests, Self::Rccl, Self::Ucc];

    /// As on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::NcclTests => "nccl-tests",
            Self::Rccl => "rccl",
            Self::Ucc => "ucc",
        }
    }

    /// By its name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|peer| peer.name() == name)
    }

    fn suite(self) -> &'static dyn Suite {
        match self {
            Self::NcclTests => &nccl_tests::NcclTests,
            Self::Rccl => &rccl::Rccl,
            Self::Ucc => &ucc::Ucc,
        }
    }

    /// What the suite would run of a corpus case.
    ///
    /// # Errors
    ///
    /// Why it cannot.
    pub fn case(self, case: &Arc<Case>) -> Result<Case, Refused> {
        let recipe = self.suite().adapt(SingleOperation::of(case)?)?;
        let own = read(&case.name, &case.file.path, &recipe.text())?;
        // in one thread every step is a group, and a send does not meet a receive of the next
        let pairs = matches!(recipe.op.kind, Kind::SendRecv) && recipe.steps.is_some();
        let placement =
            if pairs && case.placement == Placement::OneThread { Placement::Threads } else { case.placement };
        Ok(Case {
            env: case.env.clone(),
            config: case.config.clone(),
            requires: case.requires.clone(),
            placement,
            timeout: case.timeout.clone(),
            repeat: case.repeat,
            ..own
        })
    }

    /// The programs that the suite runs of its own accord.
    ///
    /// # Errors
    ///
    /// A program that is no scenario: a fault of this program.
    pub fn sweep(self) -> Result<Vec<Case>, Refused> {
        let programs = self.suite().sweep();
        programs.iter().map(|(name, text)| read(name, &format!("{name}.toml"), text)).collect()
    }
}

/// Reads a scenario that a suite has written.
fn read(name: &str, path: &str, text: &str) -> Result<Case, Refused> {
    let file = Arc::new(SourceFile { path: path.to_owned(), text: text.into() });
    let cases = parse(&file, name).map_err(|rejected| {
        Refused::Unplannable(rejected.faults.first().map_or_else(String::new, |fault| fault.message.clone()))
    })?;
    cases.into_iter().next().ok_or(Refused::Program)
}

/// Why a suite does not run a case.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// More than one operation, several communicators or streams.
    #[error("it is a program, not one operation over all ranks")]
    Program,
    /// Something must fail, or communicators are made.
    #[error("it expects a failure, or makes communicators of its own")]
    Negative,
    /// Another environment or another way in each rank.
    #[error("its ranks differ in environment or in place")]
    ByRank,
    /// The suite has no such thing.
    #[error("the suite has no test of {0}")]
    Lacks(&'static str),
    /// The suite never runs it with nothing to move.
    #[error("the suite runs nothing with a count of zero")]
    Zero,
    /// What the suite would run is no scenario; a fault of this program.
    #[error("what the suite would run cannot be planned: {0}")]
    Unplannable(String),
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One operation as a suite sees it.
pub(crate) struct Call<'a> {
    /// Its entry in the operation table.
    pub op: &'static Op,
    /// Element type.
    pub dtype: DType,
    /// The reduction, if it has one.
    pub reduce: Option<&'a Reduction>,
    /// Ranks of the communicator.
    pub n: usize,
    /// NCCL's count; 0 where pieces differ.
    pub k: u64,
    /// Rank in the communicator.
    pub root: usize,
    /// Different for every buffer that is filled.
    pub seed: u64,
}

/// An element of a send buffer.
#[derive(Clone, Copy)]
pub(crate) struct Spot {
    /// Rank in the communicator whose buffer it is.
    pub rank: usize,
    /// Rank to which it goes, where each has a piece of its own; else 0.
    pub to: usize,
    /// Element in the buffer.
    pub index: u64,
    /// Element in the piece for `to`.
    pub within: u64,
    /// Elements of the piece for `to`.
    pub piece: u64,
}

/// What a suite looks at on a rank afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sight {
    /// What was to arrive.
    Result,
    /// What was there before must still be there.
    Unchanged,
    /// The root's send buffer, whatever the rank.
    RootsInput,
    /// Nothing.
    Nothing,
}

/// A way of checking.
pub(crate) trait Suite: Sync {
    /// How the suite would run an operation, or why it cannot.
    fn adapt(&self, recipe: SingleOperation) -> Result<SingleOperation, Refused>;
    /// The byte that outputs hold beforehand.
    fn blank(&self) -> u8;
    /// The bits of an input element.
    fn input(&self, call: &Call<'_>, spot: Spot) -> u64;
    /// The bits that the suite expects of element `index` of a reduction; inputs come by rank.
    fn reduced(&self, call: &Call<'_>, index: u64, inputs: &[u64]) -> u64;
    /// What it looks at on a rank.
    fn sight(&self, call: &Call<'_>, rank: usize) -> Sight;
    /// Whether it takes `got` for `want`.
    fn accepts(&self, call: &Call<'_>, want: u64, got: u64) -> bool;
    /// Programs of its own: name and scenario. Buffers whose name starts with `timed` are not looked at.
    fn sweep(&self) -> Vec<(String, String)>;
}
