//! The backend of a command, or the message that it is missing.
use super::exit::Exit;
use super::terminal;
use crate::printable::printable_lines;
use crate::suite::{BackendMissing, ChosenBackend, RunOptions};
use std::io::{self, Write};

/// The backend that the options ask for. If it is missing, the standard error says why, and the command ends with the exit code.
///
/// # Errors
///
/// Writing fails.
pub fn resolve(options: &RunOptions) -> io::Result<Result<ChosenBackend, Exit>> {
    match options.backend.resolve(&options.workers) {
        Ok(chosen) => Ok(Ok(chosen)),
        Err(missing) => missing_backend(&missing).map(Err),
    }
}

/// Says why the backend is missing.
///
/// # Errors
///
/// Writing fails.
pub fn missing_backend(missing: &BackendMissing) -> io::Result<Exit> {
    writeln!(terminal::err(), "collspec: {}", printable_lines(&missing.to_string()))?;
    Ok(Exit::BACKEND_MISSING)
}
