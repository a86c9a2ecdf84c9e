//! The parent's side of workers: starts them, keeps idle ones, gives them jobs, watches their time limits and ends them. The
//! parent never calls NCCL.
//!
//! Why a process: a collective that hangs cannot be cancelled from its own thread, and a library that crashes must not take the
//! verdicts of other cases with it.
//!
//! A worker is one process, or with `placement = "processes"` a part for each rank. Each part has its own pipes, knows only its ranks'
//! programs, and waits for the others only through the parent:
//!
//! 1. Every part gets its share of the job. The part of rank 0 makes the unique ids, and the parent passes them on.
//! 2. *Loaded* comes from each part. With the last one the clock starts and the parent says *run*; a part that is alone begins by
//!    itself and reports how long ago that was.
//! 3. *Done* comes from each part when its ranks have ended. With the last one the case is judged. If a rank failed, the others are
//!    told to stop, and killed if that takes longer than a second.
//! 4. *Finish* names what is kept and what is destroyed. If anything is, the parent waits for *Finished*: a hang there belongs to this
//!    case and not to the next one, and the step words of teardown are where the next job has its own.
//!
//! A worker gets one job at a time. Several in one message took a third less processor time where many cases have equal communicators,
//! and nothing on a corpus in which two such cases follow each other; a worker ahead of the judge would leave it to infer from
//! traces which case a hang, a late write or a death belongs to.
pub mod core_binding;
pub mod deaths;
pub mod execute;
pub mod gpus;
pub mod images;
pub mod layout;
pub mod lock;
pub mod log;
mod lost_parts;
pub mod machine;
pub mod memory;
mod part;
mod part_variables;
pub mod pool;
pub mod proof;
mod remote_images;
mod remote_part;
mod remote_results;
mod serve;
mod serve_part;
mod software_cluster;
pub mod teardown;
pub mod worker;
pub mod worker_process;

pub use layout::MemoryPlace;
pub use machine::{Machine, RanksPerGpu};
pub use part_variables::Allowed;
pub use pool::PoolLimits;
pub use serve::{Served, serve};
pub use software_cluster::{NoTopologyFile, SoftwareCluster};
pub use worker::ranks_of_part;

/// Parses the seconds of a time limit, as written in options and variables.
///
/// # Errors
///
/// The text is anything but a finite number above 0.
pub fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() && value > 0.0 => Ok(value),
        _ => Err("expected a number of seconds greater than 0".to_owned()),
    }
}

use crate::backend::cuda::DriverReport;
use crate::backend::software_gpus;
use crate::job::Job;
use collspec_core::oracle::Forecast;
use collspec_core::plan::Plan;
use std::path::{Path, PathBuf};

/// The variable that sets how much NCCL logs.
const NCCL_LOG: &str = "NCCL_DEBUG";

/// The library under which the cases run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Backend {
    /// NCCL's interface in software, on the host.
    #[default]
    Soft,
    /// A real NCCL library, on CUDA devices or software GPUs.
    Nccl {
        library: PathBuf,
        /// The driver of its devices.
        driver: Driver,
    },
}

/// The driver of the devices under a library.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Driver {
    /// The CUDA driver that the loader finds.
    #[default]
    Machine,
    /// The CUDA driver in this folder.
    Folder(PathBuf),
    /// No driver: the library runs on software GPUs.
    Software,
}

impl Backend {
    /// The place of the ranks' memory.
    pub fn memory_place(&self) -> MemoryPlace {
        match self {
            Self::Soft | Self::Nccl { driver: Driver::Software, .. } => MemoryPlace::Arena,
            Self::Nccl { .. } => MemoryPlace::Device,
        }
    }

    /// The backend's name in scenarios and on the command line.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Soft => "soft",
            Self::Nccl { .. } => "nccl",
        }
    }

    /// True for a real library on software GPUs.
    pub fn has_software_gpus(&self) -> bool {
        matches!(self, Self::Nccl { driver: Driver::Software, .. })
    }

    fn library(&self) -> Option<&Path> {
        match self {
            Self::Soft => None,
            Self::Nccl { library, .. } => Some(library),
        }
    }

    /// Variables that tell a worker what it runs on.
    pub fn env(&self) -> Vec<(String, String)> {
        let Self::Nccl { library, driver } = self else { return Vec::new() };
        // A rank's device has the rank's number, unless the rank is on another machine of a job.
        let mut env = vec![
            (crate::child::LIBRARY.to_owned(), library.to_string_lossy().into_owned()),
            (crate::child::DEVICE_OFFSET.to_owned(), "0".to_owned()),
        ];
        // NCCL itself opens libraries by name only.
        env.extend(driver.folder().map(gpus::loader_path).or_else(crate::library::loader_path));
        if *driver == Driver::Software {
            env.push((crate::child::SOFTWARE_GPUS.to_owned(), "1".to_owned()));
        }
        if std::env::var_os(NCCL_LOG).is_none() {
            // so that a failure can quote NCCL's warnings
            env.push((NCCL_LOG.to_owned(), "WARN".to_owned()));
        }
        env
    }
}

impl Driver {
    /// The folder that a loader is to search first.
    pub fn folder(&self) -> Option<&Path> {
        match self {
            Self::Folder(folder) => Some(folder),
            Self::Machine | Self::Software => None,
        }
    }

    /// The driver's report of the devices. A driver of the machine is queried in another process, started by `workers`; software GPUs are those
    /// of `description`, if there is one.
    ///
    /// # Errors
    ///
    /// That process cannot be started, or does not answer.
    pub fn devices(
        &self,
        workers: &crate::child::Workers,
        description: Option<&str>,
    ) -> Result<DriverReport, gpus::AskError> {
        match self {
            Self::Software => Ok(software_gpus::report(description)?),
            _ => gpus::ask(workers, self.folder()),
        }
    }
}

/// The reason the runner cannot do its work.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// This process is a worker, and workers do not start workers.
    #[error("this process is a worker itself: `main` must begin with `collspec::enter_if_asked()`")]
    InsideWorker,
    /// This program does not become a worker when it is started again.
    #[error(
        "this program cannot be its own worker: `main` must begin with `collspec::enter_if_asked()`, or a program that does must be named"
    )]
    NotAsked,
    /// The running program cannot be found.
    #[error("the path of the running program is unknown")]
    CurrentExe(#[source] std::io::Error),
    /// The process cannot be started.
    #[error("cannot start {} as a worker", .program.display())]
    Spawn {
        /// The program that was to be started.
        program: PathBuf,
        /// The error from the system.
        source: std::io::Error,
    },
    /// The program that was started does not work as a worker.
    #[error("{} does not work as a worker: {why}", .program.display())]
    NoWorker {
        /// The program that was started.
        program: PathBuf,
        /// The reason, in words.
        why: String,
    },
    /// A worker was ended by something other than its own code, which says nothing about the library.
    #[error("the worker was killed from outside, or because memory was short: {0}")]
    Killed(String),
    /// The system has refused something to the devices, which says nothing about the library that then failed.
    #[error("the system refused what software GPUs need, so that the library could not run: {0}")]
    Refused(String),
    /// Another process of the job is lost.
    #[error(transparent)]
    Lost(#[from] crate::cluster::Lost),
    /// Pipes, threads or memory are unavailable.
    #[error("cannot create pipes, threads or shared memory for a worker")]
    Resources(#[source] std::io::Error),
    /// The library has changed since the run began.
    #[error("the library is NCCL {is} now; it was {was} when the run began")]
    Changed {
        /// The earlier version.
        was: String,
        /// The version that a worker found.
        is: String,
    },
    /// A process has loaded a file other than the requested one.
    #[error(
        "the process was to load {}, but {}; a program or a variable such as LD_PRELOAD loads another library",
        .asked.display(),
        if .mapped.is_empty() { "has not mapped it".to_owned() } else { format!("has mapped {}", .mapped.join(", ")) }
    )]
    OtherLibrary {
        /// The library that was requested.
        asked: PathBuf,
        /// The libraries that are mapped.
        mapped: Vec<String>,
    },
    /// A process has loaded several NCCL libraries, whose functions and versions may be mixed.
    #[error("the process has loaded several NCCL libraries, and calls of one may reach another: {}", .mapped.join(", "))]
    MixedLibraries {
        /// The libraries that are mapped.
        mapped: Vec<String>,
    },
    /// The GPUs cannot be locked.
    #[error("cannot lock the GPUs")]
    Lock(#[source] std::io::Error),
    /// The folder for locks cannot be used.
    #[error("cannot use the folder for the lock files of the GPUs (XDG_RUNTIME_DIR or else TMPDIR names it)")]
    NoLocks(#[source] std::io::Error),
    /// A worker could not do what was asked (which is not a verdict on the case).
    #[error("the worker reports an internal error: {text}{}{log}", if .log.is_empty() { "" } else { "; its output: " })]
    Trouble {
        /// The worker's message.
        text: String,
        /// The worker's log.
        log: String,
    },
    /// The runs of a case are too large to be judged all at once.
    #[error("{runs} runs of this case are more than {} MiB of observations", .most >> 20)]
    TooMuchSeen {
        /// Number of runs that the file asks for.
        runs: u32,
        /// Limit on the bytes that are kept.
        most: u64,
    },
    /// A job and its arena do not match.
    #[error(transparent)]
    Outside(#[from] crate::job::arena::Outside),
    /// The memory of a rank and its place in a job do not belong to the same case.
    #[error("the initial image of allocation {alloc}, of rank {rank}, has {bytes} bytes, and its place {place}")]
    ImageLength {
        /// The allocation's number.
        alloc: usize,
        /// The rank that owns it.
        rank: u32,
        /// Size of the image in bytes.
        bytes: u64,
        /// Size of the place in bytes.
        place: u64,
    },
    /// The results that a worker left cannot be read.
    #[error("cannot read the results of the case")]
    Read(#[from] crate::job::arena::ReadError),
    /// A case needs more memory than this process can allocate.
    #[error("not enough memory: this case needs {} MiB", .bytes.div_ceil(1 << 20))]
    Memory {
        /// Approximate number of bytes that it needs.
        bytes: u64,
    },
}

/// The job of a plan, and the map from its calls back to the plan's.
pub fn job(plan: &Plan, forecast: &Forecast, place: MemoryPlace) -> (Job, layout::CallMap) {
    layout::job(plan, place, &forecast.checkpoints)
}
