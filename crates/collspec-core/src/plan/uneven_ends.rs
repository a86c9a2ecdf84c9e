//! Warns of communicators that some ranks destroy while others abort or revoke them, or have ended. NCCL's `destroy` waits for other
//! ranks, which an abort does not.
use super::lower::LoweredProgram;
use super::types::{CommId, StepId};
use crate::job::CallKind;
use crate::scenario::Diagnostic;
use std::collections::{BTreeMap, BTreeSet};

/// The calls that end a communicator, by rank.
#[derive(Default)]
struct Ends {
    destroyed: BTreeMap<usize, StepId>,
    /// Ranks whose calls on it are cut short, and by which step.
    cut: BTreeMap<usize, StepId>,
}

/// A warning for each communicator whose `destroy` may wait for ranks that do not make it.
pub fn warnings(lowered: &LoweredProgram) -> Vec<Diagnostic> {
    let mut ends: BTreeMap<CommId, Ends> = BTreeMap::new();
    for (rank, program) in lowered.programs.iter().enumerate() {
        for call in program.iter().filter(|call| !call.tolerate) {
            match *call.kind.effect() {
                CallKind::Destroy { comm } => {
                    _ = ends.entry(comm as usize).or_default().destroyed.insert(rank, call.step);
                }
                CallKind::Abort { comm }
                | CallKind::Revoke { comm }
                | CallKind::Shrink { parent: comm, abort: true, .. } => {
                    ends.entry(comm as usize).or_default().cut.entry(rank).or_insert(call.step);
                }
                CallKind::Exit { death: Some(_), .. } => {
                    let own = lowered.unrolled.comms.list.iter().enumerate();
                    for (comm, _) in own.filter(|(_, comm)| comm.members.contains(&rank)) {
                        ends.entry(comm).or_default().cut.insert(rank, call.step);
                    }
                }
                _ => {}
            }
        }
    }
    let mut told = BTreeSet::new();
    ends.iter().filter_map(|(comm, ends)| warning(lowered, *comm, ends, &mut told)).collect()
}

fn warning(lowered: &LoweredProgram, comm: CommId, ends: &Ends, told: &mut BTreeSet<StepId>) -> Option<Diagnostic> {
    let members = &lowered.unrolled.comms.list[comm].members;
    let missing = members.iter().find(|member| !ends.destroyed.contains_key(member))?;
    let (rank, step) = ends.destroyed.first_key_value()?;
    let cut = ends.cut.get(missing).or_else(|| ends.cut.values().next())?;
    if !told.insert(*step) {
        return None;
    }
    let span = |step: StepId| lowered.unrolled.steps[step as usize].span;
    let text = format!(
        "rank {rank} destroys this communicator, and rank {missing} does not: NCCL's `destroy` may wait for all ranks of a \
         machine, from 2.31 on also for those that abort or revoke the communicator"
    );
    Some(
        Diagnostic::warning(span(*step), text)
            .related(span(*cut), "its calls are cut short here")
            .help("end it with `abort` on every rank"),
    )
}
