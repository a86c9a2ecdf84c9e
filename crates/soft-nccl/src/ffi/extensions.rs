//! Information that this library provides in addition to NCCL's: traffic, standstill, and who waits for whom.
#![allow(unsafe_code)] // exported C functions

use super::{enter, write};
use crate::activity;
use crate::engine::{self, lock};
use nccl_sys::{Nccl, collspecCensus_t, collspecTraffic_t, ncclComm_t, ncclResult_t};
use std::ffi::{c_char, c_uint, c_ulonglong};
use std::panic::catch_unwind;

unsafe extern "C" fn mark(comm: ncclComm_t, tag: c_uint) -> ncclResult_t {
    enter(|| {
        lock().comms.member(comm)?.tag = tag;
        Ok(())
    })
}

unsafe extern "C" fn label(comm: ncclComm_t, label: c_uint) -> ncclResult_t {
    enter(|| lock().comms.label(comm, label))
}

unsafe extern "C" fn traffic(comm: ncclComm_t, tag: c_uint, traffic: *mut collspecTraffic_t) -> ncclResult_t {
    enter(|| {
        let counted = lock().traffic(comm, tag)?;
        // SAFETY: the table's contract: a place for the counts.
        unsafe { write(traffic, counted, "the traffic") }
    })
}

unsafe extern "C" fn take_activity(census: *mut collspecCensus_t) -> ncclResult_t {
    // SAFETY: the table's contract: a place for the census.
    enter(|| unsafe { write(census, activity::activity(), "the census") })
}

unsafe extern "C" fn await_calls(comm: ncclComm_t) -> ncclResult_t {
    enter(|| engine::wait_for(comm as usize))
}

extern "C" fn idle_hook(hook: Option<extern "C" fn()>) -> ncclResult_t {
    enter(|| {
        activity::set_idle_hook(hook);
        Ok(())
    })
}

unsafe extern "C" fn who_waits(text: *mut c_char, len: c_ulonglong) -> c_ulonglong {
    let Ok(words) = catch_unwind(activity::who_waits) else { return 0 };
    let room = usize::try_from(len).unwrap_or(usize::MAX).min(words.len());
    if !text.is_null() {
        // SAFETY: the table's contract: `len` bytes are writable at `text`, and no more than that are written.
        unsafe { std::ptr::copy_nonoverlapping(words.as_ptr(), text.cast::<u8>(), room) };
    }
    words.len() as c_ulonglong
}

pub(super) fn fill(table: &mut Nccl) {
    table.collspecMark = Some(mark);
    table.collspecLabel = Some(label);
    table.collspecTraffic = Some(traffic);
    table.collspecCensus = Some(take_activity);
    table.collspecAwait = Some(await_calls);
    table.collspecIdleHook = Some(idle_hook);
    table.collspecWhoWaits = Some(who_waits);
}
