//! Memory that is free, but that the allocator has not given back.
#![allow(unsafe_code)] // the allocator is asked to give memory back

/// Returns free memory to the system. The allocator keeps free memory for each of up to eight threads per processor, so the memory
/// of a process grows for a long time even if nothing is leaked.
pub fn give_back() {
    // SAFETY: the allocator may be called at any time, and memory in use stays where it is.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0)
    };
}
