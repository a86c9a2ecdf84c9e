//! Signals that must not end a process which can report the error itself.
#![allow(unsafe_code)] // the disposition of a signal
use std::sync::atomic::{AtomicBool, Ordering};

/// A write beyond the limit of file sizes (`ulimit -f`) answers with an error from now on, here and in child processes. By
/// default the signal SIGXFSZ ends the process, and every verdict is lost.
pub fn report_file_size_limit() {
    // SAFETY: ignoring a signal runs no code of ours; nothing else in this program sets this one.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// The first SIGINT from now on is only noted; the second one ends the process.
pub fn catch_interrupt() {
    extern "C" fn note(_: libc::c_int) {
        INTERRUPTED.store(true, Ordering::Relaxed);
    }
    let handler: extern "C" fn(libc::c_int) = note;
    // SAFETY: all fields of the structure are numbers and null pointers, for which zeros are values.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler as libc::sighandler_t;
    // system calls continue, and the next signal has its default effect
    action.sa_flags = libc::SA_RESTART | libc::SA_RESETHAND;
    // SAFETY: the handler does nothing but store to an atomic, which a handler may do; the old action is not wanted.
    unsafe { libc::sigaction(libc::SIGINT, &action, std::ptr::null_mut()) };
}

/// True once SIGINT was received.
pub fn is_interrupted() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}
