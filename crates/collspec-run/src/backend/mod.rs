//! A backend: an NCCL library and the device of a worker.
//!
//! A worker knows its backend by its environment: COLLSPEC_WORKER_NCCL names the library, COLLSPEC_WORKER_SOFTWARE_GPUS says that it
//! runs on software GPUs, and the folder of a driver is at the front of its LD_LIBRARY_PATH. No child inherits these from its parent's
//! environment, and the parent loads neither driver nor library.
mod call;
mod call_config;
mod config;
pub mod cuda;
mod device;
mod host;
mod lent_memory;
mod library;
mod pairwise;
#[cfg(feature = "software-gpus")]
pub mod software_gpus;
#[cfg(not(feature = "software-gpus"))]
#[path = "no_software_gpus.rs"]
pub mod software_gpus;
#[cfg(feature = "software-gpus")]
mod standing;
mod stream;

pub use call::{CallError, CollectiveCall, CommHandle, CommSlot, PutCall, RegistrationSlot, TransferCall};
pub use device::{Address, Device, DeviceError, DeviceMemory, SetAside, Staging, WindowMemoryError};
pub use library::Library;
pub use nccl_sys::version_text;
pub use stream::{DeviceEvent, DeviceGraph, DeviceStream, TimedEvent};

use crate::job::{Disturbance, Job, Variation};
use std::ops::Range;
use std::path::Path;

/// An NCCL library and its device.
pub struct Backend {
    /// The NCCL library.
    pub library: Library,
    /// The device that it uses.
    pub device: Device,
}

impl Backend {
    /// The software library on the software device.
    pub fn soft() -> Self {
        Self { library: Library::new(with_faults(soft_nccl::table())), device: Device::Host }
    }

    /// The library at `path` on software GPUs; a rank's device is its number plus `device_offset`, modulo the number of devices. Loads it into
    /// this process, for its whole life.
    ///
    /// # Errors
    ///
    /// The library cannot be used.
    pub fn on_software_gpus(path: &Path, device_offset: usize) -> Result<Self, BackendError> {
        let count = software_gpus::device_count(None)?;
        Ok(Self {
            library: Library::new(with_faults(software_gpus::load(path)?)),
            device: Device::Software { offset: device_offset, count },
        })
    }

    /// The library at `path` on CUDA devices; `device_offset` as for [`cuda::Cuda::open`]. Loads both into this process, for its
    /// whole life.
    ///
    /// # Errors
    ///
    /// The driver or the library cannot be used.
    pub fn nccl(path: &Path, device_offset: usize) -> Result<Self, BackendError> {
        let cuda = cuda::Cuda::open(device_offset).map_err(BackendError::Driver)?;
        Ok(Self { library: Library::new(nccl_sys::Nccl::load(path)?), device: Device::Cuda(cuda) })
    }

    /// The activity of library and device in one snapshot, if the library can report it.
    pub fn activity(&self) -> Option<Activity> {
        let activity = self.library.activity()?;
        Some(Activity {
            epoch: activity.epoch,
            busy: activity.busy != 0,
            blocked: usize::try_from(activity.blocked_hosts).unwrap_or(0),
        })
    }
    /// What all kernels wait for, if there are some on software GPUs and none of them moves; the ranks are those of this process.
    pub fn standing_kernels(&self, ranks: Range<u32>) -> Option<String> {
        #[cfg(feature = "software-gpus")]
        if matches!(self.device, Device::Software { .. }) {
            let on =
                |device: usize| ranks.clone().filter(move |rank| self.device.software_number(*rank as usize) == device);
            return standing::standing(&|device| {
                let ranks: Vec<String> = on(device).map(|rank| format!("rank {rank}")).collect();
                (!ranks.is_empty()).then(|| ranks.join(" and "))
            });
        }
        let _ = ranks;
        None
    }
    /// From now on tasks of the software library, or warps of software GPUs, take turns in the order of this seed, which may also delay
    /// the stores of kernels and let their loads be early. GPUs decide all this themselves.
    ///
    /// # Errors
    ///
    /// The threads that run kernels cannot be started.
    pub fn schedule(&self, seed: u64, variation: &Variation) -> Result<(), String> {
        match self.device {
            Device::Software { .. } => software_gpus::schedule(seed, variation).map_err(|error| error.to_string()),
            Device::Host => {
                soft_nccl::schedule(seed);
                Ok(())
            }
            Device::Cuda(_) => Ok(()),
        }
    }
    /// What happens to the machine from now on, as the job says. Only software GPUs can be disturbed.
    ///
    /// # Errors
    ///
    /// The job asks for a fault on another device, or the threads that run kernels cannot be started.
    pub fn disturb(&self, job: &Job) -> Result<(), String> {
        let Device::Software { .. } = self.device else {
            let refused = || "faults of the machine need software GPUs".to_owned();
            return job.variation.disturbance.map_or(Ok(()), |_| Err(refused()));
        };
        let disturbed = match job.variation.disturbance {
            None => software_gpus::leave_alone(),
            Some(Disturbance::Fault(fault)) if job.ranks.contains(&fault.rank) => {
                // Any GPU of this process, whichever rank the process was chosen by.
                let first = u64::from(job.ranks.start);
                let rank = first + fault.seed % u64::from(job.ranks.end - job.ranks.start).max(1);
                software_gpus::disturb(Some((fault, self.device.software_number(rank as usize))))
            }
            Some(_) => software_gpus::disturb(None),
        };
        disturbed.map_err(|error| error.to_string())
    }
    /// What is different about the kernels from now on, as the job says. Only software GPUs can be given others.
    ///
    /// # Errors
    ///
    /// The job asks for other kernels on another device, or the library has no such instruction.
    pub fn alter_kernels(&self, job: &Job) -> Result<(), String> {
        let kernels = job.variation.kernels;
        if !matches!(self.device, Device::Software { .. }) {
            return kernels.map_or(Ok(()), |_| Err("other kernels need software GPUs".to_owned()));
        }
        software_gpus::alter_kernels(kernels).map_err(|error| error.to_string())
    }
    /// Sets the function that is called when library or device falls idle or a host thread starts to wait, if the library can.
    pub fn set_idle_hook(&self, hook: Option<extern "C" fn()>) {
        self.library.set_idle_hook(hook);
    }
}

/// The table of a library whose memory is host memory, with faults on demand if the process that started this one will ask for some.
fn with_faults(table: nccl_sys::Nccl) -> nccl_sys::Nccl {
    if std::env::var_os(crate::child::FAULTS).is_some() { wrong_nccl::wrap(table) } else { table }
}

/// The reason why a worker has no backend.
#[derive(Debug, thiserror::Error)]
pub enum BackendError {
    /// The driver does not work, or does not find a device.
    #[error("CUDA: {0}")]
    Driver(cuda::DriverState),
    /// The library cannot be used.
    #[error(transparent)]
    Library(#[from] nccl_sys::LoadError),
    /// The library cannot be used on software GPUs.
    #[error(transparent)]
    Software(#[from] software_gpus::SoftwareGpuError),
}

/// The activity of device and library at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Activity {
    /// A number that changes with every progress.
    pub epoch: u64,
    /// True while any work executes or could execute.
    pub busy: bool,
    /// Number of host threads that wait.
    pub blocked: usize,
}
