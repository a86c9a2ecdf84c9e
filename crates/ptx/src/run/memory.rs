//! Memory that kernels reach by address. An access outside of what is mapped is refused before it happens.
#![allow(unsafe_code)] // kernels have addresses, which are those of the host

use std::fmt;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

/// Bytes from `start` to before `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// The first byte.
    pub start: u64,
    /// The byte after the last.
    pub end: u64,
}

impl Region {
    /// So many bytes from an address on.
    pub fn new(start: u64, len: u64) -> Self {
        Self { start, end: start.saturating_add(len) }
    }

    fn holds(&self, address: u64, len: u64) -> bool {
        self.start <= address && address.checked_add(len).is_some_and(|end| end <= self.end)
    }
}

/// An access that is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadAccess {
    /// The address is not a multiple of the access's size.
    Misaligned,
    /// The bytes are not in one region that is mapped.
    Unmapped,
}

impl fmt::Display for BadAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Misaligned => "a misaligned address",
            Self::Unmapped => "an address outside of all memory",
        })
    }
}

/// The memory that all kernels of a device reach, in regions that do not overlap.
#[derive(Debug, Default)]
pub struct Memory {
    /// By their start. Replaced as a whole, so that a warp can keep the list that it has.
    regions: RwLock<Arc<Vec<Region>>>,
    /// How often the list was replaced.
    changes: AtomicU64,
}

impl Memory {
    /// Lets kernels reach this memory.
    ///
    /// # Safety
    /// It is readable and writable until it is unmapped and all kernels that run then have ended. Others access it meanwhile only as threads may
    /// that share memory: by atomic accesses, or in an order that synchronisation gives.
    pub unsafe fn map(&self, region: Region) {
        self.change(|regions| {
            let at = regions.partition_point(|known| known.start < region.start);
            regions.insert(at, region);
        });
    }

    /// Takes the memory that begins at this address away.
    pub fn unmap(&self, start: u64) {
        self.change(|regions| regions.retain(|region| region.start != start));
    }

    fn change(&self, f: impl FnOnce(&mut Vec<Region>)) {
        let mut regions = self.regions.write().unwrap_or_else(PoisonError::into_inner);
        f(Arc::make_mut(&mut regions));
        self.changes.fetch_add(1, Ordering::Release);
    }
}

/// The memory that one warp reaches: the device's, and its own.
#[derive(Debug)]
pub struct Reach {
    memory: Arc<Memory>,
    known: Arc<Vec<Region>>,
    changes: u64,
    /// Its block's shared memory, its local memory, and the launch's parameters.
    own: Vec<Region>,
    /// The region of the last access.
    last: Region,
}

impl Reach {
    /// # Safety
    /// What `own` names is readable and writable as long as this lives, in the way that [`Memory::map`] says.
    pub unsafe fn new(memory: Arc<Memory>, own: Vec<Region>) -> Self {
        Self { memory, known: Arc::default(), changes: u64::MAX, own, last: Region::new(0, 0) }
    }

    /// Adds memory of its own.
    ///
    /// # Safety
    /// It is removed before the buffer is dropped.
    pub unsafe fn add(&mut self, buffer: &Buffer) {
        self.own.push(buffer.region());
    }

    /// Takes a region of its own away.
    pub fn remove(&mut self, start: u64) {
        self.own.retain(|region| region.start != start);
        self.last = Region::new(0, 0);
    }

    fn check(&mut self, address: u64, len: u64) -> Result<(), BadAccess> {
        if !address.is_multiple_of(len) {
            return Err(BadAccess::Misaligned);
        }
        let changes = self.memory.changes.load(Ordering::Acquire);
        if changes != self.changes {
            self.changes = changes;
            self.known = self.memory.regions.read().unwrap_or_else(PoisonError::into_inner).clone();
            self.last = Region::new(0, 0);
        }
        if self.last.holds(address, len) {
            return Ok(());
        }
        let own = self.own.iter().find(|region| region.holds(address, len));
        let found = own.or_else(|| {
            let after = self.known.partition_point(|region| region.start <= address);
            self.known.get(after.checked_sub(1)?).filter(|region| region.holds(address, len))
        });
        self.last = *found.ok_or(BadAccess::Unmapped)?;
        Ok(())
    }

    /// Reads 1, 2, 4, 8 or 16 bytes, which are not torn.
    ///
    /// # Errors
    ///
    /// The access is refused.
    pub fn load(&mut self, address: u64, len: u32, order: Ordering) -> Result<u128, BadAccess> {
        self.check(address, u64::from(len))?;
        let at = address as usize;
        // SAFETY: the bytes lie in a region whose owner has promised that they are readable, and the address is aligned.
        Ok(unsafe {
            match len {
                1 => u128::from((*(at as *const AtomicU8)).load(order)),
                2 => u128::from((*(at as *const AtomicU16)).load(order)),
                4 => u128::from((*(at as *const AtomicU32)).load(order)),
                8 => u128::from((*(at as *const AtomicU64)).load(order)),
                _ => wide::load(at as *const u128),
            }
        })
    }

    /// Writes 1, 2, 4, 8 or 16 bytes, which are not torn.
    ///
    /// # Errors
    ///
    /// The access is refused.
    pub fn store(&mut self, address: u64, len: u32, value: u128, order: Ordering) -> Result<(), BadAccess> {
        self.check(address, u64::from(len))?;
        let at = address as usize;
        // SAFETY: the bytes lie in a region whose owner has promised that they are writable, and the address is aligned.
        unsafe {
            match len {
                1 => (*(at as *const AtomicU8)).store(value as u8, order),
                2 => (*(at as *const AtomicU16)).store(value as u16, order),
                4 => (*(at as *const AtomicU32)).store(value as u32, order),
                8 => (*(at as *const AtomicU64)).store(value as u64, order),
                _ => wide::store(at as *mut u128, value),
            }
        }
        Ok(())
    }

    /// Replaces 4 or 8 bytes by what `f` makes of them, at once; gives what they were.
    ///
    /// # Errors
    ///
    /// The access is refused.
    pub fn update(&mut self, address: u64, len: u32, f: impl Fn(u64) -> u64) -> Result<u64, BadAccess> {
        self.check(address, u64::from(len))?;
        let at = address as usize;
        let order = Ordering::SeqCst;
        // SAFETY: as for a store.
        let old = unsafe {
            if len == 4 {
                let cell = &*(at as *const AtomicU32);
                cell.fetch_update(order, order, |old| Some(f(u64::from(old)) as u32)).map(u64::from).unwrap_or_default()
            } else {
                let cell = &*(at as *const AtomicU64);
                cell.fetch_update(order, order, |old| Some(f(old))).unwrap_or_default()
            }
        };
        Ok(old)
    }
}

/// 16 bytes, aligned to as many.
#[derive(Debug, Default)]
#[repr(align(16))]
struct Words([AtomicU64; 2]);

/// Memory of the device's own, zero at first. Kernels may change it while others hold it.
#[derive(Debug)]
pub struct Buffer(Box<[Words]>);

impl Buffer {
    /// At least so many bytes.
    pub fn new(len: u64) -> Self {
        Self((0..len.div_ceil(16)).map(|_| Words::default()).collect())
    }

    /// All of it.
    pub fn region(&self) -> Region {
        Region::new(self.0.as_ptr() as u64, 16 * self.0.len() as u64)
    }

    /// Lets kernels reach it.
    ///
    /// # Safety
    /// It is unmapped, and the kernels that reach it have ended, before it is dropped.
    pub unsafe fn map_in(&self, memory: &Memory) {
        // SAFETY: the caller vouches for its life, and all else reaches it by atomic accesses.
        unsafe { memory.map(self.region()) }
    }

    /// Writes bytes from an offset on, as far as there is room.
    pub fn write(&self, offset: u64, bytes: &[u8]) {
        for (at, byte) in (offset..).zip(bytes) {
            let Some(word) = self.0.get(at as usize / 16).map(|words| &words.0[at as usize / 8 % 2]) else { return };
            let shift = 8 * (at % 8);
            let old = word.load(Ordering::Relaxed);
            word.store(old & !(0xff << shift) | u64::from(*byte) << shift, Ordering::Relaxed);
        }
    }
}

/// Accesses of 16 bytes.
#[cfg(target_arch = "x86_64")]
mod wide {
    use std::arch::asm;
    use std::arch::x86_64::__m128i;

    /// # Safety
    /// The address is aligned and readable.
    pub unsafe fn load(from: *const u128) -> u128 {
        let value: __m128i;
        // SAFETY: the caller vouches for the address. Aligned accesses of 16 bytes are not torn on processors with AVX.
        unsafe {
            asm!("movdqa {}, [{}]", out(xmm_reg) value, in(reg) from, options(nostack, readonly, preserves_flags));
            std::mem::transmute(value)
        }
    }

    /// # Safety
    /// The address is aligned and writable.
    pub unsafe fn store(to: *mut u128, value: u128) {
        // SAFETY: as for `load`.
        unsafe {
            let value: __m128i = std::mem::transmute(value);
            asm!("movdqa [{}], {}", in(reg) to, in(xmm_reg) value, options(nostack, preserves_flags));
        }
    }
}

/// Accesses of 16 bytes: on other processors in two halves, the flags of NCCL's protocols being in the upper one.
#[cfg(not(target_arch = "x86_64"))]
mod wide {
    use std::sync::atomic::{AtomicU64, Ordering};

    /// # Safety
    /// The address is aligned and readable.
    pub unsafe fn load(from: *const u128) -> u128 {
        // SAFETY: the caller vouches for both halves.
        let [low, high] = unsafe { &*from.cast::<[AtomicU64; 2]>() };
        let upper = high.load(Ordering::Acquire);
        u128::from(upper) << 64 | u128::from(low.load(Ordering::Relaxed))
    }

    /// # Safety
    /// The address is aligned and writable.
    pub unsafe fn store(to: *mut u128, value: u128) {
        // SAFETY: the caller vouches for both halves.
        let [low, high] = unsafe { &*to.cast::<[AtomicU64; 2]>() };
        low.store(value as u64, Ordering::Relaxed);
        high.store((value >> 64) as u64, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[repr(align(16))]
    struct Block([u8; 64]);

    fn reach(block: &mut Block, len: u64) -> Reach {
        let memory = Arc::new(Memory::default());
        let start = block.0.as_mut_ptr() as u64;
        // SAFETY: the block lives as long as the test uses it.
        unsafe {
            memory.map(Region::new(start, len));
            Reach::new(memory, Vec::new())
        }
    }

    #[test]
    fn accesses_of_every_size() {
        let mut block = Block([0; 64]);
        let start = block.0.as_mut_ptr() as u64;
        let mut reach = reach(&mut block, 64);
        for len in [1, 2, 4, 8, 16] {
            let value = 0x0f0e_0d0c_0b0a_0908_0706_0504_0302_0100u128;
            reach.store(start + 32, len, value, Ordering::Relaxed).unwrap();
            let kept = if len == 16 { value } else { value & ((1 << (8 * len)) - 1) };
            assert_eq!(reach.load(start + 32, len, Ordering::Acquire), Ok(kept));
        }
        assert_eq!(reach.update(start, 4, |old| old + 5), Ok(0));
        assert_eq!(reach.update(start, 8, |old| old + 5), Ok(5));
        assert_eq!(block.0[..2], [10, 0]);
    }

    #[test]
    fn what_lies_outside_is_refused() {
        let mut block = Block([0; 64]);
        let start = block.0.as_mut_ptr() as u64;
        let mut reach = reach(&mut block, 40);
        assert_eq!(reach.load(start + 32, 8, Ordering::Relaxed), Ok(0));
        assert_eq!(reach.load(start + 32, 16, Ordering::Relaxed), Err(BadAccess::Unmapped));
        assert_eq!(reach.store(start + 40, 1, 0, Ordering::Relaxed), Err(BadAccess::Unmapped));
        assert_eq!(reach.load(start + 2, 4, Ordering::Relaxed), Err(BadAccess::Misaligned));
        assert_eq!(reach.load(0, 4, Ordering::Relaxed), Err(BadAccess::Unmapped));
        assert_eq!(reach.load(u64::MAX - 7, 8, Ordering::Relaxed), Err(BadAccess::Unmapped));
        reach.memory.unmap(start);
        assert_eq!(reach.load(start, 4, Ordering::Relaxed), Err(BadAccess::Unmapped));
    }
}
