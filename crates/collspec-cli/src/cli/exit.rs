//! Exit codes: part of the interface, for scripts and CI.
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitCode, ExitStatus};

/// The exit code of the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit(u8);

impl Exit {
    /// Everything passed (skips are not failures), or `check` did not find an error.
    pub const ALL_PASSED: Exit = Exit(0);
    /// At least one case failed.
    pub const SOME_FAILED: Exit = Exit(1);
    /// The files or the command line are wrong: diagnostics of a file, a case that cannot be run as written, nothing selected,
    /// something that cannot be read or written. The command line's own parser ends with the same number.
    pub const WRONG_INPUT: Exit = Exit(2);
    /// A backend that was required is missing, or fewer cases were run than were required.
    pub const BACKEND_MISSING: Exit = Exit(3);
    /// `compare`: it is undecided whether anything got worse.
    pub const NO_VERDICT: Exit = Exit(4);
    /// SIGINT ended the work early, and the finished part is reported: the code a shell reports for a program that SIGINT ends.
    pub const INTERRUPTED: Exit = Exit(130);
    /// The reader of the standard output has gone, as after `| head`: the code a shell reports for a program that SIGPIPE ends.
    pub const CLOSED_PIPE: Exit = Exit(141);
}

impl Exit {
    /// The exit code as a number.
    pub fn code(self) -> u8 {
        self.0
    }

    /// The exit code of a command that ends with this error.
    pub fn of_error(error: &anyhow::Error) -> Self {
        let closed = error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe);
        if closed { Self::CLOSED_PIPE } else { Self::WRONG_INPUT }
    }

    /// The exit code of a program that has ended, as a shell says it: 128 and the number of the signal that ended it.
    pub fn of_program(status: ExitStatus) -> Self {
        let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
        Self(u8::try_from(code).unwrap_or(u8::MAX))
    }

    /// The exit code that another process of the same run reported.
    pub fn of_code(code: u8) -> Self {
        Self(code)
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit.0)
    }
}
