//! What makes communicators: a step, or an entry of `comms`.
use crate::job::CallKind;
use crate::scenario::{Case, CommDef, Diagnostic, Span};

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
    /// World ranks whose call is expected to be refused for its arguments.
    pub refused: Vec<bool>,
}

/// Calls that make communicators, each with its world rank.
pub type Calls = Vec<(usize, CallKind)>;

impl<'a> Maker<'a> {
    /// An entry of `comms`: every rank makes its call.
    pub fn entry(case: &'a Case, def: &'a CommDef) -> Self {
        let n = case.world_size.value;
        Self {
            case,
            def,
            span: def.name.span,
            t: None,
            runs: vec![true; n],
            own_ranks: false,
            fails: vec![false; n],
            refused: vec![false; n],
        }
    }

    /// Refuses a step that returns an error about its arguments on some of these ranks and works on others, although all of them pass
    /// the same: the library refuses them on every rank or on none, so a case that says otherwise would be judged wrongly.
    ///
    /// # Errors
    ///
    /// The step.
    pub(super) fn check_all_end_alike(&self, ranks: impl Iterator<Item = usize>) -> Result<(), Diagnostic> {
        let callers: Vec<usize> = ranks.filter(|world| self.runs[*world]).collect();
        let refused = callers.iter().find(|world| self.refused[**world]);
        let works = callers.iter().find(|world| self.works(**world));
        let (Some(refused), Some(works)) = (refused, works) else { return Ok(()) };
        let text = format!(
            "this step is to return an error on rank {refused} and to work on rank {works}, and both pass the same arguments"
        );
        Err(Diagnostic::new(self.span, text).help(
            "expect the error on all ranks, or let the ranks that are to fail make their calls by a step of their own",
        ))
    }

    /// True if this rank makes the call, and it is not expected to fail.
    pub(super) fn works(&self, world: usize) -> bool {
        self.runs[world] && !self.fails[world]
    }
}
