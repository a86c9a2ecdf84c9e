//! COLLSPEC_SOFT_EAGER and NCCL_CHECK_POINTERS.
// Ranks are numbers here, as in C.
#![allow(clippy::needless_range_loop)]
mod common;
use common::idle::standstill;
use common::*;
use nccl_sys::*;
use soft_nccl::Settings;
use std::ffi::c_int;
use std::sync::{Mutex, MutexGuard, PoisonError};

const OK: ncclResult_t = ncclResult_t::Success;
const I32: ncclDataType_t = ncclDataType_t::Int32;

/// The census is that of the whole process: a thread of another test may be the last to do something, and calls no hook when it
/// returns to that test.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn settings() {
    // Later tests of this program find them set.
    let _ = soft_nccl::set_settings_for_process(Settings {
        eager_bytes: 8,
        check_pointers: true,
        buffer_bytes: 32,
        ..Settings::default()
    });
}

#[test]
fn small_sends_end_unreceived_up_to_the_allowance() {
    let _alone = alone();
    settings();
    let world = World::new(2);
    let data: Vec<Buffer> = (0..2).map(|r| Buffer::of(&[r, 7, -1, -1, -1])).collect();
    // Both send first: with the allowance this works, twice, because receiving gives it back.
    for _ in 0..2 {
        for r in 0..2usize {
            let (c, s, other) = (world.comms[r], world.streams[r].raw(), 1 - r as c_int);
            assert_eq!(nccl!(ncclSend(data[r].at(0), 2, I32, other, c, s)), OK);
        }
        world.synchronize();
        for r in 0..2usize {
            let (c, s, other) = (world.comms[r], world.streams[r].raw(), 1 - r as c_int);
            assert_eq!(nccl!(ncclRecv(data[r].at(8), 2, I32, other, c, s)), OK);
        }
        world.synchronize();
        for r in 0..2 {
            assert_eq!(data[r].get::<i32>(), [r as i32, 7, 1 - r as i32, 7, -1]);
        }
    }
    // More than the allowance meets its receiver.
    let (c, s) = (world.comms[0], &world.streams[0]);
    assert_eq!(nccl!(ncclSend(data[0].at(0), 1, I32, 1, c, s.raw())), OK);
    s.synchronize();
    assert_eq!(nccl!(ncclSend(data[0].at(0), 2, I32, 1, c, s.raw())), OK);
    standstill();
    assert!(!s.query());
    let (c1, s1) = (world.comms[1], &world.streams[1]);
    assert_eq!(nccl!(ncclRecv(data[1].at(8), 1, I32, 0, c1, s1.raw())), OK);
    assert_eq!(nccl!(ncclRecv(data[1].at(12), 2, I32, 0, c1, s1.raw())), OK);
    world.synchronize();
    assert_eq!(data[1].get::<i32>(), [1, 7, 0, 0, 7]);
    world.destroy();
}

#[test]
fn pointers_are_checked() {
    let _alone = alone();
    settings();
    let world = World::new(1);
    let device = Buffer::of(&[1i32, 2]);
    let host = [0i32; 2];
    let (c, s) = (world.comms[0], world.streams[0].raw());
    let all = |send, recv, count| nccl!(ncclAllGather(send, recv, count, I32, c, s));
    assert_eq!(all(host.as_ptr().cast(), device.at(0), 1), ncclResult_t::InvalidArgument);
    assert_eq!(all(device.at(0), host.as_ptr().cast_mut().cast(), 1), ncclResult_t::InvalidArgument);
    assert_eq!(all(device.at(0), device.at(4), 2), ncclResult_t::InvalidArgument, "one element too far");
    assert_eq!(all(device.at(0), device.at(4), 1), OK);
    world.synchronize();
    assert_eq!(device.get::<i32>(), [1, 1]);
    world.destroy();
}
