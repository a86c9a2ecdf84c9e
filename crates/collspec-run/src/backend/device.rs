//! The device of a worker, and its memory.
use super::call::CallError;
use super::cuda::{self, Cuda};
use super::library::Library;
use super::stream::{DeviceEvent, DeviceStream, EventKind, StreamKind, TimedEvent};
use super::{Backend, host, software_gpus};
use crate::job::Work;
use crate::job::arena::{self, Mapping, Span};
use std::ffi::c_void;
use std::sync::Arc;

/// An address on the device: from `Memory`, or null.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address(pub(super) u64);

impl Address {
    /// The null pointer.
    pub const NULL: Self = Self(0);
    /// The address `bytes` further on; null stays null.
    pub(super) fn plus(self, bytes: u64) -> Self {
        if self == Self::NULL { self } else { Self(self.0.saturating_add(bytes)) }
    }
    pub(super) fn as_ptr(self) -> *mut c_void {
        std::ptr::with_exposed_provenance_mut(self.0 as usize)
    }
}

#[derive(Clone, Debug, thiserror::Error)]
pub enum DeviceError {
    /// Memory could not be allocated.
    #[error(transparent)]
    Memory(#[from] gpuless_device::OutOfMemory),
    /// The range is outside an allocation.
    #[error("bytes {from} to {to} lie outside an allocation of {len} bytes")]
    Outside {
        /// Offset of the first byte.
        from: u64,
        /// One past the last byte.
        to: u64,
        /// Size of the allocation in bytes.
        len: u64,
    },
    /// The range is outside the arena.
    #[error(transparent)]
    OutsideArena(#[from] arena::Outside),
    /// A call of the CUDA driver failed.
    #[error(transparent)]
    Cuda(#[from] cuda::CudaError),
    /// A capture, or a graph from one, cannot be used in this way.
    #[error("CUDA graph: {0}")]
    Graph(#[from] gpuless_device::CaptureError),
    /// A kernel of the library has failed on a software GPU.
    #[error("{0}")]
    Kernel(String),
    /// A stream, event or block of another kind of device.
    #[error("the stream, event or buffer belongs to a different device")]
    Mixed,
    /// The time of an event that its stream has not come past.
    #[error("a stream has not come to an event whose time was asked for")]
    NotReached,
}

impl DeviceError {
    /// True if the library's work on the device, or its absence, may be the cause. All other errors come from calls of this program.
    pub fn may_come_from_the_library(&self) -> bool {
        use gpuless_device::CaptureError::*;
        match self {
            Self::Cuda(error) => error.code != cuda::OUT_OF_MEMORY,
            Self::Kernel(_) => true,
            Self::Graph(error) => match error {
                Unsupported | Invalidated | Merge | Unjoined | Isolation | CapturedEvent | LaunchFailed => true,
                Unmatched | Implicit | WrongThread => false,
            },
            Self::Memory(_) | Self::Outside { .. } | Self::OutsideArena(_) | Self::Mixed | Self::NotReached => false,
        }
    }
}

/// Memory for a window cannot be allocated.
#[derive(Clone, Debug, thiserror::Error)]
pub enum WindowMemoryError {
    /// The library's call failed.
    #[error(transparent)]
    Library(#[from] CallError),
    /// The device has no memory.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

/// The kinds of devices.
#[derive(Clone, Copy, Debug)]
pub enum Device {
    /// gpuless-device: the host itself.
    Host,
    /// gpuless-device with kernels: software GPUs under a real library.
    Software {
        /// The offset from a rank's number to the number of its device.
        offset: usize,
        /// How many devices there are.
        count: usize,
    },
    /// GPUs, or a stand-in for `libcuda`.
    Cuda(&'static Cuda),
}

/// A block of device memory. It is freed when it is dropped, so it must outlive the work that uses it.
#[derive(Debug)]
pub struct DeviceMemory(MemoryKind);

#[derive(Debug)]
enum MemoryKind {
    Host(host::HostMemory),
    Cuda(cuda::CudaMemory),
}

/// The allocator of a block of memory, which also frees it.
#[derive(Clone, Copy)]
pub(super) enum MemoryOwner {
    Device,
    Library(&'static Library),
}

impl std::fmt::Debug for MemoryOwner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if matches!(self, Self::Device) { "Device" } else { "Library" })
    }
}

/// Memory of a [`Staging`] that maps of one stream share.
#[derive(Clone, Copy, Debug)]
pub struct SetAside(pub(super) Option<u64>);

/// Host memory for a rank's copies to and from the device; the host device does not need any.
#[derive(Debug)]
pub struct Staging(pub(super) Option<cuda::PinnedStaging>);

impl Staging {
    /// The bytes of host memory for a map that reads and writes this many bytes.
    pub fn need(reads: impl Iterator<Item = u64>, out: u64) -> u64 {
        cuda::PinnedStaging::need(reads, out)
    }

    /// Sets memory aside for maps that follow each other on one stream, so that they can share it: up to `most` bytes for each.
    ///
    /// # Errors
    ///
    /// The host memory does not suffice.
    pub fn set_aside(&mut self, most: u64) -> Result<SetAside, DeviceError> {
        Ok(SetAside(self.0.as_mut().map(|staging| staging.set_aside(most)).transpose()?))
    }

    /// Frees the memory that the maps of the last run used; they are finished.
    pub fn restart(&mut self) {
        if let Some(staging) = &mut self.0 {
            staging.restart();
        }
    }
}

impl Device {
    /// Makes the device of `rank` the calling thread's current one.
    ///
    /// # Errors
    ///
    /// A call of the CUDA driver fails.
    pub fn bind(self, rank: usize) -> Result<(), DeviceError> {
        match self {
            Self::Host | Self::Software { .. } => {
                gpuless_device::set_current(self.software_number(rank));
                Ok(())
            }
            Self::Cuda(cuda) => Ok(cuda.bind(rank)?),
        }
    }

    /// The number of a rank's device in software, where only a real library knows how many there are.
    pub(super) fn software_number(self, rank: usize) -> usize {
        match self {
            Self::Software { offset, count } => rank.wrapping_add(offset) % count,
            _ => rank,
        }
    }

    /// The work of finished kernels on the device of `rank`, if it is counted.
    pub fn work(self, rank: usize) -> Option<Work> {
        matches!(self, Self::Software { .. }).then(|| software_gpus::work(self.software_number(rank)))
    }

    /// A block of memory, aligned to 4,096 bytes.
    ///
    /// # Errors
    ///
    /// The memory cannot be allocated.
    pub fn alloc(self, len: u64) -> Result<DeviceMemory, DeviceError> {
        Ok(DeviceMemory(match self {
            Self::Host | Self::Software { .. } => MemoryKind::Host(host::HostMemory::new(len)?),
            Self::Cuda(cuda) => MemoryKind::Cuda(cuda::CudaMemory::new(cuda, len)?),
        }))
    }

    /// A block of memory that lies in the arena itself.
    ///
    /// # Errors
    ///
    /// The memory cannot be used: it is not inside the arena, or the device only works on memory that it allocates.
    pub fn in_arena(self, arena: &Arc<Mapping>, at: u64, len: u64) -> Result<DeviceMemory, DeviceError> {
        match self {
            Self::Host | Self::Software { .. } => {
                Ok(DeviceMemory(MemoryKind::Host(host::HostMemory::in_arena(arena, at, len)?)))
            }
            Self::Cuda(_) => Err(DeviceError::Mixed),
        }
    }

    /// Host memory for a rank whose maps need `maps` bytes in all, and whose largest block has `image` bytes.
    ///
    /// # Errors
    ///
    /// The memory cannot be allocated.
    pub fn staging(self, maps: u64, image: u64) -> Result<Staging, DeviceError> {
        Ok(Staging(match self {
            Self::Host | Self::Software { .. } => None,
            Self::Cuda(cuda) => Some(cuda::PinnedStaging::new(cuda, maps, image)?),
        }))
    }

    /// A new stream.
    ///
    /// # Errors
    ///
    /// A call of the CUDA driver fails.
    pub fn stream(self) -> Result<DeviceStream, DeviceError> {
        Ok(DeviceStream(match self {
            Self::Host | Self::Software { .. } => StreamKind::Host(gpuless_device::Stream::new()),
            Self::Cuda(cuda) => StreamKind::Cuda(cuda::CudaStream::new(cuda)?),
        }))
    }

    /// The number of the calling thread's device, if one was bound to it.
    pub fn current(self) -> Option<i32> {
        match self {
            Self::Host | Self::Software { .. } => {
                gpuless_device::current().and_then(|device| i32::try_from(device).ok())
            }
            Self::Cuda(cuda) => cuda.current_number(),
        }
    }

    /// The null stream of the rank's device, which must be bound to the calling thread.
    ///
    /// # Errors
    ///
    /// A call of the CUDA driver fails.
    pub fn null_stream(self, rank: usize) -> Result<DeviceStream, DeviceError> {
        Ok(DeviceStream(match self {
            Self::Host | Self::Software { .. } => {
                StreamKind::Host(gpuless_device::Stream::of_device(self.software_number(rank)))
            }
            Self::Cuda(cuda) => StreamKind::Cuda(cuda::CudaStream::null(cuda)?),
        }))
    }

    /// A new event.
    ///
    /// # Errors
    ///
    /// A call of the CUDA driver fails.
    pub fn event(self) -> Result<DeviceEvent, DeviceError> {
        Ok(DeviceEvent(match self {
            Self::Host | Self::Software { .. } => EventKind::Host(gpuless_device::Event::new()),
            Self::Cuda(cuda) => EventKind::Cuda(cuda::CudaEvent::new(cuda)?),
        }))
    }

    /// Bytes of memory in use on the calling thread's device: by all processes on a GPU, by this one in software.
    ///
    /// # Errors
    ///
    /// A call of the CUDA driver fails.
    pub fn memory_in_use(self) -> Result<u64, DeviceError> {
        match self {
            Self::Host | Self::Software { .. } => Ok(gpuless_device::memory::in_use()),
            Self::Cuda(cuda) => Ok(cuda.memory_in_use()?),
        }
    }

    /// True if events show the progress of a stream; the software library proves a hang in another way.
    pub fn has_events_to_ask(self) -> bool {
        !matches!(self, Self::Host)
    }

    /// True if the device's memory is anonymous host memory, as in software and with the stand-in driver. The memory of software GPUs
    /// is a memory file, so that processes can share it.
    pub fn has_host_memory(self) -> bool {
        match self {
            Self::Host => true,
            Self::Software { .. } => false,
            Self::Cuda(cuda) => cuda.is_standin(),
        }
    }

    /// A new event with a time.
    ///
    /// # Errors
    ///
    /// A call of the CUDA driver fails.
    pub fn timed_event(self) -> Result<TimedEvent, DeviceError> {
        Ok(TimedEvent(match self {
            Self::Host | Self::Software { .. } => EventKind::Host(gpuless_device::Event::timed()),
            Self::Cuda(cuda) => EventKind::Cuda(cuda::CudaEvent::timed(cuda)?),
        }))
    }

    /// Sets whether the calling thread promises to wait for its streams soon after it has put work on them, or to call
    /// [`Device::begin`] before it waits for anything else. In software that thread then does the work itself while it waits,
    /// and no other thread is woken for it.
    pub fn set_patient(self, patient: bool) {
        match self {
            Self::Host => gpuless_device::set_patient(patient),
            // A library's own threads may wait for work that a rank has put on its streams.
            Self::Software { .. } | Self::Cuda(_) => {}
        }
    }

    /// The work that the calling thread has put on streams begins, if it has not begun.
    pub fn begin(self) {
        match self {
            Self::Host | Self::Software { .. } => gpuless_device::begin_held(),
            Self::Cuda(_) => {}
        }
    }

    /// Makes every host thread inside [`DeviceStream::synchronize_unless`] check `stop` again.
    pub fn wake_hosts(self) {
        match self {
            Self::Host | Self::Software { .. } => gpuless_device::wake_hosts(),
            Self::Cuda(cuda) => cuda.wake(),
        }
    }
}

impl DeviceMemory {
    /// The address of byte `byte`, if `len` bytes from there on are inside the block.
    ///
    /// # Errors
    ///
    /// The bytes are not inside the block.
    pub fn at(&self, byte: u64, len: u64) -> Result<Address, DeviceError> {
        match &self.0 {
            MemoryKind::Host(memory) => memory.at(byte, len),
            MemoryKind::Cuda(memory) => memory.at(byte, len),
        }
    }

    /// Fills the block from the start. Not ordered with streams.
    ///
    /// # Errors
    ///
    /// The bytes do not fit the block, or a call of the CUDA driver fails.
    pub fn load(&self, from: &Span<'_>, via: &Staging) -> Result<(), DeviceError> {
        match (&self.0, &via.0) {
            (MemoryKind::Host(memory), None) => memory.load(from),
            (MemoryKind::Cuda(memory), Some(via)) => memory.load(from, via),
            _ => Err(DeviceError::Mixed),
        }
    }

    /// Copies the start of the block out. Not ordered with streams.
    ///
    /// # Errors
    ///
    /// The bytes do not fit the block, or a call of the CUDA driver fails.
    pub fn save(&self, to: &Span<'_>, via: &Staging) -> Result<(), DeviceError> {
        match (&self.0, &via.0) {
            (MemoryKind::Host(memory), None) => memory.save(to),
            (MemoryKind::Cuda(memory), Some(via)) => memory.save(to, via),
            _ => Err(DeviceError::Mixed),
        }
    }
}

impl Backend {
    /// A block of memory that may become a window, on the calling thread's device: the library's, if it allocates any.
    ///
    /// # Errors
    ///
    /// The library returns an error, or the memory cannot be allocated.
    pub fn window_memory(&'static self, len: u64) -> Result<DeviceMemory, WindowMemoryError> {
        let Some(base) = self.library.mem_alloc(len)? else { return Ok(self.device.alloc(len)?) };
        Ok(DeviceMemory(match self.device {
            Device::Host | Device::Software { .. } => {
                MemoryKind::Host(host::HostMemory::of_library(&self.library, base, len))
            }
            Device::Cuda(cuda) => MemoryKind::Cuda(cuda::CudaMemory::of_library(cuda, &self.library, base, len)?),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuless_device::CaptureError;

    /// A graph that the library does not let run is the library's failure; a capture that this program does wrong is its own.
    #[test]
    fn a_graph_that_cannot_be_launched_is_no_trouble_of_the_worker() {
        assert!(DeviceError::Graph(CaptureError::LaunchFailed).may_come_from_the_library());
        assert!(!DeviceError::Graph(CaptureError::Unmatched).may_come_from_the_library());
    }
}
