//! Judges the runs of a case one after the other; of the runs before, only the first and the last are kept.
use super::findings::{FindingCollector, Priority};
use super::flaw::{Eyes, Flaw};
use super::{Lane, Outcome, Verdict, answers, close, images, message, outcome, outputs, run_of, snapshot};
use crate::job::Observation;
use crate::oracle::contents::Memory;
use crate::oracle::{Fingerprint, Forecast};
use crate::plan::Plan;
use std::borrow::Cow;
use std::ops::Deref;
use std::sync::Arc;

/// An observation, borrowed from the caller or owned.
#[derive(Clone)]
pub(super) enum Held<'a> {
    Theirs(&'a Observation),
    Own(Arc<Observation>),
}

impl Deref for Held<'_> {
    type Target = Observation;

    fn deref(&self) -> &Observation {
        match self {
            Self::Theirs(seen) => seen,
            Self::Own(seen) => seen,
        }
    }
}

/// The state of the judgement after some runs.
pub struct Runs<'a> {
    plan: &'a Plan,
    forecast: &'a Forecast,
    collector: FindingCollector,
    fingerprint: Fingerprint,
    number: usize,
    seconds: f64,
    ending: Option<Outcome>,
    /// The run that all others are compared with.
    first: Option<Held<'a>>,
    /// The run judged last, and the memory expected at its end.
    last: Option<(Held<'a>, Cow<'a, [Memory]>)>,
}

impl<'a> Runs<'a> {
    /// For a case of which nothing has run.
    pub fn new(plan: &'a Plan, forecast: &'a Forecast) -> Self {
        Self::with(plan, forecast, FindingCollector::default())
    }

    pub(super) fn with(plan: &'a Plan, forecast: &'a Forecast, collector: FindingCollector) -> Self {
        Self {
            plan,
            forecast,
            collector,
            fingerprint: Fingerprint::default(),
            number: 0,
            seconds: 0.0,
            ending: None,
            first: None,
            last: None,
        }
    }

    /// Judges the next run. False if no further run can change the verdict.
    pub fn see(&mut self, seen: Observation) -> bool {
        self.look(Held::Own(Arc::new(seen)))
    }

    pub(super) fn look(&mut self, run: Held<'a>) -> bool {
        let plan = self.plan;
        self.number += 1;
        self.seconds += run.seconds;
        let ending = outcome::of(&run);
        if ending != Outcome::Ok {
            // This ending is the case's, and findings of earlier runs do not count.
            let Eyes(flaw) = self.collector.eyes;
            self.collector =
                if self.collector.bare { FindingCollector::bare(Eyes(flaw)) } else { FindingCollector::default() };
        }
        if (self.number == 1 || ending != Outcome::Ok) && self.collector.eyes.without(Flaw::NoEnding) {
            outcome::check(plan, &run, &mut self.collector);
        }
        self.ending = Some(ending);
        if ending != Outcome::Ok {
            return false;
        }
        if self.number == 1 || plan.undefined.is_none() {
            outcome::codes(plan, &run, &mut self.collector);
            answers::check(plan, &run, &mut self.collector);
        }
        if let Some(why) = &plan.undefined {
            self.collector.note(format!("data not judged: {why}"));
            return true;
        }
        let memory = run_of(plan, self.forecast, &run, &mut self.collector, &mut self.fingerprint);
        if let Some(first) = &self.first {
            images::repeats(plan, &memory, first, &run, self.number, &mut self.collector);
        }
        self.first.get_or_insert_with(|| run.clone());
        self.last = Some((run, memory));
        let runs = self.number.max(plan.case.repeat as usize);
        if !self.collector.clean() && runs > 1 {
            self.collector.note(format!("run {} of {runs} is the first that is wrong", self.number));
        }
        self.collector.clean()
    }

    /// The verdict. `complete`: as many runs as the file asks for were to be made.
    pub fn close(self, complete: bool) -> Verdict {
        let Self { plan, forecast, mut collector, fingerprint, number, seconds, ending, last, .. } = self;
        let case = &plan.case;
        if ending.is_none() {
            let text = "nothing was observed".to_owned();
            collector.find(Priority::default(), message::plain(Lane::Invariants, text, "a run".into(), "none".into()));
        }
        if ending != Some(Outcome::Ok) || plan.undefined.is_some() {
            return close(case, collector, ending, seconds);
        }
        if complete && case.repeat as usize > number && collector.clean() {
            let text = format!("{} runs were asked for, {number} were observed", case.repeat);
            collector.find(
                Priority::default(),
                message::plain(Lane::Invariants, text, case.repeat.to_string(), number.to_string()),
            );
        }
        let (mut outputs, mut text) = (None, None);
        if let Some((run, memory)) = last.filter(|_| !collector.bare) {
            outputs = outputs::list(plan, forecast, &memory, &run);
            text = snapshot::wanted(plan).then(|| snapshot::write(plan, forecast, &run, &collector));
        }
        let mut verdict = close(case, collector, ending, seconds);
        verdict.outputs = outputs;
        verdict.snapshot = text;
        verdict.fingerprint = fingerprint.tells().then_some(fingerprint);
        verdict
    }
}
