//! Child processes: how the program starts itself again, runs other programs to their end, and sees to it that no child
//! outlives it.
pub mod command;
pub mod descendants;
pub mod guard;
pub mod inherit;
pub mod patience;
pub mod program;
pub mod question;
pub mod shared_files;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

/// The program that is started as a worker. It must call `collspec::enter_if_asked` before anything else.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Workers {
    /// The program that is running.
    #[default]
    CurrentExe,
    /// The program at this path.
    Command(PathBuf),
}

/// The variable that names a worker's NCCL library; without it the worker runs in software.
pub const LIBRARY: &str = "COLLSPEC_WORKER_NCCL";
/// The variable that gives a worker on CUDA devices the offset from a rank's number to the number of its device.
pub const DEVICE_OFFSET: &str = "COLLSPEC_WORKER_DEVICE";

/// The variable of a worker whose NCCL library runs on software GPUs.
pub const SOFTWARE_GPUS: &str = "COLLSPEC_WORKER_SOFTWARE_GPUS";

/// The variable of a worker whose NCCL library has faults on demand.
pub const FAULTS: &str = "COLLSPEC_WORKER_FAULTS";

/// True if the process that started this one wants its NCCL library on software GPUs.
pub fn wants_software_gpus() -> bool {
    std::env::var_os(SOFTWARE_GPUS).is_some()
}

/// True if this process was started as a worker (or inside one).
pub fn is_worker() -> bool {
    std::env::var_os(inherit::VARIABLE).is_some()
}

/// True once this program's `main` has called `collspec::enter_if_asked`, so that it can be started again as a worker.
static ASKED: AtomicBool = AtomicBool::new(false);

/// True once `collspec::enter_if_asked` was called. A program that never calls it would, when started as a worker, do its own work
/// again and start workers in turn.
pub fn can_be_worker() -> bool {
    ASKED.load(Ordering::Relaxed)
}

/// Notes that this program's `main` has called `collspec::enter_if_asked`.
pub(crate) fn set_can_be_worker() {
    ASKED.store(true, Ordering::Relaxed);
}

/// Lets this process and those that it starts open the largest permitted number of files: a shell's limit is often 1,024, which the
/// connections of some dozens of ranks reach.
pub fn allow_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    // On failure the limit stays the same, and code that needs more reports it.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}
