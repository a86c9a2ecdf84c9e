//! A suite as a way of checking.
use super::{Peer, PeerCheck};
use crate::audit::Way;
use crate::job::{Ended, Observation};
use crate::judge::{self, Flaw, Outcome, Status, Verdict};
use crate::oracle::Forecast;
use crate::plan::Plan;
use crate::scenario::Case;
use crate::suite::Ready;
use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// Expectations that are kept: a case's runs under its faults follow each other.
const KEPT: usize = 16;

/// A suite as a way of checking.
pub struct As {
    peer: Peer,
    own: Vec<Arc<Case>>,
    /// By case, newest last.
    exams: Mutex<VecDeque<(String, Arc<PeerCheck>)>>,
}

impl As {
    /// As this suite does it.
    ///
    /// # Errors
    ///
    /// See [`Peer::sweep`].
    pub fn new(peer: Peer) -> Result<Self, super::Refused> {
        let own = peer.sweep()?.into_iter().map(Arc::new).collect();
        Ok(Self { peer, own, exams: Mutex::default() })
    }

    fn keep(&self, plan: &Plan, exam: PeerCheck) -> Arc<PeerCheck> {
        let exam = Arc::new(exam);
        let mut exams = self.exams.lock().unwrap_or_else(PoisonError::into_inner);
        exams.retain(|(name, _)| *name != plan.case.name);
        exams.push_back((plan.case.name.clone(), exam.clone()));
        if exams.len() > KEPT {
            exams.pop_front();
        }
        exam
    }

    fn exam(&self, plan: &Plan) -> Arc<PeerCheck> {
        let kept = {
            let exams = self.exams.lock().unwrap_or_else(PoisonError::into_inner);
            exams.iter().find(|(name, _)| *name == plan.case.name).map(|(_, exam)| exam.clone())
        };
        kept.unwrap_or_else(|| self.keep(plan, PeerCheck::new(self.peer, plan).0))
    }
}

impl Way for As {
    fn name(&self) -> &'static str {
        self.peer.name()
    }

    fn case<'c>(&self, case: &'c Arc<Case>) -> Result<Cow<'c, Arc<Case>>, String> {
        if self.own.iter().any(|own| Arc::ptr_eq(own, case)) {
            return Ok(Cow::Borrowed(case));
        }
        self.peer.case(case).map(|own| Cow::Owned(Arc::new(own))).map_err(|refused| refused.to_string())
    }

    fn own(&self) -> Vec<Arc<Case>> {
        self.own.clone()
    }

    fn dress(&self, ready: &mut Ready) -> Result<(), String> {
        let (exam, images) = PeerCheck::new(self.peer, &ready.plan);
        ready.forecast.initial = images;
        // copies on the way are for this project's own judge
        ready.forecast.checkpoints.clear();
        self.keep(&ready.plan, exam);
        Ok(())
    }

    fn errs(&self) -> bool {
        true
    }

    fn judge(&self, plan: &Plan, _: &Forecast, seen: &[Observation]) -> Verdict {
        let objection = self.exam(plan).objection(plan, seen);
        let bad = seen.iter().find(|run| run.ended != Ended::Done).or(seen.last());
        let mut verdict = judge::skipped(&plan.case, "");
        verdict.status = if objection.is_some() { Status::Fail } else { Status::Pass };
        verdict.outcome = bad.map(|run| match run.ended {
            Ended::Done => Outcome::Ok,
            Ended::Errored => Outcome::Error,
            Ended::Hung { .. } => Outcome::Hang,
            Ended::Crashed { .. } => Outcome::Crash,
        });
        verdict.reason = objection;
        verdict.seconds = seen.iter().map(|run| run.seconds).sum();
        verdict
    }

    fn judge_with(&self, _: &Plan, _: &Forecast, _: &[Observation], _: Flaw) -> Option<Verdict> {
        None
    }
}
