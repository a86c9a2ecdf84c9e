//! Calls on non-blocking communicators are waited for here, whatever they answer: NCCL's `ncclCommSplit` answers success while the
//! split is in progress.
use super::{Halt, Rank};
use crate::backend::{CallError, CommHandle};
use crate::job::CallKind;
use nccl_sys::ncclResult_t;
use std::time::Duration;

/// The first and the longest time between two questions, for libraries that can only be asked.
const PAUSES: (Duration, Duration) = (Duration::from_micros(50), Duration::from_millis(10));

/// True if a call returned that it is in progress.
pub fn is_in_progress(outcome: &Result<(), CallError>) -> bool {
    outcome.as_ref().is_err_and(|error| error.code() == ncclResult_t::InProgress)
}

/// The communicators on which a call may be in progress: first those that it uses, then those that it creates.
pub(super) fn communicators(kind: &CallKind) -> [Option<u32>; 2] {
    match kind {
        CallKind::Collective { comm, .. }
        | CallKind::Send { comm, .. }
        | CallKind::Recv { comm, .. }
        | CallKind::Put { comm, .. }
        | CallKind::Signal { comm, .. }
        | CallKind::WaitSignal { comm, .. }
        | CallKind::FirstSignal { comm, .. }
        | CallKind::Register { comm, .. }
        | CallKind::Deregister { comm, .. }
        | CallKind::Init { comm, .. }
        | CallKind::Finalize { comm }
        | CallKind::Suspend { comm }
        | CallKind::Resume { comm }
        | CallKind::Revoke { comm } => [Some(*comm), None],
        CallKind::Split { parent, new, .. } | CallKind::Shrink { parent, new, .. } => [Some(*parent), *new],
        CallKind::Grow { parent, new, .. } => [*parent, *new],
        _ => [None, None],
    }
}

impl Rank<'_> {
    /// Notes the communicators of a call that may be in progress when it, or its group, has returned.
    pub(super) fn touch(&mut self, kind: &CallKind) {
        self.forget_touched();
        for comm in communicators(kind).into_iter().flatten() {
            if !self.touched.contains(&comm) {
                self.touched.push(comm);
            }
        }
    }

    /// Outside of groups nothing is left of an earlier one, which may have failed before its calls were waited for.
    pub(super) fn forget_touched(&mut self) {
        if self.depth == 0 {
            self.touched.clear();
            self.unsettled = false;
        }
    }

    /// The outcome of a call once it is over. Inside a group nothing is over before the group's end, and a call that the program
    /// leaves in progress is not waited for.
    pub(super) fn settled(&mut self, outcome: Result<(), CallError>) -> Result<(), Halt> {
        let in_progress = is_in_progress(&outcome);
        let may_go_on = in_progress || self.unsettled || self.touched.iter().any(|comm| self.is_nonblocking(*comm));
        if self.leaves_in_progress || !may_go_on {
            return Ok(outcome?);
        }
        if !in_progress {
            outcome?;
        }
        self.unsettled = self.depth > 0;
        if self.unsettled { Ok(()) } else { self.settle() }
    }

    /// An error that a communicator reports by itself, if it is not one that the program expects.
    pub(super) fn async_error(&self) -> Option<CallError> {
        let comms = self.state.comms.iter().enumerate();
        let quiet = |index: usize| {
            let index = index as u32;
            self.interrupted.contains(&index) || self.bereaved.contains(&index)
        };
        let comms = comms.filter(|(index, _)| !quiet(*index));
        let comms = comms.map(|(_, slot)| slot.get()).filter(|comm| *comm != CommHandle::NULL);
        comms.filter_map(|comm| self.run.backend.library.async_error(comm).err()).next()
    }

    /// Notes communicators with a call that has failed as expected. A non-blocking one may report that error from now on, which says
    /// nothing about other operations.
    pub(super) fn keep_errors_of(&mut self, comms: &[u32]) {
        let library = &self.run.backend.library;
        let reports = |comm: &u32| {
            let handle = self.comm(*comm).map_or(CommHandle::NULL, |slot| slot.get());
            self.is_nonblocking(*comm) && handle != CommHandle::NULL && library.async_error(handle).is_err()
        };
        let kept: Vec<u32> = comms.iter().copied().filter(reports).collect();
        self.interrupted.extend(kept);
    }

    /// As [`Self::keep_errors_of`], for the communicators of a group's calls.
    pub fn keep_errors_of_calls<'a>(&mut self, kinds: impl Iterator<Item = &'a CallKind>) {
        let comms: Vec<u32> = kinds.flat_map(communicators).flatten().collect();
        self.keep_errors_of(&comms);
    }

    fn is_nonblocking(&self, comm: u32) -> bool {
        self.job().nonblocking.get(self.rank).is_some_and(|comms| comms.binary_search(&comm).is_ok())
    }

    /// True if a call of the open group may be in progress.
    pub fn is_unsettled(&self) -> bool {
        self.unsettled
    }

    /// Waits until the noted calls are over.
    pub fn settle(&mut self) -> Result<(), Halt> {
        self.unsettled = false;
        let mut touched = std::mem::take(&mut self.touched);
        // In a group with non-blocking ones NCCL may report for ever that a blocking communicator is in progress.
        if touched.iter().any(|comm| self.is_nonblocking(*comm)) {
            touched.retain(|comm| self.is_nonblocking(*comm));
        }
        for index in touched {
            // A communicator derived from another one may have no handle before the other one's call is over.
            let comm = self.comm(index)?.get();
            if comm != CommHandle::NULL {
                match self.await_calls(comm) {
                    // It reports the death, not this call's end.
                    Err(Halt::Call(_)) if self.bereaved.contains(&index) => {}
                    other => other?,
                }
            }
        }
        Ok(())
    }

    fn await_calls(&self, comm: CommHandle) -> Result<(), Halt> {
        let library = &self.run.backend.library;
        let (mut pause, longest) = PAUSES;
        while !library.calls_are_over(comm)? {
            if self.run.stopped() {
                return Err(Halt::Stopped);
            }
            if !library.await_calls(comm) {
                self.run.sleep(pause);
                pause = (2 * pause).min(longest);
            }
        }
        Ok(())
    }
}
