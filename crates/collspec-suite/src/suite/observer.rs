//! Receives a case's observations and turns them into a verdict; an audit keeps the observations too.
use super::runner::Ready;
use collspec_core::judge::{CaseJudge, Verdict};
use collspec_core::oracle::Forecast;
use collspec_core::plan::Plan;
use collspec_run::job::{Disturbance, EarlyLoads, Job, Observation, StoreUnit};
use collspec_run::run::Error;
use soft_nccl::fault::FaultMode;

/// What is different in a run of a case.
#[derive(Clone, Copy, Debug, Default)]
pub struct Variation {
    /// The fault that the software library is given.
    pub fault: FaultMode,
    /// The seed of the order in which tasks and warps take turns; each repetition of the case has the next one.
    pub seed: Option<u64>,
    /// If the seed also delays the stores of kernels, the part of a store that others see at once.
    pub delay_stores: Option<StoreUnit>,
    /// If the seed also decides the moments at which kernels' loads see memory, the loads for which it does.
    pub early_loads: Option<EarlyLoads>,
    /// What happens to the machine; on software GPUs only.
    pub disturbance: Option<Disturbance>,
}

impl Variation {
    /// Makes a job one of this variation.
    pub(super) fn apply_to(self, job: &mut Job) {
        job.fault = self.fault.to_string();
        job.seed = self.seed;
        job.delay_stores = self.delay_stores;
        job.early_loads = self.early_loads;
        job.disturbance = self.disturbance;
    }
}

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
