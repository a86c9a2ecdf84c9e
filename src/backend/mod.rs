//! An NCCL library plus a device: what a worker runs a job on.
mod config;
mod device;
mod host;
mod library;
pub mod standin;

pub use device::{Address, Device, DeviceError, Event, MapFn, Memory, Stream};
pub use library::{CallError, Collective, Comm, CommSlot, Library, Transfer, version_text};

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
