//! What the operating system has refused to this process: memory, addresses or descriptors. A library takes such a refusal for a device
//! that is full, so whoever judges the library has to be able to tell that its machine is at fault.
use super::errors;
use std::ffi::c_int;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

static SHORTAGE: Mutex<Option<String>> = Mutex::new(None);

fn locked() -> MutexGuard<'static, Option<String>> {
    SHORTAGE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The first refusal since the last [`forget_shortage`], in words.
pub fn shortage() -> Option<String> {
    locked().clone()
}

/// Forgets earlier refusals.
pub fn forget_shortage() {
    *locked() = None;
}

/// Records a refusal, if the operating system has refused `what` because there is not enough of it.
pub(super) fn note(what: &str, error: &io::Error) {
    let short = [libc::ENOMEM, libc::EMFILE, libc::ENFILE, libc::ENOSPC, libc::EAGAIN];
    let is_short =
        error.kind() == io::ErrorKind::OutOfMemory || error.raw_os_error().is_some_and(|code| short.contains(&code));
    if is_short {
        locked().get_or_insert_with(|| format!("{what}: {error}"));
    }
}

/// The answer of a call for which the operating system has refused something.
pub(super) fn refused(what: &str, error: &io::Error) -> c_int {
    note(what, error);
    errors::MEMORY_ALLOCATION
}
