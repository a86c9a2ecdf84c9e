//! The functions of the NCCL that the program would call without this library.
#![allow(unsafe_code)] // the loader is asked for addresses, and one of its functions is replaced

use crate::loaded;
#[cfg(target_arch = "x86_64")]
use gpuless_dlsym::NOTHING;
use gpuless_dlsym::loaders_dlsym;
use std::ffi::{CStr, c_char, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

/// A function of NCCL: ours, and the real one if it was found.
pub struct Function {
    pub name: &'static CStr,
    /// Ours.
    pub wrapper: fn() -> *mut c_void,
    /// The real one; null until it was found.
    pub real: AtomicPtr<c_void>,
}

impl Function {
    /// The real function: that of the library that is followed. Before there is one: the next one in the loader's order, or that of a
    /// library which was opened for itself and its dependencies alone, as Python opens extensions.
    pub fn real(&self) -> *mut c_void {
        let found = self.real.load(Ordering::Acquire);
        if !found.is_null() {
            return found;
        }
        let found = match loaded::followed() {
            Some(library) => library.function(self.name),
            None => {
                // SAFETY: the name is a C string; the answer is an address or null.
                let next = unsafe { loaders_dlsym()(libc::RTLD_NEXT, self.name.as_ptr()) };
                let found = if next.is_null() { loaded::find(self.name, (self.wrapper)()) } else { next };
                loaded::is_followed(found);
                found
            }
        };
        match self.real.compare_exchange(std::ptr::null_mut(), found, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => found,
            Err(known) => known,
        }
    }
}

#[cfg(target_arch = "x86_64")]
gpuless_dlsym::replace_dlsym!(ours);

/// Our function if the program asks for one that is recorded; null leaves the answer to the loader.
#[cfg(target_arch = "x86_64")]
#[cfg_attr(test, allow(dead_code))]
unsafe extern "C" fn ours(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    let lookup = loaders_dlsym();
    let null = std::ptr::null_mut();
    if name.is_null() {
        return null;
    }
    // SAFETY: the caller promises a C string.
    let asked = unsafe { CStr::from_ptr(name) };
    if !asked.to_bytes().starts_with(b"nccl") {
        return null;
    }
    let Some(function) = crate::exports::FUNCTIONS.iter().find(|function| function.name == asked) else { return null };
    // What is next is not the same for us: the loader must see the caller.
    if handle == libc::RTLD_NEXT {
        return if function.real().is_null() { NOTHING } else { null };
    }
    // SAFETY: the caller's arguments, passed on.
    let real = unsafe { lookup(handle, name) };
    let wrapper = (function.wrapper)();
    if real == wrapper && function.real().is_null() {
        return NOTHING;
    }
    if real.is_null() || real == wrapper {
        return real;
    }
    let known = match function.real.load(Ordering::Acquire) {
        known if known.is_null() && loaded::is_followed(real) => {
            let before = function.real.compare_exchange(null, real, Ordering::AcqRel, Ordering::Acquire);
            before.map_or_else(|known| known, |_| real)
        }
        known => known,
    };
    if known == real {
        return wrapper;
    }
    // A second NCCL in the process: its calls are not recorded, because they could not be told apart.
    crate::watch::second_library();
    null
}
