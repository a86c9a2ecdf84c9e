//! The end of a rank's communicator, and of its operations alone: revoke, and a shrink that aborts.
use super::counts::changed;
use super::hosts::stop;
use super::{State, lock};
use crate::failure::{Failure, Outcome};
use nccl_sys::ncclComm_t;

/// Ends a rank's operations: their stream items end, so that streams continue, and its host threads return. When this returns, no
/// step of these operations touches memory any more.
pub(crate) fn end_operations(comm: usize) {
    let mut state = lock();
    state.refuse_flushes(comm, &Failure::usage("the communicator's operations were ended meanwhile"));
    let (mut state, dones) = stop(state, &[comm]);
    if let Some(member) = state.comms.members.get_mut(&comm) {
        member.unfinished = 0;
    }
    changed();
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
    let member = state.comms.member(comm as ncclComm_t)?;
    if member.finalized {
        return Err(Failure::argument("the communicator was finalized, so it cannot be revoked"));
    }
    if member.revoked {
        return Err(Failure::argument("the communicator was revoked before"));
    }
    member.revoked = true;
    Ok(())
}

impl State {
    /// Removes a rank's communicator; with the last rank go the channels.
    pub(crate) fn remove_member(&mut self, handle: usize) {
        let Some(member) = self.comms.members.remove(&handle) else { return };
        self.registered.forget(handle, member.shared, member.rank);
        self.inboxes.forget(member.shared, Some(member.rank));
        changed();
        for (ticket, _) in member.connects {
            self.hosts.answer(ticket, Err(Failure::usage("the communicator was destroyed meanwhile")));
        }
        let Some(shared) = self.comms.shared.get_mut(&member.shared) else { return };
        shared.live = shared.live.saturating_sub(1);
        if shared.live == 0 {
            let spread = self.comms.shared.remove(&member.shared).and_then(|shared| shared.spread);
            self.channels.remove_of(member.shared);
            self.inboxes.forget(member.shared, None);
            if let Some(spread) = spread {
                self.leave(member.shared, &spread);
            }
        }
    }
}
