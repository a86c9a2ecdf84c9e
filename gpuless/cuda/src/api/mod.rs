//! The CUDA runtime's functions, over gpuless-device.
//!
//! Guarantees for a library that calls them:
//! - They are the documented functions of the runtimes 11, 12 and 13, as far as NCCL calls them. [`functions`] gives those of one
//!   runtime by name; several may be in one process. The provider of a missing function's answer calls [`note_unsupported`].
//! - Device pointers are host addresses. Memory that has not been written costs nothing, even if it was set to zero.
//! - Kernels are provided by the caller: [`Kernels`], found by the address of their host function: those that programs
//!   register ([`load_registered_with`]), and others ([`add_kernels`]).
//! - Streams never wait for the default stream, as if created with `cudaStreamNonBlocking`, unless [`Settings::legacy_default_stream`] is set.
//! - Freed or unregistered memory stays until all work launched so far has ended; no call waits for it ([`after_launched_work`]).
//! - A kernel that fails makes its device's later calls fail, until [`forget_failures`]; frees work nevertheless.
//! - Captures are gpuless-device's. A node's handle represents everything that its stream had captured by then.
#![allow(non_snake_case)] // the runtime's names

mod blocks;
mod capture;
mod description;
mod devices;
mod dma_buf;
mod domain;
mod driver;
mod entry_points;
mod errors;
mod events;
mod graphs;
mod graves;
pub(crate) mod handles;
mod ipc;
mod kernels;
mod launch;
mod locations;
mod memory;
mod modules;
mod multicast;
mod objects;
mod places;
mod pools;
mod process_handle;
mod programs;
mod properties;
mod raw;
mod settings;
mod shareable;
mod stream_memory;
mod streams;
#[cfg(test)]
mod tests;
mod transfer;
mod virtual_memory;
mod watch;
mod work;

pub use blocks::Owner;
pub(crate) use blocks::in_use;
pub(crate) use blocks::{are_pinned, owner};
pub use description::DescriptionError;
pub use domain::NvLinkDomain;
pub use errors::{Failure, failures, forget_failures};
pub use graves::after_launched_work;
pub use kernels::{
    Attributes, BinaryLoader, Configuration, Kernels, Reached, Resolver, add_kernels, ask_for_variables,
    load_registered_with,
};
pub use modules::{Loader, load_modules_with};
pub use multicast::with_members;
pub use places::{Home, Place, place};
pub use programs::driver_function;
pub(crate) use settings::settings;
pub use settings::{AlreadyConfigured, PciPlace, Settings, configure};
pub use watch::{Change, watch_memory};

use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A call's outcome; the error is a cudaError.
type Outcome = Result<(), c_int>;
/// A place for an answer; null is refused.
type Out<'a, T> = Option<&'a mut MaybeUninit<T>>;
/// A handle of the runtime: a number, never followed.
type Handle = *mut std::ffi::c_void;

/// A major version of the runtime; the versions differ in some functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runtime {
    /// CUDA 11.
    V11,
    /// CUDA 12.
    V12,
    /// CUDA 13.
    V13,
}

impl Runtime {
    /// The runtime that is linked into a library, from the names of its functions. Only names that NCCL does not define itself are
    /// checked: it defines some functions of newer runtimes for older ones (`cudaStreamGetCaptureInfo_v2`).
    pub fn of(has: impl Fn(&str) -> bool) -> Self {
        if has("cudaGetDeviceProperties_v2") {
            Self::V12
        } else if has("cudaGetDriverEntryPointByVersion") {
            Self::V13
        } else {
            Self::V11
        }
    }
}

/// The functions of a runtime: names and addresses.
pub fn functions(runtime: Runtime) -> Vec<(&'static str, *const ())> {
    [
        devices::functions(),
        properties::functions(runtime),
        errors::functions(),
        memory::functions(),
        pools::functions(),
        ipc::functions(),
        transfer::functions(runtime),
        streams::functions(),
        events::functions(),
        capture::functions(runtime),
        graphs::functions(runtime),
        objects::functions(),
        kernels::functions(),
        launch::functions(runtime),
        entry_points::functions(runtime),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Makes `cudaErrorNotSupported` the thread's last error, for code that answers in place of a function missing from this runtime.
pub fn note_unsupported() {
    errors::note(errors::NOT_SUPPORTED);
}

/// Runs the body of a runtime function: a panic is an unknown error, and the thread's last error is noted.
fn enter(body: impl FnOnce() -> Outcome) -> c_int {
    let code = contained(body);
    errors::note(code);
    code
}

/// Runs a body from which a panic must not escape.
fn contained(body: impl FnOnce() -> Outcome) -> c_int {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => errors::SUCCESS,
        Ok(Err(code)) => code,
        Err(_) => errors::UNKNOWN,
    }
}

/// Writes an answer to its place.
fn put<T>(place: Out<'_, T>, value: T) -> Outcome {
    place.ok_or(errors::INVALID_VALUE)?.write(value);
    Ok(())
}

/// Gives an answer where one is wanted.
fn put_if<T>(place: Out<'_, T>, value: T) {
    if let Some(place) = place {
        place.write(value);
    }
}

/// A count as C has it.
fn int(number: usize) -> c_int {
    c_int::try_from(number).unwrap_or(c_int::MAX)
}

/// Defines runtime functions, and `functions()`, their names with their addresses. After `by_thread` comes the name of the function for
/// programs whose default stream is one of each thread.
macro_rules! runtime {
    ($($(#[$doc:meta])* $(by_thread $also:ident)? fn $name:ident $arguments:tt $body:block)*) => {
        $(
            $crate::api::function! { $(#[$doc])* $name $arguments $body }
            $($crate::api::function_by_thread! { $also $name $arguments })?
        )*
        pub(super) fn functions() -> Vec<(&'static str, *const ())> {
            vec![$((stringify!($name), $name as *const ()), $((stringify!($also), $also as *const ()),)?)*]
        }
    };
}
use runtime;

macro_rules! function {
    ($(#[$doc:meta])* $name:ident ($($arg:ident: $ty:ty),* $(,)?) $body:block) => {
        $(#[$doc])*
        pub(in crate::api) extern "C" fn $name($($arg: $ty),*) -> std::ffi::c_int {
            $crate::api::enter(move || $body)
        }
    };
}
use function;

macro_rules! function_by_thread {
    ($also:ident $name:ident ($($arg:ident: $ty:ty),* $(,)?)) => {
        extern "C" fn $also($($arg: $ty),*) -> std::ffi::c_int {
            $crate::api::streams::by_thread(move || $name($($arg),*))
        }
    };
}
use function_by_thread;
