//! The actions of a rank when others die, and when it dies itself.
use super::{Halt, Rank};
use crate::job::CallKind;
use collspec_core::ops::ExitStatus;
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

    /// Waits until others have died. Errors that their communicators report from then on end nothing: the program expects them.
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

    /// Waits until this communicator reports an error.
    pub(super) fn await_error(&self, comm: u32) -> Result<(), Halt> {
        let comm = self.comm(comm)?.get();
        let (mut pause, longest) = PAUSES;
        loop {
            if let Err(error) = self.run.backend.library.async_error(comm) {
                return Err(Halt::Call(error));
            }
            self.run.sleep(pause);
            pause = (2 * pause).min(longest);
            if self.run.stopped() {
                return Err(Halt::Stopped);
            }
        }
    }
}
