//! The stand-in NVML: what NCCL asks of NVIDIA's management library, about software GPUs.
//!
//! Its SONAME is `libnvidia-ml.so.1`: a program that loads it by its path before NCCL asks for that name needs no LD_LIBRARY_PATH.
//!
//! - All devices are alike. Each has NVLinks to one switch, a PCI bus of its own, and reaches every other.
//! - What a software GPU does not have (a fabric, counters of errors) is `NVML_ERROR_NOT_SUPPORTED`.
//! - Functions that are not here do not exist: NCCL goes on without them.
//!
//! `collspecNvmlConfigure` says what the devices are. Without it there are 8. NCCL refuses more than 32.
#![allow(non_snake_case)] // the library's names
#![allow(unsafe_code)] // a C interface

mod devices;
mod links;
mod pci;
mod settings;
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
const UNKNOWN: c_int = 999;

/// Runs the body of a C function: a panic is an unknown error.
fn enter(body: impl FnOnce() -> Outcome) -> c_int {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => SUCCESS,
        Ok(Err(code)) => code,
        Err(_) => UNKNOWN,
    }
}

/// Gives an answer.
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
    // SAFETY: the caller promises `len` bytes, and the text with its end is no more.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr(), place.cast(), text.len());
        place.add(text.len()).write(0);
    }
    Ok(())
}

/// Defines functions of NVML.
macro_rules! nvml {
    ($($(#[$doc:meta])* fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $body:block)*) => {
        $(
            $(#[$doc])*
            #[unsafe(no_mangle)]
            pub(crate) extern "C" fn $name($($arg: $ty),*) -> std::ffi::c_int {
                $crate::enter(move || $body)
            }
        )*
    };
}
use nvml;
