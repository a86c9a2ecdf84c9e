//! The entry point of a program that runs scenarios: it may have been started again as a worker, or to query a library or a
//! driver.
use crate::backend::Backend;
use crate::{child, library, run, signals, worker};
use std::path::Path;

/// Must be the first call in `main`. If this process was started as a worker, or to query a library or a driver, it does
/// that and never returns.
pub fn enter_if_asked() {
    enter(|| match std::env::var_os(child::LIBRARY) {
        Some(path) => {
            let path = Path::new(&path);
            let opened = if child::wants_software_gpus() {
                child::allow_descriptors();
                Backend::on_software_gpus(path, device_offset()?)
            } else {
                Backend::nccl(path, device_offset()?)
            };
            opened.map_err(|error| error.to_string())
        }
        None => Ok(Backend::soft()),
    });
}

/// The offset of this worker's devices, as given by the process that started it.
fn device_offset() -> Result<usize, String> {
    let Ok(text) = std::env::var(child::DEVICE_OFFSET) else { return Ok(0) };
    text.parse().map_err(|_| format!("{}={text:?} is not a whole number", child::DEVICE_OFFSET))
}

/// Like [`enter_if_asked`], with a backend from the caller.
pub fn enter_with(backend: impl FnOnce() -> Backend) {
    enter(|| Ok(backend()));
}

fn enter(backend: impl FnOnce() -> Result<Backend, String>) {
    child::set_can_be_worker();
    signals::report_file_size_limit();
    library::enter_if_asked();
    run::gpus::enter_if_asked();
    worker::enter(backend);
}
