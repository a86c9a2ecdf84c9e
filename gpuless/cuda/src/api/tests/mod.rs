//! Tests of the functions, called as C calls them.
#![allow(unsafe_code)] // memory is looked into

mod capture;
mod devices;
mod fabric;
mod fake;
mod graphs;
mod ipc;
mod launch;
mod memory;
mod streams;
mod virtual_memory;

use super::{Handle, Runtime, functions};
use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The answer that a function writes to its place.
fn asked<T>(f: impl FnOnce(Option<&mut MaybeUninit<T>>) -> c_int) -> Result<T, c_int> {
    let mut place = MaybeUninit::uninit();
    match f(Some(&mut place)) {
        // SAFETY: a call that succeeds has written it.
        0 => Ok(unsafe { place.assume_init() }),
        code => Err(code),
    }
}

/// A function of a runtime by its name. The type is the caller's to know.
fn named<F: Copy>(runtime: Runtime, name: &str) -> F {
    let all = functions(runtime);
    let (_, address) = all.iter().find(|(known, _)| *known == name).unwrap_or_else(|| panic!("{name}"));
    assert_eq!(size_of::<F>(), size_of::<usize>());
    // SAFETY: the caller names the function's type.
    unsafe { std::mem::transmute_copy(address) }
}

/// A function of the driver by its name. The type is the caller's to know.
fn driver<F: Copy>(name: &str) -> F {
    let address = super::driver_function(name).unwrap_or_else(|| panic!("{name}"));
    assert_eq!(size_of::<F>(), size_of::<usize>());
    // SAFETY: the caller names the function's type.
    unsafe { std::mem::transmute_copy(&address) }
}

/// Tests that launch kernels or check that something is gone run one after the other: they all share the running work.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Memory at this address, as bytes.
fn bytes<'a>(address: Handle, len: usize) -> &'a mut [u8] {
    // SAFETY: live memory of that length, which only this test knows.
    unsafe { std::slice::from_raw_parts_mut(address.cast(), len) }
}
