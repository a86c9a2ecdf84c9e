//! Memory of the library, and memory that is registered with it.
#![allow(unsafe_code)] // functions of the right library are called

use crate::communicators::{self, Communicator, Registration};
use crate::fault::{hit, wanted};
use crate::groups::NO_RANK;
use crate::memory::read;
use crate::plain::named::*;
use crate::right::right;
use nccl_sys::*;
use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::ptr::with_exposed_provenance_mut;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

/// A window begins at a multiple of this.
const PAGE: usize = NCCL_WIN_REQUIRED_ALIGNMENT;

#[derive(Default)]
struct Kept {
    /// Blocks of the library by address: their size, and how often they were given beyond the first time.
    blocks: BTreeMap<usize, (usize, usize)>,
    /// The contents of memory when it was deregistered.
    stale: Vec<(usize, Vec<u8>)>,
    refused: bool,
}

static KEPT: LazyLock<Mutex<Kept>> = LazyLock::new(Mutex::default);

fn kept() -> MutexGuard<'static, Kept> {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A new program begins; the library's blocks live on.
pub(crate) fn forget() {
    let mut kept = kept();
    kept.stale.clear();
    kept.refused = false;
}

/// What this memory held when it was deregistered.
pub(crate) fn stale(address: usize, len: usize) -> Option<Vec<u8>> {
    let kept = kept();
    let (base, bytes) = kept
        .stale
        .iter()
        .rev()
        .find(|(base, bytes)| len > 0 && *base <= address && address + len <= base + bytes.len())?;
    bytes.get(address - base..address - base + len).map(<[u8]>::to_vec)
}

pub(crate) unsafe extern "C" fn allocate(ptr: *mut *mut c_void, size: usize) -> ncclResult_t {
    let Some(f) = right().ncclMemAlloc else { return ncclResult_t::InternalError };
    let used = kept().blocks.iter().find(|(_, (len, _))| *len >= size).map(|(base, _)| *base);
    if let Some(used) = used.filter(|_| !ptr.is_null())
        && hit(F83, NO_RANK)
    {
        if let Some((_, times)) = kept().blocks.get_mut(&used) {
            *times += 1;
        }
        // SAFETY: the caller's place for an address.
        unsafe { ptr.write(with_exposed_provenance_mut(used)) };
        return ncclResult_t::Success;
    }
    // SAFETY: the caller's arguments.
    let code = unsafe { f(ptr, size) };
    if code == ncclResult_t::Success {
        // SAFETY: the library has just written there.
        let base = unsafe { ptr.read() };
        kept().blocks.insert(base.expose_provenance(), (size, 0));
    }
    code
}

pub(crate) unsafe extern "C" fn free(ptr: *mut c_void) -> ncclResult_t {
    {
        let mut kept = kept();
        match kept.blocks.get_mut(&ptr.addr()) {
            Some((_, times)) if *times > 0 => {
                *times -= 1;
                return ncclResult_t::Success;
            }
            _ => _ = kept.blocks.remove(&ptr.addr()),
        }
    }
    // SAFETY: the caller's arguments.
    right().ncclMemFree.map_or(ncclResult_t::InternalError, |f| unsafe { f(ptr) })
}

/// Notes what was registered, or that it was refused.
fn registered(of: Option<&Communicator>, code: ncclResult_t, memory: Registration) -> ncclResult_t {
    let rank = of.map_or(NO_RANK, |of| of.rank);
    match code {
        ncclResult_t::Success => {
            if std::mem::take(&mut kept().refused) && hit(F83C, rank) {
                return ncclResult_t::InvalidUsage;
            }
            kept().stale.retain(|(base, _)| *base != memory.base);
            if let Some(of) = of {
                of.state().registered.push(memory);
            }
        }
        ncclResult_t::InProgress => {}
        _ => kept().refused = true,
    }
    code
}

/// Memory is about to be deregistered.
fn deregistered(comm: ncclComm_t, handle: *mut c_void, window: bool) {
    let Some(of) = communicators::communicator(comm.expose_provenance()) else { return };
    let mut state = of.state();
    let is_it = |memory: &Registration| memory.is_window == window && memory.handle == handle.addr();
    let Some(at) = state.registered.iter().position(is_it).filter(|_| !handle.is_null()) else { return };
    let Registration { base, len, .. } = state.registered.remove(at);
    if wanted(F82) && crate::memory::is_there(base, len) {
        // SAFETY: it is device memory, which the program still has.
        kept().stale.push((base, unsafe { read(base, len) }));
    }
}

/// The memory that was registered first, in place of that in which an output lies.
pub(crate) fn first_registered(of: &Communicator, (address, len): (usize, usize)) -> Option<usize> {
    let state = of.state();
    let (first, others) = state.registered.split_first()?;
    let own = others.iter().find(|memory| len > 0 && memory.holds(address, len))?;
    let other = first.base + (address - own.base);
    (!first.holds(address, len) && first.holds(other, len)).then_some(other)
}

pub(crate) unsafe extern "C" fn register(
    comm: ncclComm_t,
    buff: *mut c_void,
    size: usize,
    handle: *mut *mut c_void,
) -> ncclResult_t {
    let Some(f) = right().ncclCommRegister else { return ncclResult_t::InternalError };
    // SAFETY: the caller's arguments.
    let code = unsafe { f(comm, buff, size, handle) };
    // SAFETY: after a success the library has written there.
    let handle = if code == ncclResult_t::Success { unsafe { handle.read() }.addr() } else { 0 };
    let memory = Registration { base: buff.expose_provenance(), len: size, handle, is_window: false };
    registered(communicators::communicator(comm.expose_provenance()).as_ref(), code, memory)
}

pub(crate) unsafe extern "C" fn deregister(comm: ncclComm_t, handle: *mut c_void) -> ncclResult_t {
    deregistered(comm, handle, false);
    // SAFETY: the caller's arguments.
    right().ncclCommDeregister.map_or(ncclResult_t::InternalError, |f| unsafe { f(comm, handle) })
}

pub(crate) unsafe extern "C" fn register_window(
    comm: ncclComm_t,
    buff: *mut c_void,
    size: usize,
    window: *mut ncclWindow_t,
    flags: c_int,
) -> ncclResult_t {
    let Some(f) = right().ncclCommWindowRegister else { return ncclResult_t::InternalError };
    // SAFETY: the caller's arguments.
    let code = unsafe { f(comm, buff, size, window, flags) };
    if code == ncclResult_t::InvalidArgument && !buff.addr().is_multiple_of(PAGE) && hit(F83B, NO_RANK) {
        return ncclResult_t::Success;
    }
    // SAFETY: after a success the library has written there, or will at the group's end.
    let handle = if code == ncclResult_t::Success { unsafe { window.read() }.expose_provenance() } else { 0 };
    let memory = Registration { base: buff.expose_provenance(), len: size, handle, is_window: true };
    registered(communicators::communicator(comm.expose_provenance()).as_ref(), code, memory)
}

pub(crate) unsafe extern "C" fn deregister_window(comm: ncclComm_t, window: ncclWindow_t) -> ncclResult_t {
    deregistered(comm, window, true);
    // SAFETY: the caller's arguments.
    right().ncclCommWindowDeregister.map_or(ncclResult_t::InternalError, |f| unsafe { f(comm, window) })
}

pub(crate) unsafe extern "C" fn user_pointer(
    comm: ncclComm_t,
    window: ncclWindow_t,
    ptr: *mut *mut c_void,
) -> ncclResult_t {
    let Some(f) = right().ncclWinGetUserPtr else { return ncclResult_t::InternalError };
    let rank = communicators::communicator(comm.expose_provenance()).map_or(NO_RANK, |of| of.rank);
    if window.is_null() && hit(F84, rank) {
        return ncclResult_t::InternalError;
    }
    // SAFETY: the caller's arguments.
    let code = unsafe { f(comm, window, ptr) };
    if code == ncclResult_t::Success && !window.is_null() {
        // SAFETY: the library has just written there.
        let at = unsafe { ptr.read() };
        let start = gpuless_device::memory::start_of(at.cast_const().cast(), 1).filter(|start| *start != at.addr());
        if let Some(start) = start.filter(|_| hit(F84B, rank)) {
            // SAFETY: as above.
            unsafe { ptr.write(with_exposed_provenance_mut(start)) };
        }
    }
    code
}
