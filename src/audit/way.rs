//! A way of checking: what is asked of a case, and how what was seen of it is judged.
use crate::job::Observation;
use crate::judge::{self, Flaw, Verdict};
use crate::oracle::Forecast;
use crate::plan::Plan;
use crate::scenario::Case;
use crate::suite::Ready;
use std::borrow::Cow;
use std::sync::Arc;

/// A way of checking. This project's own is [`Ours`]; the audit asks nothing else of one.
pub trait Way: Sync {
    /// Its name, as on the command line.
    fn name(&self) -> &'static str;

    /// The case as it is done this way, with other inputs for instance, before it is planned. `Err` says why this way has
    /// nothing like it; such a case is left out.
    fn case<'c>(&self, case: &'c Arc<Case>) -> Result<Cow<'c, Arc<Case>>, String> {
        Ok(Cow::Borrowed(case))
    }

    /// Cases that this way runs of its own accord, beside any corpus.
    fn own(&self) -> Vec<Arc<Case>> {
        Vec::new()
    }

    /// What a planned case holds before it runs, where the file does not say. `Err` as in [`Way::case`].
    fn dress(&self, _ready: &mut Ready) -> Result<(), String> {
        Ok(())
    }

    /// True if a sound run that fails is this way's own error, not the case's: such a case is left out.
    fn errs(&self) -> bool {
        false
    }

    /// The judgement on what was seen; whether it passes and which lane fails first is what counts. It need hold nothing
    /// that is only for people.
    fn judge(&self, plan: &Plan, forecast: &Forecast, seen: &[Observation]) -> Verdict;

    /// The judgement of this way's judge with a flaw; `None` if it has no judge that could have one.
    fn judge_with(&self, plan: &Plan, forecast: &Forecast, seen: &[Observation], flaw: Flaw) -> Option<Verdict>;
}

/// What `collspec run` does.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ours;

impl Way for Ours {
    fn name(&self) -> &'static str {
        "collspec"
    }

    fn judge(&self, plan: &Plan, forecast: &Forecast, seen: &[Observation]) -> Verdict {
        judge::judge_pass_or_fail(plan, forecast, seen, None)
    }

    fn judge_with(&self, plan: &Plan, forecast: &Forecast, seen: &[Observation], flaw: Flaw) -> Option<Verdict> {
        Some(judge::judge_pass_or_fail(plan, forecast, seen, Some(flaw)))
    }
}
