//! The C functions that inject faults and say which ones a program meets.
#![allow(unsafe_code)] // exported C functions

use super::{set_mode, take_reached};
use crate::failure::Failure;
use crate::ffi::{enter, write};
use nccl_sys::{Nccl, ncclResult_t};
use std::ffi::{CStr, c_char, c_ulonglong};

unsafe extern "C" fn inject(text: *const c_char) -> ncclResult_t {
    enter(|| {
        if text.is_null() {
            return Err(Failure::argument("the fault is null"));
        }
        // SAFETY: the table's contract: a text that ends with a zero.
        let text = unsafe { CStr::from_ptr(text) }.to_string_lossy();
        let mode = match &*text {
            "" => None,
            text => Some(text.parse().map_err(|error: super::NoFault| Failure::argument(error.to_string()))?),
        };
        set_mode(mode);
        Ok(())
    })
}

unsafe extern "C" fn reached(words: *mut c_ulonglong, len: c_ulonglong) -> ncclResult_t {
    enter(|| {
        let known = take_reached();
        let room = usize::try_from(len).unwrap_or(usize::MAX);
        for (at, word) in known.into_iter().enumerate().take(room) {
            // SAFETY: the table's contract: `len` words are writable at `words`.
            unsafe { write(words.wrapping_add(at), word, "the faults")? };
        }
        Ok(())
    })
}

pub(super) fn fill(table: &mut Nccl) {
    table.collspecFault = Some(inject);
    table.collspecReached = Some(reached);
}
