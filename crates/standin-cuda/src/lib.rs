//! The stand-in CUDA driver: `gpuless-device` with the C interface of `libcuda.so.1`, for machines without a GPU.
//!
//! Guarantees for its users:
//! - Device pointers are plain host addresses. Whoever holds one may read and write it, ordered by streams and events.
//! - Only the functions in this crate exist; `cuGetProcAddress` finds no others. There are no modules, kernels,
//!   memory pools or peer windows, and no private tables, so the CUDA runtime library does not work over it.
//! - Contexts are the devices' primary ones. Allocations, new streams and events require a current one, as with the real
//!   driver.
//! - A host function that blocks holds up its own stream and no other (the real driver promises less).
//! - Streams never wait for the default stream: all of them behave as if made with `CU_STREAM_NON_BLOCKING`.
//! - Graphs are made by captures alone, of copies, fills, host functions and libraries' own work; a graph has no handle before its
//!   capture is over, and nodes never have handles.
//! - `cuMemFree` waits for all work of the current device, as the real driver does.
//!
//! COLLSPEC_STANDIN_DEVICES is the number of devices (64), COLLSPEC_STANDIN_DRIVER the version that
//! `cuDriverGetVersion` answers (12080). `collspecStandin` distinguishes a stand-in from a real driver; the other `collspec*`
//! functions let a library enqueue work that ends later (see `soft_nccl::device`).
#![allow(non_snake_case)] // the driver's names
#![allow(unsafe_code)] // a C interface

mod codes;
mod devices;
mod context;
mod streams;
mod events;
mod graphs;
mod memory;
mod extension;
mod transfer;
mod names;

use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A call's outcome; the error is a CUresult.
type Outcome = Result<(), c_int>;
/// A place for an answer; null is refused.
type Out<'a, T> = Option<&'a mut MaybeUninit<T>>;

/// Runs the body of a C function: a panic is an unknown error.
fn enter(body: impl FnOnce() -> Outcome) -> c_int {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => codes::SUCCESS,
        Ok(Err(code)) => code,
        Err(_) => codes::UNKNOWN,
    }
}

/// Writes an answer to its place.
fn put<T>(place: Out<'_, T>, value: T) -> Outcome {
    place.ok_or(codes::INVALID_VALUE)?.write(value);
    Ok(())
}

/// Defines driver functions, and `functions()`, their names with their addresses.
macro_rules! driver {
    ($(
        $(#[$doc:meta])*
        fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $body:block
    )*) => {
        $(
            $(#[$doc])*
            #[unsafe(no_mangle)]
            extern "C" fn $name($($arg: $ty),*) -> std::ffi::c_int {
                $crate::enter(move || $body)
            }
        )*
        pub(crate) fn functions() -> Vec<(&'static str, *const ())> {
            vec![$((stringify!($name), $name as *const ())),*]
        }
    };
}
use driver;
