//! Tests of the memory that a library may still use after a call.
use super::*;
use crate::backend::lent_memory;
use std::cell::RefCell;
use std::ffi::c_int;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, Weak};

thread_local! {
    /// Places where the library below still has to store handles, and configurations that it has not read.
    static LATE: RefCell<Vec<(*mut ncclComm_t, *mut ncclConfig_t)>> = const { RefCell::new(Vec::new()) };
    static ANSWER: RefCell<ncclResult_t> = const { RefCell::new(ncclResult_t::Success) };
}

const HANDLE: usize = 0x1000;

extern "C" fn open() -> ncclResult_t {
    ncclResult_t::Success
}

extern "C" fn close() -> ncclResult_t {
    for (slot, config) in LATE.take() {
        // SAFETY: the arguments that the caller of `split` passed must live until here; that is what the tests check.
        unsafe {
            slot.write(ptr::without_provenance_mut(HANDLE));
            assert!(config.is_null() || (*config).min_ctas == 3);
        }
    }
    ANSWER.replace(ncclResult_t::Success)
}

unsafe extern "C" fn split(
    _: ncclComm_t,
    _: c_int,
    _: c_int,
    out: *mut ncclComm_t,
    config: *mut ncclConfig_t,
) -> ncclResult_t {
    LATE.with_borrow_mut(|late| late.push((out, config)));
    ANSWER.with_borrow(|answer| *answer)
}

/// A library that stores handles and reads configurations at the end of the group, as NCCL stores them.
fn late_library() -> Library {
    let table = Nccl { ncclGroupStart: Some(open), ncclGroupEnd: Some(close), ..Nccl::empty("late") };
    Library { version: 23007, ..Library::new(Nccl { ncclCommSplit: Some(split), ..table }) }
}

fn split_and_forget(library: &Library) -> Weak<AtomicPtr<c_void>> {
    let slot = CommSlot::default();
    let config = [("minCTAs".to_owned(), ConfigValue::Int(3))];
    let _ = library.split(CommHandle::NULL, -1, 0, &slot, &config);
    Arc::downgrade(&slot.0)
}

#[test]
fn memory_for_a_handle_outlives_the_outermost_group() {
    let library = late_library();
    library.group_start().unwrap();
    library.group_start().unwrap();
    let slot = split_and_forget(&library);
    assert!(slot.upgrade().is_some());
    // The end of an inner group stores nothing, as in a real library.
    lent_memory::group_closed(false);
    let kept = slot.upgrade().expect("the outer group is still open");
    library.group_end().unwrap();
    assert_eq!(kept.load(Ordering::Relaxed) as usize, HANDLE);
    drop(kept);
    assert!(slot.upgrade().is_none(), "the memory is freed after the group");
}

#[test]
fn memory_for_a_handle_that_comes_in_the_background_is_never_freed() {
    let library = late_library();
    ANSWER.set(ncclResult_t::InProgress);
    let alone = split_and_forget(&library);
    LATE.take();
    ANSWER.set(ncclResult_t::Success);
    library.group_start().unwrap();
    let grouped = split_and_forget(&library);
    ANSWER.set(ncclResult_t::InProgress);
    assert!(library.group_end().is_err());
    assert!(alone.upgrade().is_some() && grouped.upgrade().is_some());
}

#[test]
fn outside_a_group_nothing_is_kept() {
    assert!(split_and_forget(&late_library()).upgrade().is_none());
}

#[test]
fn a_thread_that_ends_inside_a_group_frees_nothing() {
    let slot = std::thread::spawn(|| {
        let library = late_library();
        library.group_start().unwrap();
        split_and_forget(&library)
    });
    assert!(slot.join().unwrap().upgrade().is_some());
}
