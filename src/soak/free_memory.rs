//! Memory that is free, but that the allocator has not given back.
#![allow(unsafe_code)] // the allocator is asked to give memory back

/// Gives back what is free. The allocator keeps free memory for each of up to eight threads per processor, so what a process holds rises for a
/// long time even if nothing is lost.
pub(super) fn give_back() {
    // SAFETY: the allocator may be asked at any time, and what is in use stays where it is.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0)
    };
}
