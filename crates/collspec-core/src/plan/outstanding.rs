//! Refuses calls that NCCL allows only on a communicator without outstanding operations: a split, a shrink that does
//! not abort, a grow and a suspend. An operation is outstanding on a rank until the rank's host has waited for it.
use super::lower::LoweredProgram;
use super::progress::Progress;
use super::rank_op::RankOp;
use super::types::{CommId, StepId};
use crate::job::CallKind;
use crate::scenario::{Diagnostic, dedupe};
use rustc_hash::FxHashMap;

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
    let streams = lowered.unrolled.streams as usize;
    let mut progress = Progress::new(streams);
    // By communicator and stream: the number of its last call, and that call's step.
    let mut last: FxHashMap<(CommId, usize), (usize, StepId)> = FxHashMap::default();
    let mut diagnostics = Vec::new();
    for (index, call) in lowered.programs[rank].iter().enumerate() {
        progress.follow(call.kind.effect());
        // These end the communicator's operations, or wait for them.
        if let CallKind::Revoke { comm } | CallKind::Finalize { comm } = &call.kind {
            last.retain(|(of, _), _| *of != *comm as usize);
        }
        if let Some(op) = lowered.op((rank, index)) {
            let stream = op.stream() as usize;
            let number = progress.issue(stream);
            if let Some(comm) = RankOp::comm(op) {
                last.insert((comm, stream), (number, call.step));
            }
        }
        let Some((comm, what)) = needs_rest(&call.kind).filter(|_| !call.tolerate) else { continue };
        let open = (0..streams).find_map(|stream| {
            let (number, step) = last.get(&(comm, stream))?;
            (!progress.host_has(stream, *number)).then_some(*step)
        });
        if let Some(open) = open {
            let step = |id: StepId| &lowered.unrolled.steps[id as usize];
            let text = format!(
                "rank {rank} has not waited for {} of the communicator: NCCL allows a {what} only without outstanding operations",
                step(open).label
            );
            diagnostics.push(
                Diagnostic::new(step(call.step).span, text)
                    .related(step(open).span, "the operation")
                    .help("put `{ op = \"wait\" }` before it"),
            );
        }
    }
    diagnostics
}
