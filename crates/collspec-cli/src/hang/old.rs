//! Ranks whose dumps are older than those of others: what they did afterwards is not known.
use super::job::Job;
use super::sequences::{Place, Sequences};
use super::waits::{End, Messages};
use crate::import::call::Call;
use crate::import::peers::Pair;

/// Collectives in which each rank needs something of every other one, so that none completes before all have made it.
const NEEDS_ALL: [&str; 5] = ["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "barrier"];

/// By rank: true if others have completed a call that its dump does not have, or has as one that is open.
pub fn old_ranks(job: &Job, sequences: &Sequences, messages: &[(Pair, Messages)]) -> Vec<bool> {
    let mut old = vec![false; job.programs.len()];
    if !job.knows_progress {
        return old;
    }
    for members in &sequences.comms {
        let known: Vec<(usize, &[Place])> =
            members.iter().filter_map(|member| Some((member.rank, member.calls.as_deref()?))).collect();
        // By place: the call that any member has completed, if that proves that all have made it.
        let mut completed: Vec<Option<u32>> = Vec::new();
        for (rank, calls) in &known {
            let is_proof = |call: &Place| call.done && needs_all(job, *rank, call.index);
            let last = calls.iter().rposition(is_proof).map_or(0, |last| last + 1);
            completed.resize(completed.len().max(last), None);
            for (shape, call) in completed.iter_mut().zip(*calls).filter(|(_, call)| is_proof(call)) {
                *shape = Some(call.token.shape);
            }
        }
        for (rank, calls) in &known {
            let lags = |(call, shape): (&Place, &Option<u32>)| !call.done && *shape == Some(call.token.shape);
            old[*rank] |= calls.len() < completed.len() || calls.iter().zip(&completed).any(lags);
        }
    }
    // Where first calls are lost, it is not known how many messages there were.
    for ((_, from, to), both) in messages.iter().filter(|_| !job.is_cut) {
        let completed = |rank: usize, ends: &[End]| {
            let done = |end: &&End| job.programs[rank].as_ref().is_some_and(|program| program[end.index].done);
            ends.iter().filter(done).count()
        };
        // A message is received only after it was sent. The reverse proves nothing: a send may be complete before its receive begins.
        old[*from] |= job.programs[*from].is_some() && completed(*to, &both.received) > both.sent.len();
    }
    old
}

fn needs_all(job: &Job, rank: usize, index: usize) -> bool {
    let calls = job.programs[rank].as_ref().map(|program| &job.units[program[index].unit].calls);
    let is_symmetric = |call: &Call| matches!(call, Call::Collective(call) if NEEDS_ALL.contains(&call.op));
    calls.is_some_and(|calls| calls.iter().all(|issued| is_symmetric(&issued.call)))
}
