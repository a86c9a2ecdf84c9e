//! NVML for a library on software GPUs. NCCL opens `libnvidia-ml.so.1` by its name, and the loader gives it the library of that name that is
//! open already.
#![allow(unsafe_code)] // a library is opened, and its one function called

use crate::api::Settings;
use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
use std::ffi::{c_int, c_uint};
use std::path::Path;

/// Why there is no NVML.
#[derive(Debug, thiserror::Error)]
pub enum NvmlError {
    /// The file cannot be opened, or is another library.
    #[error("the stand-in for NVML cannot be used: {0}")]
    Open(#[from] libloading::Error),
    /// It is open already with other settings.
    #[error("the stand-in for NVML has other software GPUs already")]
    Configured,
}

/// Opens the stand-in for NVML in this file, for the life of the process. It describes the devices of these settings.
///
/// # Errors
///
/// The file is not the stand-in, or it was opened before with other settings.
///
/// # Safety
///
/// The file is the stand-in for NVML, or what it does when it is opened is safe.
pub unsafe fn present_nvml(path: &Path, settings: &Settings) -> Result<(), NvmlError> {
    type Configure = unsafe extern "C" fn(c_uint, c_uint, c_uint, c_uint, c_uint) -> c_int;
    // SAFETY: as the caller says.
    let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_GLOBAL)? };
    // SAFETY: the type is that of the stand-in's function; no other library has that name.
    let configure = *unsafe { library.get::<Configure>(b"collspecNvmlConfigure\0")? };
    std::mem::forget(library);
    let devices = c_uint::try_from(settings.devices).unwrap_or(c_uint::MAX);
    let (major, minor) = settings.capability;
    // SAFETY: it takes numbers alone.
    match unsafe { configure(devices, major, minor, settings.nvlinks, settings.first_bus) } {
        0 => Ok(()),
        _ => Err(NvmlError::Configured),
    }
}
