//! What a thread of a library owes the program that it runs in.
#![allow(unsafe_code)] // the loader, and signals

/// The thread's code must stay: a program may close the shared library that this crate is in.
pub fn stay_loaded() {
    // SAFETY: the calls fill in this frame's record, and get a name from it. The handle is never closed. Nothing depends on success in a
    // program, which cannot be unloaded.
    unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        if libc::dladdr((stay_loaded as *const ()).cast(), &raw mut info) != 0 {
            libc::dlopen(info.dli_fname, libc::RTLD_LAZY | libc::RTLD_NOLOAD | libc::RTLD_NODELETE);
        }
    }
}

/// A program's handlers of signals are for its own threads.
pub fn block_signals() {
    // SAFETY: this frame's set, and this thread's mask.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const all, std::ptr::null_mut());
    }
}
