//! Refuses launches of graphs with calls that use a registration which has ended: captured calls hold on to the registrations
//! that existed when they were captured.
use super::super::lower::{Index, LoweredProgram};
use super::super::registration::{Registration, all_covering};
use super::super::types::{BufId, Region};
use crate::job::CallKind;
use crate::scenario::{Diagnostic, dedupe};

/// Checks every rank.
///
/// # Errors
///
/// The diagnostics name the launches, and the places where the registrations have ended.
pub fn check(lowered: &LoweredProgram) -> Result<(), Vec<Diagnostic>> {
    let mut diagnostics = Vec::new();
    for (rank, program) in lowered.programs.iter().enumerate() {
        let mut refused_launch = None;
        for (index, call) in program.iter().enumerate() {
            let CallKind::Replayed { launch, .. } = call.kind else { continue };
            let ended = used(lowered, (rank, index)).into_iter().find(|(r, _)| r.calls.end < launch as usize);
            if let Some((ended, buf)) = ended.filter(|_| refused_launch != Some(launch)) {
                refused_launch = Some(launch);
                diagnostics.push(refused(lowered, (rank, index), ended, buf));
            }
        }
    }
    if diagnostics.is_empty() { Ok(()) } else { Err(dedupe(diagnostics)) }
}

/// The registrations that a captured call uses, each with a buffer in it.
fn used(lowered: &LoweredProgram, at: Index) -> Vec<(&Registration, BufId)> {
    let Some(op) = lowered.op(at) else { return Vec::new() };
    let (Some(comm), captured) = (op.comm(), lowered.given_at(at)) else { return Vec::new() };
    let regions = op.reads().iter().chain(op.writes()).filter(|region| region.len > 0);
    let all = |region: &Region| (region.buf, all_covering(lowered, captured, comm, region));
    regions.map(all).flat_map(|(buf, all)| all.into_iter().map(move |r| (r, buf))).collect()
}

fn refused(lowered: &LoweredProgram, at: Index, ended: &Registration, buf: BufId) -> Diagnostic {
    let (rank, step) = (at.0, |at: Index| &lowered.unrolled.steps[lowered.step(at) as usize]);
    let text = format!(
        "{} uses the registration that `{}` had when it was captured, which has ended on rank {rank}",
        step(at).label,
        lowered.placed.buffers[buf].name
    );
    let span = match lowered.programs[rank][at.1].kind {
        CallKind::Replayed { launch, .. } => step((rank, launch as usize)).span,
        _ => step(at).span,
    };
    Diagnostic::new(span, text)
        .related(step((rank, ended.calls.end)).span, "it ends here")
        .help("let it end after the last launch")
}
