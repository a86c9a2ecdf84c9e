//! How public test suites check the same operations: their inputs, the results that they expect, which of them they compare
//! and how closely. The audit runs them with the same faults as a corpus, so that the checks can be compared.
//!
//! No code is copied; each suite's file names the public source of its facts and what is not modelled. Where a suite leaves
//! something open, the model favours the suite.
//!
//! `single_operation` reads a corpus case as one operation, if it is one; a [`PeerSuite`] says how it would run that, or why
//! it cannot; `peer_check` fills the inputs of the plan and judges the observations. `own_programs` holds the programs that
//! the suites run themselves.
mod floats;
mod nccl_tests;
mod own_programs;
mod peer_check;
mod peer_checker;
mod rccl;
mod single_operation;
#[cfg(test)]
mod tests;
mod ucc;

pub use peer_check::PeerCheck;
pub use peer_checker::PeerChecker;
pub use single_operation::SingleOperation;

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

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::NcclTests => "nccl-tests",
            Self::Rccl => "rccl",
            Self::Ucc => "ucc",
        }
    }

    /// The suite with this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|peer| peer.name() == name)
    }

    fn suite(self) -> &'static dyn PeerSuite {
        match self {
            Self::NcclTests => &nccl_tests::NcclTests,
            Self::Rccl => &rccl::Rccl,
            Self::Ucc => &ucc::Ucc,
        }
    }

    /// A corpus case as the suite would run it.
    ///
    /// # Errors
    ///
    /// Why the suite cannot run it.
    pub fn adapt_case(self, case: &Arc<Case>) -> Result<Case, NotRunnable> {
        let operation = self.suite().adapt(SingleOperation::from_case(case)?)?;
        let mut own = parse_case(&case.name, &case.file.path, &operation.scenario_text())?;
        // With one thread every step is a group, and a send cannot meet the receive of the next step.
        let pairs = matches!(operation.op.kind, Kind::SendRecv) && operation.steps.is_some();
        let placement =
            if pairs && case.placement == Placement::OneThread { Placement::Threads } else { case.placement };
        let content = &mut *own;
        content.env.clone_from(&case.env);
        content.config.clone_from(&case.config);
        content.requires.clone_from(&case.requires);
        content.placement = placement;
        content.timeout.clone_from(&case.timeout);
        content.repeat = case.repeat;
        Ok(own)
    }

    /// The programs that the suite runs itself.
    ///
    /// # Errors
    ///
    /// A program that is no scenario, which is a defect of this crate.
    pub fn own_cases(self) -> Result<Vec<Case>, NotRunnable> {
        let programs = self.suite().own_programs();
        programs.iter().map(|(name, text)| parse_case(name, &format!("{name}.toml"), text)).collect()
    }
}

/// Parses a scenario with one case.
fn parse_case(name: &str, path: &str, text: &str) -> Result<Case, NotRunnable> {
    let file = Arc::new(SourceFile { path: path.to_owned(), text: text.into() });
    let cases = parse(&file, name).map_err(|rejected| {
        NotRunnable::Unplannable(rejected.diagnostics.first().map_or_else(String::new, |fault| fault.message.clone()))
    })?;
    cases.into_iter().next().ok_or(NotRunnable::NotOneOperation)
}

/// The reason why a suite does not run a case.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotRunnable {
    /// More than one operation, several communicators or streams.
    #[error("it is a program, not one operation over all ranks")]
    NotOneOperation,
    /// The case expects a failure, or makes communicators.
    #[error("it expects a failure, or makes communicators")]
    ExpectsFailure,
    /// Environment or placement of buffers differs by rank.
    #[error("its ranks differ in environment or in place")]
    DiffersByRank,
    /// The suite has no such test.
    #[error("the suite has no test of {0}")]
    NoSuchTest(&'static str),
    /// The suite has no test with a count of zero.
    #[error("the suite runs nothing with a count of zero")]
    ZeroCount,
    /// The suite's version of the case is no scenario, which is a defect of this crate.
    #[error("what the suite would run cannot be planned: {0}")]
    Unplannable(String),
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One operation as a suite sees it.
pub(crate) struct OperationCall<'a> {
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
    /// Seed of the inputs, different for every buffer.
    pub seed: u64,
}

/// The position of an element in a send buffer.
#[derive(Clone, Copy)]
pub(crate) struct ElementPosition {
    /// Rank in the communicator that has the buffer.
    pub rank: usize,
    /// Rank that receives the element, if each rank receives another piece; else 0.
    pub to: usize,
    /// Index in the buffer.
    pub index: u64,
    /// Index in the piece for `to`.
    pub within: u64,
    /// Number of elements in the piece for `to`.
    pub piece: u64,
}

/// The part of a rank's memory that a suite compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CheckedPart {
    /// The result.
    Result,
    /// The receive buffer, which must not have changed.
    Unchanged,
    /// The root's send buffer, on every rank.
    RootsInput,
    /// Nothing.
    Nothing,
}

/// The model of a public test suite.
pub(crate) trait PeerSuite: Sync {
    /// The operation as the suite would run it, or why it cannot.
    fn adapt(&self, operation: SingleOperation) -> Result<SingleOperation, NotRunnable>;
    /// The byte that fills outputs before the run.
    fn output_fill_byte(&self) -> u8;
    /// The bits of an input element.
    fn input_bits(&self, call: &OperationCall<'_>, position: ElementPosition) -> u64;
    /// The bits that the suite expects of element `index` of a reduction, from the inputs by rank.
    fn expected_reduction(&self, call: &OperationCall<'_>, index: u64, inputs: &[u64]) -> u64;
    /// The part that it compares on a rank.
    fn checked_part(&self, call: &OperationCall<'_>, rank: usize) -> CheckedPart;
    /// True if the suite accepts `got` where it expects `want`.
    fn accepts(&self, call: &OperationCall<'_>, want: u64, got: u64) -> bool;
    /// The programs that the suite runs itself: name and scenario. Buffers whose name starts with `timed` are not compared.
    fn own_programs(&self) -> Vec<(String, String)>;
}
