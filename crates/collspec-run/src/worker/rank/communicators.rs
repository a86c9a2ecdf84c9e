//! Calls that change communicators: shrink, grow, revoke, suspend and resume.
use super::{Halt, Rank, garbled};
use crate::backend::{CommHandle, CommSlot};
use crate::job::CallKind;
use collspec_core::ops::ConfigValue;

impl<'a> Rank<'a> {
    /// The configuration with this index; without an index it is empty.
    pub(super) fn config(&self, index: Option<u32>) -> Result<&'a [(String, ConfigValue)], Halt> {
        let Some(index) = index else { return Ok(&[]) };
        let configs = &self.run.job().configs;
        configs.get(index as usize).map(Vec::as_slice).ok_or_else(|| garbled("configuration"))
    }

    /// Makes a communicator of another one with fewer or more ranks.
    pub(super) fn change(&mut self, kind: &CallKind) -> Result<(), Halt> {
        let library = &self.run.backend.library;
        let unused = CommSlot::default();
        match kind {
            CallKind::Shrink { parent, exclude, abort, new, config } => {
                let slot = new.map_or(Ok(&unused), |new| self.comm(new))?;
                let handle = self.comm(*parent)?.get();
                let done = library.shrink(handle, exclude, *abort, slot, self.config(*config)?);
                self.settled(done)?;
                let is_over = self.depth == 0 && !self.leaves_in_progress;
                if let Some(new) = new.filter(|_| is_over)
                    && self.comm(new)?.get() == CommHandle::NULL
                {
                    // Errors of a communicator that has lost a rank end no call, so a shrink that has failed shows by its result.
                    library.async_error(handle)?;
                }
                if *abort {
                    self.interrupted.insert(*parent);
                }
                self.made.extend(*new);
            }
            CallKind::GrowId { comm, id } => {
                let given = library.unique_id_of(self.comm(*comm)?.get());
                let outcome = given.clone().map(|id| self.coordinates = Some(id));
                self.run.share_grow_id(*id, given)?;
                return Ok(outcome?);
            }
            CallKind::Grow { parent, id, rank, n, new, config } => {
                let slot = new.map_or(Ok(&unused), |new| self.comm(new))?;
                let config = self.config(*config)?;
                let done = match parent {
                    // NCCL gives the id to the old ranks that need it, but not to the only one of a communicator.
                    Some(parent) => {
                        let own = self.coordinates;
                        library.grow(self.comm(*parent)?.get(), *n, own, -1, slot, config)
                    }
                    None => library.grow(CommHandle::NULL, *n, Some(self.run.grow_id(*id)?), *rank, slot, config),
                };
                self.coordinates = None;
                self.settled(done)?;
                self.made.extend(*new);
            }
            CallKind::Revoke { comm } => {
                let done = library.revoke(self.comm(*comm)?.get());
                self.settled(done)?;
                self.interrupted.insert(*comm);
            }
            CallKind::Suspend { comm } => {
                let done = library.suspend(self.comm(*comm)?.get());
                self.settled(done)?;
                self.suspended.insert(*comm);
                self.ask_memory(*comm);
            }
            CallKind::Resume { comm } => {
                let done = library.resume(self.comm(*comm)?.get());
                self.settled(done)?;
                self.suspended.remove(comm);
                self.ask_memory(*comm);
            }
            _ => {}
        }
        self.ask_made()
    }
}
