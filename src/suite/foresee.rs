//! What can be said of a case without running it.
use super::diagnostics;
use crate::judge;
use crate::oracle::Forecast;
use crate::plan::cost::human;
use crate::plan::{Foresight, Limits, Plan, Waiting, sentences};
use crate::run::memory::Turns;
use crate::scenario::{Case, Diagnostic};
use std::sync::Arc;

/// What is foreseen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Foreseen {
    /// It comes to its end.
    Completes,
    /// It finishes only if sends are buffered; who waits for whom.
    MayBlock(String),
    /// It cannot finish; who waits for whom.
    Stuck(String),
    /// It is refused, as its file expects.
    Refused,
    /// It can be planned, but this machine lacks the memory to work out the expected results.
    TooLarge(String),
}

/// Plans the case and works out what must come of it. `Err` is what makes that impossible, or a refusal that was expected
/// and does not come.
pub fn foresee(case: &Arc<Case>, limits: &Limits, turns: &Turns) -> Result<Foreseen, Vec<Diagnostic>> {
    let Some(plan) = diagnostics::plan(case, limits)? else { return Ok(Foreseen::Refused) };
    let Some(_turn) = turns.take(plan.cost.memory) else {
        let (needed, free) = (human(plan.cost.memory), human(turns.total()));
        return Ok(Foreseen::TooLarge(format!("it needs {needed} of memory, and this machine has {free} free")));
    };
    if let Err(diagnostics) = Forecast::new(&plan, diagnostics::SEED) {
        return diagnostics::unless_expected(case, diagnostics).map(|()| Foreseen::Refused);
    }
    if let Some(finding) = judge::missing_refusal(case).and_then(|verdict| verdict.findings.into_iter().next()) {
        return Err(vec![Diagnostic::new(finding.span.unwrap_or(case.span), finding.text)]);
    }
    Ok(match &plan.foresight {
        Foresight::Completes => Foreseen::Completes,
        Foresight::MayBlock(circle) => Foreseen::MayBlock(words(&plan, circle)),
        Foresight::Stuck(waiting) => Foreseen::Stuck(words(&plan, waiting)),
    })
}

/// Sentences in one line.
const TOLD: usize = 3;

fn words(plan: &Plan, waiting: &[Waiting]) -> String {
    let label = |w: &Waiting| plan.steps.get(w.step as usize).map_or(String::new(), |step| step.label.clone());
    let mut parts = sentences(waiting, label);
    if parts.len() > TOLD {
        let more = parts.len() - TOLD;
        parts.truncate(TOLD);
        parts.push(format!("and {more} more"));
    }
    parts.join("; ")
}
