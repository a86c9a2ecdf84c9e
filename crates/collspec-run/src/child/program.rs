//! The program that is started as a worker, or to query a library or a driver.
//! It is `/proc/self/exe`, so that a build which replaces the file during a run changes nothing; without /proc, the file at its path.
use super::Workers;
use super::{DEVICE_OFFSET, FAULTS, LIBRARY, SOFTWARE_GPUS};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The file that this process runs, even if another file has replaced it at its path.
const OWN: &str = "/proc/self/exe";

/// NCCL's variable that gives every communicator the id of one address. Workers receive ids from this program, and several create
/// communicators at the same time, which ranks could not tell apart: workers get it only if a case sets it.
pub const COMM_ID: &str = "NCCL_COMM_ID";

/// The variable with which the processes of a job prove that they belong to it; it is withheld from libraries under test and their output.
pub const SECRET: &str = "COLLSPEC_SECRET";

/// A program to start.
#[derive(Clone, Debug)]
pub struct Program {
    path: PathBuf,
    own: bool,
}

impl Program {
    /// The program that the option names.
    ///
    /// # Errors
    /// The path of the running program is unknown.
    pub fn of(workers: &Workers) -> io::Result<Self> {
        match workers {
            Workers::CurrentExe => Ok(Self { path: std::env::current_exe()?, own: true }),
            Workers::Command(path) => Ok(Self::at(path)),
        }
    }

    /// The program at this path; the path is resolved when it is started.
    pub fn at(path: &Path) -> Self {
        Self { path: path.to_owned(), own: false }
    }

    /// Its path, for messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A command that starts it. The running program is started from the file that it runs, not from its path, where a new build
    /// may have replaced it.
    pub fn command(&self) -> Command {
        let mut command = if self.own && std::fs::metadata(OWN).is_ok() {
            let mut command = Command::new(OWN);
            command.arg0(&self.path);
            command
        } else {
            Command::new(&self.path)
        };
        command.env_remove(COMM_ID).env_remove(SECRET);
        // The choice of library and devices is never inherited.
        command.env_remove(LIBRARY).env_remove(DEVICE_OFFSET).env_remove(SOFTWARE_GPUS).env_remove(FAULTS);
        command
    }
}
