//! What a worker needs of a device: memory, streams, events, and expressions computed in stream order.
use super::{Backend, Census, host};
use crate::run::arena::Span;
use std::ffi::c_void;

/// An address on the device; made by [`Memory`] or null.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address(pub(super) u64);

impl Address {
    /// Null.
    pub const NULL: Self = Self(0);
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
}

/// Devices that there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Device {
    /// soft-cuda: the host itself.
    Host,
}

/// A block of device memory; given back when dropped, so it must outlive the work that uses it.
#[derive(Debug)]
pub struct Memory(host::Memory);

/// A queue of work on the device.
#[derive(Clone)]
pub struct Stream(host::Stream);

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "stream {:?}", self.raw())
    }
}

/// A point in a stream.
pub struct Event(soft_cuda::Event);

impl Device {
    /// Makes the calling thread ready to work for `rank`. The host needs nothing.
    pub fn bind(self, _rank: usize) -> Result<(), DeviceError> {
        match self {
            Self::Host => Ok(()),
        }
    }
    /// A block of memory, aligned to 4,096 bytes.
    pub fn alloc(self, len: u64) -> Result<Memory, DeviceError> {
        match self {
            Self::Host => host::Memory::new(len).map(Memory),
        }
    }
    /// A new stream.
    pub fn stream(self) -> Stream {
        match self {
            Self::Host => Stream(soft_cuda::Stream::new()),
        }
    }
    /// A new event.
    pub fn event(self) -> Event {
        match self {
            Self::Host => Event(soft_cuda::Event::new()),
        }
    }
    /// Makes every host thread inside [`Stream::synchronize_unless`] ask again.
    pub fn wake_hosts(self) {
        match self {
            Self::Host => soft_cuda::wake_hosts(),
        }
    }
}

impl Memory {
    /// The address of byte `byte`, if so many bytes from there on lie inside the block.
    pub fn at(&self, byte: u64, len: u64) -> Result<Address, DeviceError> {
        self.0.at(byte, len)
    }
    /// Fills the block from the start. Not ordered with streams.
    pub fn load(&self, from: &Span<'_>) -> Result<(), DeviceError> {
        self.0.load(from)
    }
    /// Copies the start of the block out. Not ordered with streams.
    pub fn save(&self, to: &Span<'_>) -> Result<(), DeviceError> {
        self.0.save(to)
    }
}

/// What computes a map: the bytes of what it reads to the bytes that it writes, or `None` if nothing is to be written.
pub type MapFn = Box<dyn FnOnce(&[Vec<u8>]) -> Option<Vec<u8>> + Send>;

impl Stream {
    /// As `cudaStream_t`.
    pub fn raw(&self) -> *mut c_void {
        self.0.raw()
    }
    /// Copies between device addresses, in stream order. Both ranges lie inside blocks that live until then.
    pub fn copy(&self, to: Address, from: Address, len: u64) {
        host::copy(&self.0, to, from, len);
    }
    /// Computes on the host, in stream order.
    pub fn map(&self, reads: Vec<(Address, u64)>, out: Address, out_len: u64, f: MapFn) {
        host::map(&self.0, reads, out, out_len, f);
    }
    /// Runs `f` in stream order. It must not block.
    pub fn host_fn(&self, f: Box<dyn FnOnce() + Send>) {
        self.0.host_fn(f);
    }
    /// The event is reached when everything so far is finished.
    pub fn record(&self, event: &Event) {
        self.0.record(&event.0);
    }
    /// What follows waits for the event.
    pub fn wait(&self, event: &Event) {
        self.0.wait(&event.0);
    }
    /// The host waits for everything so far (true), or until `stop` says true (false).
    pub fn synchronize_unless(&self, stop: &dyn Fn() -> bool) -> bool {
        self.0.synchronize_unless(stop)
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
