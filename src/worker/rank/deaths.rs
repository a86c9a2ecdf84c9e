//! What a rank does when others die, and when it dies itself.
use super::{Halt, Rank};
use crate::backend::{CallError, CommHandle};
use crate::job::CallKind;
use crate::ops::ExitStatus;
use std::time::Duration;

/// The first and the longest time between two questions about asynchronous errors.
const PAUSES: (Duration, Duration) = (Duration::from_micros(50), Duration::from_millis(10));

impl Rank<'_> {
    /// The death with which the rank's program ends, if it ends with one, and how.
    pub fn dies(&self) -> Option<(u32, ExitStatus)> {
        match self.job().programs[self.rank].last().map(|call| &call.kind) {
            Some(CallKind::Exit { status, death: Some(death) }) => Some((*death, *status)),
            _ => None,
        }
    }

    /// Waits until others have died. What their communicators report from then on ends nothing: the program knows.
    pub(super) fn outlive(&mut self, death: u32, ranks: &[u32]) -> Result<(), Halt> {
        if !self.run.await_death(death) {
            return Err(Halt::Stopped);
        }
        for (index, members) in (0u32..).zip(&self.job().comms) {
            if members.iter().any(|member| ranks.contains(member)) {
                self.bereaved.insert(index);
            }
        }
        Ok(())
    }

    /// True if the call, or a call of its group, is on a communicator that has lost a rank, so that it may fail.
    pub(super) fn may_fail(&self, kind: &CallKind) -> bool {
        let data = matches!(
            kind,
            CallKind::Collective { .. } | CallKind::Send { .. } | CallKind::Recv { .. } | CallKind::GroupEnd
        );
        data && self.touched.iter().any(|comm| self.bereaved.contains(comm))
    }

    /// Waits until each of these communicators reports an error.
    pub(super) fn await_errors(&self, comms: &[u32]) -> Result<(), Halt> {
        let mut found = None;
        for index in comms {
            let comm = self.comm(*index)?.get();
            // No step uses it, so it was never made.
            if comm == CommHandle::NULL {
                continue;
            }
            found = Some(self.await_error(comm)?);
        }
        match found {
            Some(error) => Err(Halt::Call(error)),
            None => Ok(()),
        }
    }

    fn await_error(&self, comm: CommHandle) -> Result<CallError, Halt> {
        let (mut pause, longest) = PAUSES;
        loop {
            if let Err(error) = self.run.backend.library.async_error(comm) {
                return Ok(error);
            }
            self.run.sleep(pause);
            pause = (2 * pause).min(longest);
            if self.run.stopped() {
                return Err(Halt::Stopped);
            }
        }
    }
}
