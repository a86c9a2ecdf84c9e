//! What a worker needs of a device: memory, streams, events, and expressions computed in stream order.
use super::cuda::{self, Cuda};
use super::{Backend, Census, host};
use crate::job::arena::Span;
use std::ffi::c_void;

/// An address on the device; made by [`Memory`] or null.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address(pub(super) u64);

impl Address {
    /// Null.
    pub const NULL: Self = Self(0);
    /// So many bytes further on; null stays null.
    pub(super) fn plus(self, bytes: u64) -> Self {
        if self == Self::NULL { self } else { Self(self.0.saturating_add(bytes)) }
    }
    pub(super) fn as_ptr(self) -> *mut c_void {
        std::ptr::with_exposed_provenance_mut(self.0 as usize)
    }
}

/// The device could not do it.
#[derive(Clone, Debug, thiserror::Error)]
pub enum DeviceError {
    /// No memory.
    #[error(transparent)]
    Memory(#[from] soft_cuda::OutOfMemory),
    /// Outside an allocation.
    #[error("bytes {from} to {to} lie outside an allocation of {len} bytes")]
    Outside {
        /// First byte.
        from: u64,
        /// One past the last.
        to: u64,
        /// Bytes of the allocation.
        len: u64,
    },
    /// CUDA said no.
    #[error(transparent)]
    Cuda(#[from] cuda::CudaError),
    /// A stream, event or block of another kind of device.
    #[error("things of two devices were mixed")]
    Mixed,
}

/// Devices that there are.
#[derive(Clone, Copy, Debug)]
pub enum Device {
    /// soft-cuda: the host itself.
    Host,
    /// GPUs, or whatever answers as `libcuda`.
    Cuda(&'static Cuda),
}

/// A block of device memory; given back when dropped, so it must outlive the work that uses it.
#[derive(Debug)]
pub struct Memory(Block);

#[derive(Debug)]
enum Block {
    Host(host::Memory),
    Cuda(cuda::Memory),
}

/// A queue of work on the device.
#[derive(Clone)]
pub struct Stream(Queue);

#[derive(Clone)]
enum Queue {
    Host(host::Stream),
    Cuda(cuda::Stream),
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "stream {:?}", self.raw())
    }
}

/// A point in a stream.
pub struct Event(Point);

enum Point {
    Host(soft_cuda::Event),
    Cuda(cuda::Event),
}

/// What a rank's copies to and from the host go through; the host device needs nothing.
#[derive(Debug)]
pub struct Staging(Option<cuda::Staging>);

impl Staging {
    /// What a map needs that reads and writes so many bytes.
    pub fn need(reads: impl Iterator<Item = u64>, out: u64) -> u64 {
        cuda::Staging::need(reads, out)
    }
    /// A program begins anew: what the maps of the last one used is free. They are finished.
    pub fn restart(&mut self) {
        if let Some(staging) = &mut self.0 {
            staging.restart();
        }
    }
}

impl Device {
    /// Makes the calling thread ready to work for `rank`: the rank's device becomes its current one.
    pub fn bind(self, rank: usize) -> Result<(), DeviceError> {
        match self {
            Self::Host => {
                soft_cuda::set_current(rank);
                Ok(())
            }
            Self::Cuda(cuda) => Ok(cuda.bind(rank)?),
        }
    }
    /// A block of memory, aligned to 4,096 bytes.
    pub fn alloc(self, len: u64) -> Result<Memory, DeviceError> {
        Ok(Memory(match self {
            Self::Host => Block::Host(host::Memory::new(len)?),
            Self::Cuda(cuda) => Block::Cuda(cuda::Memory::new(cuda, len)?),
        }))
    }
    /// Host memory for a rank whose maps need `maps` bytes in all, and whose largest block has `image` bytes.
    pub fn staging(self, maps: u64, image: u64) -> Result<Staging, DeviceError> {
        Ok(Staging(match self {
            Self::Host => None,
            Self::Cuda(cuda) => Some(cuda::Staging::new(cuda, maps, image)?),
        }))
    }
    /// A new stream.
    pub fn stream(self) -> Result<Stream, DeviceError> {
        Ok(Stream(match self {
            Self::Host => Queue::Host(soft_cuda::Stream::new()),
            Self::Cuda(cuda) => Queue::Cuda(cuda::Stream::new(cuda)?),
        }))
    }
    /// The number of the calling thread's device, if one was ever bound to it.
    pub fn current(self) -> Option<i32> {
        match self {
            Self::Host => soft_cuda::current().and_then(|device| i32::try_from(device).ok()),
            Self::Cuda(cuda) => cuda.current_number(),
        }
    }
    /// The null stream of the rank's device, which must be bound to the calling thread.
    pub fn null_stream(self, rank: usize) -> Result<Stream, DeviceError> {
        Ok(Stream(match self {
            Self::Host => Queue::Host(soft_cuda::Stream::of_device(rank)),
            Self::Cuda(cuda) => Queue::Cuda(cuda::Stream::null(cuda)?),
        }))
    }
    /// A new event.
    pub fn event(self) -> Result<Event, DeviceError> {
        Ok(Event(match self {
            Self::Host => Point::Host(soft_cuda::Event::new()),
            Self::Cuda(cuda) => Point::Cuda(cuda::Event::new(cuda)?),
        }))
    }
    /// Makes every host thread inside [`Stream::synchronize_unless`] ask again.
    pub fn wake_hosts(self) {
        match self {
            Self::Host => soft_cuda::wake_hosts(),
            Self::Cuda(cuda) => cuda.wake(),
        }
    }
}

impl Memory {
    /// The address of byte `byte`, if so many bytes from there on lie inside the block.
    pub fn at(&self, byte: u64, len: u64) -> Result<Address, DeviceError> {
        match &self.0 {
            Block::Host(memory) => memory.at(byte, len),
            Block::Cuda(memory) => memory.at(byte, len),
        }
    }
    /// Fills the block from the start. Not ordered with streams.
    pub fn load(&self, from: &Span<'_>, via: &Staging) -> Result<(), DeviceError> {
        match (&self.0, &via.0) {
            (Block::Host(memory), None) => memory.load(from),
            (Block::Cuda(memory), Some(via)) => memory.load(from, via),
            _ => Err(DeviceError::Mixed),
        }
    }
    /// Copies the start of the block out. Not ordered with streams.
    pub fn save(&self, to: &Span<'_>, via: &Staging) -> Result<(), DeviceError> {
        match (&self.0, &via.0) {
            (Block::Host(memory), None) => memory.save(to),
            (Block::Cuda(memory), Some(via)) => memory.save(to, via),
            _ => Err(DeviceError::Mixed),
        }
    }
}

/// What computes a map: the bytes of what it reads to the bytes that it writes, or `None` if nothing is to be written.
pub type MapFn = Box<dyn FnOnce(&[Vec<u8>]) -> Option<Vec<u8>> + Send>;

impl Stream {
    /// As `cudaStream_t`.
    pub fn raw(&self) -> *mut c_void {
        match &self.0 {
            Queue::Host(stream) => stream.raw(),
            Queue::Cuda(stream) => stream.raw(),
        }
    }
    /// Copies between device addresses, in stream order. Both ranges lie inside blocks that live until then.
    pub fn copy(&self, to: Address, from: Address, len: u64) -> Result<(), DeviceError> {
        match &self.0 {
            Queue::Host(stream) => host::copy(stream, to, from, len),
            Queue::Cuda(stream) => stream.copy(to, from, len)?,
        }
        Ok(())
    }
    /// Computes on the host, in stream order.
    pub fn map(
        &self,
        reads: Vec<(Address, u64)>,
        out: Address,
        out_len: u64,
        f: MapFn,
        via: &mut Staging,
    ) -> Result<(), DeviceError> {
        match (&self.0, &mut via.0) {
            (Queue::Host(stream), None) => host::map(stream, reads, out, out_len, f),
            (Queue::Cuda(stream), Some(via)) => stream.map(reads, out, out_len, f, via)?,
            _ => return Err(DeviceError::Mixed),
        }
        Ok(())
    }
    /// Runs `f` in stream order. It must not block.
    pub fn host_fn(&self, f: Box<dyn FnOnce() + Send>) -> Result<(), DeviceError> {
        match &self.0 {
            Queue::Host(stream) => stream.host_fn(f),
            Queue::Cuda(stream) => stream.host_fn(f)?,
        }
        Ok(())
    }
    /// The event is reached when everything so far is finished.
    pub fn record(&self, event: &Event) -> Result<(), DeviceError> {
        match (&self.0, &event.0) {
            (Queue::Host(stream), Point::Host(event)) => stream.record(event),
            (Queue::Cuda(stream), Point::Cuda(event)) => stream.record(event)?,
            _ => return Err(DeviceError::Mixed),
        }
        Ok(())
    }
    /// What follows waits for the event.
    pub fn wait(&self, event: &Event) -> Result<(), DeviceError> {
        match (&self.0, &event.0) {
            (Queue::Host(stream), Point::Host(event)) => stream.wait(event),
            (Queue::Cuda(stream), Point::Cuda(event)) => stream.wait(event)?,
            _ => return Err(DeviceError::Mixed),
        }
        Ok(())
    }
    /// The host waits for everything so far (true), or until `stop` says true (false).
    pub fn synchronize_unless(&self, stop: &dyn Fn() -> bool) -> Result<bool, DeviceError> {
        Ok(match &self.0 {
            Queue::Host(stream) => stream.synchronize_unless(stop),
            Queue::Cuda(stream) => stream.synchronize_unless(stop)?,
        })
    }
}

impl Backend {
    /// A look at everything that could still move, if this backend can give one.
    pub fn census(&self) -> Option<Census> {
        // the software library's census includes the device's
        let census = self.library.census()?;
        Some(Census {
            epoch: census.epoch,
            busy: census.busy != 0,
            blocked: usize::try_from(census.blocked_hosts).unwrap_or(0),
        })
    }
    /// Sets what is called when device or library fall idle or a host thread starts to wait in them, if the backend can.
    pub fn set_idle_hook(&self, hook: Option<extern "C" fn()>) {
        self.library.set_idle_hook(hook);
    }
}
