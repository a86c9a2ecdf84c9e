//! The plans of a set of cases. A plan is needed several times before its case has a verdict: to check the case, to see whether it can take
//! a form or mostly waits, and to run it. It is made once and kept until the run takes it, as long as there is room: the plans of a large
//! corpus take more memory than a machine may have, and those that do not fit are made again.
use collspec_core::plan::{self, Limits, Plan};
use collspec_core::scenario::{Case, Diagnostic};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes that kept plans may take.
const MOST_BYTES: usize = 128 << 20;
/// About as many bytes as a call takes in a plan, with its share of events and steps.
const BYTES_OF_A_CALL: usize = 512;

/// Plans by case.
#[derive(Debug, Default)]
pub struct KeptPlans(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    /// By the address of the case, which the plan keeps alive, so that no other case can have it.
    plans: HashMap<usize, Arc<Plan>>,
    bytes: usize,
}

impl KeptPlans {
    /// The plan of a case: the one that is kept, or a new one, which is kept if there is room.
    ///
    /// # Errors
    ///
    /// The diagnostics of a case that cannot be planned.
    pub fn plan(&self, case: &Arc<Case>, limits: &Limits) -> Result<Arc<Plan>, Vec<Diagnostic>> {
        let kept = self.kept().plans.get(&address(case)).filter(|plan| plan.limits == *limits).cloned();
        if let Some(plan) = kept {
            return Ok(plan);
        }
        let plan = Arc::new(plan::plan(case, limits)?);
        let mut kept = self.kept();
        let bytes = kept.bytes.saturating_add(bytes(&plan));
        if bytes <= MOST_BYTES && kept.plans.insert(address(case), plan.clone()).is_none() {
            kept.bytes = bytes;
        }
        Ok(plan)
    }

    /// The plan itself, which is no longer kept.
    pub fn release(&self, plan: Arc<Plan>) -> Plan {
        let mut kept = self.kept();
        if kept.plans.remove(&address(&plan.case)).is_some() {
            kept.bytes = kept.bytes.saturating_sub(bytes(&plan));
        }
        drop(kept);
        Arc::unwrap_or_clone(plan)
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn address(case: &Arc<Case>) -> usize {
    Arc::as_ptr(case).addr()
}

/// About as many bytes as a plan takes.
fn bytes(plan: &Plan) -> usize {
    let calls: usize = plan.prelude.iter().chain(&plan.programs).map(|calls| calls.len() + 1).sum();
    let constants: usize = plan.constants.iter().map(|(_, _, bytes)| bytes.len()).sum();
    let history = plan.history.as_deref().map_or(0, bytes);
    calls.saturating_mul(BYTES_OF_A_CALL).saturating_add(constants).saturating_add(history)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::fixture;

    #[test]
    fn a_plan_is_made_once_and_kept_until_it_is_released() {
        let (plans, case, limits) = (KeptPlans::default(), fixture::case("a"), Limits::default());
        let first = plans.plan(&case, &limits).unwrap();
        assert!(Arc::ptr_eq(&first, &plans.plan(&case, &limits).unwrap()));
        let other = Limits { work: limits.work - 1, ..limits };
        assert!(!Arc::ptr_eq(&first, &plans.plan(&case, &other).unwrap()), "made under other limits");
        assert!(plans.kept().bytes > 0);
        drop(first);
        let kept = plans.plan(&case, &limits).unwrap();
        plans.release(kept);
        assert!(plans.kept().plans.is_empty());
        assert_eq!(plans.kept().bytes, 0);
    }
}
