//! Memory of the library, and memory that is registered with it.
#![allow(unsafe_code)] // functions of the right library are called

use crate::communicators::{self, Communicator};
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

/// Takes note of what was registered, or of a refusal.
fn registered(of: Option<&Communicator>, code: ncclResult_t, memory: (usize, usize, usize)) -> ncclResult_t {
    let rank = of.map_or(NO_RANK, |of| of.rank);
    match code {
        ncclResult_t::Success => {
            if std::mem::take(&mut kept().refused) && hit(F83C, rank) {
                return ncclResult_t::InvalidUsage;
            }
            kept().stale.retain(|(base, _)| *base != memory.0);
            if let Some(of) = of {
                of.state().registered.push(memory);
            }
        }
        ncclResult_t::InProgress => {}
        _ => kept().refused = true,
    }
    code
}

/// Memory is about to be deregistered; `which` recognises it.
fn deregistered(comm: ncclComm_t, which: impl Fn(&(usize, usize, usize)) -> bool) {
    let Some(of) = communicators::communicator(comm.expose_provenance()) else { return };
    let mut state = of.state();
    let Some(at) = state.registered.iter().position(which) else { return };
    let (base, len, _) = state.registered.remove(at);
    if wanted(F82) && crate::memory::is_there(base, len) {
        // SAFETY: it is device memory, which the program still has.
        kept().stale.push((base, unsafe { read(base, len) }));
    }
}

/// The registered memory that was there first, in place of that in which an output lies.
pub(crate) fn first_registered(of: &Communicator, (address, len): (usize, usize)) -> Option<usize> {
    let holds = |(base, size, _): &(usize, usize, usize), at: usize| *base <= at && at + len <= base + size;
    let state = of.state();
    let (first, others) = state.registered.split_first()?;
    let own = others.iter().find(|memory| len > 0 && holds(memory, address))?;
    let other = first.0 + (address - own.0);
    (!holds(first, address) && holds(first, other)).then_some(other)
}

/// Registrations that are no windows, by the handle that the library gave.
static HANDLES: LazyLock<Mutex<BTreeMap<usize, (usize, usize)>>> = LazyLock::new(Mutex::default);

pub(crate) unsafe extern "C" fn register(
    comm: ncclComm_t,
    buff: *mut c_void,
    size: usize,
    handle: *mut *mut c_void,
) -> ncclResult_t {
    let Some(f) = right().ncclCommRegister else { return ncclResult_t::InternalError };
    // SAFETY: the caller's arguments.
    let code = unsafe { f(comm, buff, size, handle) };
    if code == ncclResult_t::Success {
        // SAFETY: the library has just written there.
        let handle = unsafe { handle.read() }.addr();
        HANDLES.lock().unwrap_or_else(PoisonError::into_inner).insert(handle, (buff.addr(), size));
    }
    registered(
        communicators::communicator(comm.expose_provenance()).as_ref(),
        code,
        (buff.expose_provenance(), size, 0),
    )
}

pub(crate) unsafe extern "C" fn deregister(comm: ncclComm_t, handle: *mut c_void) -> ncclResult_t {
    let memory = HANDLES.lock().unwrap_or_else(PoisonError::into_inner).remove(&handle.addr());
    if let Some((base, size)) = memory {
        deregistered(comm, |known| *known == (base, size, 0));
    }
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
    let of = communicators::communicator(comm.expose_provenance());
    if code == ncclResult_t::InvalidArgument && !buff.addr().is_multiple_of(PAGE) && hit(F83B, NO_RANK) {
        return ncclResult_t::Success;
    }
    let made = match code {
        // SAFETY: the library has just written there, or will at the group's end.
        ncclResult_t::Success => unsafe { window.read() }.expose_provenance(),
        _ => 0,
    };
    registered(of.as_ref(), code, (buff.expose_provenance(), size, made))
}

pub(crate) unsafe extern "C" fn deregister_window(comm: ncclComm_t, window: ncclWindow_t) -> ncclResult_t {
    deregistered(comm, |(.., known)| *known == window.addr() && *known != 0);
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
