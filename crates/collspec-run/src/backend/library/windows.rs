//! Memory of the library, and memory that is registered with communicators.

use super::super::call::{CommHandle, RegistrationSlot};
use super::super::device::Address;
use super::super::lent_memory::{self, LentMemory};
use super::{CallError, Library, Result};
use crate::job::PointerAnswer;
use nccl_sys::{NCCL_WIN_COLL_SYMMETRIC, ncclResult_t};
use std::ptr;

impl Library {
    /// A block of memory that may become a window; `None` if the library cannot allocate any.
    ///
    /// # Errors
    ///
    /// The library returns an error, or a null pointer.
    pub(in super::super) fn mem_alloc(&self, len: u64) -> Result<Option<Address>> {
        let mut place = ptr::null_mut();
        let code = match call!(self, ncclMemAlloc(&mut place, usize::try_from(len).unwrap_or(usize::MAX))) {
            Ok(code) => code,
            Err(_) => return Ok(None),
        };
        self.check("ncclMemAlloc", CommHandle::NULL, code)?;
        if place.is_null() {
            let text = "it succeeded with a null pointer".to_owned();
            return Err(CallError::Failed { function: "ncclMemAlloc", code: ncclResult_t::InternalError, text });
        }
        Ok(Some(Address(place.expose_provenance() as u64)))
    }

    /// Frees a block of [`Library::mem_alloc`]. Errors are ignored: nothing can be done about them.
    pub(in super::super) fn mem_free(&self, block: Address) {
        let _: std::result::Result<ncclResult_t, CallError> = call!(self, ncclMemFree(block.as_ptr()));
    }

    /// Registers memory with a communicator, for this rank alone.
    ///
    /// # Errors
    ///
    /// The library lacks the function, or returns an error.
    pub fn register(&self, comm: CommHandle, memory: Address, len: u64, slot: &RegistrationSlot) -> Result<()> {
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        let code = call!(self, ncclCommRegister(comm.0, memory.as_ptr(), len, slot.0.as_ptr()))?;
        lend(slot, code);
        self.check("ncclCommRegister", comm, code)
    }

    /// Undoes [`Library::register`].
    ///
    /// # Errors
    ///
    /// The library lacks the function, or returns an error.
    pub fn deregister(&self, comm: CommHandle, slot: &RegistrationSlot) -> Result<()> {
        let code = call!(self, ncclCommDeregister(comm.0, slot.get()))?;
        self.check("ncclCommDeregister", comm, code)
    }

    /// Creates a symmetric window together with the other ranks of a communicator. The slot stays null if the library does
    /// not support windows.
    ///
    /// # Errors
    ///
    /// The library lacks the function, or returns an error.
    pub fn register_window(&self, comm: CommHandle, memory: Address, len: u64, slot: &RegistrationSlot) -> Result<()> {
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        let (memory, place) = (memory.as_ptr(), slot.0.as_ptr());
        let code = call!(self, ncclCommWindowRegister(comm.0, memory, len, place, NCCL_WIN_COLL_SYMMETRIC))?;
        lend(slot, code);
        self.check("ncclCommWindowRegister", comm, code)
    }

    /// Ends a window on this rank.
    ///
    /// # Errors
    ///
    /// The library lacks the function, or returns an error.
    pub fn deregister_window(&self, comm: CommHandle, slot: &RegistrationSlot) -> Result<()> {
        let code = call!(self, ncclCommWindowDeregister(comm.0, slot.get()))?;
        self.check("ncclCommWindowDeregister", comm, code)
    }

    /// Compares the library's answer on a window's memory on this rank with the known address.
    pub fn window_pointer(&self, comm: CommHandle, slot: &RegistrationSlot, memory: Address) -> PointerAnswer {
        let unwritten = ptr::without_provenance_mut(usize::MAX);
        let mut place = unwritten;
        match call!(self, ncclWinGetUserPtr(comm.0, slot.get(), &mut place)) {
            Err(_) => PointerAnswer::Absent,
            Ok(ncclResult_t::Success) if place.is_null() => PointerAnswer::Null,
            Ok(ncclResult_t::Success) if place.addr() as u64 == memory.0 => PointerAnswer::Registered,
            Ok(ncclResult_t::Success) => PointerAnswer::Other,
            Ok(code) => PointerAnswer::Refused(code.0),
        }
    }
}

/// Keeps the place of a handle that the library may still write.
fn lend(slot: &RegistrationSlot, code: ncclResult_t) {
    lent_memory::lend([LentMemory::Registration(slot.clone())], code == ncclResult_t::InProgress);
}
