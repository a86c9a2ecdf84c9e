//! Checks that the fault of a case has struck: a case that expects what a fault brings about shows nothing if there was none.
use super::findings::{FindingCollector, Priority};
use super::{Lane, message};
use crate::job::{FAULT_IN_LOG, Observation};
use crate::plan::Plan;

/// A process that hangs or has crashed has reported nothing, but its log says what its fault did.
pub(crate) fn check(plan: &Plan, observation: &Observation, collector: &mut FindingCollector) {
    let Some(fault) = &plan.case.fault else { return };
    let reported = observation.ranks.iter().any(|rank| rank.machine.as_ref().is_some_and(|of| of.fault.is_some()));
    if reported || observation.log.contains(FAULT_IN_LOG) {
        return;
    }
    let text = format!("the fault {} of the process of rank {} did not strike", fault.kind, fault.rank);
    let right = format!("its place {} reached", fault.moment.saturating_add(1));
    collector.add(Priority::Ending, message::without_element(Lane::Invariants, text, right, "none".into()));
}
