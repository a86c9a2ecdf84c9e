//! NVML, as far as NCCL asks it about software GPUs.
//!
//! - All devices are identical, and are those of the runtime's [settings](crate::api::Settings). Each has NVLinks to one switch, a separate
//!   PCI bus, and access to every other device.
//! - Features that a software GPU does not have (counters of errors, and a fabric where no NVLink domain is described) are `NVML_ERROR_NOT_SUPPORTED`.
//! - Functions that are not here do not exist: NCCL continues without them.
//!
//! NCCL opens `libnvidia-ml.so.1` by its name; [`crate::imports`] redirects that to this module.
#![allow(non_snake_case)] // the library's names
#![allow(unsafe_code)] // addresses that callers of a C interface give

mod devices;
mod handles;
mod links;
mod pci;
mod system;
#[cfg(test)]
mod tests;

use std::ffi::{c_char, c_int, c_uint};
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A call's outcome; the error is an nvmlReturn_t.
type Outcome = Result<(), c_int>;
/// A place for an answer; null is refused.
type Out<'a, T> = Option<&'a mut MaybeUninit<T>>;

const SUCCESS: c_int = 0;
const UNINITIALIZED: c_int = 1;
const INVALID_ARGUMENT: c_int = 2;
const NOT_SUPPORTED: c_int = 3;
const NOT_FOUND: c_int = 6;
const INSUFFICIENT_SIZE: c_int = 7;
const VERSION_MISMATCH: c_int = 25;
const UNKNOWN: c_int = 999;

/// Runs the body of a C function: a panic is an unknown error.
fn enter(body: impl FnOnce() -> Outcome) -> c_int {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => SUCCESS,
        Ok(Err(code)) => code,
        Err(_) => UNKNOWN,
    }
}

/// Writes an answer to its place.
fn put<T>(place: Out<'_, T>, value: T) -> Outcome {
    place.ok_or(INVALID_ARGUMENT)?.write(value);
    Ok(())
}

/// Writes a text with its end, which must fit into `len` bytes.
fn put_text(place: *mut c_char, len: c_uint, text: &str) -> Outcome {
    if place.is_null() {
        return Err(INVALID_ARGUMENT);
    }
    if text.len() >= len as usize {
        return Err(INSUFFICIENT_SIZE);
    }
    // SAFETY: the caller promises `len` bytes, and the text with its terminator is not longer.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr(), place.cast(), text.len());
        place.add(text.len()).write(0);
    }
    Ok(())
}

/// Defines functions of NVML, and a list of them by name.
macro_rules! nvml {
    ($($(#[$doc:meta])* fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $body:block)*) => {
        $(
            $(#[$doc])*
            pub(super) extern "C" fn $name($($arg: $ty),*) -> std::ffi::c_int {
                $crate::nvml::enter(move || $body)
            }
        )*

        pub(super) const FUNCTIONS: &[(&str, fn() -> *const ())] =
            &[$((stringify!($name), || $name as *const ()),)*];
    };
}
use nvml;

/// The name by which the library is opened.
pub(crate) const NAME: &str = "libnvidia-ml.so.1";

/// A function of NVML by its name.
pub fn function(name: &str) -> Option<*const ()> {
    let rooms = [devices::FUNCTIONS, handles::FUNCTIONS, links::FUNCTIONS, pci::FUNCTIONS, system::FUNCTIONS];
    let found = rooms.into_iter().flatten().find(|(known, _)| *known == name).map(|(_, function)| function());
    found.or_else(|| (name == "nvmlErrorString").then_some(system::nvmlErrorString as *const ()))
}
