//! Memory without an address, which processes pass to each other as a file, and ranges of addresses at which it is mapped.
#![allow(unsafe_code)] // mappings at chosen addresses

use memmap2::{Advice, MmapOptions, MmapRaw};
use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::ptr::null_mut;
use std::sync::atomic::AtomicU64;
use std::sync::{PoisonError, RwLock};

/// Mappings begin and end at multiples of it.
pub const PAGE: usize = 4096;
/// Begins the names of the files, after which comes the name that the owner gives.
const PREFIX: &str = "gpuless:";

/// A file in memory, all zeros at first, whose length never changes.
#[derive(Debug)]
pub struct SealedFile {
    file: File,
    name: String,
    inode: u64,
    bytes: usize,
}

impl SealedFile {
    /// A new file with a name that processes which get it can read.
    ///
    /// # Errors
    /// The machine has no descriptor left, or the file system of its memory is too small.
    pub fn new(name: &str, bytes: usize) -> io::Result<Self> {
        let full = CString::new(format!("{PREFIX}{name}"))?;
        // SAFETY: the name is a text with its end.
        let descriptor = unsafe { libc::memfd_create(full.as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING) };
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: it was opened just now, and nothing else has it.
        let file = File::from(unsafe { OwnedFd::from_raw_fd(descriptor) });
        file.set_len(bytes as u64)?;
        // SAFETY: a descriptor of this function's own.
        if unsafe { libc::fcntl(descriptor, libc::F_ADD_SEALS, SEALS | libc::F_SEAL_SEAL) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Self::of(file)
    }

    /// A file that came from elsewhere, if it is one of these.
    ///
    /// # Errors
    /// It is another kind of file.
    pub fn of(file: File) -> io::Result<Self> {
        let refused = || io::Error::from(io::ErrorKind::InvalidInput);
        // SAFETY: an open descriptor.
        let seals = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS) };
        if seals < 0 || seals & SEALS != SEALS {
            return Err(refused());
        }
        let name = name_of(&file)?;
        let known = file.metadata()?;
        let bytes = usize::try_from(known.len()).map_err(|_| refused())?;
        Ok(Self { name, inode: known.ino(), bytes, file })
    }

    /// The file that another process has under this descriptor, if it is one of these.
    ///
    /// The numbers may come from anywhere, and opening a device or a pipe can have effects: the file is named first, and opened when its name is that
    /// of one of these.
    ///
    /// # Errors
    /// It is not, or the process has ended.
    pub fn of_process(process: u32, descriptor: i32) -> io::Result<Self> {
        let path = format!("/proc/{process}/fd/{descriptor}");
        let named = File::options().read(true).custom_flags(libc::O_PATH).open(path)?;
        name_of(&named)?;
        Self::of(File::options().read(true).write(true).open(format!("/proc/self/fd/{}", named.as_raw_fd()))?)
    }

    /// The name that it was made with.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A number that no other file in memory has.
    pub fn inode(&self) -> u64 {
        self.inode
    }

    /// Its length.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Its words, which several processes may change.
    ///
    /// # Errors
    /// It cannot be mapped.
    pub fn words(&self) -> io::Result<Words> {
        self.map(0, self.bytes).map(Words)
    }

    /// The file itself.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// True if these bytes are in it.
    pub fn holds(&self, offset: u64, bytes: usize) -> bool {
        offset.checked_add(bytes as u64).is_some_and(|end| end <= self.bytes as u64)
    }

    /// Maps a part of it at an address that is free.
    ///
    /// # Errors
    /// The part is not in the file, or cannot be mapped.
    pub fn map(&self, offset: u64, bytes: usize) -> io::Result<MmapRaw> {
        if !self.holds(offset, bytes) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let map = MmapOptions::new().offset(offset).len(bytes).map_raw(&self.file)?;
        let _ = map.advise(Advice::NoHugePage);
        Ok(map)
    }
}

/// The name that one of these files was made with.
fn name_of(file: &File) -> io::Result<String> {
    let link = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
    let name = link.to_str().and_then(|link| link.strip_prefix("/memfd:")?.strip_suffix(" (deleted)"));
    let name = name.and_then(|name| name.strip_prefix(PREFIX));
    Ok(name.ok_or(io::ErrorKind::InvalidInput)?.to_owned())
}

/// The words of a file, mapped.
#[derive(Debug)]
pub struct Words(MmapRaw);

impl Words {
    /// A word, if the file is long enough.
    pub fn get(&self, at: usize) -> Option<&AtomicU64> {
        let address = self.0.as_mut_ptr().cast::<AtomicU64>();
        // SAFETY: in the mapping, which is aligned, lives as long as this, and is only changed atomically.
        (at < self.0.len() / 8).then(|| unsafe { &*address.add(at) })
    }
}

const SEALS: i32 = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW;

/// Parts of files that are mapped at reserved addresses and can be accessed: length by address.
static ACCESSIBLE: RwLock<BTreeMap<usize, usize>> = RwLock::new(BTreeMap::new());

/// Addresses that nothing else gets. Where no file is mapped, or access was not allowed, every access faults.
#[derive(Debug)]
pub struct Reservation {
    start: usize,
    bytes: usize,
}

impl Reservation {
    /// A range whose start is a multiple of `align`, a power of two; both are whole pages.
    ///
    /// # Errors
    /// There is no such range.
    pub fn new(bytes: usize, align: usize) -> io::Result<Self> {
        let refused = || io::Error::from(io::ErrorKind::InvalidInput);
        let align = align.max(PAGE);
        if bytes == 0 || !bytes.is_multiple_of(PAGE) || !align.is_power_of_two() {
            return Err(refused());
        }
        let whole = bytes.checked_add(align - PAGE).ok_or_else(refused)?;
        // SAFETY: new addresses.
        let start = unsafe { libc::mmap(null_mut(), whole, libc::PROT_NONE, NOTHING, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let first = start.expose_provenance();
        let aligned = first.next_multiple_of(align);
        for (at, len) in [(first, aligned - first), (aligned + bytes, first + whole - aligned - bytes)] {
            if len > 0 {
                // SAFETY: the parts before and after, which nothing uses.
                unsafe { libc::munmap(std::ptr::with_exposed_provenance_mut(at), len) };
            }
        }
        Ok(Self { start: aligned, bytes })
    }

    /// The first address.
    pub fn start(&self) -> usize {
        self.start
    }

    /// Number of addresses.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// True if the range is in it.
    pub fn holds(&self, start: usize, bytes: usize) -> bool {
        start >= self.start && start.checked_add(bytes).is_some_and(|end| end <= self.start + self.bytes)
    }

    fn mmap(&self, start: usize, bytes: usize, flags: i32, descriptor: i32, offset: u64) -> io::Result<()> {
        let refused = || io::Error::from(io::ErrorKind::InvalidInput);
        if !self.holds(start, bytes) || !start.is_multiple_of(PAGE) || !bytes.is_multiple_of(PAGE) || bytes == 0 {
            return Err(refused());
        }
        let offset = offset.try_into().map_err(|_| refused())?;
        let mut accessible = ACCESSIBLE.write().unwrap_or_else(PoisonError::into_inner);
        // They do not overlap, so those that reach into the range are the last ones that begin before its end.
        let reaches = |(at, len): &(&usize, &usize)| **at + **len > start;
        let gone: Vec<usize> = accessible.range(..start + bytes).rev().take_while(reaches).map(|(at, _)| *at).collect();
        gone.iter().for_each(|at| _ = accessible.remove(at));
        let at = std::ptr::with_exposed_provenance_mut(start);
        // SAFETY: the addresses are this reservation's; who unmaps or replaces memory promises that nothing uses it.
        let mapped = unsafe { libc::mmap(at, bytes, libc::PROT_NONE, flags | libc::MAP_FIXED, descriptor, offset) };
        if mapped == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Maps a part of a file, still without access.
    ///
    /// # Errors
    /// The addresses are not reserved, the part is not in the file, or the machine has too many mappings.
    ///
    /// # Safety
    /// Nothing uses memory that was mapped at these addresses before.
    pub unsafe fn map(&self, start: usize, file: &SealedFile, offset: u64, bytes: usize) -> io::Result<()> {
        if !file.holds(offset, bytes) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        self.mmap(start, bytes, libc::MAP_SHARED, file.file.as_raw_fd(), offset)?;
        // SAFETY: memory that was mapped just now. With huge pages a written byte would cost 2 MiB.
        unsafe { libc::madvise(std::ptr::with_exposed_provenance_mut(start), bytes, libc::MADV_NOHUGEPAGE) };
        Ok(())
    }

    /// Allows accesses to mapped memory.
    ///
    /// # Errors
    /// The addresses are not reserved.
    ///
    /// # Safety
    /// It is the whole of one mapping.
    pub unsafe fn allow(&self, start: usize, bytes: usize) -> io::Result<()> {
        if !self.holds(start, bytes) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut accessible = ACCESSIBLE.write().unwrap_or_else(PoisonError::into_inner);
        let (at, protection) = (std::ptr::with_exposed_provenance_mut(start), libc::PROT_READ | libc::PROT_WRITE);
        // SAFETY: addresses of this reservation.
        if unsafe { libc::mprotect(at, bytes, protection) } != 0 {
            return Err(io::Error::last_os_error());
        }
        accessible.insert(start, bytes);
        Ok(())
    }

    /// Unmaps memory; the addresses stay reserved.
    ///
    /// # Errors
    /// The addresses are not reserved.
    ///
    /// # Safety
    /// Nothing uses the memory.
    pub unsafe fn unmap(&self, start: usize, bytes: usize) -> io::Result<()> {
        self.mmap(start, bytes, NOTHING, -1, 0)
    }
}

const NOTHING: i32 = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;

impl Drop for Reservation {
    fn drop(&mut self) {
        // SAFETY: whoever gives the reservation up has unmapped what was in it.
        unsafe { libc::munmap(std::ptr::with_exposed_provenance_mut(self.start), self.bytes) };
    }
}

/// Makes a range that lies in one accessible mapping zeros by giving its whole pages back; the rest is written. False if it does not.
///
/// # Safety
/// The range is writable, and nothing accesses it in the meantime.
pub(crate) unsafe fn clear(start: usize, bytes: usize) -> bool {
    let accessible = ACCESSIBLE.read().unwrap_or_else(PoisonError::into_inner);
    let Some(end) = start.checked_add(bytes) else { return false };
    let inside = accessible.range(..=start).next_back().is_some_and(|(at, len)| end <= at + len);
    let (first, last) = (start.next_multiple_of(PAGE), end / PAGE * PAGE);
    if !inside || first >= last {
        return false;
    }
    let at = std::ptr::with_exposed_provenance_mut::<u8>;
    // SAFETY: whole pages of a file in memory, which read as zeros when they are gone, and the bytes before and after them.
    unsafe {
        if libc::madvise(at(first).cast(), last - first, libc::MADV_REMOVE) != 0 {
            return false;
        }
        at(start).write_bytes(0, first - start);
        at(last).write_bytes(0, end - last);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes<'a>(address: usize, len: usize) -> &'a mut [u8] {
        // SAFETY: live memory of that length, which only this thread knows.
        unsafe { std::slice::from_raw_parts_mut(std::ptr::with_exposed_provenance_mut(address), len) }
    }

    #[test]
    fn a_file_is_the_same_memory_wherever_it_is_mapped() {
        let file = SealedFile::new("test", 4 * PAGE).unwrap();
        let addresses = Reservation::new(64 << 20, 2 << 20).unwrap();
        assert!(addresses.start().is_multiple_of(2 << 20));
        let at = addresses.start() + 3 * PAGE;
        // SAFETY: nothing else knows the addresses.
        unsafe {
            addresses.map(at, &file, PAGE as u64, 2 * PAGE).unwrap();
            addresses.allow(at, 2 * PAGE).unwrap();
        }
        bytes(at, 2 * PAGE).fill(7);
        let again = SealedFile::of_process(std::process::id(), file.file().as_raw_fd()).unwrap();
        assert_eq!((again.name(), again.bytes(), again.inode()), ("test", 4 * PAGE, file.inode()));
        let map = again.map(0, 4 * PAGE).unwrap();
        let whole = map.as_mut_ptr().expose_provenance();
        assert_eq!(bytes(whole, 4 * PAGE).iter().filter(|byte| **byte == 7).count(), 2 * PAGE);
        // SAFETY: as above.
        assert!(unsafe { clear(at + 10, 2 * PAGE - 10) });
        assert_eq!(bytes(whole, 4 * PAGE).iter().filter(|byte| **byte == 7).count(), 10);
        // SAFETY: as above.
        unsafe {
            addresses.unmap(at, 2 * PAGE).unwrap();
            assert!(!clear(at, PAGE));
            assert!(addresses.map(at, &file, 3 * PAGE as u64, 2 * PAGE).is_err(), "the file is shorter");
            assert!(addresses.map(at - PAGE * 4, &file, 0, PAGE).is_err(), "not reserved");
        }
    }

    #[test]
    fn other_files_are_refused() {
        let elsewhere = File::options().read(true).write(true).open("/dev/zero").unwrap();
        assert!(SealedFile::of(elsewhere).is_err());
        // SAFETY: a text with its end; the descriptor is new.
        let unsealed = unsafe { File::from_raw_fd(libc::memfd_create(c"gpuless:test".as_ptr(), 0)) };
        let unsealed_elsewhere = SealedFile::of_process(std::process::id(), unsealed.as_raw_fd());
        assert!(
            unsealed_elsewhere.is_err() && SealedFile::of(unsealed).is_err(),
            "it could become shorter while it is mapped"
        );
        assert!(Reservation::new(PAGE, 3 * PAGE).is_err() && Reservation::new(usize::MAX / PAGE * PAGE, 1).is_err());
    }
}
