//! Refuses what may wait for, or run at the same time as, an operation that a step leaves in progress. NCCL may put the operation on its
//! stream at any time until the communicator is aborted, so until then nothing else may be put on that stream, and the host must not
//! wait for it.
use super::lower::LoweredProgram;
use super::rank_op::RankOp;
use super::types::{CommId, StepId};
use crate::job::CallKind;
use crate::scenario::{Diagnostic, dedupe};

/// An operation that is in progress.
struct Unfinished {
    comm: CommId,
    stream: u32,
    step: StepId,
}

/// Checks every rank.
///
/// # Errors
///
/// Every use of the stream of an operation that is in progress.
pub fn check(lowered: &LoweredProgram) -> Result<(), Vec<Diagnostic>> {
    let ranks = (0..lowered.unrolled.n).filter(|rank| lowered.programs[*rank].iter().any(|call| call.left_in_progress));
    let diagnostics: Vec<Diagnostic> = ranks.flat_map(|rank| check_rank(lowered, rank)).collect();
    if diagnostics.is_empty() { Ok(()) } else { Err(dedupe(diagnostics)) }
}

fn check_rank(lowered: &LoweredProgram, rank: usize) -> Vec<Diagnostic> {
    let mut unfinished: Vec<Unfinished> = Vec::new();
    let mut diagnostics = Vec::new();
    let step = |id: StepId| &lowered.unrolled.steps[id as usize];
    for (index, call) in lowered.programs[rank].iter().enumerate() {
        let op = lowered.op((rank, index));
        let uses = |stream: u32| match call.kind.effect() {
            CallKind::After { stream: own, on } => *own == stream || on.contains(&stream),
            CallKind::Wait { stream: waited } => waited.is_none_or(|waited| waited == stream),
            CallKind::Launch { stream: own, .. } => *own == stream,
            _ => op.is_some_and(|op| op.stream() == stream),
        };
        if let Some(first) = unfinished.iter().find(|first| uses(first.stream)) {
            let waits = matches!(call.kind, CallKind::Wait { .. });
            let text = format!(
                "{} {} the stream of {} on rank {rank}, which is still in progress",
                step(call.step).label,
                if waits { "waits for" } else { "uses" },
                step(first.step).label,
            );
            diagnostics.push(
                Diagnostic::new(step(call.step).span, text)
                    .related(step(first.step).span, "left in progress here")
                    .help("abort the communicator before this step, or use another stream"),
            );
        }
        if let CallKind::Abort { comm } = call.kind {
            unfinished.retain(|left| left.comm != comm as usize);
        }
        if let (true, Some(op)) = (call.left_in_progress, op)
            && let Some(comm) = RankOp::comm(op)
        {
            unfinished.push(Unfinished { comm, stream: op.stream(), step: call.step });
        }
    }
    diagnostics
}
