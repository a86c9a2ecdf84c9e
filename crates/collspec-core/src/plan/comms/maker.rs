//! What makes communicators: a step, or an entry of `comms`.
use crate::job::CallKind;
use crate::scenario::{Case, CommDef, Span};

/// A step, or an entry of `comms`, that makes communicators, and the ranks whose calls it is.
pub struct Maker<'a> {
    pub case: &'a Case,
    pub def: &'a CommDef,
    pub span: Span,
    /// The round of `times`.
    pub t: Option<u64>,
    /// World ranks that the step's `ranks` admit.
    pub runs: Vec<bool>,
    /// True if the step itself has the key `ranks`, not only a default.
    pub own_ranks: bool,
    /// World ranks whose call is expected to fail.
    pub fails: Vec<bool>,
}

/// Calls that make communicators, each with its world rank.
pub type Calls = Vec<(usize, CallKind)>;

impl<'a> Maker<'a> {
    /// An entry of `comms`: every rank makes its call.
    pub fn entry(case: &'a Case, def: &'a CommDef) -> Self {
        let n = case.world_size.value;
        Self { case, def, span: def.name.span, t: None, runs: vec![true; n], own_ranks: false, fails: vec![false; n] }
    }

    /// True if some rank's call is expected to fail.
    pub(super) fn may_fail(&self) -> bool {
        self.fails.contains(&true)
    }

    /// True if this rank makes the call, and it is not expected to fail.
    pub(super) fn works(&self, world: usize) -> bool {
        self.runs[world] && !self.fails[world]
    }
}
