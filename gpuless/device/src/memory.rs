//! Device memory on the host, registered so that pointers can be checked.
#![allow(unsafe_code)] // allocation is raw by nature

use memmap2::{Advice, MmapOptions, MmapRaw};
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::collections::BTreeMap;
use std::sync::{OnceLock, PoisonError, RwLock};

/// Memory of this size and alignment cannot be allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot allocate {len} bytes of device memory (alignment {align})")]
pub struct OutOfMemory {
    /// Number of bytes requested.
    pub len: usize,
    /// Alignment requested.
    pub align: usize,
}

struct Allocation {
    len: usize,
    memory: Memory,
}

/// The source of an allocation's memory.
enum Memory {
    /// The Rust allocator.
    Allocated(Layout),
    /// A mapping, which is unmapped when this is dropped.
    Mapped(#[expect(dead_code, reason = "held, never read")] MmapRaw),
    /// Memory that another module provides.
    Adopted,
}

/// Size from which on memory is mapped separately, so that it can have huge pages and none is allocated before it is touched.
const MANY: usize = 4 << 20;
/// The alignment of every mapping.
const PAGE: usize = 4096;

/// Live allocations by address.
static ALLOCATIONS: RwLock<BTreeMap<usize, Allocation>> = RwLock::new(BTreeMap::new());

/// A callback that receives the address and length of new device memory, or the address without a length when it is about to be freed.
pub type Watch = fn(address: usize, len: Option<usize>);

/// Set under the write lock of the allocations.
static WATCH: OnceLock<Watch> = OnceLock::new();

/// Calls `watch` for all device memory that there is, and for every change from now on. It must not use this module. The first one stays.
pub fn watch(watch: Watch) {
    let allocations = ALLOCATIONS.write().unwrap_or_else(PoisonError::into_inner);
    if WATCH.set(watch).is_ok() {
        allocations.iter().for_each(|(address, block)| watch(*address, Some(block.len)));
    }
}

fn insert(address: usize, allocation: Allocation) {
    let mut allocations = ALLOCATIONS.write().unwrap_or_else(PoisonError::into_inner);
    if let Some(watch) = WATCH.get() {
        watch(address, Some(allocation.len));
    }
    allocations.insert(address, allocation);
}

/// Device memory on the host: size zero is legal and gives a unique address; the alignment is a power of two.
///
/// # Errors
/// The memory cannot be allocated, or no memory can have this size and alignment.
pub fn alloc(len: usize, align: usize) -> Result<*mut u8, OutOfMemory> {
    let fail = OutOfMemory { len, align };
    // at least one byte, so that every allocation has an address that no other has
    let layout = Layout::from_size_align(len.max(1), align).map_err(|_| fail)?;
    let mapped = if len >= MANY && align <= PAGE { mapping(len) } else { None };
    let (ptr, memory) = match mapped {
        Some(map) => (map.as_mut_ptr(), Memory::Mapped(map)),
        // SAFETY: the layout's size is not zero.
        None => (unsafe { alloc_zeroed(layout) }, Memory::Allocated(layout)),
    };
    if ptr.is_null() {
        return Err(fail);
    }
    insert(ptr as usize, Allocation { len, memory });
    Ok(ptr)
}

/// Zeros of this process alone.
fn mapping(len: usize) -> Option<MmapRaw> {
    let map = MmapOptions::new().len(len).map_anon().ok()?;
    // Without huge pages it is slower, and nothing else.
    let _ = map.advise(Advice::HugePage);
    Some(map.into())
}

/// Makes existing memory device memory, until [`free`] is called with its address; no part of it is device memory yet.
pub fn adopt(ptr: *mut u8, len: usize) {
    insert(ptr as usize, Allocation { len, memory: Memory::Adopted });
}

/// Frees memory from [`alloc`], or ends an [`adopt`]. An address that is not a live allocation's is left alone.
///
/// # Safety
/// Nothing uses the memory afterwards, work enqueued on a stream included.
pub unsafe fn free(ptr: *mut u8) {
    let block = {
        let mut allocations = ALLOCATIONS.write().unwrap_or_else(PoisonError::into_inner);
        let block = allocations.remove(&(ptr as usize));
        if let Some(watch) = WATCH.get().filter(|_| block.is_some()) {
            watch(ptr as usize, None);
        }
        block
    };
    if let Some(Memory::Allocated(layout)) = block.map(|block| block.memory) {
        // SAFETY: the address was in the table, so it came from `alloc_zeroed` with this layout and was not freed yet.
        unsafe { dealloc(ptr, layout) };
    }
}

/// Bytes of all live allocations of this process.
pub fn in_use() -> u64 {
    let blocks = ALLOCATIONS.read().unwrap_or_else(PoisonError::into_inner);
    blocks.values().map(|block| block.len as u64).sum()
}

/// True if `[ptr, ptr + len)` lies inside one live allocation.
pub fn contains(ptr: *const u8, len: usize) -> bool {
    start_of(ptr, len).is_some()
}

/// The start and the length of the live allocation in which this address lies.
pub fn block_of(ptr: *const u8) -> Option<(usize, usize)> {
    let address = ptr as usize;
    let blocks = ALLOCATIONS.read().unwrap_or_else(PoisonError::into_inner);
    let (base, block) = blocks.range(..=address).next_back()?;
    (address - base < block.len).then_some((*base, block.len))
}

/// The start of the live allocation inside which `[ptr, ptr + len)` lies.
pub fn start_of(ptr: *const u8, len: usize) -> Option<usize> {
    let address = ptr as usize;
    let blocks = ALLOCATIONS.read().unwrap_or_else(PoisonError::into_inner);
    let (base, block) = blocks.range(..=address).next_back()?;
    let offset = address - base;
    (offset <= block.len && len <= block.len - offset).then_some(*base)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointers_are_checked_against_live_blocks() {
        for align in [1, 256, 4096] {
            let p = alloc(100, align).unwrap();
            assert_eq!(p as usize % align, 0);
            assert!(contains(p, 100) && contains(p.wrapping_add(99), 1) && contains(p.wrapping_add(100), 0));
            assert!(!contains(p, 101) && !contains(p.wrapping_add(99), 2) && !contains(p, usize::MAX));
            assert!(!contains(p.wrapping_sub(1), 1));
            assert_eq!(start_of(p.wrapping_add(7), 93), Some(p as usize));
            assert_eq!(block_of(p.wrapping_add(99)), Some((p as usize, 100)));
            assert_eq!(block_of(p.wrapping_add(100)), None);
            // SAFETY: it is not used any more.
            unsafe { free(p) };
            assert!(!contains(p, 1));
        }
    }

    #[test]
    fn memory_from_elsewhere_is_device_memory_until_it_is_freed() {
        let mut own = [7u8; 64];
        let p = own.as_mut_ptr();
        adopt(p, 64);
        assert!(contains(p, 64) && !contains(p, 65));
        // SAFETY: it is not used any more.
        unsafe { free(p) };
        assert!(!contains(p, 1));
        assert_eq!(own, [7; 64]);
    }

    #[test]
    fn who_watches_sees_every_block_come_and_go() {
        use std::sync::Mutex;
        static SEEN: Mutex<Vec<(usize, Option<usize>)>> = Mutex::new(Vec::new());
        let before = alloc(77, 64).unwrap();
        watch(|address, len| SEEN.lock().unwrap().push((address, len)));
        let after = alloc(78, 64).unwrap();
        // SAFETY: they are not used any more.
        unsafe { (free(before), free(after)) };
        let seen = SEEN.lock().unwrap();
        let of = |block: *mut u8| -> Vec<_> {
            seen.iter().filter(|(address, _)| *address == block as usize).map(|(_, len)| *len).take(2).collect()
        };
        assert_eq!((of(before), of(after)), (vec![Some(77), None], vec![Some(78), None]));
    }

    #[test]
    fn large_blocks_are_zeros_that_are_given_back() {
        for (len, align) in [(MANY - 1, 64), (MANY, 1), (MANY + 1, PAGE), (MANY, 2 * PAGE)] {
            let p = alloc(len, align).unwrap();
            assert_eq!(p as usize % align, 0);
            assert!(contains(p, len) && !contains(p, len + 1));
            // SAFETY: memory of that length, which only this thread knows.
            let bytes = unsafe { std::slice::from_raw_parts_mut(p, len) };
            assert!(bytes.iter().all(|byte| *byte == 0));
            bytes.fill(7);
            // SAFETY: it is not used any more.
            unsafe { free(p) };
            assert!(!contains(p, 1), "{len}");
        }
    }

    #[test]
    fn zero_bytes_have_an_address_each() {
        let (a, b) = (alloc(0, 4096).unwrap(), alloc(0, 4096).unwrap());
        assert!(a != b && contains(a, 0) && !contains(a, 1));
        // SAFETY: they are not used any more.
        unsafe { (free(a), free(b)) };
    }

    #[test]
    fn what_cannot_be_is_an_error() {
        assert_eq!(alloc(usize::MAX, 1), Err(OutOfMemory { len: usize::MAX, align: 1 }));
        assert!(alloc(8, 3).is_err());
    }
}
