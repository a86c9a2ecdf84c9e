//! Memory of the device, which is host memory on both devices that this library works with.
#![allow(unsafe_code)] // a program's buffers are addresses

use std::ptr::{with_exposed_provenance, with_exposed_provenance_mut};
use std::sync::{Mutex, PoisonError};

/// Alignment of blocks, as a program's own have it.
const ALIGN: usize = 4096;

/// A block of device memory that is this library's own.
#[derive(Debug)]
pub(crate) struct Block {
    address: usize,
    len: usize,
}

impl Block {
    /// `None` if memory is short. The fault that needs the block then does nothing.
    pub(crate) fn new(len: usize) -> Option<Self> {
        let memory = gpuless_device::memory::alloc(len, ALIGN).ok()?;
        Some(Self { address: memory.expose_provenance(), len })
    }

    pub(crate) fn address(&self) -> usize {
        self.address
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        // SAFETY: the block lives and has this length.
        unsafe { read(self.address, self.len) }
    }

    pub(crate) fn fill(&self, bytes: &[u8]) {
        // SAFETY: the block lives and has this length.
        unsafe { write(self.address, &bytes[..bytes.len().min(self.len)]) }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: the work that uses the block keeps it alive, so none is left.
        unsafe { gpuless_device::memory::free(with_exposed_provenance_mut(self.address)) }
    }
}

/// Memory of operations whose end is not known.
static KEPT: Mutex<Vec<Box<dyn Send>>> = Mutex::new(Vec::new());

/// Keeps a value that owns memory until the next program begins.
pub(crate) fn keep(owner: impl Send + 'static) {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner).push(Box::new(owner));
}

/// A new program begins: all operations of the last one have ended.
pub(crate) fn forget() {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner).clear();
}

/// Copies bytes out of memory.
///
/// # Safety
/// `len` bytes are readable at the address.
pub(crate) unsafe fn read(address: usize, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    if len > 0 {
        // SAFETY: the caller vouches for the source; the vector has this length.
        unsafe { std::ptr::copy_nonoverlapping(with_exposed_provenance::<u8>(address), bytes.as_mut_ptr(), len) }
    }
    bytes
}

/// Copies bytes into memory.
///
/// # Safety
/// As many bytes are writable at the address.
pub(crate) unsafe fn write(address: usize, bytes: &[u8]) {
    if !bytes.is_empty() {
        // SAFETY: the caller vouches for the target, which is not part of this library's own memory.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), with_exposed_provenance_mut(address), bytes.len()) }
    }
}

/// True if this many bytes at the address are device memory.
pub(crate) fn is_there(address: usize, len: usize) -> bool {
    len == 0 || gpuless_device::memory::contains(with_exposed_provenance(address), len)
}
