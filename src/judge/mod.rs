//! Observation against answers, invariants, `expect`, `assert` and snapshot text: the verdict.
mod answers;
mod assert;
mod expect;
mod findings;
pub mod flaw;
mod images;
mod lanes;
pub mod message;
mod outcome;
mod outputs;
mod pattern;
mod runs;
mod snapshot;
pub mod verdict;

#[cfg(test)]
pub(crate) mod tests;

pub use flaw::Flaw;
pub use runs::Runs;
pub use verdict::*;

use crate::job::Observation;
use crate::oracle::contents::Memory;
use crate::oracle::{Budget, Fingerprint, Forecast};
use crate::plan::Plan;
use crate::scenario::{Case, Diagnostic, Expected};
use findings::{FindingCollector, Priority};
use flaw::Eyes;
use runs::Held;
use std::borrow::Cow;

/// The verdict on a case from what was seen of it: one observation per run.
#[cfg(any(test, feature = "internals"))]
pub fn judge(plan: &Plan, forecast: &Forecast, seen: &[Observation]) -> Verdict {
    look(plan, forecast, seen, FindingCollector::default())
}

/// The verdict without what is only for people (outputs, snapshot, patterns), by a judge with this flaw, if any.
pub fn judge_bare(plan: &Plan, forecast: &Forecast, seen: &[Observation], flaw: Option<Flaw>) -> Verdict {
    look(plan, forecast, seen, FindingCollector::bare(Eyes(flaw)))
}

fn look(plan: &Plan, forecast: &Forecast, seen: &[Observation], collector: FindingCollector) -> Verdict {
    let mut runs = Runs::with(plan, forecast, collector);
    let _ = seen.iter().all(|run| runs.look(Held::Theirs(run)));
    runs.close(true)
}

/// Judges the data of one run; gives what must be there at the end, as far as that is known now.
fn run_of<'a>(
    plan: &Plan,
    forecast: &'a Forecast,
    seen: &Observation,
    collector: &mut FindingCollector,
    fingerprint: &mut Fingerprint,
) -> Cow<'a, [Memory]> {
    let memory = if forecast.observed {
        let mut walk = forecast.again(plan);
        let mut budget = Budget::default();
        let mut judge = lanes::Judge {
            plan,
            forecast,
            seen,
            collector: &mut *collector,
            budget: &mut budget,
            fingerprint,
            first: None,
        };
        walk.run(0..plan.events.len(), &mut judge);
        Cow::Owned(walk.memory)
    } else {
        Cow::Borrowed(forecast.last.as_slice())
    };
    images::compare(plan, forecast, &memory, seen, collector);
    expect::check(plan, forecast, &memory, seen, collector);
    assert::check(plan, &memory, seen, collector);
    memory
}

/// The verdict on a case that `plan` or the forecast refused: right if the file says so.
pub fn refused(case: &Case, diagnostics: &[Diagnostic]) -> Verdict {
    let mut collector = FindingCollector::default();
    collector.looked(Lane::Expected, 1);
    let first = diagnostics.first().map_or("refused without a reason", |d| d.message.as_str());
    let expected = case.outcome.as_ref().is_some_and(|o| o.v.contains(&Expected::Refused));
    let said = |text: &str| {
        diagnostics.iter().any(|d| {
            d.message.contains(text)
                || d.label.contains(text)
                || d.help.as_ref().is_some_and(|help| help.contains(text))
        })
    };
    if !expected {
        for diagnostic in diagnostics.iter().take(16) {
            let mut finding = message::plain(Lane::Expected, diagnostic.message.clone(), "ok".into(), "refused".into());
            finding.span = Some(diagnostic.span);
            collector.find(Priority::default(), finding);
        }
        if diagnostics.is_empty() {
            collector
                .find(Priority::default(), message::plain(Lane::Expected, first.into(), "ok".into(), "refused".into()));
        }
    } else if let Some(reason) = case.reason.as_ref().filter(|r| !said(&r.v)) {
        let text = format!("refused, but not because of \"{}\": {first}", reason.v);
        let mut finding = message::plain(Lane::Expected, text, reason.v.clone(), first.into());
        finding.span = Some(reason.span);
        collector.find(Priority::default(), finding);
    }
    close(case, collector, Some(Outcome::Refused), 0.0)
}

/// If nothing but a refusal is admissible: the verdict on a case that could be planned all the same.
pub fn not_refused(case: &Case) -> Option<Verdict> {
    let outcome = case.outcome.as_ref().filter(|o| o.v.iter().all(|e| *e == Expected::Refused) && !o.v.is_empty())?;
    let mut collector = FindingCollector::default();
    collector.looked(Lane::Expected, 1);
    let text = "it must be refused, but nothing is wrong with it".to_owned();
    let mut finding = message::plain(Lane::Expected, text, "refused".into(), "planned".into());
    finding.span = Some(outcome.span);
    collector.find(Priority::default(), finding);
    Some(close(case, collector, None, 0.0))
}

/// What happened when the communicators of a case were destroyed, after its program: a case that had passed has failed.
pub fn ended_badly(verdict: &mut Verdict, outcome: Outcome, rank: Option<usize>, text: String) {
    if verdict.status != Status::Pass {
        verdict.notes.push(text);
        return;
    }
    let mut collector = FindingCollector::default();
    collector.looked(Lane::Expected, 1);
    let mut finding = message::plain(Lane::Expected, text.clone(), "ok".into(), text);
    finding.rank = rank;
    collector.find(Priority::default(), finding);
    let (lanes, findings, _) = collector.close();
    verdict.lanes.retain(|lane| lane.lane != Lane::Expected);
    verdict.lanes.extend(lanes);
    verdict.lanes.sort_by_key(|lane| lane.lane);
    verdict.status = Status::Fail;
    verdict.outcome = Some(outcome);
    verdict.reason = findings.first().map(|f| f.text.clone());
    verdict.findings = findings;
    verdict.snapshot = None;
}

/// The verdict on a case that was not run.
pub fn skipped(case: &Case, reason: impl Into<String>) -> Verdict {
    let mut verdict = close(case, FindingCollector::default(), None, 0.0);
    verdict.status = Status::Skip;
    verdict.reason = Some(reason.into());
    verdict
}

fn close(case: &Case, collector: FindingCollector, outcome: Option<Outcome>, seconds: f64) -> Verdict {
    let (lanes, findings, notes) = collector.close();
    let pass = findings.is_empty() && lanes.iter().all(|l| l.pass);
    Verdict {
        case: case.name.clone(),
        status: if pass { Status::Pass } else { Status::Fail },
        outcome,
        reason: findings.first().map(|f| f.text.clone()),
        seconds,
        lanes,
        findings,
        fingerprint: None,
        outputs: None,
        snapshot: None,
        notes,
    }
}
