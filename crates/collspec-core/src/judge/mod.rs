//! The verdict on a case: compares its observations with the forecast, the invariants, `expect`, `assert` and `outcome`.
//!
//! Each step is judged from inputs that are known, or were observed and already judged, and not against one expected buffer:
//! reductions of floats have several right results, and results that are used again would multiply them.
mod assert;
mod assert_text;
mod buffer_contents;
mod call_algorithms;
mod case_fault;
mod changes;
mod consequences;
mod deaths;
mod expect;
mod findings;
mod fitting_words;
mod images;
mod indices;
mod lanes;
mod merge;
pub mod message;
mod observed_results;
mod order_maps;
mod outcome;
mod outputs;
mod pattern;
mod queries;
mod runs;
mod shown_buffers;
mod snapshot;
mod tolerance;
mod used_operations;
pub mod verdict;
mod waiting;
mod windows;

#[cfg(any(test, feature = "fixture"))]
pub mod test_case;
#[cfg(test)]
mod tests;

pub use buffer_contents::{BufferContents, BufferRow, BufferRows, RowElements, ShownElement};
pub use images::final_image;
pub use observed_results::{BufferHashes, CallError, ContentHash, ObservedResults};
pub use runs::{CaseJudge, Details, ShowBuffers};
pub use used_operations::{UsedOperation, operation_of};
pub use verdict::*;

use crate::job::Observation;
use crate::oracle::memory::Memory;
use crate::oracle::{Budget, Fingerprint, Forecast};
use crate::plan::Plan;
use crate::scenario::{Case, Diagnostic, ExpectedOutcome};
use findings::{FindingCollector, Priority};
use runs::ObservationRef;
use std::borrow::Cow;

/// The verdict on a case, from one observation per run.
pub fn judge(plan: &Plan, forecast: &Forecast, observations: &[Observation]) -> Verdict {
    judge_case(plan, forecast, observations, FindingCollector::default())
}

/// The verdict without outputs, fingerprint, snapshot and patterns.
pub fn judge_pass_or_fail(plan: &Plan, forecast: &Forecast, observations: &[Observation]) -> Verdict {
    judge_case(plan, forecast, observations, FindingCollector::pass_or_fail_only())
}

fn judge_case(plan: &Plan, forecast: &Forecast, observations: &[Observation], collector: FindingCollector) -> Verdict {
    let mut runs = CaseJudge::with_collector(plan, forecast, collector);
    let _ = observations.iter().all(|run| runs.judge_run_ref(ObservationRef::Borrowed(run)));
    runs.into_verdict(true)
}

/// Judges the data of one run. Returns the expected memory at its end, given what the observation determines.
fn judge_run_data<'a>(
    plan: &Plan,
    forecast: &'a Forecast,
    observation: &Observation,
    collector: &mut FindingCollector,
    fingerprint: Option<&mut Fingerprint>,
    mut order_maps: Option<&mut order_maps::OrderMaps>,
) -> Cow<'a, [Memory]> {
    let memory = if forecast.needs_observation {
        let mut interpreter = forecast.new_interpreter(plan);
        let budget = Budget::default();
        let mut budget = if fingerprint.is_some() { budget } else { budget.without_samples() };
        let mut judge = lanes::ResultJudge {
            plan,
            forecast,
            observation,
            collector: &mut *collector,
            budget: &mut budget,
            message_budget: &mut Budget::default(),
            fingerprint,
            order_maps: order_maps.as_deref_mut(),
            patterns: pattern::Patterns::new(plan, forecast, observation),
            readers: changes::Readers::new(plan),
            first: None,
        };
        interpreter.run(0..plan.events.len(), &mut judge);
        if let Some(maps) = order_maps {
            call_algorithms::check(plan, maps, collector);
        }
        Cow::Owned(interpreter.memory)
    } else {
        Cow::Borrowed(forecast.final_memory.as_slice())
    };
    images::compare(plan, forecast, &memory, observation, collector);
    expect::check(plan, forecast, &memory, observation, collector);
    assert::check(plan, forecast, &memory, observation, collector);
    if !collector.is_empty() && !collector.pass_or_fail_only {
        consequences::fold(plan, forecast, observation, collector);
        changes::name_later_readers(plan, forecast, collector);
    }
    memory
}

/// The verdict on a case that the plan or the forecast refused: a pass if the file expects the refusal.
pub fn judge_refusal(case: &Case, diagnostics: &[Diagnostic]) -> Verdict {
    let mut collector = FindingCollector::default();
    collector.count_checked(Lane::Expected, 1);
    let first = diagnostics.first().map_or("refused without a reason", |d| d.message.as_str());
    let expected = case.outcome.as_ref().is_some_and(|o| o.value.contains(&ExpectedOutcome::Refused));
    let said = |text: &str| {
        diagnostics.iter().any(|d| {
            d.message.contains(text)
                || d.label.contains(text)
                || d.help.as_ref().is_some_and(|help| help.contains(text))
        })
    };
    if !expected {
        for diagnostic in diagnostics.iter().take(16) {
            let text = diagnostic.message.clone();
            let mut finding = message::about(Subject::Refusal, text, "ok".into(), "refused".into());
            finding.span = Some(diagnostic.span);
            collector.add(Priority::Ending, finding);
        }
        if diagnostics.is_empty() {
            collector
                .add(Priority::Ending, message::about(Subject::Refusal, first.into(), "ok".into(), "refused".into()));
        }
    } else if let Some(reason) = case.reason.as_ref().filter(|r| !said(&r.value)) {
        let text = format!("refused, but the reason does not contain \"{}\": {first}", reason.value);
        let mut finding = message::about(Subject::Ending, text, reason.value.clone(), first.into());
        finding.span = Some(reason.span);
        finding.advice = fitting_words::reason(first);
        collector.add(Priority::Ending, finding);
    }
    finish_verdict(case, collector, Some(Outcome::Refused), 0.0)
}

/// The verdict on a planned case for which the file admits only a refusal; `None` for other cases.
pub fn missing_refusal(case: &Case) -> Option<Verdict> {
    let outcome = case
        .outcome
        .as_ref()
        .filter(|o| o.value.iter().all(|e| *e == ExpectedOutcome::Refused) && !o.value.is_empty())?;
    let mut collector = FindingCollector::default();
    collector.count_checked(Lane::Expected, 1);
    let text = "the file expects a refusal, but the case is valid".to_owned();
    let mut finding = message::about(Subject::Ending, text, "refused".into(), "planned".into());
    finding.span = Some(outcome.span);
    finding.advice = Some("if it is to run, leave out `outcome`".into());
    collector.add(Priority::Ending, finding);
    Some(finish_verdict(case, collector, None, 0.0))
}

/// Adds a failure of destroying the case's communicators to the verdict on its program.
pub fn fail_at_teardown(verdict: &mut Verdict, outcome: Outcome, rank: Option<usize>, text: String) {
    if verdict.status != Status::Pass {
        verdict.notes.push(text);
        return;
    }
    let mut collector = FindingCollector::default();
    collector.count_checked(Lane::Expected, 1);
    let mut finding = message::about(Subject::Ending, text.clone(), "ok".into(), text);
    finding.rank = rank;
    collector.add(Priority::Ending, finding);
    let (lanes, findings, _) = collector.finish();
    verdict.lanes.retain(|lane| lane.lane != Lane::Expected);
    verdict.lanes.extend(lanes);
    verdict.lanes.sort_by_key(|lane| lane.lane);
    verdict.status = Status::Fail;
    verdict.outcome = Some(outcome);
    verdict.reason = findings.first().map(Finding::in_one_line);
    verdict.findings = findings;
    verdict.snapshot = None;
}

/// The verdict on a case that was not run.
pub fn skipped(case: &Case, reason: impl Into<String>) -> Verdict {
    let mut verdict = finish_verdict(case, FindingCollector::default(), None, 0.0);
    verdict.status = Status::Skip;
    verdict.reason = Some(reason.into());
    verdict
}

fn finish_verdict(case: &Case, collector: FindingCollector, outcome: Option<Outcome>, seconds: f64) -> Verdict {
    let (lanes, findings, notes) = collector.finish();
    let pass = findings.is_empty() && lanes.iter().all(|l| l.pass);
    Verdict {
        case: case.name.clone(),
        status: if pass { Status::Pass } else { Status::Fail },
        outcome,
        reason: findings.first().map(Finding::in_one_line),
        seconds,
        wall_seconds: 0.0,
        lanes,
        findings,
        fingerprint: None,
        order_maps: Vec::new(),
        outputs: None,
        snapshot: None,
        buffers: None,
        observed: None,
        not_looked_at: None,
        used: Vec::new(),
        fault_struck: Some(false),
        notes,
    }
}
