//! Checks the ends of processes that the case outlives: each must be the one given in the file.
use super::findings::{FindingCollector, Priority};
use super::{Lane, Subject, message};
use crate::job::{CallKind, Observation};
use crate::plan::Plan;
use nccl_sys::ncclResult_t;

/// Codes that a call on a communicator that has lost a rank may return, besides success.
pub(crate) const AFTER_A_DEATH: [ncclResult_t; 2] = [ncclResult_t::RemoteError, ncclResult_t::SystemError];

/// The ranks whose processes end while the others continue, each with its expected ending and its step.
pub(crate) fn wanted(plan: &Plan) -> impl Iterator<Item = (usize, String, u32)> {
    plan.programs.iter().enumerate().flat_map(|(rank, program)| {
        program.iter().filter_map(move |call| match call.kind {
            CallKind::Exit { status, death: Some(_) } => Some((rank, status.text(), call.step)),
            _ => None,
        })
    })
}

/// Compares how processes ended with the file's expectations.
pub(crate) fn check(plan: &Plan, observation: &Observation, collector: &mut FindingCollector) {
    for (rank, wanted, step) in wanted(plan) {
        collector.count_checked(Lane::Expected, 1);
        let actual = observation.deaths.iter().find(|(dead, _)| *dead as usize == rank).map(|(_, how)| how.as_str());
        if actual == Some(wanted.as_str()) {
            continue;
        }
        let actual = actual.unwrap_or("it went on");
        let step = plan.steps.get(step as usize);
        let text = format!("rank {rank}: its process was to end with {wanted}: {actual}");
        let mut finding = message::about(Subject::Ending, text, wanted, actual.to_owned());
        finding.rank = Some(rank);
        finding.step = step.map(|step| step.label.clone());
        finding.span = step.map(|step| step.span);
        collector.add(Priority::Ending, finding);
    }
}
