//! What the operating system has refused because the machine, or what this process may have of it, is used up. Functions that are called
//! in place of CUDA's can only answer an error that a full device has too; whoever judges the caller must know the difference.
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// No process has as many addresses, so that a larger request is wrong on any machine.
const ADDRESSES: usize = 1 << 46;

static FIRST: Mutex<Option<String>> = Mutex::new(None);

fn locked() -> MutexGuard<'static, Option<String>> {
    FIRST.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Notes an error of the system with what was asked for, `bytes` of it, if it says that there is no more. The first one stays.
pub fn note(what: &str, bytes: usize, error: &io::Error) {
    let used_up = [libc::ENOMEM, libc::EMFILE, libc::ENFILE, libc::ENOSPC, libc::EFBIG, libc::EAGAIN];
    if bytes < ADDRESSES && error.raw_os_error().is_some_and(|code| used_up.contains(&code)) {
        locked().get_or_insert_with(|| format!("{what}: {error}"));
    }
}

/// The first refusal since the last [`forget`], in words.
pub fn first() -> Option<String> {
    locked().clone()
}

/// Forgets what was refused.
pub fn forget() {
    *locked() = None;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_used_up_is_noted_and_the_first_stays() {
        let of = io::Error::from_raw_os_error;
        note("a map", 5, &of(libc::EINVAL));
        note("a map", 5, &io::ErrorKind::InvalidInput.into());
        note("more than any machine has", 1 << 60, &of(libc::ENOMEM));
        assert_eq!(first(), None);
        note("a file", 0, &of(libc::EMFILE));
        note("memory", 5, &of(libc::ENOMEM));
        assert_eq!(first(), Some("a file: Too many open files (os error 24)".to_owned()));
        forget();
        assert_eq!(first(), None);
    }
}
