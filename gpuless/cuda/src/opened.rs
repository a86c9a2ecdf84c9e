//! Libraries that an attached library opens by name and gets from here instead of from the machine: NVML, and libibverbs if the software GPUs have
//! network adapters.
#![allow(unsafe_code)] // C functions are called with their callers' arguments

use crate::{api, nvml};
use libc::{c_char, c_int, c_void};
use std::ffi::CStr;
use std::ptr::null_mut;

/// Replacements for the loader's functions.
pub(crate) fn functions() -> [(&'static str, *const ()); 4] {
    [
        ("dlopen", open as *const ()),
        ("dlsym", find as *const ()),
        ("dlvsym", find_version as *const ()),
        ("dlclose", close as *const ()),
    ]
}

/// A library of this crate's family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ours {
    Nvml,
    Verbs,
}

/// What the handles point to.
static HANDLES: [u8; 2] = [0; 2];

impl Ours {
    fn by_name(name: &[u8]) -> Option<Self> {
        if name == nvml::NAME.as_bytes() {
            return Some(Self::Nvml);
        }
        let is_verbs = gpuless_verbs::LIBRARIES.iter().any(|known| known.as_bytes() == name);
        (is_verbs && has_adapters()).then_some(Self::Verbs)
    }

    fn handle(self) -> *mut c_void {
        (&raw const HANDLES[self as usize]).cast_mut().cast()
    }

    fn of_handle(handle: *mut c_void) -> Option<Self> {
        [Self::Nvml, Self::Verbs].into_iter().find(|ours| ours.handle() == handle)
    }

    fn function(self, name: *const c_char) -> *mut c_void {
        // SAFETY: the caller of the loader's function promises a C string.
        let name = unsafe { CStr::from_ptr(name) }.to_str().unwrap_or_default();
        let function = match self {
            Self::Nvml => nvml::function(name),
            Self::Verbs => gpuless_verbs::function(name),
        };
        // Null, without words for `dlerror`, as for any function that is not there.
        function.map_or(null_mut(), |function| function.cast_mut().cast())
    }
}

fn has_adapters() -> bool {
    !api::settings().network.nics.is_empty()
}

/// The driver's library for the adapters that these look like. Its functions would read their devices as its own.
const DRIVERS_OF_ADAPTERS: [&[u8]; 2] = [b"libmlx5.so", b"libmlx5.so.1"];

/// `dlopen`.
unsafe extern "C" fn open(name: *const c_char, flags: c_int) -> *mut c_void {
    // SAFETY: as the caller says; null is the program.
    let text = if name.is_null() { b"" } else { unsafe { CStr::from_ptr(name) }.to_bytes() };
    match Ours::by_name(text) {
        Some(ours) => ours.handle(),
        None if DRIVERS_OF_ADAPTERS.contains(&text) && has_adapters() => null_mut(),
        // SAFETY: as the caller says.
        None => unsafe { libc::dlopen(name, flags) },
    }
}

/// `dlsym`.
unsafe extern "C" fn find(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    match Ours::of_handle(handle) {
        Some(ours) => ours.function(name),
        // SAFETY: as the caller says.
        None => unsafe { libc::dlsym(handle, name) },
    }
}

/// `dlvsym`: there is one version of each function.
unsafe extern "C" fn find_version(handle: *mut c_void, name: *const c_char, version: *const c_char) -> *mut c_void {
    match Ours::of_handle(handle) {
        Some(ours) => ours.function(name),
        // SAFETY: as the caller says.
        None => unsafe { libc::dlvsym(handle, name, version) },
    }
}

/// `dlclose`.
unsafe extern "C" fn close(handle: *mut c_void) -> c_int {
    // SAFETY: as the caller says.
    if Ours::of_handle(handle).is_some() { 0 } else { unsafe { libc::dlclose(handle) } }
}
