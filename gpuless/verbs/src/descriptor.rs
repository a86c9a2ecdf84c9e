//! File descriptors that threads wait on.
#![allow(unsafe_code)] // system calls

use libc::{c_int, c_void};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// A semaphore with a descriptor, which callers may poll as they do with the kernel's.
#[derive(Debug)]
pub struct Counter(OwnedFd);

impl Counter {
    /// # Errors
    ///
    /// The process or the machine has no more descriptors.
    pub fn new(flags: c_int) -> io::Result<Self> {
        // SAFETY: only numbers.
        let got = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | flags) };
        if got < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a new descriptor that nothing else owns.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(got) }))
    }

    pub fn add(&self) {
        let one = 1u64;
        // SAFETY: eight bytes of this frame. Only a counter near its end would refuse, and then its reader is awake anyway.
        unsafe { libc::write(self.0.as_raw_fd(), (&raw const one).cast::<c_void>(), 8) };
    }

    /// Waits until there is something to take, unless the descriptor was set not to block.
    ///
    /// # Errors
    ///
    /// It would block, or a signal came.
    pub fn take(&self) -> io::Result<()> {
        let mut value = 0u64;
        // SAFETY: eight bytes of this frame.
        let got = unsafe { libc::read(self.0.as_raw_fd(), (&raw mut value).cast::<c_void>(), 8) };
        if got == 8 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

impl AsRawFd for Counter {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}
