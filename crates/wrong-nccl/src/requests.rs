//! The functions that ask for faults and say which ones a program has met.
#![allow(unsafe_code)] // C functions

use crate::fault::{FaultMode, set_mode, take_reached, wanted};
use crate::plain::named::{F12, F53, F60, F60B, F60C, F64, F67B};
use crate::{communicators, inputs, membership, memory, outputs, streams, windows};
use nccl_sys::ncclResult_t;
use std::ffi::{CStr, c_char, c_ulonglong};

pub(crate) unsafe extern "C" fn ask(text: *const c_char) -> ncclResult_t {
    if text.is_null() {
        return ncclResult_t::InvalidArgument;
    }
    // SAFETY: the table's contract: a text that ends with a zero.
    let text = unsafe { CStr::from_ptr(text) }.to_string_lossy();
    let Ok(mode) = text.parse::<FaultMode>() else { return ncclResult_t::InvalidArgument };
    streams::join();
    memory::forget();
    communicators::forget();
    inputs::forget();
    outputs::forget();
    membership::forget();
    windows::forget();
    set_mode(mode);
    take_reached();
    // Whether these faults strike depends on how far a stream is at a call. With streams that start late it is not left to chance.
    gpuless_device::set_lazy([F12, F53, F60, F60B, F60C, F64, F67B].into_iter().any(wanted));
    ncclResult_t::Success
}

pub(crate) unsafe extern "C" fn reached(words: *mut c_ulonglong, len: c_ulonglong) -> ncclResult_t {
    let room = usize::try_from(len).unwrap_or(usize::MAX);
    for (at, word) in take_reached().into_iter().enumerate().take(room) {
        // SAFETY: the table's contract: `len` words are writable at `words`.
        unsafe { words.wrapping_add(at).write(word) };
    }
    ncclResult_t::Success
}
