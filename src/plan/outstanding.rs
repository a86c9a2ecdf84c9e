//! Refuses calls that NCCL allows only on a communicator without outstanding operations: a shrink that does not abort, a grow
//! and a suspend. An operation is outstanding on a rank until the rank's host has waited for it.
use super::lower::LoweredProgram;
use super::rank_op::RankOp;
use super::resolve::dedupe;
use super::types::{CommId, StepId};
use crate::job::CallKind;
use crate::scenario::Diagnostic;
use std::collections::HashMap;

/// Checks every rank.
///
/// # Errors
///
/// Each call that comes before the end of an operation.
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

/// The communicator that must have no outstanding operation, and what the call is.
fn needs_rest(kind: &CallKind) -> Option<(CommId, &'static str)> {
    match kind {
        CallKind::Shrink { parent, abort: false, new: Some(_), .. } => Some((*parent as usize, "shrink")),
        CallKind::Grow { parent: Some(parent), new: Some(_), .. } => Some((*parent as usize, "grow")),
        CallKind::Suspend { comm } => Some((*comm as usize, "suspend")),
        _ => None,
    }
}

/// How far a stream is: how many calls of every stream are over once it has done all that it was given.
#[derive(Clone)]
pub struct Progress(Vec<usize>);

impl Progress {
    /// Nothing is over, of so many streams.
    pub fn new(streams: usize) -> Self {
        Self(vec![0; streams])
    }

    /// One more call of the stream; gives its number, from 1.
    pub fn step(&mut self, stream: usize) -> usize {
        self.0[stream] += 1;
        self.0[stream]
    }

    /// True if the stream's call with this number is over.
    pub fn includes(&self, stream: usize, number: usize) -> bool {
        self.0[stream] >= number
    }

    /// What either has.
    pub fn join(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(own, other)| *own = (*own).max(*other));
    }
}

fn check_rank(lowered: &LoweredProgram, rank: usize) -> Vec<Diagnostic> {
    let streams = lowered.unrolled.streams as usize;
    let mut progress = vec![Progress::new(streams); streams];
    let mut host = Progress::new(streams);
    // By communicator and stream: the number of its last call, and that call's step.
    let mut last: HashMap<(CommId, usize), (usize, StepId)> = HashMap::new();
    let mut diagnostics = Vec::new();
    for (index, call) in lowered.programs[rank].iter().enumerate() {
        match &call.kind {
            CallKind::After { stream, on } => {
                for other in on {
                    let seen = progress[*other as usize].clone();
                    progress[*stream as usize].join(&seen);
                }
            }
            CallKind::Wait { stream } => {
                let waited = stream.map_or(0..streams, |stream| stream as usize..stream as usize + 1);
                waited.for_each(|stream| host.join(&progress[stream]));
            }
            // These end the communicator's operations, or wait for them.
            CallKind::Revoke { comm } | CallKind::Finalize { comm } => {
                last.retain(|(of, _), _| *of != *comm as usize);
            }
            _ => {}
        }
        if let Some(op) = lowered.op((rank, index)) {
            let stream = op.stream() as usize;
            progress[stream].0[stream] += 1;
            if let Some(comm) = RankOp::comm(op) {
                last.insert((comm, stream), (progress[stream].0[stream], call.step));
            }
        }
        let Some((comm, what)) = needs_rest(&call.kind).filter(|_| !call.tolerate) else { continue };
        let open = (0..streams).find_map(|stream| {
            let (number, step) = last.get(&(comm, stream))?;
            (*number > host.0[stream]).then_some(*step)
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
