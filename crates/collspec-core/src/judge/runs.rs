//! Judges the runs of a case one after the other; only the first and the last observation are kept.
use super::findings::{FindingCollector, Priority};
use super::order_maps::OrderMaps;
use super::shown_buffers::ShownBuffers;
use super::used_operations::used_operations;
use super::{
    Lane, Outcome, Status, Verdict, call_algorithms, case_fault, deaths, finish_verdict, images, judge_run_data,
    message, observed_results, outcome, outputs, queries, skipped, snapshot, windows,
};
use crate::job::Observation;
use crate::oracle::memory::Memory;
use crate::oracle::{Fingerprint, Forecast};
use crate::plan::Plan;
use std::borrow::Cow;
use std::ops::Deref;
use std::sync::Arc;

/// An observation, borrowed from the caller or owned.
#[derive(Clone)]
pub(super) enum ObservationRef<'a> {
    Borrowed(&'a Observation),
    Shared(Arc<Observation>),
}

impl Deref for ObservationRef<'_> {
    type Target = Observation;

    fn deref(&self) -> &Observation {
        match self {
            Self::Borrowed(observation) => observation,
            Self::Shared(observation) => observation,
        }
    }
}

/// The cases whose verdicts include buffer contents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ShowBuffers {
    /// No case.
    #[default]
    Never,
    /// Cases that fail.
    OfFailures,
    /// Every case.
    Always,
}

/// Optional parts of a verdict, in addition to checks and findings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Details {
    /// No optional parts.
    None,
    /// Outputs, and the fingerprint.
    Fingerprint,
    /// Outputs, the fingerprint, and the order maps.
    #[default]
    OrderMaps,
}

/// Judges the runs of one case.
pub struct CaseJudge<'a> {
    plan: &'a Plan,
    forecast: &'a Forecast,
    collector: FindingCollector,
    fingerprint: Fingerprint,
    /// The order maps of the first run, if they are wanted or prove which algorithm ran.
    order_maps: Option<OrderMaps>,
    details: Details,
    runs_judged: usize,
    seconds: f64,
    outcome: Option<Outcome>,
    /// The condition for buffer contents in the verdict.
    show_buffers: ShowBuffers,
    /// True if the verdict includes the last run's results.
    keep_results: bool,
    /// As in the verdict.
    fault_struck: Option<bool>,
    /// The reason the case cannot run here, if a run has revealed one.
    skipped: Option<String>,
    /// A run that did not end well.
    broken: Option<ObservationRef<'a>>,
    /// The first run, with which all others are compared.
    first: Option<ObservationRef<'a>>,
    /// The run judged last, and the memory expected at its end.
    last: Option<(ObservationRef<'a>, Cow<'a, [Memory]>)>,
}

impl<'a> CaseJudge<'a> {
    /// A judge for a case that has not judged any run yet.
    pub fn new(plan: &'a Plan, forecast: &'a Forecast) -> Self {
        Self::with_collector(plan, forecast, FindingCollector::default())
    }

    pub(super) fn with_collector(plan: &'a Plan, forecast: &'a Forecast, collector: FindingCollector) -> Self {
        let details = if collector.pass_or_fail_only { Details::None } else { Details::Fingerprint };
        Self {
            plan,
            forecast,
            collector,
            fingerprint: Fingerprint::default(),
            order_maps: call_algorithms::is_asked_for(plan).then(OrderMaps::default),
            details,
            runs_judged: 0,
            seconds: 0.0,
            outcome: None,
            show_buffers: ShowBuffers::Never,
            keep_results: false,
            fault_struck: Some(false),
            skipped: None,
            broken: None,
            first: None,
            last: None,
        }
    }

    /// Sets the condition for buffer contents in the verdict.
    pub fn showing_buffers(self, show_buffers: ShowBuffers) -> Self {
        Self { show_buffers, ..self }
    }

    /// Sets if the verdict includes the last run's results.
    pub fn keeping_results(self, keep_results: bool) -> Self {
        Self { keep_results, ..self }
    }

    /// Sets the optional parts of the verdict.
    pub fn with_details(self, details: Details) -> Self {
        let order_maps = self.order_maps.or_else(|| (details == Details::OrderMaps).then(OrderMaps::default));
        Self { order_maps, details, ..self }
    }

    /// Judges the next run. Returns false if no further run can change the verdict.
    pub fn judge_run(&mut self, observation: Observation) -> bool {
        self.judge_run_ref(ObservationRef::Shared(Arc::new(observation)))
    }

    pub(super) fn judge_run_ref(&mut self, run: ObservationRef<'a>) -> bool {
        let plan = self.plan;
        self.runs_judged += 1;
        self.seconds += run.seconds;
        if self.fault_struck != Some(true) {
            let struck = run.reached.as_ref().map(|reached| reached.iter().any(|word| *word != 0));
            self.fault_struck = struck.filter(|struck| *struck || self.fault_struck.is_some());
        }
        let ending = outcome::outcome_of(&run);
        if ending != Outcome::Ok {
            // This ending becomes the case's, and findings of earlier runs do not count.
            self.collector = self.collector.emptied();
        }
        if self.runs_judged == 1 || ending != Outcome::Ok {
            outcome::check(plan, &run, &mut self.collector);
            case_fault::check(plan, &run, &mut self.collector);
        }
        self.outcome = Some(ending);
        if ending != Outcome::Ok {
            self.skipped = windows::missing(plan, &run);
            self.broken = Some(run);
            return false;
        }
        if self.runs_judged == 1 || plan.undefined.is_none() {
            outcome::check_codes(plan, &run, &mut self.collector);
            deaths::check(plan, &run, &mut self.collector);
            queries::check(plan, &run, &mut self.collector);
            windows::check(plan, &run, &mut self.collector);
            self.skipped = windows::unseen(plan, &run);
        }
        if let Some(why) = &plan.undefined {
            self.collector.note(format!("data not judged: {why}"));
            return true;
        }
        if let Some(not_looked_at) = &self.forecast.not_looked_at {
            self.collector.note(not_looked_at.to_string());
        }
        let order_maps = self.order_maps.as_mut().filter(|_| self.runs_judged == 1);
        let fingerprint = (self.details >= Details::Fingerprint).then_some(&mut self.fingerprint);
        let memory = judge_run_data(plan, self.forecast, &run, &mut self.collector, fingerprint, order_maps);
        if let Some(first) = &self.first {
            images::compare_runs(plan, self.forecast, &memory, first, &run, self.runs_judged, &mut self.collector);
        }
        self.first.get_or_insert_with(|| run.clone());
        self.last = Some((run, memory));
        let runs = self.runs_judged.max(plan.case.repeat as usize);
        if !self.collector.is_empty() && runs > 1 {
            self.collector.note(format!("run {} of {runs} is the first that is wrong", self.runs_judged));
        }
        self.collector.is_empty()
    }

    /// The verdict. With `complete`, fewer runs than the file asks for are a finding.
    pub fn into_verdict(self, complete: bool) -> Verdict {
        let Self {
            plan,
            forecast,
            mut collector,
            fingerprint,
            order_maps,
            details,
            runs_judged: number,
            seconds,
            outcome: ending,
            show_buffers,
            keep_results,
            fault_struck,
            broken,
            last,
            skipped: why,
            ..
        } = self;
        let case = &plan.case;
        if let Some(why) = why.filter(|_| ending != Some(Outcome::Ok) || collector.is_empty()) {
            return skipped(case, why);
        }
        let may_fail = !collector.is_empty() || ending != Some(Outcome::Ok);
        let wanted = show_buffers == ShowBuffers::Always || (show_buffers == ShowBuffers::OfFailures && may_fail);
        let shown = wanted.then(|| {
            let run = broken.as_ref().or(last.as_ref().map(|(run, _)| run)).map(|run| &**run);
            let memory = last.as_ref().filter(|_| broken.is_none()).map(|(_, memory)| &**memory);
            ShownBuffers { plan, forecast, run, memory, collector: &collector }.contents()
        });
        let observed = || {
            let ended_well = broken.is_none() && plan.undefined.is_none();
            let run = broken.as_ref().or(last.as_ref().map(|(run, _)| run))?;
            Some(Box::new(observed_results::observed_results(plan, forecast, run, ended_well)))
        };
        let observed = if keep_results { observed() } else { None };
        let used = if collector.pass_or_fail_only { Vec::new() } else { used_operations(plan) };
        if ending.is_none() {
            let text = "nothing was observed".to_owned();
            collector
                .add(Priority::Ending, message::without_element(Lane::Invariants, text, "a run".into(), "none".into()));
        }
        if ending != Some(Outcome::Ok) || plan.undefined.is_some() {
            let verdict = finish_verdict(case, collector, ending, seconds);
            return Verdict { buffers: shown, observed, used, fault_struck, ..verdict };
        }
        if complete && case.repeat as usize > number && collector.is_empty() {
            let text = format!("{} runs were asked for, {number} were observed", case.repeat);
            collector.add(
                Priority::Ending,
                message::without_element(Lane::Invariants, text, case.repeat.to_string(), number.to_string()),
            );
        }
        let (mut outputs, mut text) = (None, None);
        if let Some((run, memory)) = last.filter(|_| !collector.pass_or_fail_only) {
            let shown = details >= Details::Fingerprint;
            outputs = shown.then(|| outputs::json_outputs(plan, forecast, &memory, &run)).flatten();
            text = snapshot::has_snapshot(plan).then(|| snapshot::render(plan, forecast, &run, &collector));
        }
        let mut verdict = finish_verdict(case, collector, ending, seconds);
        verdict.outputs = outputs;
        verdict.snapshot = text;
        verdict.buffers = shown;
        verdict.not_looked_at = forecast.not_looked_at.clone();
        verdict.observed = observed;
        verdict.used = used;
        verdict.fault_struck = fault_struck;
        if verdict.status == Status::Pass {
            verdict.order_maps =
                order_maps.filter(|_| details == Details::OrderMaps).map(OrderMaps::into_maps).unwrap_or_default();
        }
        verdict.fingerprint = Some(fingerprint).filter(|print| details >= Details::Fingerprint && print.tells());
        verdict
    }
}
