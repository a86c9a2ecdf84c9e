//! Proofs that nothing can move, who waits for whom, and how abort ends it. One test at a time: the census is the
//! whole process's.
// Ranks are numbers here, as in C.
#![allow(clippy::needless_range_loop)]
mod common;
use common::idle::{standstill, standstill_with};
use common::*;
use nccl_sys::*;
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Barrier, Condvar, Mutex, MutexGuard, PoisonError};

const OK: ncclResult_t = ncclResult_t::Success;
const I32: ncclDataType_t = ncclDataType_t::Int32;
const SUM: ncclRedOp_t = ncclRedOp_t::Sum;

fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn abort_all(world: &World) {
    for comm in &world.comms {
        assert_eq!(nccl!(ncclCommAbort(*comm)), OK);
    }
    world.synchronize();
    let after = standstill();
    assert_eq!((after.pending, after.blocked_hosts), (0, 0), "{}", who_waits());
}

#[test]
fn two_ranks_that_both_send_first_stand_still() {
    let _alone = alone();
    let world = World::new(2);
    let data: Vec<Buffer> = (0..2).map(|_| Buffer::of(&[0i32; 2])).collect();
    std::thread::scope(|scope| {
        for r in 0..2usize {
            let (world, data) = (&world, &data);
            scope.spawn(move || {
                let (c, s, other) = (world.comms[r], &world.streams[r], 1 - r as c_int);
                assert_eq!(nccl!(ncclSend(data[r].at(0), 1, I32, other, c, s.raw())), OK);
                assert_eq!(nccl!(ncclRecv(data[r].at(4), 1, I32, other, c, s.raw())), OK);
                s.synchronize();
            });
        }
        let still = standstill_with(2);
        assert_eq!((still.busy, still.blocked_hosts), (0, 2));
        assert!(still.pending > 0);
        let text = who_waits();
        assert!(text.contains("rank 0 waits for rank 1 to take its last message"), "{text}");
        abort_all(&world);
    });
}

#[test]
fn different_counts_never_mix() {
    let _alone = alone();
    let world = World::new(3);
    let data: Vec<Buffer> = (0..3).map(|r| Buffer::of(&[r; 4])).collect();
    assert_eq!(
        world.group(|r, c, s| {
            let count = if r == 1 { 4 } else { 3 };
            nccl!(ncclAllReduce(data[r].at(0), data[r].at(0), count, I32, SUM, c, s))
        }),
        OK
    );
    standstill();
    assert!(world.streams.iter().all(|s| !s.query()));
    let text = who_waits();
    assert!(text.contains("the ranks disagree"), "{text}");
    assert!(text.contains("rank 1 asked for all_reduce (sum) of 4 i32"), "{text}");
    for (r, d) in data.iter().enumerate() {
        assert_eq!(d.get::<i32>()[3], r as i32, "nothing beyond the count is touched");
    }
    abort_all(&world);
}

#[test]
fn a_missing_rank_and_a_missing_receiver_stand_still() {
    let _alone = alone();
    let world = World::new(3);
    let data: Vec<Buffer> = (0..3).map(|r| Buffer::of(&[r; 2])).collect();
    // Rank 2 does not come: not even the root of a broadcast ends before its message was taken.
    assert_eq!(
        world.group(|r, c, s| match r {
            2 => OK,
            _ => nccl!(ncclBroadcast(data[r].at(0), data[r].at(0), 1, I32, 1, c, s)),
        }),
        OK
    );
    let still = standstill();
    assert_eq!(still.busy, 0);
    assert!(!world.streams[1].query());
    assert!(who_waits().contains("rank 1 waits for rank 2"), "{}", who_waits());
    // It comes late: all ends.
    assert_eq!(
        nccl!(ncclBroadcast(data[2].at(0), data[2].at(0), 1, I32, 1, world.comms[2], world.streams[2].raw())),
        OK
    );
    world.synchronize();
    assert_eq!(data[0].get::<i32>(), [1, 0]);
    assert_eq!(data[2].get::<i32>(), [1, 2]);
    world.destroy();
}

#[test]
fn host_threads_in_a_rendezvous_count_as_blocked() {
    let _alone = alone();
    let mut id = ncclUniqueId { internal: [0; 128] };
    assert_eq!(nccl!(ncclGetUniqueId(&mut id)), OK);
    std::thread::scope(|scope| {
        let init = move |rank: c_int| {
            let mut comm = std::ptr::null_mut();
            assert_eq!(nccl!(ncclCommInitRank(&mut comm, 3, id, rank)), OK);
            assert_eq!(nccl!(ncclCommDestroy(comm)), OK);
        };
        scope.spawn(move || init(0));
        scope.spawn(move || init(2));
        standstill_with(2);
        assert!(who_waits().contains("waits for the ranks 1"), "{}", who_waits());
        init(1);
    });
    assert_eq!(standstill().blocked_hosts, 0);
}

#[test]
fn destroy_waits_and_abort_releases_it() {
    let _alone = alone();
    let world = World::new(2);
    let data = Buffer::of(&[0i32]);
    let (c, s) = (world.comms[0], world.streams[0].raw());
    assert_eq!(nccl!(ncclRecv(data.at(0), 1, I32, 1, c, s)), OK);
    std::thread::scope(|scope| {
        let world = &world;
        let waiting = scope.spawn(move || nccl!(ncclCommDestroy(world.comms[0])));
        standstill_with(1);
        assert!(who_waits().contains("in destroy"), "{}", who_waits());
        assert!(!waiting.is_finished());
        assert_eq!(nccl!(ncclCommAbort(world.comms[0])), OK);
        assert_eq!(waiting.join().unwrap(), ncclResult_t::InvalidUsage);
    });
    world.streams[0].synchronize();
    assert_eq!(nccl!(ncclCommAbort(world.comms[1])), OK);
    assert_eq!(standstill().pending, 0);
}

#[test]
fn aborting_one_rank_leaves_its_peers_waiting() {
    let _alone = alone();
    let world = World::new(3);
    let data: Vec<Buffer> = (0..3).map(|r| Buffer::of(&[r; 2])).collect();
    assert_eq!(
        world.group(|r, c, s| match r {
            2 => OK,
            _ => nccl!(ncclAllReduce(data[r].at(0), data[r].at(0), 1, I32, SUM, c, s)),
        }),
        OK
    );
    standstill();
    assert_eq!(nccl!(ncclCommAbort(world.comms[0])), OK);
    world.streams[0].synchronize();
    standstill();
    assert!(!world.streams[1].query());
    assert_eq!(nccl!(ncclCommAbort(world.comms[1])), OK);
    assert_eq!(nccl!(ncclCommAbort(world.comms[2])), OK);
    world.synchronize();
    // Another communicator on the same streams works.
    let again = World::new(3);
    again.run(|r, c, _| nccl!(ncclAllReduce(data[r].at(0), data[r].at(0), 1, I32, SUM, c, world.streams[r].raw())));
    world.synchronize();
    assert_eq!(data[0].get::<i32>()[0], 3);
    again.destroy();
}

static IDLE: (Mutex<usize>, Condvar) = (Mutex::new(0), Condvar::new());
extern "C" fn count_idle() {
    // The hook runs outside all locks, so it may look.
    census();
    *IDLE.0.lock().unwrap() += 1;
    IDLE.1.notify_all();
}

#[test]
fn the_idle_hook_runs_when_nothing_is_left_to_do() {
    let _alone = alone();
    assert_eq!(nccl!(collspecIdleHook(Some(count_idle))), OK);
    let world = World::new(2);
    let data = Buffer::of(&[0i32]);
    let before = *IDLE.0.lock().unwrap();
    assert_eq!(nccl!(ncclRecv(data.at(0), 1, I32, 1, world.comms[0], world.streams[0].raw())), OK);
    // Without a call of the hook this waits for ever.
    drop(IDLE.1.wait_while(IDLE.0.lock().unwrap(), |calls| *calls == before).unwrap());
    assert_eq!(nccl!(collspecIdleHook(None)), OK);
    abort_all(&world);
}

#[test]
fn a_program_that_goes_on_is_never_taken_for_stuck() {
    let _alone = alone();
    let n = 4usize;
    let mut id = ncclUniqueId { internal: [0; 128] };
    let left = AtomicUsize::new(n);
    let looks = AtomicUsize::new(0);
    // The threads continue until the watcher has looked often enough. Threads at the barrier do not count as blocked.
    const LOOKS: usize = 100;
    let (barrier, goes_on) = (Barrier::new(n), AtomicBool::new(true));
    std::thread::scope(|scope| {
        for r in 0..n {
            let (left, looks, barrier, goes_on) = (&left, &looks, &barrier, &goes_on);
            if r == 0 {
                assert_eq!(nccl!(ncclGetUniqueId(&mut id)), OK);
            }
            scope.spawn(move || {
                let mut comm = std::ptr::null_mut();
                assert_eq!(nccl!(ncclCommInitRank(&mut comm, n as c_int, id, r as c_int)), OK);
                let stream = gpuless_device::Stream::new();
                let data = Buffer::of(&[1i32; 2000]);
                for round in 0.. {
                    if round >= 400 && round % 50 == 0 {
                        if barrier.wait().is_leader() {
                            goes_on.store(looks.load(Ordering::SeqCst) < LOOKS, Ordering::SeqCst);
                        }
                        barrier.wait();
                        if !goes_on.load(Ordering::SeqCst) {
                            break;
                        }
                    }
                    let d = data.at(0);
                    assert_eq!(nccl!(ncclAllReduce(d, d, 2000, I32, ncclRedOp_t::Max, comm, stream.raw())), OK);
                    if round % 3 == 0 {
                        let (to, from) = (((r + 1) % n) as c_int, ((r + n - 1) % n) as c_int);
                        assert_eq!(nccl!(ncclGroupStart()), OK);
                        assert_eq!(nccl!(ncclSend(data.at(0), 10, I32, to, comm, stream.raw())), OK);
                        assert_eq!(nccl!(ncclRecv(data.at(4000), 10, I32, from, comm, stream.raw())), OK);
                        assert_eq!(nccl!(ncclGroupEnd()), OK);
                    }
                    if round % 50 == 0 {
                        let mut child = std::ptr::null_mut();
                        assert_eq!(nccl!(ncclCommSplit(comm, 0, 0, &mut child, std::ptr::null_mut())), OK);
                        assert_eq!(nccl!(ncclCommDestroy(child)), OK);
                    }
                    stream.synchronize();
                }
                left.fetch_sub(1, Ordering::SeqCst);
                assert_eq!(nccl!(ncclCommDestroy(comm)), OK);
            });
        }
        // The proof: not busy, every thread blocked, and nothing changed at a second look.
        while left.load(Ordering::SeqCst) == n {
            let first = census();
            if first.busy == 0 && first.blocked_hosts as usize == n {
                assert_ne!(census(), first, "a false proof: {}", who_waits());
            }
            looks.fetch_add(1, Ordering::SeqCst);
        }
    });
    assert!(looks.load(Ordering::SeqCst) >= LOOKS, "the watcher had its turns");
}

#[test]
fn abort_in_the_middle_of_work() {
    let _alone = alone();
    let n = 3usize;
    for attempt in 0..40 {
        let world = World::new(n);
        let data: Vec<Buffer> = (0..n).map(|_| Buffer::of(&vec![1i32; 50_000])).collect();
        let (finished, operations) = channel();
        std::thread::scope(|scope| {
            for r in 0..n {
                let (world, data, finished) = (&world, &data, finished.clone());
                scope.spawn(move || {
                    let (c, s, d) = (world.comms[r], &world.streams[r], data[r].at(0));
                    loop {
                        let code = nccl!(ncclAllReduce(d, d, 50_000, I32, ncclRedOp_t::Max, c, s.raw()));
                        if code == ncclResult_t::InvalidArgument {
                            break;
                        }
                        assert_eq!(code, OK);
                        s.synchronize();
                        finished.send(r).unwrap();
                    }
                });
            }
            // Each attempt ends after one more operation of any rank.
            assert_eq!(operations.iter().take(attempt).count(), attempt);
            for comm in world.comms.iter().rev() {
                assert_eq!(nccl!(ncclCommAbort(*comm)), OK);
            }
        });
        world.synchronize();
        drop(data);
        let still = standstill();
        assert_eq!((still.pending, still.blocked_hosts), (0, 0), "{}", who_waits());
    }
}

#[test]
fn a_group_over_two_streams_binds_both() {
    let _alone = alone();
    let world = World::new(2);
    let side = gpuless_device::Stream::new();
    let (held, gate) = std::sync::mpsc::channel();
    side.launch(Box::new(move |done| held.send(done).expect("the test waits for it")));
    let gate = gate.recv().expect("the stream's first item");
    let data: Vec<Buffer> = (0..2).map(|r| Buffer::of(&[r, 9])).collect();
    let got = world.group(|r, c, s| {
        let other = 1 - r as c_int;
        let send_stream = if r == 0 { side.raw() } else { s };
        nccl!(ncclSend(data[r].at(0), 1, I32, other, c, send_stream));
        nccl!(ncclRecv(data[r].at(4), 1, I32, other, c, s))
    });
    assert_eq!(got, OK);
    standstill();
    assert!(!world.streams[0].query(), "the group waits for its slower stream");
    gate.finish();
    world.synchronize();
    side.synchronize();
    assert_eq!(data[0].get::<i32>(), [0, 1]);
    assert_eq!(data[1].get::<i32>(), [1, 0]);
    world.destroy();
}
