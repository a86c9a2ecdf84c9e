//! Refuses calls that NCCL allows only on a communicator without outstanding operations: a split, a shrink that does
//! not abort, a grow and a suspend. An operation is outstanding on a rank until the rank's host has waited for it.
use super::lower::LoweredProgram;
use super::progress::walk;
use super::types::{CommId, StepId};
use crate::job::CallKind;
use crate::scenario::{Diagnostic, dedupe};
use std::collections::BTreeMap;

/// Checks every rank.
///
/// # Errors
///
/// Every call that comes before the end of an operation.
pub fn check(lowered: &LoweredProgram) -> Result<(), Vec<Diagnostic>> {
    let mut diagnostics = Vec::new();
    for rank in 0..lowered.unrolled.n {
        let program = &lowered.programs[rank];
        if program.iter().any(|call| needs_rest(&call.kind).is_some()) {
            diagnostics.extend(check_rank(lowered, rank));
        }
    }
    if diagnostics.is_empty() { Ok(()) } else { Err(dedupe(diagnostics)) }
}

/// The communicator that must not have an outstanding operation, and a description of the call.
fn needs_rest(kind: &CallKind) -> Option<(CommId, &'static str)> {
    match kind {
        CallKind::Split { parent, .. } => Some((*parent as usize, "split")),
        CallKind::Shrink { parent, abort: false, new: Some(_), .. } => Some((*parent as usize, "shrink")),
        CallKind::Grow { parent: Some(parent), new: Some(_), .. } => Some((*parent as usize, "grow")),
        CallKind::Suspend { comm } => Some((*comm as usize, "suspend")),
        _ => None,
    }
}

fn check_rank(lowered: &LoweredProgram, rank: usize) -> Vec<Diagnostic> {
    // By communicator and stream: the number of the last operation, and its step.
    let mut last: BTreeMap<(CommId, usize), (usize, StepId)> = BTreeMap::new();
    let mut diagnostics = Vec::new();
    walk(lowered, rank, |now| {
        // These end the communicator's operations, or wait for them.
        if let CallKind::Revoke { comm } | CallKind::Finalize { comm } = &now.call.kind {
            last.retain(|(of, _), _| *of != *comm as usize);
        }
        if let Some((op, comm)) = now.op.and_then(|op| Some((op, op.comm()?))) {
            last.insert((comm, op.stream() as usize), (now.number, now.call.step));
        }
        let Some((comm, what)) = needs_rest(&now.call.kind).filter(|_| !now.call.tolerate) else { return };
        let mut on_comm = last.range((comm, 0)..=(comm, usize::MAX));
        let open = on_comm.find(|((_, stream), (number, _))| !now.progress.host_has(*stream, *number));
        if let Some((_, (_, open))) = open {
            let step = |id: StepId| &lowered.unrolled.steps[id as usize];
            let text = format!(
                "rank {rank} has not waited for {} of the communicator: NCCL allows a {what} only without outstanding operations",
                step(*open).label
            );
            diagnostics.push(
                Diagnostic::new(step(now.call.step).span, text)
                    .related(step(*open).span, "the operation")
                    .help("put `{ op = \"wait\" }` before it"),
            );
        }
    });
    diagnostics
}
