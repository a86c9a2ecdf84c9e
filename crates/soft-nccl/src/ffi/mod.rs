//! The C interface: thin functions that turn C arguments into checked values and answers into codes.
#![allow(unsafe_code)] // exported C functions

mod call_config;
mod changes;
mod check;
mod collectives;
mod communicators;
mod extensions;
mod one_sided;
mod operators;
mod windows;

use crate::failure::{Failure, Outcome};
use crate::{group, settings};
use nccl_sys::{Maker, Nccl, ncclResult_t};
use std::cell::RefCell;
use std::ffi::{CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The answer of `ncclGetVersion`: this library follows the behaviour of 2.32.3.
pub const VERSION: c_int = 23203;

thread_local! {
    static LAST_ERROR: RefCell<CString> = RefCell::default();
}

/// Runs the body of a C function: a refusal is remembered, a panic is an internal error.
pub(crate) fn enter(body: impl FnOnce() -> Outcome<()>) -> ncclResult_t {
    let outcome = catch_unwind(AssertUnwindSafe(body))
        .unwrap_or_else(|_| Err(Failure::internal("the software library failed: this is a bug in it")));
    match outcome {
        Ok(()) => ncclResult_t::Success,
        Err(failure) => {
            let text = CString::new(failure.text.replace('\0', " ")).unwrap_or_default();
            // In a thread that ends, no call can read the text any more.
            let _ = LAST_ERROR.try_with(|last| last.replace(text));
            failure.code
        }
    }
}

/// The answer of a call that makes a communicator from another one. As with NCCL, it is success while the call continues, and
/// only `ncclCommGetAsyncError` reports that it does.
fn begun(outcome: Outcome<()>) -> Outcome<()> {
    outcome.or_else(|failure| if failure.code == ncclResult_t::InProgress { Ok(()) } else { Err(failure) })
}

/// Writes an answer through a pointer of the caller.
///
/// # Safety
/// A non-null `place` is valid for a write.
pub(crate) unsafe fn write<T>(place: *mut T, value: T, what: &str) -> Outcome<()> {
    if place.is_null() {
        return Err(Failure::argument(format!("the place for {what} is null")));
    }
    // SAFETY: not null, and the caller vouches for the rest.
    unsafe { place.write(value) };
    Ok(())
}

unsafe extern "C" fn get_version(version: *mut c_int) -> ncclResult_t {
    // SAFETY: NCCL's contract: a place for an int.
    enter(|| unsafe { write(version, VERSION, "the version") })
}

extern "C" fn get_error_string(result: ncclResult_t) -> *const c_char {
    let text = match result {
        ncclResult_t::Success => c"no error",
        ncclResult_t::UnhandledCudaError => c"the device refused a call",
        ncclResult_t::SystemError => c"the operating system refused a call, or a peer cannot be reached",
        ncclResult_t::InternalError => c"a bug in the software library",
        ncclResult_t::InvalidArgument => c"an argument is out of range (see the last error)",
        ncclResult_t::InvalidUsage => c"the call is not allowed here (see the last error)",
        ncclResult_t::RemoteError => c"another rank is gone",
        ncclResult_t::InProgress => c"still in progress",
        ncclResult_t::Timeout => c"a time limit passed",
        _ => c"unknown result code",
    };
    text.as_ptr()
}

extern "C" fn get_last_error(_comm: nccl_sys::ncclComm_t) -> *const c_char {
    LAST_ERROR.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

extern "C" fn group_start() -> ncclResult_t {
    enter(group::start)
}

extern "C" fn group_end() -> ncclResult_t {
    enter(group::end)
}

/// The table of the library's functions.
pub(crate) fn table() -> Nccl {
    let mut table = Nccl::empty("soft-nccl");
    table.maker = Maker::Collspec;
    table.ncclGetVersion = Some(get_version);
    table.ncclGetErrorString = Some(get_error_string);
    table.ncclGetLastError = Some(get_last_error);
    table.ncclGroupStart = Some(group_start);
    table.ncclGroupEnd = Some(group_end);
    communicators::fill(&mut table);
    changes::fill(&mut table);
    collectives::fill(&mut table);
    operators::fill(&mut table);
    extensions::fill(&mut table);
    windows::fill(&mut table);
    one_sided::fill(&mut table);
    table
}

/// Refuses everything if the settings cannot be understood.
fn check_settings() -> Outcome<()> {
    let settings = settings::settings();
    let refused = |wrong: Option<&str>| wrong.map_or(Ok(()), |wrong| Err(Failure::usage(wrong)));
    refused(settings.algorithms.error().or(settings.protocols.error()))?;
    refused(settings.error.as_deref())
}
