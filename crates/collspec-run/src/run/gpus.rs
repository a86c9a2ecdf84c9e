//! Queries the CUDA driver for its version and devices in a child process: a driver may crash or hang, and the parent never
//! loads one. The child is this program, started again with a variable, as for a worker.
use crate::backend::cuda::{DriverReport, probe};
use crate::backend::software_gpus::SoftwareGpuError;
use crate::child::Workers;
use crate::child::question::{NoAnswer, Question};
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const QUESTION: Question = Question { variable: "COLLSPEC_PROBE_DRIVER", mark: "collspec-driver:" };
/// Time limit: starting a driver with many devices takes seconds.
const LIMIT: Duration = Duration::from_secs(60);
/// The variable with the folders in which the loader looks for libraries.
pub(super) const LOADER_PATH: &str = "LD_LIBRARY_PATH";
/// The names under which programs and libraries open a driver.
const DRIVER_NAMES: [&str; 2] = ["libcuda.so.1", "libcuda.so"];
/// The driver function that is called first.
const INIT_FUNCTION: &str = "cuInit";
/// Files that exist if the kernel has a driver for GPUs.
const DEVICE_FILES: [&str; 3] = ["/dev/nvidia0", "/dev/nvidiactl", "/dev/dxg"];

/// The reason the driver could not be queried.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// The querying process died.
    #[error("starting the CUDA driver ends the process ({0})")]
    Died(String),
    /// The process did not answer in time.
    #[error("the CUDA driver does not answer within {} s", LIMIT.as_secs())]
    TooSlow,
    /// The program does not call `enter_if_asked`.
    #[error("{} cannot query the CUDA driver: its main must call collspec::enter_if_asked() first", .0.display())]
    NotAsked(PathBuf),
    /// Software GPUs cannot be described.
    #[error(transparent)]
    Software(#[from] SoftwareGpuError),
    /// The process cannot be started.
    #[error("cannot start a process to query the CUDA driver: {0}")]
    Start(#[from] io::Error),
}

/// The absolute path of a driver's folder, for the front of the loader's path.
///
/// # Errors
///
/// The folder does not exist, does not contain a driver that the loader would open, or its path cannot be part of the loader's path.
pub fn driver_folder(folder: &Path) -> Result<PathBuf, String> {
    let path = folder.canonicalize().map_err(|error| {
        let why = if error.kind() == io::ErrorKind::NotFound {
            "there is no such folder".to_owned()
        } else {
            error.to_string()
        };
        let help = "the option --driver takes cuda, software, stand-in or the folder of libcuda.so.1";
        format!("{}: {why}; {help}", folder.display())
    })?;
    if path.to_str().is_none_or(|text| text.contains([':', ';'])) {
        return Err(format!("{}: the loader's path can only name folders in UTF-8, without : and ;", path.display()));
    }
    // without this file the loader would silently open the machine's own driver
    if let Some(name) = DRIVER_NAMES.into_iter().find(|name| !path.join(name).is_file()) {
        return Err(format!("{}: there is no {name}, and drivers are opened by that name too", path.display()));
    }
    // opening a library runs its code, so the file is checked first
    for file in DRIVER_NAMES.map(|name| path.join(name)) {
        nccl_sys::defines(&file, INIT_FUNCTION)
            .map_err(|why| format!("{} is not a CUDA driver: {why}", file.display()))?;
    }
    Ok(path)
}

/// True if the kernel has devices, so that a driver can be queried.
pub fn are_likely() -> bool {
    DEVICE_FILES.iter().any(|file| Path::new(file).exists())
}

/// The loader's path for a process that is to find its driver in `folder`.
pub fn loader_path(folder: &Path) -> (String, String) {
    let mut path = folder.as_os_str().to_owned();
    let rest = std::env::var_os(LOADER_PATH).map(|rest| crate::library::absolute_folders(&rest));
    if let Some(rest) = rest.filter(|rest| !rest.is_empty()) {
        path.push(":");
        path.push(rest);
    }
    (LOADER_PATH.to_owned(), path.to_string_lossy().into_owned())
}

/// The report of the driver that the loader finds, or of the one in `folder`.
///
/// # Errors
///
/// The process that queries the driver cannot be started, or does not answer.
pub fn ask(workers: &Workers, folder: Option<&Path>) -> Result<DriverReport, AskError> {
    let prepare = |command: &mut Command| {
        command.envs(folder.map(loader_path).or_else(crate::library::loader_path));
    };
    QUESTION.ask(workers, OsStr::new(""), LIMIT, prepare).map_err(|error| match error {
        NoAnswer::NotAsked(program) => AskError::NotAsked(program),
        NoAnswer::Died(how) => AskError::Died(how),
        NoAnswer::TooSlow(_) => AskError::TooSlow,
        NoAnswer::Start(error) => AskError::Start(error),
    })
}

/// If this process was started to query the driver, it does so and never returns.
pub fn enter_if_asked() {
    QUESTION.answer_if_asked(|_| probe());
}
