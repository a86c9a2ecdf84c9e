//! A checker: how a test suite changes a case before it runs, and how it judges the observations.
use crate::job::Observation;
use crate::judge::{self, Flaw, Verdict};
use crate::oracle::Forecast;
use crate::plan::Plan;
use crate::scenario::Case;
use crate::suite::Ready;
use std::borrow::Cow;
use std::sync::Arc;

/// A test suite whose checks the audit measures; this project's is [`Collspec`].
pub trait Checker: Sync {
    /// Its name on the command line.
    fn name(&self) -> &'static str;

    /// The case as this suite runs it, for instance with other counts, before it is planned.
    ///
    /// # Errors
    ///
    /// Why the suite has no such test; the case is left out.
    fn adapt_case<'c>(&self, case: &'c Arc<Case>) -> Result<Cow<'c, Arc<Case>>, String> {
        Ok(Cow::Borrowed(case))
    }

    /// Cases that this suite runs in addition to the corpus.
    fn extra_cases(&self) -> Vec<Arc<Case>> {
        Vec::new()
    }

    /// Replaces the inputs of a planned case with this suite's.
    ///
    /// # Errors
    ///
    /// Why the suite cannot run the case; it is left out.
    fn prepare_inputs(&self, _ready: &mut Ready) -> Result<(), String> {
        Ok(())
    }

    /// True if this suite may object to a right result; a case that then fails without a fault is left out.
    fn may_misjudge(&self) -> bool {
        false
    }

    /// The verdict on the observations. Only its status, lanes and the first finding's lane are used.
    fn judge(&self, plan: &Plan, forecast: &Forecast, observations: &[Observation]) -> Verdict;

    /// The verdict of a judge with this flaw; `None` if the suite has another judge than this project's.
    fn judge_with_flaw(
        &self,
        plan: &Plan,
        forecast: &Forecast,
        observations: &[Observation],
        flaw: Flaw,
    ) -> Option<Verdict>;
}

/// This project's checks, as in `collspec run`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Collspec;

impl Checker for Collspec {
    fn name(&self) -> &'static str {
        "collspec"
    }

    fn judge(&self, plan: &Plan, forecast: &Forecast, observations: &[Observation]) -> Verdict {
        judge::judge_pass_or_fail(plan, forecast, observations, None)
    }

    fn judge_with_flaw(
        &self,
        plan: &Plan,
        forecast: &Forecast,
        observations: &[Observation],
        flaw: Flaw,
    ) -> Option<Verdict> {
        Some(judge::judge_pass_or_fail(plan, forecast, observations, Some(flaw)))
    }
}
