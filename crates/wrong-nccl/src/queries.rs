//! Answers to questions about communicators and errors.
#![allow(unsafe_code)] // functions of the right library are called

use crate::communicators::{self, Communicator, Origin};
use crate::fault::hit;
use crate::groups::NO_RANK;
use crate::plain::named::*;
use crate::right::right;
use nccl_sys::*;
use std::ffi::{c_char, c_int};

/// Asks for a number, and gives another one where `wrong` says so.
fn number(
    f: Option<unsafe extern "C" fn(ncclComm_t, *mut c_int) -> ncclResult_t>,
    comm: ncclComm_t,
    place: *mut c_int,
    wrong: impl Fn(&Communicator) -> Option<usize>,
) -> ncclResult_t {
    // SAFETY: the caller's arguments.
    let code = f.map_or(ncclResult_t::InternalError, |f| unsafe { f(comm, place) });
    if code == ncclResult_t::Success
        && let Some(number) = communicators::communicator(comm.expose_provenance()).as_ref().and_then(wrong)
        && let Ok(number) = c_int::try_from(number)
    {
        // SAFETY: the library has just written there.
        unsafe { place.write(number) };
    }
    code
}

pub(crate) unsafe extern "C" fn count(comm: ncclComm_t, place: *mut c_int) -> ncclResult_t {
    number(right().ncclCommCount, comm, place, |of| {
        let hits = |fault| hit(fault, of.rank);
        if of.made.after_death && hits(F90) {
            return Some(of.n + 1);
        }
        (of.is_split() && of.made.parent_n != of.n && hits(F65)).then_some(of.made.parent_n)
    })
}

pub(crate) unsafe extern "C" fn user_rank(comm: ncclComm_t, place: *mut c_int) -> ncclResult_t {
    number(right().ncclCommUserRank, comm, place, |of| {
        let hits = |fault| hit(fault, of.rank);
        if of.made.origin == Origin::Shrink && of.made.parent_rank != of.rank && hits(F70) {
            return Some(of.made.parent_rank);
        }
        of.device.filter(|device| *device != of.rank && hits(F65B))
    })
}

pub(crate) unsafe extern "C" fn device(comm: ncclComm_t, place: *mut c_int) -> ncclResult_t {
    number(right().ncclCommCuDevice, comm, place, |of| {
        (of.device.is_some_and(|device| device != 0) && hit(F65C, of.rank)).then_some(0)
    })
}

pub(crate) unsafe extern "C" fn async_error(comm: ncclComm_t, place: *mut ncclResult_t) -> ncclResult_t {
    let Some(f) = right().ncclCommGetAsyncError else { return ncclResult_t::InternalError };
    let Some(of) = communicators::communicator(comm.expose_provenance()) else {
        // SAFETY: the caller's arguments.
        return unsafe { f(comm, place) };
    };
    if of.is_split() && hit(F65D, of.rank) {
        return ncclResult_t::Success;
    }
    // SAFETY: the caller's arguments.
    let code = unsafe { f(comm, place) };
    if code != ncclResult_t::Success || place.is_null() {
        return code;
    }
    // SAFETY: the library has just written there.
    let error = unsafe { place.read() };
    let wrong = wrong_error(&of, error);
    if let Some(wrong) = wrong {
        // SAFETY: as above.
        unsafe { place.write(wrong) };
    }
    code
}

fn wrong_error(of: &Communicator, error: ncclResult_t) -> Option<ncclResult_t> {
    let hits = |fault| hit(fault, of.rank);
    match error {
        ncclResult_t::RemoteError => {
            of.state().broken = true;
            communicators::note_death();
            if hits(F92) {
                return Some(ncclResult_t::InternalError);
            }
            (hits(F92B) || hits(F40)).then_some(ncclResult_t::Success)
        }
        ncclResult_t::Success => {
            (communicators::has_seen_death() && !of.made.after_death && hits(F93)).then_some(ncclResult_t::RemoteError)
        }
        ncclResult_t::InProgress => None,
        _ => hits(F40).then_some(ncclResult_t::Success),
    }
}

pub(crate) unsafe extern "C" fn error_string(code: ncclResult_t) -> *const c_char {
    if code == ncclResult_t::RemoteError && hit(F65E, NO_RANK) {
        return std::ptr::null();
    }
    // SAFETY: a number.
    right().ncclGetErrorString.map_or(std::ptr::null(), |f| unsafe { f(code) })
}

pub(crate) unsafe extern "C" fn last_error(comm: ncclComm_t) -> *const c_char {
    // SAFETY: the caller's arguments.
    let text = right().ncclGetLastError.map_or(std::ptr::null(), |f| unsafe { f(comm) });
    // SAFETY: NCCL's text ends with a zero.
    let has_text = !text.is_null() && unsafe { *text } != 0;
    if has_text && hit(F65F, NO_RANK) { std::ptr::null() } else { text }
}
