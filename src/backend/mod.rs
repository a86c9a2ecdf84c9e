//! An NCCL library plus a device: what a worker runs a job on.
mod config;
pub mod cuda;
mod device;
mod host;
mod lent;
mod library;
mod pairwise;
pub mod standin;

pub use device::{Address, Device, DeviceError, Memory, Staging, Stream};
pub use library::{CallError, Collective, Comm, CommSlot, Library, Transfer};
pub use nccl_sys::version_text;

use std::path::Path;

/// A library and the device that it works on.
pub struct Backend {
    /// NCCL.
    pub library: Library,
    /// Memory and streams.
    pub device: Device,
}

impl Backend {
    /// The software library on the software device.
    pub fn soft() -> Self {
        Self { library: Library::new(soft_nccl::table()), device: Device::Host }
    }

    /// The library at `path` on CUDA devices. Loads both into this process, for its whole life.
    pub fn nccl(path: &Path) -> Result<Self, NoBackend> {
        let cuda = cuda::Cuda::open().map_err(NoBackend::Driver)?;
        Ok(Self { library: Library::new(nccl_sys::Nccl::load(path)?), device: Device::Cuda(cuda) })
    }
}

/// Why a worker has no backend.
#[derive(Debug, thiserror::Error)]
pub enum NoBackend {
    /// No driver that works, or no device.
    #[error("CUDA: {0}")]
    Driver(cuda::DriverState),
    /// Not a library to work with.
    #[error(transparent)]
    Library(#[from] nccl_sys::LoadError),
}

/// A look at everything that could still move: device and library together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// Equal in two looks only if nothing moved in between.
    pub epoch: u64,
    /// True while something executes or could execute now.
    pub busy: bool,
    /// Host threads that wait for something that has not happened.
    pub blocked: usize,
}
