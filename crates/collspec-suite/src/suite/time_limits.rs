//! Time limits for a case and for what comes before and after it.
use super::Runner;
use collspec_core::scenario::{Case, ExpectedOutcome};
use collspec_run::child::patience::waiting_factor;
use collspec_run::run::Backend;
use std::sync::Arc;
use std::time::Duration;

/// Seconds for a case, once its inputs are loaded, on a machine with a core for each thread that wants one; so for the others.
const CASE: f64 = 30.0;
/// Seconds for a case that may hang, on the software library in several processes.
const SOFT_HANG: f64 = 2.0;
/// Seconds for creating communicators and loading, and for destroying them after a case; generous, since it does not depend on the case.
const OPENING: f64 = 60.0;
/// Factor for ranks that share a GPU: they take turns on it and communicate through the network transport.
const SHARED_GPU: f64 = 10.0;
/// Upper bound on every limit: a year, so that conversions to a `Duration` cannot fail.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);

/// The time limits of one run where they differ from the defaults.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RunLimits {
    /// Seconds for the case, instead of the limit in the file or the options.
    pub(super) case: Option<f64>,
    /// Upper bound on the case and on its opening, each; it caps the other limits.
    pub(super) most: Option<Duration>,
}

impl RunLimits {
    /// Limits the case to this many seconds, or to the default time.
    pub(super) fn of_case(case: Option<f64>) -> Self {
        Self { case, most: None }
    }

    /// The smaller of `limit` and the run's upper bound.
    pub(super) fn cut(&self, limit: Duration) -> Duration {
        self.most.map_or(limit, |most| limit.min(most))
    }
}

impl Runner {
    /// The time limit of the case in its actual placement.
    pub fn time_limit(&self, case: &Arc<Case>) -> Duration {
        let case = self.placed(case);
        self.case_limit(&case, self.worker_key(&case, false).env.len())
    }

    /// The time for creating communicators and loading, and again for destroying communicators.
    pub(super) fn opening_limit(&self) -> Duration {
        duration(self.options.opening_timeout.unwrap_or_else(|| OPENING * waiting_factor()))
    }

    /// The time for a case on a worker of this many processes: the file's limit, else the option's, else the default.
    pub(super) fn case_limit(&self, case: &Case, processes: usize) -> Duration {
        let file = case.timeout.as_ref().map(|timeout| timeout.value);
        duration(file.or(self.options.timeout).unwrap_or_else(|| self.default_limit(case, processes)))
    }

    fn default_limit(&self, case: &Case, processes: usize) -> f64 {
        if self.shares_gpus(case) {
            return CASE * SHARED_GPU * waiting_factor();
        }
        if processes > 1 && self.may_hang_in_software(case) { SOFT_HANG } else { CASE * waiting_factor() }
    }

    /// The time limit of a case that is moved into several processes. A limit written for a placement in which the hang
    /// is proved at once would otherwise be waited out in full.
    pub(super) fn limit_in_processes(&self, case: &Case, written: f64) -> f64 {
        if self.may_hang_in_software(case) { written.min(SOFT_HANG) } else { written }
    }

    /// True if the case may hang on the software library, which proves a hang at once, except across processes, where
    /// only the time limit reveals it.
    fn may_hang_in_software(&self, case: &Case) -> bool {
        self.chosen.backend == Backend::Soft
            && case.outcome.as_ref().is_some_and(|o| o.value.contains(&ExpectedOutcome::Hang))
    }
}

/// A number of seconds as a duration.
pub(super) fn duration(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(LONGEST).min(LONGEST)
}
