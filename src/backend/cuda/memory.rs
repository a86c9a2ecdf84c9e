//! Device memory, and the pinned host memory through which everything goes in and out.
#![allow(unsafe_code)] // calls the driver and copies between raw addresses

use super::super::device::{Address, DeviceError};
use super::{Context, Cuda, Stream};
use crate::job::arena::Span;

/// NCCL's windows want it.
const ALIGN: u64 = 4096;
/// Memory that every context may use.
const PORTABLE: u32 = 1;
/// Pieces of pinned memory start on a line of their own.
const LINE: u64 = 64;
/// Images are copied in pieces of at most this.
const LARGEST_PIECE: u64 = 4 << 20;

/// A block of device memory.
#[derive(Debug)]
pub struct Memory {
    cuda: &'static Cuda,
    context: Context,
    /// What the driver gave; the block starts at the first aligned address in it.
    given: u64,
    base: u64,
    len: u64,
}

impl Memory {
    /// On the calling thread's device.
    pub fn new(cuda: &'static Cuda, len: u64) -> Result<Self, DeviceError> {
        let context = cuda.current()?;
        let wanted = usize::try_from(len.saturating_add(ALIGN)).unwrap_or(usize::MAX);
        let mut given = 0;
        // SAFETY: a place for the answer.
        unsafe { cuda.driver.memory_alloc(&mut given, wanted) }?;
        Ok(Self { cuda, context, given, base: given.next_multiple_of(ALIGN), len })
    }

    /// The address of `len` bytes inside the block.
    pub fn at(&self, byte: u64, len: u64) -> Result<Address, DeviceError> {
        let to = byte.saturating_add(len);
        if to > self.len {
            return Err(DeviceError::Outside { from: byte, to, len: self.len });
        }
        Ok(Address(self.base + byte))
    }

    /// Copies in, piece by piece, and waits for it.
    pub fn load(&self, from: &Span<'_>, via: &Staging) -> Result<(), DeviceError> {
        let len = from.len() as u64;
        let to = self.at(0, len)?;
        for (at, piece) in via.pieces(len) {
            // SAFETY: the piece lies in the span, and fits into the pinned block, which no copy uses now.
            unsafe { std::ptr::copy_nonoverlapping(from.as_ptr().add(at as usize), via.host, piece as usize) };
            via.stream.copy_in(Address(to.0 + at), via.host, piece)?;
            via.stream.synchronize()?;
        }
        Ok(())
    }

    /// Copies out, piece by piece.
    pub fn save(&self, to: &Span<'_>, via: &Staging) -> Result<(), DeviceError> {
        let len = to.len() as u64;
        let from = self.at(0, len)?;
        for (at, piece) in via.pieces(len) {
            via.stream.copy_out(via.host, Address(from.0 + at), piece)?;
            via.stream.synchronize()?;
            // SAFETY: as in `load`.
            unsafe { std::ptr::copy_nonoverlapping(via.host, to.as_ptr().add(at as usize), piece as usize) };
        }
        Ok(())
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the driver gave it; whoever drops a block has waited for the work that uses it.
        self.cuda.under(self.context, |driver| _ = unsafe { driver.memory_free(self.given) });
    }
}

/// Pinned host memory of one rank, made before anything runs, with a stream for what is loaded and saved through it.
#[derive(Debug)]
pub struct Staging {
    cuda: &'static Cuda,
    context: Context,
    host: *mut u8,
    len: u64,
    used: u64,
    stream: Stream,
}

// SAFETY: the block is the driver's memory and belongs to this value; who may touch it when is ordered by streams.
unsafe impl Send for Staging {}

impl Staging {
    /// What a map needs that reads and writes so many bytes.
    pub fn need(reads: impl Iterator<Item = u64>, out: u64) -> u64 {
        reads.chain([out]).fold(0, |sum, len| sum.saturating_add(padded(len)))
    }

    /// For maps that need `maps` in all, and for copies of images of up to `image` bytes.
    pub fn new(cuda: &'static Cuda, maps: u64, image: u64) -> Result<Self, DeviceError> {
        let (context, stream) = (cuda.current()?, Stream::new(cuda)?);
        let len = maps.max(image.min(LARGEST_PIECE)).max(ALIGN);
        let mut host = std::ptr::null_mut();
        // SAFETY: a place for the answer.
        unsafe { cuda.driver.host_alloc(&mut host, usize::try_from(len).unwrap_or(usize::MAX), PORTABLE) }?;
        Ok(Self { cuda, context, host: host.cast(), len, used: 0, stream })
    }

    /// Everything given out before is free again. Nothing may be in flight.
    pub fn restart(&mut self) {
        self.used = 0;
    }

    /// A piece that nobody else has until the next restart.
    pub(super) fn take(&mut self, len: u64) -> Result<*mut u8, DeviceError> {
        let (from, to) = (self.used, self.used.saturating_add(padded(len)));
        if to > self.len {
            return Err(DeviceError::Outside { from, to, len: self.len });
        }
        self.used = to;
        // SAFETY: inside the block.
        Ok(unsafe { self.host.add(from as usize) })
    }

    /// Where pieces of `len` bytes start, and how long they are.
    fn pieces(&self, len: u64) -> impl Iterator<Item = (u64, u64)> + use<> {
        let most = self.len;
        (0..len.div_ceil(most)).map(move |i| (i * most, most.min(len - i * most)))
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        // SAFETY: the driver gave it; whoever drops it has waited for the work that uses it.
        self.cuda.under(self.context, |driver| _ = unsafe { driver.host_free(self.host.cast()) });
    }
}

fn padded(len: u64) -> u64 {
    len.checked_next_multiple_of(LINE).unwrap_or(u64::MAX)
}
