//! Signals that must not end a process which can say what is wrong.
#![allow(unsafe_code)] // the disposition of a signal

/// A write beyond the limit of file sizes (`ulimit -f`) answers with an error from now on, here and in child processes. By
/// default the signal SIGXFSZ ends the process, and every verdict is lost.
pub fn report_file_size_limit() {
    // SAFETY: ignoring a signal runs no code of ours; nothing else in this program sets this one.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}
