//! Device memory whose pages do not exist before they are written, and which other processes can map: one file in memory for each
//! device, however many allocations there are.
#![allow(unsafe_code)] // pages are given back

use crate::memory::{self, OutOfMemory};
use crate::{refusals, virtual_memory};
use memmap2::{Advice, MmapOptions, MmapRaw, UncheckedAdvice};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Allocations begin and end at pages, so that each can be mapped and given back alone.
const PAGE: usize = 4096;
/// The file grows by as much, or by one allocation that is larger.
const SEGMENT: usize = 256 << 20;
/// Fewer zeros are written: to give pages back and take them again costs more.
const MANY: usize = 64 << 10;

/// The place at which another process finds an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The descriptor of the device's file in this process.
    pub descriptor: i32,
    /// The file's number, by which the process that opens it checks that it is the right one.
    pub inode: u64,
    /// Offset of the allocation in the file.
    pub offset: u64,
    /// Its length in the file: whole pages.
    pub bytes: usize,
}

/// A device's memory file.
struct Device {
    file: File,
    inode: u64,
    size: u64,
    /// Bytes that are allocated.
    used: usize,
    /// Ranges that are not allocated, by address: all zeros.
    free: BTreeMap<usize, usize>,
}

/// A part of a file that is mapped.
struct Segment {
    map: MmapRaw,
    /// `None` for another process's memory.
    device: Option<usize>,
    offset: u64,
}

#[derive(Default)]
struct Arenas {
    devices: BTreeMap<usize, Device>,
    /// The segments by address.
    segments: BTreeMap<usize, Segment>,
    /// The length of each allocation, by address.
    live: BTreeMap<usize, usize>,
}

static ARENAS: Mutex<Option<Arenas>> = Mutex::new(None);

fn locked() -> MutexGuard<'static, Option<Arenas>> {
    ARENAS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Device {
    fn new() -> io::Result<Self> {
        // SAFETY: the name is a text with its end.
        let descriptor = unsafe { libc::memfd_create(c"gpuless-device".as_ptr(), libc::MFD_CLOEXEC) };
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: it was opened just now, and nothing else has it.
        let file = File::from(unsafe { OwnedFd::from_raw_fd(descriptor) });
        let inode = file.metadata()?.ino();
        Ok(Self { file, inode, size: 0, used: 0, free: BTreeMap::new() })
    }

    /// Extends the file by a segment, which is free.
    fn grow(&mut self, device: usize, bytes: usize) -> io::Result<(usize, Segment)> {
        let offset = self.size;
        self.file.set_len(offset + bytes as u64)?;
        self.size = offset + bytes as u64;
        let map = MmapOptions::new().offset(offset).len(bytes).map_raw(&self.file)?;
        // With huge pages a block would cost 2 MiB once a byte of it is written. Without this advice memory is larger, but still correct.
        let _ = map.advise(Advice::NoHugePage);
        let start = map.as_mut_ptr() as usize;
        self.free.insert(start, bytes);
        Ok((start, Segment { map, device: Some(device), offset }))
    }
}

impl Arenas {
    fn segment(&self, address: usize) -> Option<(usize, &Segment)> {
        let (start, segment) = self.segments.range(..=address).next_back()?;
        (address < start + segment.map.len()).then_some((*start, segment))
    }

    fn alloc(&mut self, device: usize, bytes: usize) -> io::Result<usize> {
        let own = match self.devices.entry(device) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(Device::new()?),
        };
        let fits = |own: &Device| own.free.iter().find(|(_, len)| **len >= bytes).map(|(start, len)| (*start, *len));
        let (start, len) = match fits(own) {
            Some(range) => range,
            None => {
                let (start, segment) = own.grow(device, bytes.max(SEGMENT))?;
                let len = segment.map.len();
                self.segments.insert(start, segment);
                (start, len)
            }
        };
        own.free.remove(&start);
        if len > bytes {
            own.free.insert(start + bytes, len - bytes);
        }
        own.used += bytes;
        self.live.insert(start, bytes);
        Ok(start)
    }

    /// Takes an allocation back, which is all zeros again.
    fn free(&mut self, address: usize) {
        let Some(bytes) = self.live.remove(&address) else { return };
        zero(self, address, bytes);
        let Some((first, segment)) = self.segment(address) else { return };
        let (last, device) = (first + segment.map.len(), segment.device);
        let Some(own) = device.and_then(|device| self.devices.get_mut(&device)) else { return };
        own.used -= bytes;
        let (mut start, mut end) = (address, address + bytes);
        // Adjacent ranges of one segment are merged; memory outside the segment is not adjacent in the file.
        if let Some((before, len)) = own.free.range(first..start).next_back().map(|(at, len)| (*at, *len))
            && before + len == start
        {
            own.free.remove(&before);
            start = before;
        }
        if end < last
            && let Some(len) = own.free.remove(&end)
        {
            end += len;
        }
        own.free.insert(start, end - start);
    }
}

/// Zeros in a range that lies in one segment: whole pages are given back.
fn zero(arenas: &Arenas, address: usize, bytes: usize) -> bool {
    let Some((start, segment)) = arenas.segment(address) else { return false };
    let end = address + bytes;
    let (first, last) = (address.next_multiple_of(PAGE), end / PAGE * PAGE);
    if end > start + segment.map.len() || first >= last {
        return false;
    }
    // SAFETY: it is a mapping of a file in memory, whose pages read as zeros when they are gone; nothing but bytes is kept in it.
    let given = unsafe { segment.map.unchecked_advise_range(UncheckedAdvice::Remove, first - start, last - first) };
    if given.is_ok() {
        let at = |address: usize| segment.map.as_mut_ptr().wrapping_add(address - start);
        // SAFETY: both ends lie in the segment.
        unsafe {
            at(address).write_bytes(0, first - address);
            at(last).write_bytes(0, end - last);
        }
    }
    given.is_ok()
}

/// Device memory, all zeros, of at least one byte; it is registered with [`memory`].
///
/// # Errors
/// The machine does not have this amount of memory to map.
pub fn alloc(device: usize, len: usize) -> Result<*mut u8, OutOfMemory> {
    let fail = OutOfMemory { len, align: PAGE };
    let bytes = len.max(1).checked_next_multiple_of(PAGE).ok_or(fail)?;
    let start = locked().get_or_insert_default().alloc(device, bytes).map_err(|error| {
        refusals::note("device memory", bytes, &error);
        fail
    })?;
    let pointer = std::ptr::with_exposed_provenance_mut(start);
    memory::adopt(pointer, len);
    Ok(pointer)
}

/// Frees memory from [`alloc`] or [`map`]. Other addresses are left alone.
///
/// # Safety
/// Nothing in this process uses the memory afterwards, work enqueued on a stream included.
pub unsafe fn free(pointer: *mut u8) {
    let address = pointer as usize;
    let mut arenas = locked();
    let Some(arenas) = arenas.as_mut() else { return };
    let foreign = arenas.segments.get(&address).is_some_and(|segment| segment.device.is_none());
    if foreign || arenas.live.contains_key(&address) {
        // SAFETY: the caller's promise.
        unsafe { memory::free(pointer) };
    }
    if foreign {
        arenas.segments.remove(&address);
    } else {
        arenas.free(address);
    }
}

/// Bytes of all live allocations of a device.
pub fn in_use(device: usize) -> usize {
    locked().as_ref().and_then(|arenas| arenas.devices.get(&device)).map_or(0, |device| device.used)
}

/// Writes zeros. Where many are in memory of this module or of [`virtual_memory`], their pages are given back instead.
///
/// # Safety
/// The range is writable, and nothing accesses it in the meantime.
pub unsafe fn clear(pointer: *mut u8, len: usize) {
    let in_arenas = || locked().as_ref().is_some_and(|arenas| zero(arenas, pointer as usize, len));
    // SAFETY: the caller's promise.
    let gone = len >= MANY && (in_arenas() || unsafe { virtual_memory::clear(pointer as usize, len) });
    if !gone {
        // SAFETY: the caller's promise.
        unsafe { pointer.write_bytes(0, len) }
    }
}

/// The place at which another process finds the allocation that begins at this address.
pub fn place(pointer: *const u8) -> Option<Place> {
    let arenas = locked();
    let arenas = arenas.as_ref()?;
    let address = pointer as usize;
    let bytes = *arenas.live.get(&address)?;
    let (start, segment) = arenas.segment(address)?;
    let device = arenas.devices.get(&segment.device?)?;
    let offset = segment.offset + (address - start) as u64;
    Some(Place { descriptor: device.file.as_raw_fd(), inode: device.inode, offset, bytes })
}

/// Maps another process's device memory: whole pages of its device's file. It is registered with [`memory`].
///
/// # Errors
/// The file is too short, or the machine cannot map it.
pub fn map(file: &File, offset: u64, bytes: usize) -> io::Result<*mut u8> {
    let end = offset.checked_add(bytes as u64);
    if bytes == 0 || !end.is_some_and(|end| file.metadata().is_ok_and(|known| end <= known.len())) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let map = MmapOptions::new().offset(offset).len(bytes).map_raw(file)?;
    let pointer = map.as_mut_ptr();
    let segment = Segment { map, device: None, offset };
    locked().get_or_insert_default().segments.insert(pointer as usize, segment);
    memory::adopt(pointer, bytes);
    Ok(pointer)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A device that no other test has.
    fn device() -> usize {
        use std::sync::atomic::{AtomicUsize, Ordering};
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        NEXT.fetch_add(1, Ordering::Relaxed)
    }

    fn bytes<'a>(pointer: *mut u8, len: usize) -> &'a mut [u8] {
        // SAFETY: live memory of that length, which only this thread knows.
        unsafe { std::slice::from_raw_parts_mut(pointer, len) }
    }

    #[test]
    fn what_was_freed_is_zeros_when_it_is_given_again() {
        let device = device();
        let first = alloc(device, 3 * PAGE).unwrap();
        let second = alloc(device, 1).unwrap();
        assert_eq!(second as usize - first as usize, 3 * PAGE);
        assert!(memory::contains(first, 3 * PAGE) && !memory::contains(second, 2));
        bytes(first, 3 * PAGE).fill(7);
        bytes(second, 1).fill(8);
        // SAFETY: it is not used any more.
        unsafe { free(first) };
        assert!(!memory::contains(first, 1));
        assert_eq!(in_use(device), PAGE);
        let again = alloc(device, 2 * PAGE).unwrap();
        assert_eq!(again, first);
        assert!(bytes(again, 2 * PAGE).iter().all(|byte| *byte == 0));
        assert_eq!(bytes(second, 1), [8]);
    }

    #[test]
    fn free_ranges_beside_each_other_become_one() {
        let device = device();
        let parts: Vec<_> = (0..4).map(|_| alloc(device, PAGE).unwrap()).collect();
        for part in [1, 3, 2, 0] {
            // SAFETY: it is not used any more.
            unsafe { free(parts[part]) };
        }
        assert_eq!(alloc(device, SEGMENT).unwrap(), parts[0]);
    }

    #[test]
    fn zeros_leave_what_is_beside_them() {
        let pointer = alloc(device(), 64 * PAGE).unwrap();
        bytes(pointer, 64 * PAGE).fill(9);
        // SAFETY: the range lies in the allocation.
        unsafe { clear(pointer.add(100), 40 * PAGE) };
        let all = bytes(pointer, 64 * PAGE);
        assert!(all[..100].iter().chain(&all[100 + 40 * PAGE..]).all(|byte| *byte == 9));
        assert!(all[100..100 + 40 * PAGE].iter().all(|byte| *byte == 0));
    }

    #[test]
    fn a_part_of_the_file_can_be_mapped_again() {
        let device = device();
        alloc(device, PAGE).unwrap();
        let pointer = alloc(device, 2 * PAGE).unwrap();
        let place = place(pointer).unwrap();
        assert_eq!((place.offset, place.bytes), (PAGE as u64, 2 * PAGE));
        let path = format!("/proc/self/fd/{}", place.descriptor);
        let file = File::options().read(true).write(true).open(path).unwrap();
        assert_eq!(file.metadata().unwrap().ino(), place.inode);
        let other = map(&file, place.offset, place.bytes).unwrap();
        bytes(pointer, 2 * PAGE).fill(5);
        assert!(bytes(other, 2 * PAGE).iter().all(|byte| *byte == 5));
        assert!(map(&file, SEGMENT as u64, PAGE).is_err());
        // SAFETY: it is not used any more.
        unsafe { free(other) };
        assert!(!memory::contains(other, 1));
        assert_eq!(bytes(pointer, 1), [5]);
    }
}
