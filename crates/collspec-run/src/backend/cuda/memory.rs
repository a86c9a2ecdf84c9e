//! Device memory, and the pinned host memory through which all copies go.
#![allow(unsafe_code)] // calls the driver and copies between raw addresses

use super::super::device::{Address, DeviceError, MemoryOwner};
use super::super::library::Library;
use super::stream::HostFn;
use super::{ContextHandle, Cuda, CudaStream};
use crate::job::arena::Span;

/// Alignment of device memory, which NCCL's windows need.
const ALIGN: u64 = 4096;
/// Flag of pinned memory that every context may use.
const PORTABLE: u32 = 1;
/// Alignment of pieces of pinned memory: a cache line.
const LINE: u64 = 64;
/// Largest memory through which images are copied, in bytes. Larger images are copied in pieces of half of it.
const LARGEST_BLOCK: u64 = 4 << 20;

/// A block of device memory.
#[derive(Debug)]
pub struct CudaMemory {
    cuda: &'static Cuda,
    context: ContextHandle,
    /// The driver's allocation; the block starts at its first aligned address.
    given: u64,
    base: u64,
    len: u64,
    owner: MemoryOwner,
}

impl CudaMemory {
    /// Allocates a block on the calling thread's device.
    ///
    /// # Errors
    ///
    /// The memory cannot be allocated.
    pub fn new(cuda: &'static Cuda, len: u64) -> Result<Self, DeviceError> {
        let context = cuda.current()?;
        let wanted = usize::try_from(len.saturating_add(ALIGN)).unwrap_or(usize::MAX);
        let mut given = 0;
        // SAFETY: a place for the answer.
        unsafe { cuda.driver.memory_alloc(&mut given, wanted) }?;
        Ok(Self { cuda, context, given, base: given.next_multiple_of(ALIGN), len, owner: MemoryOwner::Device })
    }

    /// Memory that the library has allocated on the calling thread's device, and frees.
    ///
    /// # Errors
    ///
    /// A call of the driver fails.
    pub fn of_library(
        cuda: &'static Cuda,
        library: &'static Library,
        base: Address,
        len: u64,
    ) -> Result<Self, DeviceError> {
        let context = cuda.current()?;
        Ok(Self { cuda, context, given: base.0, base: base.0, len, owner: MemoryOwner::Library(library) })
    }

    /// The address of `len` bytes inside the block.
    ///
    /// # Errors
    ///
    /// The bytes are not inside the block.
    pub fn at(&self, byte: u64, len: u64) -> Result<Address, DeviceError> {
        let to = byte.saturating_add(len);
        if to > self.len {
            return Err(DeviceError::Outside { from: byte, to, len: self.len });
        }
        Ok(Address(self.base + byte))
    }

    /// Fills the block piece by piece, and waits for it. While the device copies one piece, the host copies the next.
    ///
    /// # Errors
    ///
    /// The bytes do not fit the block, or a call of the driver fails.
    pub fn load(&self, from: &Span<'_>, via: &PinnedStaging) -> Result<(), DeviceError> {
        let len = from.len() as u64;
        let to = self.at(0, len)?;
        for Piece { at, len, host } in via.pieces(len) {
            // SAFETY: the piece lies in the span, and fits into its place in the pinned block. The device may be at the piece before,
            // which has another place; it has finished the one before that.
            unsafe { std::ptr::copy_nonoverlapping(from.as_ptr().add(at as usize), host, len as usize) };
            via.stream.synchronize()?;
            via.stream.copy_in(Address(to.0 + at), host, len)?;
        }
        Ok(via.stream.synchronize()?)
    }

    /// Copies the block out piece by piece. While the host copies one piece, the device copies the next.
    ///
    /// # Errors
    ///
    /// The bytes do not fit the block, or a call of the driver fails.
    pub fn save(&self, to: &Span<'_>, via: &PinnedStaging) -> Result<(), DeviceError> {
        let len = to.len() as u64;
        let from = self.at(0, len)?;
        let begin = |piece: &Piece| via.stream.copy_out(piece.host, Address(from.0 + piece.at), piece.len);
        let mut pieces = via.pieces(len);
        let mut next = pieces.next();
        next.as_ref().map_or(Ok(()), begin)?;
        while let Some(Piece { at, len, host }) = next {
            via.stream.synchronize()?;
            next = pieces.next();
            next.as_ref().map_or(Ok(()), begin)?;
            // SAFETY: the piece lies in the span, and the device has finished it and is at one that has another place.
            unsafe { std::ptr::copy_nonoverlapping(host, to.as_ptr().add(at as usize), len as usize) };
        }
        Ok(())
    }
}

impl Drop for CudaMemory {
    fn drop(&mut self) {
        self.cuda.with_context(self.context, |driver| match self.owner {
            // SAFETY: the driver gave it; a block is dropped after the work that uses it has ended.
            MemoryOwner::Device => _ = unsafe { driver.memory_free(self.given) },
            MemoryOwner::Library(library) => library.mem_free(Address(self.given)),
        });
    }
}

/// A piece of an image on its way: its first byte in the image, its bytes, and its place in the pinned memory.
struct Piece {
    at: u64,
    len: u64,
    host: *mut u8,
}

/// Pinned host memory of one rank, allocated before the run, with a stream for loading and saving.
pub struct PinnedStaging {
    cuda: &'static Cuda,
    context: ContextHandle,
    host: *mut u8,
    len: u64,
    used: u64,
    /// Bytes at the beginning that are set aside for good.
    set_aside: u64,
    stream: CudaStream,
    /// Functions of graphs, each at an address that stays.
    #[allow(clippy::vec_box)] // the addresses must not change as the list grows
    kept: Vec<Box<HostFn>>,
}

impl std::fmt::Debug for PinnedStaging {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of {} bytes of pinned memory", self.used, self.len)
    }
}

// SAFETY: the block is the driver's memory and belongs to this value; streams order the accesses to it.
unsafe impl Send for PinnedStaging {}

impl PinnedStaging {
    /// The bytes of pinned memory for a map that reads and writes this many bytes.
    pub fn need(reads: impl Iterator<Item = u64>, out: u64) -> u64 {
        reads.chain([out]).fold(0, |sum, len| sum.saturating_add(padded(len)))
    }

    /// Allocates memory for maps that need `maps` bytes in all, and for copies of images of up to `image` bytes.
    ///
    /// # Errors
    ///
    /// The memory cannot be allocated.
    pub fn new(cuda: &'static Cuda, maps: u64, image: u64) -> Result<Self, DeviceError> {
        let (context, stream) = (cuda.current()?, CudaStream::new(cuda)?);
        let len = maps.max(image.min(LARGEST_BLOCK)).max(ALIGN);
        let mut host = std::ptr::null_mut();
        // SAFETY: a place for the answer.
        unsafe { cuda.driver.host_alloc(&mut host, usize::try_from(len).unwrap_or(usize::MAX), PORTABLE) }?;
        Ok(Self { cuda, context, host: host.cast(), len, used: 0, set_aside: 0, stream, kept: Vec::new() })
    }

    /// Frees all pieces but those that are set aside. No copy may be in flight.
    pub fn restart(&mut self) {
        self.used = self.set_aside;
    }

    /// Sets bytes aside permanently, before the first piece is taken, and returns their offset.
    ///
    /// # Errors
    ///
    /// There are not enough bytes.
    pub fn set_aside(&mut self, len: u64) -> Result<u64, DeviceError> {
        let from = self.used;
        self.take(len)?;
        self.set_aside = self.used;
        Ok(from)
    }

    /// Takes further pieces from this byte on. Returns the byte at which they would have started.
    pub fn go_to(&mut self, from: u64) -> u64 {
        std::mem::replace(&mut self.used, from)
    }

    /// Keeps a function of a graph until this is dropped, which is after the graph.
    pub(super) fn keep(&mut self, f: HostFn) -> *const HostFn {
        let f = Box::new(f);
        let address = std::ptr::from_ref(&*f);
        self.kept.push(f);
        address
    }

    /// A piece that is reserved until the next restart.
    pub(super) fn take(&mut self, len: u64) -> Result<*mut u8, DeviceError> {
        let (from, to) = (self.used, self.used.saturating_add(padded(len)));
        if to > self.len {
            return Err(DeviceError::Outside { from, to, len: self.len });
        }
        self.used = to;
        // SAFETY: inside the block.
        Ok(unsafe { self.host.add(from as usize) })
    }

    /// The pieces of `len` bytes. If there are several, two that follow each other have different places.
    fn pieces(&self, len: u64) -> impl Iterator<Item = Piece> + use<> {
        let (most, places) = if len <= self.len { (self.len, 1) } else { (self.len / 2 / LINE * LINE, 2) };
        let first = self.host;
        (0..len.div_ceil(most)).map(move |i| {
            let host = first.wrapping_add((i % places * most) as usize);
            Piece { at: i * most, len: most.min(len - i * most), host }
        })
    }
}

impl Drop for PinnedStaging {
    fn drop(&mut self) {
        // SAFETY: the driver gave it; it is dropped after the work that uses it has ended.
        self.cuda.with_context(self.context, |driver| _ = unsafe { driver.host_free(self.host.cast()) });
    }
}

fn padded(len: u64) -> u64 {
    len.checked_next_multiple_of(LINE).unwrap_or(u64::MAX)
}
