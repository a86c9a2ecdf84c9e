//! Memory that a rank registers with its communicators.
use super::{Halt, Rank, garbled};
use crate::backend::{Address, CommHandle, RegistrationSlot, WindowMemoryError};
use crate::job::{CallKind, WindowAnswer};

/// The memory that a rank has registered.
#[derive(Debug)]
pub struct Registered {
    /// The registration's number in the job.
    pub(super) id: u32,
    comm: u32,
    window: bool,
    address: Address,
    pub(super) slot: RegistrationSlot,
}

impl From<WindowMemoryError> for Halt {
    fn from(error: WindowMemoryError) -> Self {
        match error {
            WindowMemoryError::Library(error) => Self::Call(error),
            WindowMemoryError::Device(error) => error.into(),
        }
    }
}

impl Rank<'_> {
    pub(super) fn register(&mut self, kind: &CallKind) -> Result<(), Halt> {
        let CallKind::Register { id, window, alloc, from, bytes, comm } = *kind else { return Ok(()) };
        let find = self.state.memory.binary_search_by_key(&alloc, |(index, _)| *index);
        let (_, memory) = find.ok().and_then(|at| self.state.memory.get(at)).ok_or_else(|| garbled("allocation"))?;
        let (address, slot) = (memory.at(from, bytes)?, RegistrationSlot::default());
        let (library, handle) = (&self.run.backend.library, self.comm(comm)?.get());
        let done = if window {
            library.register_window(handle, address, bytes, &slot)
        } else {
            library.register(handle, address, bytes, &slot)
        };
        self.settled(done)?;
        self.state.registered.push(Registered { id, comm, window, address, slot });
        if window {
            self.new_windows.push(id);
        }
        self.ask_windows()
    }

    pub(super) fn deregister(&mut self, id: u32) -> Result<(), Halt> {
        let at = self.state.registered.iter().rposition(|registered| registered.id == id);
        let registered = at.map(|at| self.state.registered.remove(at)).ok_or_else(|| garbled("registration"))?;
        let (library, handle) = (&self.run.backend.library, self.comm(registered.comm)?.get());
        let done = if registered.window {
            library.deregister_window(handle, &registered.slot)
        } else {
            library.deregister(handle, &registered.slot)
        };
        self.settled(done)
    }

    /// Forgets the registrations with a communicator that has ended.
    pub(super) fn forget_registrations(&mut self, comm: u32) {
        self.state.registered.retain(|registered| registered.comm != comm);
    }

    /// Asks the library about new windows, unless an open group has yet to make them.
    pub(super) fn ask_windows(&mut self) -> Result<(), Halt> {
        if self.depth > 0 || self.new_windows.is_empty() {
            return Ok(());
        }
        self.bind()?;
        for id in std::mem::take(&mut self.new_windows) {
            let Some(registered) = self.state.registered.iter().rfind(|registered| registered.id == id) else {
                continue;
            };
            let comm = self.comm(registered.comm)?.get();
            if comm == CommHandle::NULL {
                continue;
            }
            let pointer = self.run.backend.library.window_pointer(comm, &registered.slot, registered.address);
            let answer = WindowAnswer { id, given: registered.slot.is_given(), pointer };
            self.run.record_answers(self.rank, |answers| answers.windows.push(answer));
        }
        Ok(())
    }
}
