//! What a program that runs scenarios does first: it may have been started again as a worker, or to ask a library or a
//! driver what it is.
use crate::backend::Backend;
use crate::{child, library, run, signals, worker};
use std::path::Path;

/// The first thing in `main`: if this process was started as a worker, or to ask a library or a driver, it does that, and
/// this never returns.
pub fn enter_if_asked() {
    enter(|| match std::env::var_os(child::LIBRARY) {
        Some(path) => Backend::nccl(Path::new(&path)).map_err(|error| error.to_string()),
        None => Ok(Backend::soft()),
    });
}

/// As [`enter_if_asked`], on a backend of the caller's.
#[cfg(any(test, feature = "internals"))]
pub fn enter_with(backend: impl FnOnce() -> Backend) {
    enter(|| Ok(backend()));
}

fn enter(backend: impl FnOnce() -> Result<Backend, String>) {
    child::has_asked();
    signals::report_file_size_limit();
    library::enter_if_asked();
    run::gpus::enter_if_asked();
    worker::enter(backend);
}
