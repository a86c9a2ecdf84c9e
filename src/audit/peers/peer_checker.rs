//! A public test suite as a [`Checker`].
use super::{Peer, PeerCheck};
use crate::audit::Checker;
use crate::job::{Ended, Observation};
use crate::judge::{self, Flaw, Outcome, Status, Verdict};
use crate::oracle::Forecast;
use crate::oracle::contents::Contents;
use crate::plan::Plan;
use crate::scenario::Case;
use crate::suite::Ready;
use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// Number of checks that are cached: the runs of a case with its faults follow each other.
const MAX_CACHED_CHECKS: usize = 16;

/// A public test suite as a [`Checker`].
pub struct PeerChecker {
    peer: Peer,
    extra_cases: Vec<Arc<Case>>,
    /// Checks by name of the case, newest last.
    checks: Mutex<VecDeque<(String, Arc<PeerCheck>)>>,
}

impl PeerChecker {
    /// The checker for a suite.
    ///
    /// # Errors
    ///
    /// See [`Peer::own_cases`].
    pub fn new(peer: Peer) -> Result<Self, super::NotRunnable> {
        let own = peer.own_cases()?.into_iter().map(Arc::new).collect();
        Ok(Self { peer, extra_cases: own, checks: Mutex::default() })
    }

    fn cache_check(&self, plan: &Plan, check: PeerCheck) -> Arc<PeerCheck> {
        let check = Arc::new(check);
        let mut checks = self.checks.lock().unwrap_or_else(PoisonError::into_inner);
        checks.retain(|(name, _)| *name != plan.case.name);
        checks.push_back((plan.case.name.clone(), check.clone()));
        if checks.len() > MAX_CACHED_CHECKS {
            checks.pop_front();
        }
        check
    }

    fn check_for(&self, plan: &Plan) -> Arc<PeerCheck> {
        let kept = {
            let checks = self.checks.lock().unwrap_or_else(PoisonError::into_inner);
            checks.iter().find(|(name, _)| *name == plan.case.name).map(|(_, check)| check.clone())
        };
        kept.unwrap_or_else(|| self.cache_check(plan, PeerCheck::new(self.peer, plan).0))
    }
}

impl Checker for PeerChecker {
    fn name(&self) -> &'static str {
        self.peer.name()
    }

    fn adapt_case<'c>(&self, case: &'c Arc<Case>) -> Result<Cow<'c, Arc<Case>>, String> {
        if self.extra_cases.iter().any(|own| Arc::ptr_eq(own, case)) {
            return Ok(Cow::Borrowed(case));
        }
        self.peer.adapt_case(case).map(|own| Cow::Owned(Arc::new(own))).map_err(|refused| refused.to_string())
    }

    fn extra_cases(&self) -> Vec<Arc<Case>> {
        self.extra_cases.clone()
    }

    fn prepare_inputs(&self, ready: &mut Ready) -> Result<(), String> {
        let (check, images) = PeerCheck::new(self.peer, &ready.plan);
        ready.forecast.initial = images.into_iter().map(Contents::from).collect();
        // copies on the way are for this project's own judge
        ready.forecast.checkpoints.clear();
        self.cache_check(&ready.plan, check);
        Ok(())
    }

    fn may_misjudge(&self) -> bool {
        true
    }

    fn judge(&self, plan: &Plan, _: &Forecast, observations: &[Observation]) -> Verdict {
        let objection = self.check_for(plan).objection(plan, observations);
        let bad = observations.iter().find(|run| run.ended != Ended::Done).or(observations.last());
        let mut verdict = judge::skipped(&plan.case, "");
        verdict.status = if objection.is_some() { Status::Fail } else { Status::Pass };
        verdict.outcome = bad.map(|run| match run.ended {
            Ended::Done => Outcome::Ok,
            Ended::Errored => Outcome::Error,
            Ended::Hung { .. } => Outcome::Hang,
            Ended::Crashed { .. } => Outcome::Crash,
        });
        verdict.reason = objection;
        verdict.seconds = observations.iter().map(|run| run.seconds).sum();
        verdict
    }

    fn judge_with_flaw(&self, _: &Plan, _: &Forecast, _: &[Observation], _: Flaw) -> Option<Verdict> {
        None
    }
}
