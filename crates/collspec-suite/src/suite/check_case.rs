//! Checks a case without running it.
use super::invalid_files;
use super::kept_plans::KeptPlans;
use collspec_core::judge;
use collspec_core::oracle::Forecast;
use collspec_core::plan::cost::human;
use collspec_core::plan::{Foresight, Limits, Plan, Waiting, sentences};
use collspec_core::scenario::{Case, Diagnostic};
use collspec_run::run::memory::Turns;
use std::sync::Arc;

/// The result of checking a valid case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckResult {
    /// The case finishes.
    Completes,
    /// The case finishes only if sends are buffered; the text says who waits for whom.
    MayBlock(String),
    /// The case cannot finish; the text says who waits for whom.
    Stuck(String),
    /// The ending is undefined, and the file declares that; the text says why.
    Undefined(String),
    /// The case is refused, as its file expects.
    Refused,
    /// The case can be planned, but this machine lacks the memory to compute the expected results.
    TooLarge(String),
}

/// Plans the case and computes its expected results.
///
/// # Errors
///
/// The diagnostics of a case that cannot run as written, or of one that can although its file expects a refusal.
pub fn check_case(
    plans: &KeptPlans,
    case: &Arc<Case>,
    limits: &Limits,
    turns: &Turns,
) -> Result<CheckResult, Vec<Diagnostic>> {
    let Some(plan) = invalid_files::plan(plans, case, limits)? else { return Ok(CheckResult::Refused) };
    let Some(_turn) = turns.take(plan.cost.memory) else {
        let (needed, free) = (human(plan.cost.memory), human(turns.total()));
        return Ok(CheckResult::TooLarge(format!("it needs {needed} of memory, and this machine has {free} free")));
    };
    let history =
        plan.history.as_ref().map_or(Ok(()), |history| Forecast::new(history, invalid_files::SEED).map(|_| ()));
    if let Err(diagnostics) = history.and_then(|()| Forecast::new(&plan, invalid_files::SEED)) {
        return invalid_files::unless_expected(case, diagnostics).map(|()| CheckResult::Refused);
    }
    if let Some(finding) = judge::missing_refusal(case).and_then(|verdict| verdict.findings.into_iter().next()) {
        let diagnostic = Diagnostic::new(finding.span.unwrap_or(case.span), finding.text);
        return Err(vec![Diagnostic { help: finding.advice, ..diagnostic }]);
    }
    Ok(CheckResult::of_plan(&plan))
}

impl CheckResult {
    /// The ending that the plan predicts. Whether a case is refused may also depend on its results.
    pub fn of_plan(plan: &Plan) -> Self {
        match &plan.foresight {
            Foresight::Completes => plan.undefined.clone().map_or(Self::Completes, Self::Undefined),
            Foresight::MayBlock(circle) => Self::MayBlock(waiting_text(plan, circle)),
            Foresight::Stuck(waiting) => Self::Stuck(waiting_text(plan, waiting)),
        }
    }
}

/// Number of sentences shown.
const SHOWN: usize = 3;

fn waiting_text(plan: &Plan, waiting: &[Waiting]) -> String {
    let label = |w: &Waiting| plan.steps.get(w.step as usize).map_or(String::new(), |step| step.label.clone());
    let mut parts = sentences(waiting, label);
    if parts.len() > SHOWN {
        let more = parts.len() - SHOWN;
        parts.truncate(SHOWN);
        parts.push(format!("and {more} more"));
    }
    parts.join("; ")
}
