//! The host device, on gpuless-device.
#![allow(unsafe_code)] // copies between raw addresses

use super::device::{Address, DeviceError, MemoryOwner};
use super::library::Library;
use super::stream::MapFn;
use crate::job::arena::{Mapping, Outside, Span};
pub(super) use gpuless_device::Stream;
use std::sync::Arc;

/// Alignment of allocations, which NCCL's windows need.
const ALIGN: usize = 4096;

/// A block of gpuless-device's memory.
#[derive(Debug)]
pub(super) struct HostMemory {
    base: u64,
    len: u64,
    owner: MemoryOwner,
    /// The arena that it lies in, if it lies in one.
    arena: Option<Arc<Mapping>>,
}

impl HostMemory {
    /// Memory that the library has allocated and frees.
    pub fn of_library(library: &'static Library, base: Address, len: u64) -> Self {
        Self { base: base.0, len, owner: MemoryOwner::Library(library), arena: None }
    }
    pub fn new(len: u64) -> Result<Self, DeviceError> {
        let bytes = usize::try_from(len).unwrap_or(usize::MAX);
        let base = gpuless_device::memory::alloc(bytes, ALIGN)?.expose_provenance() as u64;
        Ok(Self { base, len, owner: MemoryOwner::Device, arena: None })
    }
    /// Memory that lies in the arena, and stays there.
    ///
    /// # Errors
    ///
    /// The arena does not have it.
    pub fn in_arena(arena: &Arc<Mapping>, at: u64, len: u64) -> Result<Self, Outside> {
        let span = arena.span(at, len)?;
        span.populate();
        gpuless_device::memory::adopt(span.as_ptr(), span.len());
        let base = span.as_ptr().expose_provenance() as u64;
        Ok(Self { base, len, owner: MemoryOwner::Device, arena: Some(arena.clone()) })
    }
    /// The address of `len` bytes inside the block.
    ///
    /// # Errors
    ///
    /// The bytes are not inside the block.
    pub fn at(&self, byte: u64, len: u64) -> Result<Address, DeviceError> {
        let to = byte.saturating_add(len);
        if to > self.len {
            return Err(DeviceError::Outside { from: byte, to, len: self.len });
        }
        Ok(Address(self.base + byte))
    }
    pub fn load(&self, from: &Span<'_>) -> Result<(), DeviceError> {
        if self.arena.is_some() {
            return Ok(());
        }
        let to = self.at(0, from.len() as u64)?;
        // SAFETY: `at` checked that the block has the bytes; the span is inside the arena; the two never overlap.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to.as_ptr().cast::<u8>(), from.len()) };
        Ok(())
    }
    pub fn save(&self, to: &Span<'_>) -> Result<(), DeviceError> {
        if self.arena.is_some() {
            return Ok(());
        }
        let from = self.at(0, to.len() as u64)?;
        // SAFETY: as in `load`.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr().cast::<u8>(), to.as_ptr(), to.len()) };
        Ok(())
    }
}

impl Drop for HostMemory {
    fn drop(&mut self) {
        match self.owner {
            // SAFETY: the address is `alloc`'s or `adopt`'s; a block is dropped after the work that uses it has ended.
            MemoryOwner::Device => unsafe { gpuless_device::memory::free(Address(self.base).as_ptr().cast()) },
            MemoryOwner::Library(library) => library.mem_free(Address(self.base)),
        }
    }
}

pub(super) fn copy(stream: &Stream, to: Address, from: Address, len: u64) {
    // SAFETY: both are addresses inside blocks that outlive the stream's work (see `Stream::copy` of the device).
    unsafe { stream.copy(to.as_ptr().cast(), from.as_ptr().cast_const().cast(), len as usize) };
}

pub(super) fn map(stream: &Stream, reads: Vec<(Address, u64)>, out: Address, out_len: u64, f: MapFn) {
    stream.repeatable_host_fn(Arc::new(move || {
        // copies, because `out` may be one of them, and because a Rust reference must not be made to memory shared with the library
        let inputs: Vec<Vec<u8>> = reads
            .iter()
            .map(|(address, len)| {
                let mut bytes = vec![0u8; *len as usize];
                // SAFETY: the caller's ranges lie inside live blocks; the plan orders them with other accesses.
                unsafe {
                    std::ptr::copy_nonoverlapping(address.as_ptr().cast::<u8>(), bytes.as_mut_ptr(), bytes.len())
                };
                bytes
            })
            .collect();
        if let Some(result) = f(&inputs) {
            let len = result.len().min(out_len as usize);
            // SAFETY: as above.
            unsafe { std::ptr::copy_nonoverlapping(result.as_ptr(), out.as_ptr().cast::<u8>(), len) };
        }
    }));
}
