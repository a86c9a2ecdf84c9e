//! Memory that parent and worker share: step words first, then initial images, final images and checkpoints. Both sides
//! reach it by offset; neither ever makes a reference into it but for the atomic step words.
#![allow(unsafe_code)] // memory another process writes can only be reached by raw pointers

use memmap2::{MmapOptions, MmapRaw};
use rustix::fs::{MemfdFlags, SealFlags};
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// What an arena has at least.
const LEAST: u64 = 1 << 20;

/// A mapping of the shared memory. It stays valid when the arena grows: growing makes a second mapping.
pub struct Mapping(MmapRaw);

/// The shared memory and its newest mapping.
pub struct Arena {
    fd: OwnedFd,
    mapping: Arc<Mapping>,
}

/// Bytes of an arena.
#[derive(Clone, Copy)]
pub struct Span<'a> {
    ptr: *mut u8,
    len: usize,
    _arena: PhantomData<&'a Mapping>,
}

impl Span<'_> {
    /// First byte. The other process may write at any time, so no reference may be made from it.
    pub fn as_ptr(&self) -> *mut u8 {
        self.ptr
    }
    /// Bytes.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.len
    }
}

/// Why bytes cannot be read out of an arena.
#[derive(Clone, Copy, Debug, thiserror::Error)]
pub enum ReadError {
    /// They are outside the arena.
    #[error(transparent)]
    Outside(#[from] Outside),
    /// This process has no memory for a copy.
    #[error("no memory for a copy of {len} bytes")]
    Memory {
        /// Bytes to read.
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
    /// A new one (the parent's). It can grow but never shrink, so nobody's mapping can lose its pages.
    pub fn create() -> io::Result<Self> {
        let fd = rustix::fs::memfd_create("collspec-arena", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        rustix::fs::ftruncate(&fd, LEAST)?;
        rustix::fs::fcntl_add_seals(&fd, SealFlags::SHRINK)?;
        let mapping = Arc::new(Mapping::new(&fd, LEAST)?);
        Ok(Self { fd, mapping })
    }

    /// The other side's, from its descriptor (the worker's).
    pub fn open(fd: OwnedFd) -> io::Result<Self> {
        let seals = rustix::fs::fcntl_get_seals(&fd)?;
        if !seals.contains(SealFlags::SHRINK) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not an arena: it could shrink"));
        }
        let mapping = Arc::new(Mapping::new(&fd, size(&fd)?)?);
        Ok(Self { fd, mapping })
    }

    /// A mapping of at least `len` bytes; `grow`: makes the memory larger if it has less.
    pub fn ensure(&mut self, len: u64, grow: bool) -> io::Result<Arc<Mapping>> {
        if len > self.mapping.size() {
            let mut have = size(&self.fd)?;
            if len > have {
                if !grow {
                    return Err(io::Error::new(io::ErrorKind::InvalidInput, "the arena is smaller than the job says"));
                }
                have = len.checked_next_power_of_two().unwrap_or(len);
                rustix::fs::ftruncate(&self.fd, have)?;
            }
            self.mapping = Arc::new(Mapping::new(&self.fd, have)?);
        }
        Ok(self.mapping.clone())
    }

    /// The newest mapping.
    pub fn mapping(&self) -> &Arc<Mapping> {
        &self.mapping
    }
}

impl AsFd for Arena {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
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

    /// Bytes mapped.
    pub fn size(&self) -> u64 {
        self.0.len() as u64
    }

    /// Some bytes of it.
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

    /// Copies bytes in.
    pub fn write(&self, at: u64, bytes: &[u8]) -> Result<(), Outside> {
        let span = self.span(at, bytes.len() as u64)?;
        // SAFETY: `span` lies inside the mapping, which is alive; `bytes` is ordinary memory, so they cannot overlap.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), span.ptr, span.len) };
        Ok(())
    }

    /// Copies bytes out.
    ///
    /// # Errors
    /// They lie outside, or there is no memory for them.
    pub fn read(&self, at: u64, len: u64) -> Result<Vec<u8>, ReadError> {
        let span = self.span(at, len)?;
        let mut bytes = Vec::<u8>::new();
        bytes.try_reserve_exact(span.len).map_err(|_| ReadError::Memory { len: span.len })?;
        // SAFETY: `span` lies inside the mapping; the vector has room for as many bytes, and all of them are written
        // before its length says so. The other process may write meanwhile: then bytes may be old or new, never invalid.
        unsafe {
            std::ptr::copy_nonoverlapping(span.ptr, bytes.as_mut_ptr(), span.len);
            bytes.set_len(span.len);
        }
        Ok(bytes)
    }

    /// The step word of a rank.
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

/// What a step word says: a phase, and the index of the call in that phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing yet.
    Before,
    /// A call of the prelude; the number after the last is loading, the one after that waiting for the other ranks.
    Opening(u32),
    /// A call of the program.
    Running(u32),
    /// Its images are in the arena.
    Done,
    /// Its communicators are being destroyed, which nobody's program asked for.
    Ending,
}

impl Step {
    /// As stored.
    pub fn word(self) -> u64 {
        match self {
            Self::Before => 0,
            Self::Opening(call) => 1 << 32 | u64::from(call),
            Self::Running(call) => 2 << 32 | u64::from(call),
            Self::Done => 3 << 32,
            Self::Ending => 4 << 32,
        }
    }
    /// From what is stored.
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
    use std::sync::atomic::Ordering;

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
        assert!(rustix::fs::ftruncate(&parent.fd, 0).is_err(), "nobody can take pages away");
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
