//! Blocks of memory that the library allocates, and information on all others.
#![allow(unsafe_code)] // a CUDA driver is called

use super::{contains, driver, linked_in};
use crate::failure::{Failure, Outcome};
use std::collections::BTreeMap;
use std::ptr::with_exposed_provenance_mut;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Alignment of blocks, which is that of windows.
const ALIGN: usize = nccl_sys::NCCL_WIN_REQUIRED_ALIGNMENT;

/// A block that the library has allocated.
struct Block {
    len: usize,
    /// The address that the device returned; the block begins at its first aligned address.
    given: usize,
}

/// The blocks by address.
static BLOCKS: Mutex<BTreeMap<usize, Block>> = Mutex::new(BTreeMap::new());

fn blocks() -> MutexGuard<'static, BTreeMap<usize, Block>> {
    BLOCKS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Allocates a block of device memory.
pub(crate) fn allocate(len: usize) -> Outcome<usize> {
    let none = || Failure::system(format!("there is no device memory for {len} bytes"));
    let given = if linked_in() {
        gpuless_device::memory::alloc(len, ALIGN).map_err(|_| none())?.expose_provenance()
    } else {
        driver::driver()?.allocate(len.checked_add(ALIGN).ok_or_else(none)?)?
    };
    let base = given.next_multiple_of(ALIGN);
    blocks().insert(base, Block { len, given });
    Ok(base)
}

/// Frees a block of [`allocate`].
///
/// # Safety
/// Nothing uses the block afterwards, work that is enqueued included.
pub(crate) unsafe fn free(base: usize) -> Outcome<()> {
    let unknown = || Failure::argument("this memory was not allocated by ncclMemAlloc, or is free already");
    let block = blocks().remove(&base).ok_or_else(unknown)?;
    if linked_in() {
        // SAFETY: `allocate` returned it, and the caller vouches for the rest.
        unsafe { gpuless_device::memory::free(with_exposed_provenance_mut(block.given)) };
        return Ok(());
    }
    // SAFETY: as above.
    unsafe { driver::driver()?.free(block.given) }
}

/// The start of the block of device memory that holds these bytes; `None` if no block holds all of them. Of memory that
/// neither the library nor its device has allocated nothing is known, and it counts as a block.
pub(crate) fn block_of(address: usize, len: usize) -> Option<usize> {
    let inside = |base: usize, of: usize| len <= of && address - base <= of - len;
    if let Some((base, block)) = blocks().range(..=address).next_back()
        && inside(*base, block.len)
    {
        return Some(*base);
    }
    if linked_in() {
        return gpuless_device::memory::start_of(std::ptr::without_provenance(address), len);
    }
    contains(address, len).then_some(address)
}
