//! Receives a case's observations and turns them into a verdict; an audit keeps the observations too.
use super::runner::Ready;
use collspec_core::judge::{CaseJudge, Verdict};
use collspec_core::oracle::Forecast;
use collspec_core::plan::Plan;
use collspec_run::job::{Observation, Variation};
use collspec_run::run::Error;

/// A run of a case with a variation, another time limit, or another judge.
pub struct Experiment<'a> {
    /// What is different.
    pub variation: Variation,
    /// Time limit in seconds, counted from the end of loading; `None` for the default.
    pub limit: Option<f64>,
    /// The judge, which receives all runs at the end.
    pub judge: &'a (dyn Fn(&Plan, &Forecast, &[Observation]) -> Verdict + Sync),
}

/// Limit on the bytes of observations that are kept for judging all runs at once.
const MAX_OBSERVED_BYTES: u64 = 1 << 30;

/// Receives the runs of a case one by one.
pub(super) trait Observer {
    /// The result in addition to the verdict.
    type Rest;

    /// True if each run is judged by the forecast before the next one, so that expected results need not be copied.
    fn judges_at_once(&self) -> bool;

    /// Receives the next run. Returns false if no further run is wanted.
    fn observe(&mut self, observation: Observation) -> bool;

    /// Returns the verdict. `complete` is true if no run that the file asks for is missing.
    fn close(self, complete: bool) -> Result<(Verdict, Self::Rest), Error>;
}

impl Observer for CaseJudge<'_> {
    type Rest = ();

    fn judges_at_once(&self) -> bool {
        true
    }
    fn observe(&mut self, observation: Observation) -> bool {
        CaseJudge::judge_run(self, observation)
    }
    fn close(self, complete: bool) -> Result<(Verdict, ()), Error> {
        Ok((CaseJudge::into_verdict(self, complete), ()))
    }
}

/// Judges all runs at the end, and returns them.
pub(super) struct JudgeAtEnd<'a> {
    ready: &'a Ready,
    experiment: &'a Experiment<'a>,
    observations: Vec<Observation>,
    bytes: u64,
}

impl<'a> JudgeAtEnd<'a> {
    pub(super) fn new(ready: &'a Ready, experiment: &'a Experiment<'a>) -> Self {
        Self { ready, experiment, observations: Vec::new(), bytes: 0 }
    }
}

impl Observer for JudgeAtEnd<'_> {
    type Rest = Vec<Observation>;

    fn judges_at_once(&self) -> bool {
        false
    }
    fn observe(&mut self, observation: Observation) -> bool {
        self.bytes = self.bytes.saturating_add(observation.bytes());
        self.observations.push(observation);
        self.bytes <= MAX_OBSERVED_BYTES
    }
    fn close(self, _: bool) -> Result<(Verdict, Vec<Observation>), Error> {
        if self.bytes > MAX_OBSERVED_BYTES {
            return Err(Error::TooMuchSeen { runs: self.ready.plan.case.repeat, most: MAX_OBSERVED_BYTES });
        }
        Ok(((self.experiment.judge)(&self.ready.plan, &self.ready.forecast, &self.observations), self.observations))
    }
}
