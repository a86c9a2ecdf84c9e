//! The program that is started as a worker, or to ask a library or a driver.
use super::Workers;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The file that this process runs, also after another has taken its path.
const OWN: &str = "/proc/self/exe";

/// A program to start.
#[derive(Clone, Debug)]
pub struct Program {
    path: PathBuf,
    own: bool,
}

impl Program {
    /// The one that the option names.
    ///
    /// # Errors
    /// The path of the running program is unknown.
    pub fn of(workers: &Workers) -> io::Result<Self> {
        match workers {
            Workers::CurrentExe => Ok(Self { path: std::env::current_exe()?, own: true }),
            Workers::Command(path) => Ok(Self::at(path)),
        }
    }

    /// Whatever is at this path when it is started.
    pub fn at(path: &Path) -> Self {
        Self { path: path.to_owned(), own: false }
    }

    /// Its path, for people.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Starts it. The running program is started from the file that runs, which a new build may have replaced.
    pub fn command(&self) -> Command {
        if self.own && std::fs::metadata(OWN).is_ok() {
            let mut command = Command::new(OWN);
            command.arg0(&self.path);
            return command;
        }
        Command::new(&self.path)
    }
}
