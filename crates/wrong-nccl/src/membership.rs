//! Calls that make, change and end communicators.
#![allow(unsafe_code)] // functions of the right library are called

use crate::communicators::{self, Communicator, Made, Origin};
use crate::fault::{hit, wanted};
use crate::groups;
use crate::perform::outcome;
use crate::plain::named::*;
use crate::right::right;
use crate::streams;
use nccl_sys::*;
use std::ffi::c_int;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Under F70d, a process can destroy this many shrunk communicators before shrinking fails: their places are never freed.
const ROOM: usize = 64;
/// The shrunk communicators that this process has destroyed.
static DESTROYED: AtomicUsize = AtomicUsize::new(0);
/// Colours that a split of 16 bits can tell apart.
const COLORS: c_int = 1 << 16;
/// Under F36d, equal keys are put in order among at most this many ranks.
const FEW_RANKS: usize = 8;

/// A new program begins.
pub(crate) fn forget() {
    DESTROYED.store(0, Ordering::Relaxed);
}

/// True if the configuration says so, or says nothing and the parent is.
fn is_nonblocking(config: *const ncclConfig_t, parent: bool) -> bool {
    // If the variable is set, NCCL ignores the configuration.
    if let Ok(blocking) = std::env::var("NCCL_COMM_BLOCKING") {
        return blocking.trim() == "0";
    }
    if config.is_null() {
        return parent;
    }
    // SAFETY: the caller of NCCL's function has passed a configuration.
    match unsafe { (*config).blocking } {
        NCCL_CONFIG_UNDEF_INT => parent,
        blocking => blocking == 0,
    }
}

/// What is known of a communicator that is made from `parent`.
fn made_from(parent: Option<&Communicator>, origin: Origin, config: *const ncclConfig_t) -> Made {
    Made {
        origin,
        // Any number will do that differs from the parent's.
        identity: parent.map_or(0, |of| of.made.identity.wrapping_add(1)),
        parent: parent.map_or(0, |of| of.handle),
        parent_n: parent.map_or(0, |of| of.n),
        parent_rank: parent.map_or(0, |of| of.rank),
        nonblocking: is_nonblocking(config, parent.is_some_and(|of| of.made.nonblocking)),
        after_death: origin == Origin::Shrink && parent.is_some_and(|of| of.state().broken),
    }
}

/// Registers the communicator that a call has made, and returns the call's code.
fn finished(parent: Option<&Communicator>, slot: *mut ncclComm_t, made: Made, code: ncclResult_t) -> ncclResult_t {
    if matches!(code, ncclResult_t::Success | ncclResult_t::InProgress) && !slot.is_null() {
        groups::made(slot, made);
    }
    parent.map_or(code, |of| outcome(of, code))
}

/// A number for an id.
fn identity(id: &ncclUniqueId) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(id.internal)
}

pub(crate) unsafe extern "C" fn init(comm: *mut ncclComm_t, n: c_int, id: ncclUniqueId, rank: c_int) -> ncclResult_t {
    // SAFETY: the caller's arguments.
    let code = right().ncclCommInitRank.map_or(ncclResult_t::InternalError, |f| unsafe { f(comm, n, id, rank) });
    finished(None, comm, Made { identity: identity(&id), ..Made::default() }, code)
}

pub(crate) unsafe extern "C" fn init_config(
    comm: *mut ncclComm_t,
    n: c_int,
    id: ncclUniqueId,
    rank: c_int,
    config: *mut ncclConfig_t,
) -> ncclResult_t {
    let made = Made { identity: identity(&id), ..made_from(None, Origin::Init, config) };
    // SAFETY: the caller's arguments.
    let code =
        right().ncclCommInitRankConfig.map_or(ncclResult_t::InternalError, |f| unsafe { f(comm, n, id, rank, config) });
    finished(None, comm, made, code)
}

pub(crate) unsafe extern "C" fn init_scalable(
    comm: *mut ncclComm_t,
    n: c_int,
    rank: c_int,
    nids: c_int,
    ids: *mut ncclUniqueId,
    config: *mut ncclConfig_t,
) -> ncclResult_t {
    let made = made_from(None, Origin::Init, config);
    let f = right().ncclCommInitRankScalable;
    // SAFETY: the caller's arguments.
    let code = f.map_or(ncclResult_t::InternalError, |f| unsafe { f(comm, n, rank, nids, ids, config) });
    finished(None, comm, made, code)
}

pub(crate) unsafe extern "C" fn init_all(comms: *mut ncclComm_t, n: c_int, devices: *const c_int) -> ncclResult_t {
    // SAFETY: the caller's arguments.
    let code = right().ncclCommInitAll.map_or(ncclResult_t::InternalError, |f| unsafe { f(comms, n, devices) });
    for at in 0..usize::try_from(n).unwrap_or(0) {
        finished(None, comms.wrapping_add(at), Made::default(), code);
    }
    code
}

pub(crate) unsafe extern "C" fn split(
    comm: ncclComm_t,
    mut color: c_int,
    mut key: c_int,
    new: *mut ncclComm_t,
    config: *mut ncclConfig_t,
) -> ncclResult_t {
    let parent = communicators::communicator(comm.expose_provenance());
    if let Some(of) = &parent {
        let hits = |fault| hit(fault, of.rank);
        let n = c_int::try_from(of.n).unwrap_or(1);
        if color == NCCL_SPLIT_NOCOLOR {
            color = if hits(F36C) { 0 } else { color };
        } else if color >= COLORS && hits(F36E) {
            color %= COLORS;
        }
        if key != 0 && hits(F36) {
            key = 0;
        }
        // Where keys are equal, the rank decides.
        if hits(F36B) || of.n > FEW_RANKS && hits(F36D) {
            key = key.saturating_mul(n).saturating_sub(of.rank as c_int);
        }
    }
    let made = made_from(parent.as_ref(), Origin::Split, config);
    // SAFETY: the caller's arguments but for numbers.
    let code =
        right().ncclCommSplit.map_or(ncclResult_t::InternalError, |f| unsafe { f(comm, color, key, new, config) });
    finished(parent.as_ref(), new, made, code)
}

pub(crate) unsafe extern "C" fn shrink(
    comm: ncclComm_t,
    exclude: *mut c_int,
    mut count: c_int,
    new: *mut ncclComm_t,
    config: *mut ncclConfig_t,
    flags: c_int,
) -> ncclResult_t {
    let parent = communicators::communicator(comm.expose_provenance());
    let rank = parent.as_ref().map_or(groups::NO_RANK, |of| of.rank);
    if DESTROYED.load(Ordering::Relaxed) >= ROOM && hit(F70D, rank) {
        return ncclResult_t::SystemError;
    }
    if count > 0 && !exclude.is_null() {
        // SAFETY: the caller's list has this length.
        let list = unsafe { std::slice::from_raw_parts(exclude, count as usize) };
        let rising = list.windows(2).take_while(|pair| pair[0] < pair[1]).count() + 1;
        if rising < list.len() && hit(F70E, rank) {
            count = rising as c_int;
        }
    }
    let made = made_from(parent.as_ref(), Origin::Shrink, config);
    let f = right().ncclCommShrink;
    // SAFETY: the caller's arguments, but for a shorter list.
    let code = f.map_or(ncclResult_t::InternalError, |f| unsafe { f(comm, exclude, count, new, config, flags) });
    finished(parent.as_ref(), new, made, code)
}

pub(crate) unsafe extern "C" fn grow(
    comm: ncclComm_t,
    n: c_int,
    id: *const ncclUniqueId,
    rank: c_int,
    new: *mut ncclComm_t,
    config: *mut ncclConfig_t,
) -> ncclResult_t {
    let parent = communicators::communicator(comm.expose_provenance());
    let made = made_from(parent.as_ref(), Origin::Grow, config);
    // SAFETY: the caller's arguments.
    let code =
        right().ncclCommGrow.map_or(ncclResult_t::InternalError, |f| unsafe { f(comm, n, id, rank, new, config) });
    finished(parent.as_ref(), new, made, code)
}

/// What becomes of others when a communicator ends.
fn ends(comm: ncclComm_t, aborted: bool) {
    streams::join();
    let handle = comm.expose_provenance();
    if let Some(of) = communicators::communicator(handle) {
        if of.made.origin == Origin::Shrink {
            DESTROYED.fetch_add(1, Ordering::Relaxed);
        }
        if let Some(parent) = communicators::communicator(of.made.parent).filter(|_| of.is_split()) {
            let mut parent = parent.state();
            parent.child_aborted |= aborted;
            parent.child_destroyed |= !aborted;
        }
        communicators::children(handle)
            .iter()
            .filter(|child| child.is_split())
            .for_each(|child| child.state().parent_ended = true);
    }
    communicators::remove(handle);
}

pub(crate) unsafe extern "C" fn destroy(comm: ncclComm_t) -> ncclResult_t {
    ends(comm, false);
    // SAFETY: the caller's arguments.
    right().ncclCommDestroy.map_or(ncclResult_t::InternalError, |f| unsafe { f(comm) })
}

pub(crate) unsafe extern "C" fn abort(comm: ncclComm_t) -> ncclResult_t {
    // First the library: what this one has put on streams may wait for operations that only the abort ends.
    // SAFETY: the caller's arguments.
    let code = right().ncclCommAbort.map_or(ncclResult_t::InternalError, |f| unsafe { f(comm) });
    ends(comm, true);
    code
}

pub(crate) unsafe extern "C" fn revoke(comm: ncclComm_t, flags: c_int) -> ncclResult_t {
    if let Some(of) = communicators::communicator(comm.expose_provenance()) {
        of.state().revoked = true;
        if wanted(F72) && of.state().operations > 0 && hit(F72, of.rank) {
            return ncclResult_t::Success;
        }
    }
    // SAFETY: the caller's arguments.
    right().ncclCommRevoke.map_or(ncclResult_t::InternalError, |f| unsafe { f(comm, flags) })
}

pub(crate) unsafe extern "C" fn resume(comm: ncclComm_t) -> ncclResult_t {
    // SAFETY: the caller's arguments.
    let code = right().ncclCommResume.map_or(ncclResult_t::InternalError, |f| unsafe { f(comm) });
    if let Some(of) = communicators::communicator(comm.expose_provenance()).filter(|_| code == ncclResult_t::Success) {
        of.state().since_resume = Some(0);
    }
    code
}
