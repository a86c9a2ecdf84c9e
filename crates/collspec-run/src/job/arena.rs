//! Memory that parent and worker share: step words first, then initial images, final images and checkpoints. Both sides
//! name places in it by offset. Neither makes a reference into it but to atomics: the memory of ranks that lies in it is reached
//! by raw copies, which the order of the plan's calls keeps apart.
//!
//! Why shared memory and not messages: after a crash or a hang the parent can still read step words and images, and the library
//! under test cannot disturb the judge, which runs elsewhere.
#![allow(unsafe_code)] // memory another process writes can only be reached by raw pointers

mod writer;

use memmap2::{MmapOptions, MmapRaw};
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::mm::Advice;
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// The smallest size of an arena in bytes.
const LEAST: u64 = 1 << 20;

/// A mapping of the shared memory. It stays valid when the arena grows: growing makes a second mapping.
#[derive(Debug)]
pub struct Mapping(MmapRaw);

/// The shared memory and its newest mapping.
pub struct Arena {
    fd: OwnedFd,
    mapping: Arc<Mapping>,
    /// Held by the [`Writer`](writer::Writer) that has the descriptor.
    descriptor: Mutex<()>,
}

/// Bytes of an arena.
#[derive(Clone, Copy)]
pub struct Span<'a> {
    ptr: *mut u8,
    len: usize,
    _arena: PhantomData<&'a Mapping>,
}

/// Bytes of an arena as atomics: single ones up to the first whole word, the whole words, and single ones again.
struct Atomics<'a> {
    first: &'a [AtomicU8],
    words: &'a [AtomicU64],
    last: &'a [AtomicU8],
}

impl Span<'_> {
    /// First byte. The other process and other threads may access these bytes at any time. The caller must not make a reference
    /// to them but to atomics, and copies them only while the plan's order lets nothing else write them.
    pub fn as_ptr(&self) -> *mut u8 {
        self.ptr
    }
    /// Maps the pages of many bytes at once, which is cheaper than one after the other when they are touched. It maps them for reading,
    /// because the kernel then maps several existing pages at a time; they can be written nevertheless, since they are shared.
    pub fn populate(&self) {
        const MANY: usize = 1 << 20;
        if self.len >= MANY {
            // Without success the pages are mapped when they are touched.
            self.advise(Advice::LinuxPopulateRead);
        }
    }
    /// Takes and maps the pages. Without success a page may be missing, and touching it could end the process.
    fn populate_to_write(&self) -> bool {
        self.advise(Advice::LinuxPopulateWrite)
    }
    /// Ends that this process has the pages, which stay in the arena.
    fn unmap_pages(&self) {
        // Without success this process has pages for longer, and nothing else.
        self.advise(Advice::LinuxDontNeed);
    }
    /// Gives the kernel advice on all pages of the bytes; no advice changes their contents.
    fn advise(&self, advice: Advice) -> bool {
        let skip = self.ptr.addr() % rustix::param::page_size();
        let (first, len) = (self.ptr.wrapping_sub(skip), self.len + skip);
        // SAFETY: inside the mapping, which starts on a page and is shared: its pages stay in the memory file, so that a page
        // that this process gives back, also a neighbour's, is mapped again with its contents when it is touched.
        unsafe { rustix::mm::madvise(first.cast(), len, advice) }.is_ok()
    }
    /// Length in bytes.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.len
    }
}

/// The reason bytes cannot be read from an arena.
#[derive(Clone, Copy, Debug, thiserror::Error)]
pub enum ReadError {
    /// They are outside the arena.
    #[error(transparent)]
    Outside(#[from] Outside),
    /// This process has no memory for a copy.
    #[error("no memory for a copy of {len} bytes")]
    Memory {
        /// Number of bytes to read.
        len: usize,
    },
}

/// An offset or length that the arena does not have.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("bytes {at} to {at} + {len} lie outside the arena of {size} bytes")]
pub struct Outside {
    at: u64,
    len: u64,
    size: u64,
}

impl Arena {
    /// A new one (the parent's). It can grow but never shrink, so no mapping of it can lose its pages.
    ///
    /// # Errors
    ///
    /// The system has no memory or no descriptor for it.
    pub fn create() -> io::Result<Self> {
        let fd = rustix::fs::memfd_create("collspec-arena", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        rustix::fs::ftruncate(&fd, LEAST)?;
        rustix::fs::fcntl_add_seals(&fd, SealFlags::SHRINK)?;
        let mapping = Arc::new(Mapping::new(&fd, LEAST)?);
        Ok(Self { fd, mapping, descriptor: Mutex::default() })
    }

    /// The other side's, from its descriptor (the worker's).
    ///
    /// # Errors
    ///
    /// The descriptor is not that of an arena, or it cannot be mapped.
    pub fn open(fd: OwnedFd) -> io::Result<Self> {
        let seals = rustix::fs::fcntl_get_seals(&fd)?;
        if !seals.contains(SealFlags::SHRINK) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not an arena: it could shrink"));
        }
        let mapping = Arc::new(Mapping::new(&fd, size(&fd)?)?);
        Ok(Self { fd, mapping, descriptor: Mutex::default() })
    }

    /// A mapping of at least `len` bytes; with `grow` the memory is enlarged if it has less.
    ///
    /// # Errors
    ///
    /// The memory has less and may not grow, or cannot be mapped.
    pub fn ensure(&mut self, len: u64, grow: bool) -> io::Result<Arc<Mapping>> {
        if len > self.mapping.size() {
            let mut have = size(&self.fd)?;
            if len > have {
                if !grow {
                    return Err(io::Error::new(io::ErrorKind::InvalidInput, "the arena is smaller than the job says"));
                }
                have = grown(len);
                rustix::fs::ftruncate(&self.fd, have)?;
            }
            self.mapping = Arc::new(Mapping::new(&self.fd, have)?);
        }
        Ok(self.mapping.clone())
    }

    /// Copies bytes in without touching a mapping, so that this process takes no pages for them.
    ///
    /// # Errors
    ///
    /// They lie outside, or the system has no memory for them.
    pub fn put(&self, mut at: u64, mut bytes: &[u8]) -> io::Result<()> {
        self.check(at, bytes.len())?;
        while !bytes.is_empty() {
            match rustix::io::pwrite(&self.fd, bytes, at) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => (bytes, at) = (bytes.get(written..).unwrap_or_default(), at + written as u64),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Copies bytes out, as [`Arena::put`] copies them in.
    ///
    /// # Errors
    ///
    /// They lie outside.
    pub fn take(&self, mut at: u64, mut bytes: &mut [u8]) -> io::Result<()> {
        self.check(at, bytes.len())?;
        while !bytes.is_empty() {
            match rustix::io::pread(&self.fd, &mut *bytes, at) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(read) => (bytes, at) = (bytes.get_mut(read..).unwrap_or_default(), at + read as u64),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn check(&self, at: u64, len: usize) -> io::Result<()> {
        self.mapping.span(at, len as u64).map(drop).map_err(io::Error::other)
    }

    /// The most recent mapping.
    pub fn mapping(&self) -> &Arc<Mapping> {
        &self.mapping
    }
}

impl AsFd for Arena {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// The size of an arena that needs this many bytes: small ones grow by doubling, and large ones have little more than they need.
fn grown(len: u64) -> u64 {
    const STEP: u64 = 64 << 20;
    let larger = if len < STEP { len.checked_next_power_of_two() } else { len.checked_next_multiple_of(STEP) };
    larger.unwrap_or(len)
}

fn size(fd: &OwnedFd) -> io::Result<u64> {
    let stat = rustix::fs::fstat(fd)?;
    u64::try_from(stat.st_size).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))
}

impl Mapping {
    fn new(fd: &OwnedFd, len: u64) -> io::Result<Self> {
        let len = usize::try_from(len).map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
        let raw = MmapOptions::new().len(len).map_raw(rustix_fd(fd))?;
        Ok(Self(raw))
    }

    /// Number of bytes mapped.
    pub fn size(&self) -> u64 {
        self.0.len() as u64
    }

    /// Some bytes of it.
    ///
    /// # Errors
    ///
    /// They lie outside.
    pub fn span(&self, at: u64, len: u64) -> Result<Span<'_>, Outside> {
        let size = self.size();
        match at.checked_add(len) {
            Some(end) if end <= size => {
                // `at` fits usize, since the mapping's size does
                let ptr = self.0.as_mut_ptr().wrapping_add(at as usize);
                Ok(Span { ptr, len: len as usize, _arena: PhantomData })
            }
            _ => Err(Outside { at, len, size }),
        }
    }

    /// Copies bytes in. The bytes are atomics to this process, so other threads may read and write them at the same time.
    ///
    /// # Errors
    ///
    /// They lie outside.
    pub fn write(&self, at: u64, bytes: &[u8]) -> Result<(), Outside> {
        let Atomics { first, words, last } = self.atomics(at, bytes.len() as u64)?;
        let (from_first, rest) = bytes.split_at(first.len());
        let (from_words, from_last) = rest.as_chunks::<8>();
        for (to, from) in first.iter().zip(from_first).chain(last.iter().zip(from_last)) {
            to.store(*from, Ordering::Relaxed);
        }
        for (to, from) in words.iter().zip(from_words) {
            to.store(u64::from_ne_bytes(*from), Ordering::Relaxed);
        }
        Ok(())
    }

    /// Copies bytes out. If another thread or process is writing at the same time, each byte may be old or new.
    ///
    /// # Errors
    ///
    /// The range is outside the arena, or there is not enough memory for the copy.
    pub fn read(&self, at: u64, len: u64) -> Result<Vec<u8>, ReadError> {
        let len = self.span(at, len)?.len();
        let mut bytes = Vec::<u8>::new();
        bytes.try_reserve_exact(len).map_err(|_| ReadError::Memory { len })?;
        bytes.resize(len, 0);
        self.copy_to(at, &mut bytes)?;
        Ok(bytes)
    }

    /// Like [`Mapping::read`], into a given slice.
    ///
    /// # Errors
    ///
    /// The range is outside the arena.
    pub fn copy_to(&self, at: u64, to: &mut [u8]) -> Result<(), Outside> {
        let Atomics { first, words, last } = self.atomics(at, to.len() as u64)?;
        let (to_first, rest) = to.split_at_mut(first.len());
        let (to_words, to_last) = rest.as_chunks_mut::<8>();
        for (to, from) in to_first.iter_mut().zip(first).chain(to_last.iter_mut().zip(last)) {
            *to = from.load(Ordering::Relaxed);
        }
        for (to, from) in to_words.iter_mut().zip(words) {
            *to = from.load(Ordering::Relaxed).to_ne_bytes();
        }
        Ok(())
    }

    /// The bytes of a range as atomics.
    fn atomics(&self, at: u64, len: u64) -> Result<Atomics<'_>, Outside> {
        let span = self.span(at, len)?;
        // SAFETY: inside the mapping, which lives as long as `self` and cannot lose its pages; all safe functions access it
        // atomically, and whole words always as words, as `word` does.
        let bytes = unsafe { std::slice::from_raw_parts(span.ptr.cast::<AtomicU8>(), span.len) };
        // SAFETY: any eight aligned bytes are a valid word.
        let (first, words, last) = unsafe { bytes.align_to::<AtomicU64>() };
        Ok(Atomics { first, words, last })
    }

    /// The step word of a rank.
    ///
    /// # Errors
    ///
    /// It lies outside.
    pub fn word(&self, rank: u32) -> Result<&AtomicU64, Outside> {
        let span = self.span(u64::from(rank) * 8, 8)?;
        // SAFETY: inside the mapping, which lives as long as `self`; aligned to 8, since mappings start on a page; both
        // processes access these words only atomically.
        Ok(unsafe { AtomicU64::from_ptr(span.ptr.cast()) })
    }
}

fn rustix_fd(fd: &OwnedFd) -> std::os::fd::RawFd {
    use std::os::fd::AsRawFd;
    fd.as_raw_fd()
}

/// The meaning of a step word: a phase, and the index of the call in that phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The rank has not begun.
    Before,
    /// A call of the prelude; the number after the last is loading, the one after that waiting for the other ranks.
    Opening(u32),
    /// A call of the program.
    Running(u32),
    /// Its images are in the arena.
    Done,
    /// Its communicators are being destroyed, which no program asked for.
    Ending,
}

impl Step {
    /// The word that is stored for it.
    pub fn word(self) -> u64 {
        match self {
            Self::Before => 0,
            Self::Opening(call) => 1 << 32 | u64::from(call),
            Self::Running(call) => 2 << 32 | u64::from(call),
            Self::Done => 3 << 32,
            Self::Ending => 4 << 32,
        }
    }
    /// Decodes a stored word.
    pub fn of(word: u64) -> Self {
        match word >> 32 {
            1 => Self::Opening(word as u32),
            2 => Self::Running(word as u32),
            3 => Self::Done,
            4 => Self::Ending,
            _ => Self::Before,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_see_the_same_bytes_also_after_growing() {
        let mut parent = Arena::create().unwrap();
        let mut worker = Arena::open(parent.as_fd().try_clone_to_owned().unwrap()).unwrap();
        parent.mapping().write(100, b"hello").unwrap();
        assert_eq!(worker.mapping().read(100, 5).unwrap(), b"hello");
        let old = worker.mapping().clone();
        assert!(worker.ensure(3 << 20, false).is_err(), "only the parent makes it larger");
        let grown = parent.ensure(3 << 20, true).unwrap();
        assert!(grown.size() >= 3 << 20);
        grown.write((3 << 20) - 5, b"world").unwrap();
        assert_eq!(worker.ensure(3 << 20, false).unwrap().read((3 << 20) - 5, 5).unwrap(), b"world");
        assert_eq!(old.read(100, 5).unwrap(), b"hello", "an old mapping stays valid");
        assert!(rustix::fs::ftruncate(&parent.fd, 0).is_err(), "pages cannot be taken away");
    }

    #[test]
    fn copies_at_any_alignment_take_exactly_their_bytes() {
        let arena = Arena::create().unwrap();
        let mapping = arena.mapping();
        for (at, len) in (0..17u64).flat_map(|at| (0..40u64).map(move |len| (at, len))) {
            mapping.write(0, &[0xff; 64]).unwrap();
            let bytes: Vec<u8> = (1..=len as u8).collect();
            mapping.write(at, &bytes).unwrap();
            assert_eq!(mapping.read(at, len).unwrap(), bytes);
            let mut all = [0xff; 64];
            all[at as usize..(at + len) as usize].copy_from_slice(&bytes);
            assert_eq!(mapping.read(0, 64).unwrap(), all, "{len} bytes at {at}");
        }
    }

    #[test]
    fn what_lies_outside_is_an_error() {
        let arena = Arena::create().unwrap();
        let m = arena.mapping();
        assert!(m.span(m.size(), 0).is_ok());
        assert!(m.span(m.size(), 1).is_err() && m.span(u64::MAX, 2).is_err() && m.read(0, m.size() + 1).is_err());
    }

    #[test]
    fn step_words_keep_phase_and_call() {
        let arena = Arena::create().unwrap();
        for step in [Step::Before, Step::Opening(7), Step::Running(u32::MAX), Step::Done, Step::Ending] {
            arena.mapping().word(3).unwrap().store(step.word(), Ordering::Release);
            assert_eq!(Step::of(arena.mapping().word(3).unwrap().load(Ordering::Acquire)), step);
        }
    }
}
