//! Memory of the library, and memory that is registered with a communicator.
#![allow(unsafe_code)] // exported C functions

use super::{enter, write};
use crate::device;
use crate::engine::{Memory, WindowRequest, lock};
use crate::failure::{Failure, Outcome};
use crate::group;
use nccl_sys::{
    NCCL_WIN_COLL_SYMMETRIC, NCCL_WIN_REQUIRED_ALIGNMENT, NCCL_WIN_STRICT_ORDERING, Nccl, ncclComm_t, ncclResult_t,
    ncclWindow_t,
};
use std::ffi::{c_int, c_void};
use std::ptr::{null_mut, with_exposed_provenance_mut};

/// All flags of windows.
const FLAGS: c_int = NCCL_WIN_COLL_SYMMETRIC | NCCL_WIN_STRICT_ORDERING;

unsafe extern "C" fn mem_alloc(place: *mut *mut c_void, len: usize) -> ncclResult_t {
    enter(|| {
        if place.is_null() || len == 0 {
            return Err(Failure::argument("ncclMemAlloc needs a place for the address, and a size above 0"));
        }
        let base = device::allocate(len)?;
        // SAFETY: NCCL's contract: a place for an address.
        unsafe { write(place, with_exposed_provenance_mut(base), "the address") }
    })
}

unsafe extern "C" fn mem_free(memory: *mut c_void) -> ncclResult_t {
    enter(|| {
        if memory.is_null() {
            return Ok(());
        }
        // SAFETY: NCCL's contract: nothing uses the memory any more.
        unsafe { device::free(memory.addr()) }
    })
}

/// The memory that a call registers, which may have no bytes.
fn registered(buffer: *mut c_void, len: usize) -> Outcome<Memory> {
    if buffer.is_null() {
        return Err(Failure::argument("memory that is registered is not null"));
    }
    let base = buffer.addr();
    if device::block_of(base, len).is_none() {
        return Err(Failure::argument(format!("{len} bytes from there on are not device memory all along")));
    }
    Ok(Memory { base, len })
}

unsafe extern "C" fn comm_register(
    comm: ncclComm_t,
    buffer: *mut c_void,
    len: usize,
    handle: *mut *mut c_void,
) -> ncclResult_t {
    enter(|| {
        lock().comms.member(comm)?;
        registered(buffer, len)?;
        // SAFETY: NCCL's contract: a place for a handle. It stays null if the call is refused.
        unsafe { write(handle, null_mut(), "the handle")? };
        let number = lock().register(comm)?;
        // SAFETY: as above.
        unsafe { write(handle, with_exposed_provenance_mut(number), "the handle") }
    })
}

unsafe extern "C" fn comm_deregister(comm: ncclComm_t, handle: *mut c_void) -> ncclResult_t {
    enter(|| lock().deregister(comm, handle.addr()))
}

/// The memory that a call turns into a window.
fn window_memory(buffer: *mut c_void, len: usize, flags: c_int) -> Outcome<Memory> {
    if len == 0 {
        return Err(Failure::argument("a window has a size above 0"));
    }
    let memory = registered(buffer, len)?;
    if flags & !FLAGS != 0 {
        return Err(Failure::argument(format!("{flags} has flags that windows do not have")));
    }
    let byte = memory.base - device::block_of(memory.base, len).unwrap_or(memory.base);
    if !byte.is_multiple_of(NCCL_WIN_REQUIRED_ALIGNMENT) {
        let text = "a window begins at a multiple of 4,096 bytes of its allocation, but this begins at byte";
        return Err(Failure::argument(format!("{text} {byte}")));
    }
    Ok(memory)
}

unsafe extern "C" fn comm_window_register(
    comm: ncclComm_t,
    buffer: *mut c_void,
    len: usize,
    window: *mut ncclWindow_t,
    flags: c_int,
) -> ncclResult_t {
    enter(|| {
        group::grouped(|| {
            lock().comms.member(comm)?;
            let memory = window_memory(buffer, len, flags)?;
            lock().comms.member(comm)?.accept_work()?;
            let request =
                WindowRequest { comm: comm as usize, memory, symmetric: flags & NCCL_WIN_COLL_SYMMETRIC != 0 };
            // SAFETY: NCCL's contract: a place for a handle, valid until the group's end. It stays null without windows.
            unsafe {
                write(window, null_mut(), "the window")?;
                group::make_window(request, window)
            }
        })
    })
}

unsafe extern "C" fn comm_window_deregister(comm: ncclComm_t, window: ncclWindow_t) -> ncclResult_t {
    enter(|| {
        let mut state = lock();
        if window.is_null() {
            return state.comms.member(comm).map(|_| ());
        }
        state.deregister_window(comm, window.addr())
    })
}

unsafe extern "C" fn win_get_user_ptr(comm: ncclComm_t, window: ncclWindow_t, place: *mut *mut c_void) -> ncclResult_t {
    enter(|| {
        let mut state = lock();
        state.comms.member(comm)?;
        let base = if window.is_null() { 0 } else { state.window(comm, window.addr())?.memory.base };
        drop(state);
        // SAFETY: NCCL's contract: a place for an address.
        unsafe { write(place, with_exposed_provenance_mut(base), "the address") }
    })
}

pub(super) fn fill(table: &mut Nccl) {
    table.ncclMemAlloc = Some(mem_alloc);
    table.ncclMemFree = Some(mem_free);
    table.ncclCommRegister = Some(comm_register);
    table.ncclCommDeregister = Some(comm_deregister);
    table.ncclCommWindowRegister = Some(comm_window_register);
    table.ncclCommWindowDeregister = Some(comm_window_deregister);
    table.ncclWinGetUserPtr = Some(win_get_user_ptr);
}
