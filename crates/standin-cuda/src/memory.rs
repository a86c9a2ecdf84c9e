//! Device memory and pinned host memory.
use crate::{Out, codes, context, devices, driver, put, streams};
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::collections::BTreeMap;
use std::ffi::{c_int, c_uint, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The minimum alignment of real allocations.
const DEVICE_ALIGN: usize = 512;
const PINNED_ALIGN: usize = 4096;
const HOST_FLAGS: c_uint = 7;

const TYPE_HOST: u32 = 1;
const TYPE_DEVICE: u32 = 2;

/// Live allocations by address: length, and the device or none for host memory.
static BLOCKS: Mutex<BTreeMap<usize, Block>> = Mutex::new(BTreeMap::new());

#[derive(Clone, Copy)]
struct Block {
    len: usize,
    device: usize,
    pinned: bool,
}

fn blocks() -> MutexGuard<'static, BTreeMap<usize, Block>> {
    BLOCKS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The live block that holds all of these bytes.
fn holding(address: usize, len: usize) -> Option<(usize, Block)> {
    let blocks = blocks();
    let (base, block) = blocks.range(..=address).next_back()?;
    let offset = address - base;
    (offset <= block.len && len <= block.len - offset).then_some((*base, *block))
}

/// True if these bytes lie in one block of device memory.
pub(crate) fn on_device(address: usize, len: usize) -> bool {
    holding(address, len).is_some_and(|(_, block)| !block.pinned)
}

/// True if these bytes lie in one block of pinned host memory.
pub(crate) fn is_pinned(address: usize, len: usize) -> bool {
    holding(address, len).is_some_and(|(_, block)| block.pinned)
}

fn host_alloc(place: Out<'_, *mut c_void>, len: usize, flags: c_uint) -> Result<(), c_int> {
    let device = context::current()?;
    if flags & !HOST_FLAGS != 0 || len == 0 {
        return Err(codes::INVALID_VALUE);
    }
    let place = place.ok_or(codes::INVALID_VALUE)?;
    let layout = Layout::from_size_align(len, PINNED_ALIGN).map_err(|_| codes::OUT_OF_MEMORY)?;
    // SAFETY: the layout's size is not zero.
    let pointer = unsafe { alloc_zeroed(layout) };
    if pointer.is_null() {
        return Err(codes::OUT_OF_MEMORY);
    }
    blocks().insert(pointer.expose_provenance(), Block { len, device, pinned: true });
    place.write(pointer.cast());
    Ok(())
}

/// Takes a block out of the table if one of this kind begins here.
fn take(address: usize, pinned: bool) -> Result<Block, c_int> {
    let mut blocks = blocks();
    match blocks.get(&address) {
        Some(block) if block.pinned == pinned => blocks.remove(&address).ok_or(codes::INVALID_VALUE),
        _ => Err(codes::INVALID_VALUE),
    }
}

driver! {
    fn cuMemAlloc_v2(place: Out<'_, u64>, len: usize) {
        let device = context::current()?;
        if len == 0 {
            return Err(codes::INVALID_VALUE);
        }
        let place = place.ok_or(codes::INVALID_VALUE)?;
        let pointer = gpuless_device::memory::alloc(len, DEVICE_ALIGN).map_err(|_| codes::OUT_OF_MEMORY)?;
        blocks().insert(pointer.expose_provenance(), Block { len, device, pinned: false });
        place.write(pointer.addr() as u64);
        Ok(())
    }
    /// Waits for the device first.
    fn cuMemFree_v2(address: u64) {
        let device = context::current()?;
        if address == 0 {
            return Ok(());
        }
        let address = usize::try_from(address).map_err(|_| codes::INVALID_VALUE)?;
        streams::synchronize_all(device);
        let block = take(address, false)?;
        if block.device != device {
            streams::synchronize_all(block.device);
        }
        // SAFETY: it was in the table, so `alloc` made it, nothing else frees it, and the device's work is over.
        unsafe { gpuless_device::memory::free(std::ptr::with_exposed_provenance_mut(address)) };
        Ok(())
    }
    fn cuMemAllocHost_v2(place: Out<'_, *mut c_void>, len: usize) { host_alloc(place, len, 0) }
    fn cuMemHostAlloc(place: Out<'_, *mut c_void>, len: usize, flags: c_uint) { host_alloc(place, len, flags) }
    fn cuMemFreeHost(pointer: *mut c_void) {
        let device = context::current()?;
        if pointer.is_null() {
            return Ok(());
        }
        streams::synchronize_all(device);
        let block = take(pointer.addr(), true)?;
        let layout = Layout::from_size_align(block.len, PINNED_ALIGN).map_err(|_| codes::UNKNOWN)?;
        // SAFETY: it was in the table, so `host_alloc` made it with this layout, and nothing else frees it.
        unsafe { dealloc(pointer.cast(), layout) };
        Ok(())
    }
    fn cuMemGetInfo_v2(free: Out<'_, usize>, total: Out<'_, usize>) {
        let device = context::current()?;
        let used: usize = blocks().values().filter(|b| b.device == device && !b.pinned).map(|b| b.len).sum();
        put(free, devices::total_memory().saturating_sub(used))?;
        put(total, devices::total_memory())
    }
    fn cuMemGetAddressRange_v2(base: Out<'_, u64>, len: Out<'_, usize>, address: u64) {
        let address = usize::try_from(address).map_err(|_| codes::INVALID_VALUE)?;
        let (start, block) = holding(address, 1).filter(|(_, block)| !block.pinned).ok_or(codes::INVALID_VALUE)?;
        if let Some(base) = base {
            base.write(start as u64);
        }
        if let Some(len) = len {
            len.write(block.len);
        }
        Ok(())
    }
    /// Kind of memory, its device, and its address on either side, which are the same.
    fn cuPointerGetAttribute(value: *mut c_void, attribute: c_int, address: u64) {
        if value.is_null() {
            return Err(codes::INVALID_VALUE);
        }
        let place = usize::try_from(address).map_err(|_| codes::INVALID_VALUE)?;
        let (_, block) = holding(place, 1).ok_or(codes::INVALID_VALUE)?;
        // SAFETY: the driver's contract: the value has the type that belongs to the attribute.
        unsafe {
            match attribute {
                2 => value.cast::<u32>().write(if block.pinned { TYPE_HOST } else { TYPE_DEVICE }),
                3 | 4 => value.cast::<u64>().write(address),
                9 => value.cast::<c_int>().write(c_int::try_from(block.device).unwrap_or(c_int::MAX)),
                _ => return Err(codes::NOT_SUPPORTED),
            }
        }
        Ok(())
    }
}
