//! Ends the operations of a rank's communicator but keeps the communicator: revoke, and a shrink that aborts.
use super::hosts::stop;
use super::lock;
use crate::failure::{Failure, Outcome};
use nccl_sys::ncclComm_t;

/// Ends a rank's operations: their stream items end, so that streams continue, and its host threads return. When this returns, no
/// step of these operations touches memory any more.
pub(crate) fn end_operations(comm: usize) {
    let mut state = lock();
    state.refuse_flushes(comm, &Failure::usage("the communicator's operations were ended meanwhile"));
    let (mut state, dones) = stop(state, &[comm]);
    if let Some(member) = state.members.get_mut(&comm) {
        member.unfinished = 0;
    }
    state.changed();
    drop(state);
    for done in dones {
        done.finish();
    }
    crate::device::wake_hosts();
}

/// Takes no more operations of a rank.
///
/// # Errors
/// The communicator was finalized or revoked before.
pub(crate) fn mark_revoked(comm: usize) -> Outcome<()> {
    let mut state = lock();
    let member = state.member(comm as ncclComm_t)?;
    if member.finalized {
        return Err(Failure::argument("the communicator was finalized, so it cannot be revoked"));
    }
    if member.revoked {
        return Err(Failure::argument("the communicator was revoked before"));
    }
    member.revoked = true;
    Ok(())
}
