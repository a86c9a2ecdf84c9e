//! Memory of the library, registered memory, windows and one-sided operations, as C programs use them.
// Ranks are numbers here, as in C.
#![allow(clippy::needless_range_loop)]
mod common;
use common::*;
use nccl_sys::*;
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

const OK: ncclResult_t = ncclResult_t::Success;
const ARGUMENT: ncclResult_t = ncclResult_t::InvalidArgument;
const USAGE: ncclResult_t = ncclResult_t::InvalidUsage;
const I32: ncclDataType_t = ncclDataType_t::Int32;
const PAGE: usize = 4096;

fn memory(len: usize) -> *mut c_void {
    let mut place = null_mut();
    assert_eq!(nccl!(ncclMemAlloc(&mut place, len)), OK);
    assert!(place.addr().is_multiple_of(PAGE));
    place
}

/// Makes a window of each rank's memory, in one group, and answers the windows.
fn windows(world: &World, memory: &[*mut c_void], len: usize) -> Vec<ncclWindow_t> {
    let mut made = vec![null_mut(); memory.len()];
    assert_eq!(nccl!(ncclGroupStart()), OK);
    for r in 0..memory.len() {
        let code = nccl!(ncclCommWindowRegister(world.comms[r], memory[r], len, &mut made[r], NCCL_WIN_COLL_SYMMETRIC));
        assert_eq!(code, OK);
    }
    assert_eq!(nccl!(ncclGroupEnd()), OK);
    assert!(made.iter().all(|window| !window.is_null()));
    made
}

fn put(
    world: &World,
    r: usize,
    from: *mut c_void,
    count: usize,
    peer: c_int,
    window: ncclWindow_t,
    at: usize,
) -> ncclResult_t {
    let (comm, stream) = (world.comms[r], world.streams[r].raw());
    nccl!(ncclPutSignal(from, count, I32, peer, window, at, 0, 0, 0, comm, stream))
}

fn wait(world: &World, r: usize, peer: c_int, signals: c_int) -> ncclResult_t {
    let mut descriptor = ncclWaitSignalDesc_t { op_cnt: signals, peer, sig_idx: 0, ctx: 0 };
    nccl!(ncclWaitSignal(1, &mut descriptor, world.comms[r], world.streams[r].raw()))
}

fn numbers(at: *mut c_void, len: usize) -> Vec<i32> {
    // SAFETY: the memory is this long, and nothing writes it now.
    (0..len).map(|i| unsafe { at.cast::<i32>().add(i).read() }).collect()
}

#[test]
fn memory_is_given_once_and_freed_once() {
    let (a, b) = (memory(100), memory(100));
    assert_ne!(a, b);
    assert_eq!(nccl!(ncclMemFree(a)), OK);
    assert_eq!(nccl!(ncclMemFree(a)), ARGUMENT);
    assert_eq!(nccl!(ncclMemFree(null_mut())), OK);
    assert_eq!(nccl!(ncclMemFree(b)), OK);
    let mut place = null_mut();
    assert_eq!(nccl!(ncclMemAlloc(&mut place, 0)), ARGUMENT);
    assert_eq!(nccl!(ncclMemAlloc(null_mut(), 8)), ARGUMENT);
}

#[test]
fn registering_checks_its_arguments() {
    let world = World::new(1);
    let (comm, block) = (world.comms[0], memory(4 * PAGE));
    let mut handle = null_mut();
    for (buffer, len) in [(null_mut(), 8), (block, 0), (block, 4 * PAGE + 1), (block.wrapping_byte_add(4 * PAGE), 1)] {
        if len > 0 {
            assert_eq!(nccl!(ncclCommRegister(comm, buffer, len, &mut handle)), ARGUMENT, "{len}");
        }
        assert_eq!(nccl!(ncclCommWindowRegister(comm, buffer, len, &mut handle, 1)), ARGUMENT, "{len}");
    }
    assert_eq!(nccl!(ncclCommRegister(comm, block, 0, &mut handle)), OK, "no NCCL looks at the size");
    assert_eq!(nccl!(ncclCommDeregister(comm, handle)), OK);
    assert_eq!(nccl!(ncclCommRegister(comm, block.wrapping_byte_add(4), 8, &mut handle)), OK);
    assert_eq!(nccl!(ncclCommDeregister(comm, handle)), OK);
    assert_eq!(nccl!(ncclCommDeregister(comm, handle)), ARGUMENT);
    let off = block.wrapping_byte_add(PAGE + 4);
    assert_eq!(nccl!(ncclCommWindowRegister(comm, off, 8, &mut handle, 1)), ARGUMENT);
    assert!(last_error().contains("4100"), "{}", last_error());
    assert_eq!(nccl!(ncclCommWindowRegister(comm, block, 8, &mut handle, 4)), ARGUMENT, "no such flag");
    let second = block.wrapping_byte_add(PAGE);
    assert_eq!(nccl!(ncclCommWindowRegister(comm, second, 8, &mut handle, 0)), OK);
    let mut pointer = null_mut();
    assert_eq!(nccl!(ncclWinGetUserPtr(comm, handle, &mut pointer)), OK);
    assert_eq!(pointer, second);
    assert_eq!(nccl!(ncclWinGetUserPtr(comm, null_mut(), &mut pointer)), OK);
    assert!(pointer.is_null());
    assert_eq!(nccl!(ncclWinGetUserPtr(comm, block, &mut pointer)), ARGUMENT);
    assert_eq!(put(&world, 0, second, 1, 0, handle, 0), ARGUMENT, "the window is not symmetric");
    assert_eq!(nccl!(ncclCommWindowDeregister(comm, handle)), OK);
    assert_eq!(nccl!(ncclCommWindowDeregister(comm, handle)), ARGUMENT);
    assert_eq!(nccl!(ncclCommWindowDeregister(comm, null_mut())), OK);
    world.destroy();
    assert_eq!(nccl!(ncclMemFree(block)), OK);
}

#[test]
fn one_sided_operations_check_their_arguments() {
    let world = World::new(2);
    let blocks = [memory(PAGE), memory(PAGE)];
    let (comm, stream) = (world.comms[0], world.streams[0].raw());
    assert_eq!(nccl!(ncclSignal(1, 0, 0, 0, comm, stream)), USAGE, "no window yet");
    assert_eq!(wait(&world, 0, 1, 1), USAGE, "no window yet");
    let made = windows(&world, &blocks, PAGE);
    let plain = memory(PAGE);
    let call = |from, peer, window, index, context, flags| {
        nccl!(ncclPutSignal(from, 1, I32, peer, window, 0, index, context, flags, comm, stream))
    };
    let (here, own) = (blocks[0], made[0]);
    for (from, peer, window, index, context, flags) in [
        (here, 2, own, 0, 0, 0),
        (here, -1, own, 0, 0, 0),
        (here, 1, null_mut(), 0, 0, 0),
        (here, 1, made[1], 0, 0, 0),
        (here, 1, own, 1, 0, 0),
        (here, 1, own, 0, 1, 0),
        (here, 1, own, 0, -1, 0),
        (here, 1, own, 0, 0, 1),
        (plain, 1, own, 0, 0, 0),
        (null_mut(), 1, own, 0, 0, 0),
    ] {
        assert_eq!(call(from, peer, window, index, context, flags), ARGUMENT, "{peer} {index} {context} {flags}");
    }
    assert_eq!(wait(&world, 0, 1, 0), ARGUMENT);
    assert_eq!(nccl!(ncclWaitSignal(0, null_mut(), comm, stream)), ARGUMENT);
    assert_eq!(nccl!(ncclWaitSignal(1, null_mut(), comm, stream)), ARGUMENT);
    world.destroy();
    for block in blocks.into_iter().chain([plain]) {
        assert_eq!(nccl!(ncclMemFree(block)), OK);
    }
}

#[test]
fn puts_arrive_before_their_signals_and_waits_use_them_up() {
    let world = World::new(2);
    let blocks = [memory(PAGE), memory(PAGE)];
    let made = windows(&world, &blocks, PAGE);
    for r in 0..2 {
        let values: Vec<i32> = (0..8).map(|i| 100 * r as i32 + i).collect();
        // SAFETY: the block is larger, and nothing uses it now.
        unsafe { blocks[r].cast::<i32>().copy_from_nonoverlapping(values.as_ptr(), 8) };
    }
    for r in 0..2 {
        let peer = 1 - r as c_int;
        // In bytes: elements 100 and on of the other rank's window.
        assert_eq!(put(&world, r, blocks[r], 4, peer, made[r], 400), OK);
        assert_eq!(put(&world, r, blocks[r].wrapping_byte_add(16), 4, peer, made[r], 416), OK);
        assert_eq!(put(&world, r, blocks[r], 0, peer, made[r], 0), OK, "a put of nothing is a signal");
        assert_eq!(put(&world, r, null_mut(), 0, peer, made[r], 0), ARGUMENT, "of no window");
        assert_eq!(wait(&world, r, peer, 2), OK);
        assert_eq!(wait(&world, r, peer, 1), OK);
    }
    for r in 0..2 {
        world.streams[r].synchronize();
        let expected: Vec<i32> = (0..8).map(|i| 100 * (1 - r as i32) + i).collect();
        assert_eq!(numbers(blocks[r].wrapping_byte_add(400), 8), expected, "rank {r}");
    }
    // Data that would extend beyond the window is not written, but its signal arrives nevertheless.
    assert_eq!(put(&world, 0, blocks[0], 2, 0, made[0], PAGE - 4), OK);
    assert_eq!(wait(&world, 0, 0, 1), OK);
    world.streams[0].synchronize();
    for r in 0..2 {
        assert_eq!(nccl!(ncclCommWindowDeregister(world.comms[r], made[r])), OK);
    }
    world.destroy();
    for block in blocks {
        assert_eq!(nccl!(ncclMemFree(block)), OK);
    }
}
