//! Memory that kernels reach by address. An access outside mapped memory is refused before it happens.
#![allow(unsafe_code)] // kernels have addresses, which are those of the host

use super::Multicast;
use super::lanes::{LANES, Lanes, Mask, lanes_of};
use super::stores::Stores;
use super::word::{load_bits, update};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

/// Bytes from `start` to before `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// Address of the first byte.
    pub start: u64,
    /// The byte after the last.
    pub end: u64,
}

impl Region {
    /// The region of `len` bytes that begins at an address.
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
    /// The bytes are not in the block's shared memory, as they must be.
    NotShared,
    /// The bytes are not in multicast memory that every member has bound.
    NotMulticast,
}

impl fmt::Display for BadAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Misaligned => "a misaligned address",
            Self::Unmapped => "an address outside of all memory",
            Self::NotShared => "an address outside of the block's shared memory",
            Self::NotMulticast => "an address outside of multicast memory that every device has bound",
        })
    }
}

/// Regions that a warp remembers as recorded: more than it has peers, as a rule.
const MOST_WRITTEN: usize = 16;

/// Regions by their start. They may overlap: memory can be mapped again before the last kernel using it has ended.
#[derive(Clone, Debug, Default)]
struct Regions {
    all: Vec<Region>,
    /// For each region, the greatest end of it and those before it.
    ends: Vec<u64>,
}

impl Regions {
    fn add(&mut self, region: Region) {
        let at = self.all.partition_point(|known| known.start < region.start);
        match self.all.get_mut(at).filter(|known| known.start == region.start) {
            Some(known) => known.end = known.end.max(region.end),
            None => {
                self.all.insert(at, region);
                self.ends.insert(at, 0);
            }
        }
        self.note_ends(at);
    }

    fn remove(&mut self, start: u64) {
        if let Ok(at) = self.all.binary_search_by_key(&start, |region| region.start) {
            self.all.remove(at);
            self.ends.remove(at);
            self.note_ends(at);
        }
    }

    /// Notes the ends from a region on that has changed.
    fn note_ends(&mut self, from: usize) {
        let mut farthest = from.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or(0);
        for (region, end) in self.all.iter().zip(&mut self.ends).skip(from) {
            farthest = farthest.max(region.end);
            if *end == farthest {
                return;
            }
            *end = farthest;
        }
    }

    /// A region for which `holds` is true, among those that begin at or before an address and end after it.
    fn find(&self, address: u64, holds: impl Fn(&Region) -> bool) -> Option<&Region> {
        let before = self.all.partition_point(|region| region.start <= address);
        let ahead = self.all[..before].iter().zip(&self.ends).rev();
        let mut ahead = ahead.take_while(|(_, end)| end.saturating_add(15) > address);
        ahead.find(|(region, _)| holds(region)).map(|(region, _)| region)
    }
}

/// The memory that all kernels of a device reach.
#[derive(Debug, Default)]
pub struct Memory {
    /// Replaced as a whole, so that a warp can keep the list that it has.
    regions: RwLock<Arc<Regions>>,
    /// Number of times the list was replaced.
    changes: AtomicU64,
    /// The observer of stores, if there is one.
    stores: RwLock<Option<Arc<dyn Stores>>>,
    multicast: OnceLock<Box<dyn Multicast>>,
    /// The devices whose kernels have written to a region, by its start.
    writers: Mutex<BTreeMap<u64, BTreeSet<usize>>>,
    /// What kernels have printed since it was last taken.
    printed: Mutex<Vec<u8>>,
}

/// Most bytes that are kept of what kernels print, as on a GPU, which loses others than this one.
const MOST_PRINTED: usize = 1 << 20;

impl Memory {
    /// Keeps what a kernel prints, as long as there is room.
    pub(super) fn print(&self, text: &[u8]) {
        let mut printed = self.printed.lock().unwrap_or_else(PoisonError::into_inner);
        let room = MOST_PRINTED.saturating_sub(printed.len());
        printed.extend_from_slice(&text[..text.len().min(room)]);
    }

    /// True if kernels reach the byte at an address.
    pub fn holds(&self, address: u64) -> bool {
        let regions = self.regions.read().unwrap_or_else(PoisonError::into_inner);
        regions.find(address, |region| region.holds(address, 1)).is_some()
    }

    /// Takes what kernels have printed.
    pub fn take_printed(&self) -> Vec<u8> {
        std::mem::take(&mut self.printed.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Lets kernels access this memory. A region that begins at the start of a mapped one extends that.
    ///
    /// # Safety
    /// It is readable and writable until it is unmapped and all kernels running then have ended. Until then others access it only as
    /// threads that share memory may: by atomic accesses, or in an order that synchronisation guarantees.
    pub unsafe fn map(&self, region: Region) {
        self.change(|regions| regions.add(region));
    }

    /// Names who knows what multicast addresses stand for; the first one stays.
    ///
    /// # Safety
    /// Its members are accessible as it promises.
    pub unsafe fn set_multicast(&self, multicast: Box<dyn Multicast>) {
        let _ = self.multicast.set(multicast);
    }

    /// As [`Multicast::with_members`]; false if this memory has no multicast addresses.
    pub fn with_members(&self, address: u64, len: u64, f: &mut dyn FnMut(&[u64])) -> bool {
        self.multicast.get().is_some_and(|multicast| multicast.with_members(address, len, f))
    }

    /// Takes the memory that begins at this address away.
    pub fn unmap(&self, start: u64) {
        self.change(|regions| regions.remove(start));
        self.writers.lock().unwrap_or_else(PoisonError::into_inner).remove(&start);
    }

    /// The devices whose kernels have written to the memory that begins at this address, since it was mapped.
    pub fn writers(&self, start: u64) -> Vec<usize> {
        let writers = self.writers.lock().unwrap_or_else(PoisonError::into_inner);
        writers.get(&start).into_iter().flatten().copied().collect()
    }

    /// Kernels launched from now on report their stores to this observer, or to none.
    pub fn observe_stores(&self, stores: Option<Arc<dyn Stores>>) {
        *self.stores.write().unwrap_or_else(PoisonError::into_inner) = stores;
    }

    fn change(&self, f: impl FnOnce(&mut Regions)) {
        let mut regions = self.regions.write().unwrap_or_else(PoisonError::into_inner);
        f(Arc::make_mut(&mut regions));
        self.changes.fetch_add(1, Ordering::Release);
    }
}

/// The memory that one warp reaches: the device's, and its own.
#[derive(Debug)]
pub struct Reach {
    memory: Arc<Memory>,
    known: Arc<Regions>,
    changes: u64,
    /// Its block's shared memory, its local memory, and the launch's parameters.
    own: Vec<Region>,
    /// The region of the last access.
    last: Region,
    /// True if that region is in `own`.
    last_is_own: bool,
    device: usize,
    /// Starts of the last regions that were recorded as written to by this device, the latest at the end.
    written: Vec<u64>,
}

impl Reach {
    /// # Safety
    /// The regions in `own` are readable and writable as long as this lives, in the way that [`Memory::map`] says.
    pub unsafe fn new(memory: Arc<Memory>, own: Vec<Region>) -> Self {
        let none = Region::new(0, 0);
        let known = Arc::default();
        Self { memory, known, changes: u64::MAX, own, last: none, last_is_own: false, device: 0, written: Vec::new() }
    }

    /// Says on which device the warp runs.
    pub fn put_on(&mut self, device: usize) {
        self.device = device;
    }

    fn is_recorded(&self, start: u64) -> bool {
        self.written.iter().rev().any(|known| *known == start)
    }

    /// Records who writes to a region.
    #[cold]
    fn record_writer(&mut self, start: u64) {
        if self.written.len() >= MOST_WRITTEN {
            self.written.remove(0);
        }
        self.written.push(start);
        let mut writers = self.memory.writers.lock().unwrap_or_else(PoisonError::into_inner);
        writers.entry(start).or_default().insert(self.device);
    }

    /// The observer of stores, if there is one.
    pub fn stores(&self) -> Option<Arc<dyn Stores>> {
        self.memory.stores.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Changes a bit of a byte, if it is mapped.
    pub fn flip(&mut self, address: u64, bit: u32) {
        let word = address & !3;
        if self.is_mapped(word, 4, false) {
            // SAFETY: the word is mapped and aligned.
            unsafe { update(word, 4, |old| old ^ 1 << (8 * (address - word) + u64::from(bit & 7))) };
        }
    }

    /// The device's memory.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Adds memory that only this warp reaches.
    ///
    /// # Safety
    /// It is removed before the buffer is dropped.
    pub unsafe fn add(&mut self, buffer: &Buffer) {
        self.own.push(buffer.region());
    }

    /// Removes the memory that begins at this address.
    pub fn remove(&mut self, start: u64) {
        self.own.retain(|region| region.start != start);
        self.last = Region::new(0, 0);
    }

    /// True if the memory is mapped. A read may extend to the end of the last 16 bytes: kernels read whole words of arrays that end
    /// within one, which an allocation on a GPU never does.
    fn is_mapped(&mut self, start: u64, len: u64, reads: bool) -> bool {
        let changes = self.memory.changes.load(Ordering::Acquire);
        if changes != self.changes {
            self.changes = changes;
            self.known = self.memory.regions.read().unwrap_or_else(PoisonError::into_inner).clone();
            self.last = Region::new(0, 0);
        }
        let holds = |region: &Region| {
            let end = if reads { region.end.next_multiple_of(16) } else { region.end };
            Region { start: region.start, end }.holds(start, len)
        };
        if !holds(&self.last) {
            let own = self.own.iter().find(|region| holds(region));
            let Some(found) = own.or_else(|| self.known.find(start, holds)) else { return false };
            (self.last, self.last_is_own) = (*found, own.is_some());
        }
        if !reads && !self.last_is_own && !self.is_recorded(self.last.start) {
            self.record_writer(self.last.start);
        }
        true
    }

    /// True if the last permitted access was to memory that is not the device's: the block's, the warp's own, or the parameters.
    #[inline(always)]
    pub fn is_own(&self) -> bool {
        self.last_is_own
    }

    /// True if accesses that were just permitted are all to one region of the device's memory.
    pub fn last_is_of_the_device(&self, addresses: &Lanes<u64>, mask: Mask, len: u64) -> bool {
        !self.last_is_own && self.last_holds(addresses, mask, len)
    }

    /// True if they are all to one region that is not the device's.
    pub fn last_is_only_own(&self, addresses: &Lanes<u64>, mask: Mask, len: u64) -> bool {
        self.last_is_own && self.last_holds(addresses, mask, len)
    }

    fn last_holds(&self, addresses: &Lanes<u64>, mask: Mask, len: u64) -> bool {
        lanes_of(mask).all(|lane| self.last.holds(addresses[lane], len))
    }

    /// Checks accesses of `len` bytes at the addresses of the lanes in the mask.
    ///
    /// # Errors
    ///
    /// One of them is not allowed; with its address.
    #[inline(always)]
    pub fn admit(&mut self, addresses: &Lanes<u64>, mask: Mask, len: u64, reads: bool) -> Result<(), (u64, BadAccess)> {
        let first = addresses[mask.trailing_zeros() as usize % LANES];
        let (mut least, mut most, mut all) = (first, first, 0);
        for (lane, address) in addresses.iter().enumerate() {
            let address = if mask >> lane & 1 == 1 { *address } else { first };
            least = least.min(address);
            most = most.max(address);
            all |= address;
        }
        let whole = (most - least).saturating_add(len);
        if all & (len - 1) == 0 && self.last.holds(least, whole) && self.is_mapped(least, whole, reads) {
            return Ok(());
        }
        self.admit_each(addresses, mask, len, reads)
    }

    #[cold]
    fn admit_each(
        &mut self,
        addresses: &Lanes<u64>,
        mask: Mask,
        len: u64,
        reads: bool,
    ) -> Result<(), (u64, BadAccess)> {
        for lane in lanes_of(mask) {
            let address = addresses[lane];
            if !address.is_multiple_of(len) {
                return Err((address, BadAccess::Misaligned));
            }
            self.admit_range(address, len, reads)?;
        }
        Ok(())
    }

    /// A number of so many bytes, wherever it begins.
    ///
    /// # Errors
    ///
    /// It cannot be read; with its address.
    pub fn read(&mut self, address: u64, bytes: u64) -> Result<u64, (u64, BadAccess)> {
        self.admit_range(address, bytes, true)?;
        // SAFETY: every byte was admitted.
        let byte = |at| unsafe { load_bits(address + at, 1) as u64 };
        Ok((0..bytes).fold(0, |all, at| all | byte(at) << (8 * at)))
    }

    /// Checks an access of any length.
    ///
    /// # Errors
    ///
    /// It is not allowed; with its address.
    pub fn admit_range(&mut self, address: u64, len: u64, reads: bool) -> Result<(), (u64, BadAccess)> {
        if self.is_mapped(address, len, reads) { Ok(()) } else { Err((address, BadAccess::Unmapped)) }
    }
}

/// 16 bytes with an alignment of 16.
#[derive(Debug)]
#[repr(align(16))]
struct Words([AtomicU64; 2]);
const _: () = assert!(size_of::<Words>() == size_of::<u128>() && align_of::<Words>() == align_of::<u128>());

/// Memory of the device's own, zero at first. Kernels may change it while others hold it.
#[derive(Debug)]
pub struct Buffer {
    words: Box<[Words]>,
    /// Those of them that are it: the first one is aligned.
    used: Range<usize>,
    /// Bytes that were asked for.
    len: u64,
}

impl Buffer {
    /// A buffer of at least `len` bytes, whose address is a multiple of `align`.
    pub fn new(len: u64, align: u64) -> Self {
        let (align, bytes, len) = (align.max(16), len, len.div_ceil(16) as usize);
        // Pages that nothing is written to cost nothing.
        let zeros = vec![0u128; len + align as usize / 16 - 1].into_boxed_slice();
        // SAFETY: both have 16 bytes, which may have any value, and one alignment.
        let words = unsafe { Box::from_raw(Box::into_raw(zeros) as *mut [Words]) };
        let start = words.as_ptr() as u64;
        let skipped = ((start.next_multiple_of(align) - start) / 16) as usize;
        Self { words, used: skipped..skipped + len, len: bytes }
    }

    fn words(&self) -> &[Words] {
        &self.words[self.used.clone()]
    }

    /// The bytes that were asked for.
    pub fn region(&self) -> Region {
        Region::new(self.words().as_ptr() as u64, self.len)
    }

    /// Lets kernels reach it.
    ///
    /// # Safety
    /// It is unmapped, and the kernels that reach it have ended, before it is dropped.
    pub unsafe fn map_in(&self, memory: &Memory) {
        // SAFETY: the caller vouches for its life, and all else reaches it by atomic accesses.
        unsafe { memory.map(self.region()) }
    }

    /// Up to `len` bytes from an offset on.
    pub fn read(&self, offset: u64, len: u64) -> Vec<u8> {
        let byte = |at: u64| {
            let word = self.words().get(at as usize / 16).map(|words| &words.0[at as usize / 8 % 2]);
            word.map(|word| (word.load(Ordering::Relaxed) >> (8 * (at % 8))) as u8)
        };
        (offset..offset.saturating_add(len)).map_while(byte).collect()
    }

    /// Writes bytes from an offset on, truncated to the available room.
    pub fn write(&self, offset: u64, bytes: &[u8]) {
        for (at, byte) in (offset..).zip(bytes) {
            let Some(word) = self.words().get(at as usize / 16).map(|words| &words.0[at as usize / 8 % 2]) else {
                return;
            };
            let shift = 8 * (at % 8);
            let old = word.load(Ordering::Relaxed);
            word.store(old & !(0xff << shift) | u64::from(*byte) << shift, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::word::Word;
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
        let value = 0x0f0e_0d0c_0b0a_0908_0706_0504_0302_0100u128;
        // SAFETY: places in the block, aligned.
        unsafe {
            u128::store(start, value);
            assert_eq!((u128::load(start), u64::load(start + 8)), (value, (value >> 64) as u64));
            assert_eq!((u8::load(start + 3), u16::load(start + 2), u32::load(start + 4)), (3, 0x0302, 0x0706_0504));
            u8::store(start + 1, 0xff);
            u16::store(start + 4, 0);
            u32::store(start + 8, 1);
            u64::store(start + 16, 2);
            assert_eq!(u64::load(start), 0x0706_0000_0302_ff00);
            assert_eq!((update(start + 8, 4, |old| old + 5), update(start + 16, 8, |old| old + 5)), (1, 2));
            assert_eq!((u32::load(start + 8), u64::load(start + 16)), (6, 7));
        }
    }

    #[test]
    fn what_lies_outside_is_refused() {
        let mut block = Block([0; 64]);
        let start = block.0.as_mut_ptr() as u64;
        let mut reach = reach(&mut block, 40);
        let mut one = |address: u64, len: u64| reach.admit(&[address; LANES], 1, len, false).map_err(|(_, bad)| bad);
        assert_eq!(one(start + 32, 8), Ok(()));
        assert_eq!(one(start + 32, 16), Err(BadAccess::Unmapped));
        assert_eq!(one(start + 40, 1), Err(BadAccess::Unmapped));
        assert_eq!(one(start + 2, 4), Err(BadAccess::Misaligned));
        assert_eq!(one(0, 4), Err(BadAccess::Unmapped));
        assert_eq!(one(u64::MAX - 7, 8), Err(BadAccess::Unmapped));
        let lanes: Lanes<u64> = std::array::from_fn(|lane| start + 4 * lane as u64);
        assert_eq!(reach.admit(&lanes, 0x3ff, 4, false), Ok(()), "ten lanes of four bytes");
        assert_eq!(reach.admit(&lanes, 0x7ff, 4, false), Err((start + 40, BadAccess::Unmapped)));
        let mut word = |at: u64, reads: bool| reach.admit(&[start + at; LANES], 1, 4, reads).map_err(|(_, bad)| bad);
        assert_eq!((word(36, false), word(40, true), word(44, true)), (Ok(()), Ok(()), Ok(())), "reads of whole words");
        assert_eq!((word(40, false), word(48, true)), (Err(BadAccess::Unmapped), Err(BadAccess::Unmapped)));
        reach.memory.unmap(start);
        assert_eq!(reach.admit(&lanes, 1, 4, true), Err((start, BadAccess::Unmapped)));
    }

    #[test]
    fn regions_that_overlap_do_not_hide_each_other() {
        let memory = Arc::new(Memory::default());
        // SAFETY: nothing is read or written.
        let map = |start: u64, len: u64| unsafe { memory.map(Region::new(start, len)) };
        // SAFETY: likewise.
        let mut reach = unsafe { Reach::new(memory.clone(), Vec::new()) };
        let mut can = |at: u64| reach.admit_range(at, 8, false).is_ok();
        map(160, 16);
        map(96, 256);
        map(200, 8);
        assert_eq!([96, 160, 176, 200, 208, 344, 352].map(&mut can), [true, true, true, true, true, true, false]);
        memory.unmap(160);
        assert_eq!([96, 160, 200, 344].map(&mut can), [true; 4]);
        memory.unmap(96);
        assert_eq!([96, 160, 200, 344].map(&mut can), [false, false, true, false]);
        map(200, 64);
        assert_eq!([200, 256, 264].map(&mut can), [true, true, false], "it has grown");
    }

    #[test]
    fn buffers_are_read_as_they_are_written() {
        let buffer = Buffer::new(40, 1);
        buffer.write(5, &[1, 2, 3, 4]);
        assert_eq!(buffer.read(4, 6), [0, 1, 2, 3, 4, 0]);
        assert_eq!(buffer.read(46, 6), [0, 0], "there is room for 48 bytes");
    }
}
