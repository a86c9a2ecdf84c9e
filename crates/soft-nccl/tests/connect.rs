//! COLLSPEC_SOFT_CONNECT=lazy: a first call waits on the host for the other ranks' first call. One test at a time: the
//! census is the whole process's.
mod common;
use common::idle::standstill_with;
use common::*;
use nccl_sys::*;
use soft_nccl::{Connect, Settings};
use std::ffi::c_int;
use std::sync::{Mutex, MutexGuard, PoisonError};

const OK: ncclResult_t = ncclResult_t::Success;
const I32: ncclDataType_t = ncclDataType_t::Int32;
const SUM: ncclRedOp_t = ncclRedOp_t::Sum;

fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    // Settings are read once, so later tests of this program have them too.
    let _ = soft_nccl::set_settings_for_process(Settings { connect: Connect::Lazy, ..Settings::default() });
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn blocked(hosts: i32) {
    let still = standstill_with(hosts);
    assert_eq!((still.busy, still.blocked_hosts), (0, hosts), "{}", who_waits());
}

fn all_reduce(world: &World, data: &Buffer, rank: usize) -> ncclResult_t {
    nccl!(ncclAllReduce(data.at(0), data.at(0), 1, I32, SUM, world.comms[rank], world.streams[rank].raw()))
}

#[test]
fn the_first_collective_waits_on_the_host_for_every_rank() {
    let _alone = alone();
    let world = World::new(3);
    let data: Vec<Buffer> = (0..3).map(|rank| Buffer::of(&[rank + 1])).collect();
    std::thread::scope(|scope| {
        for rank in [0, 2] {
            let (world, data) = (&world, &data);
            scope.spawn(move || assert_eq!(all_reduce(world, &data[rank], rank), OK));
        }
        blocked(2);
        // Nothing was enqueued yet.
        assert_eq!(census().pending, 0);
        let text = who_waits();
        assert!(text.contains("rank 2 is in all_reduce (sum) of 1 i32"), "{text}");
        assert!(text.contains("the call of the ranks 1 is missing"), "{text}");
        assert_eq!(all_reduce(&world, &data[1], 1), OK);
    });
    world.synchronize();
    assert_eq!(data[2].get::<i32>(), [6]);
    // The connection exists now, so the host does not wait again.
    assert_eq!(all_reduce(&world, &data[0], 0), OK);
    blocked(0);
    for rank in [1, 2] {
        assert_eq!(all_reduce(&world, &data[rank], rank), OK);
    }
    world.synchronize();
    world.destroy();
}

#[test]
fn messages_connect_two_ranks_and_a_group_connects_all_at_its_end() {
    let _alone = alone();
    let world = World::new(3);
    let data: Vec<Buffer> = (0..3).map(|rank| Buffer::of(&[rank, -1])).collect();
    std::thread::scope(|scope| {
        let (world, data) = (&world, &data);
        scope.spawn(move || {
            let (comm, stream) = (world.comms[0], world.streams[0].raw());
            assert_eq!(nccl!(ncclSend(data[0].at(0), 1, I32, 1, comm, stream)), OK);
        });
        blocked(1);
        let text = who_waits();
        assert!(text.contains("a message from rank 0 to rank 1: the call of the ranks 1 is missing"), "{text}");
        let (comm, stream) = (world.comms[1], world.streams[1].raw());
        assert_eq!(nccl!(ncclRecv(data[1].at(4), 1, I32, 0, comm, stream)), OK);
    });
    world.synchronize();
    assert_eq!(data[1].get::<i32>(), [1, 0]);
    // One thread makes the calls of all ranks in a group: it does not wait for calls that the group itself contains.
    world.run(|rank, comm, stream| {
        let to = ((rank + 1) % 3) as c_int;
        let from = ((rank + 2) % 3) as c_int;
        assert_eq!(nccl!(ncclSend(data[rank].at(0), 1, I32, to, comm, stream)), OK);
        nccl!(ncclRecv(data[rank].at(4), 1, I32, from, comm, stream))
    });
    assert_eq!(data[0].get::<i32>(), [0, 2]);
    world.run(|rank, comm, stream| nccl!(ncclAllReduce(data[rank].at(0), data[rank].at(0), 1, I32, SUM, comm, stream)));
    assert_eq!(data[0].get::<i32>(), [3, 2]);
    world.destroy();
}

/// Rank 0 has its nearest peer and waits for rank 2, which waits for its own nearest peer, rank 1, which waits for rank 0.
#[test]
fn the_pairs_of_a_group_connect_in_the_order_of_their_distance_and_all_together() {
    let _alone = alone();
    let world = World::new(3);
    let data: Vec<Buffer> = (0..3).map(|rank| Buffer::of(&[rank, -1, -1])).collect();
    let (send, recv) = (true, false);
    let shared = &world;
    let group = |rank: usize, calls: &[(bool, c_int, usize)]| {
        let world: &World = shared;
        let (comm, stream) = (world.comms[rank], world.streams[rank].raw());
        assert_eq!(nccl!(ncclGroupStart()), OK);
        for (sends, peer, byte) in calls {
            let place = data[rank].at(*byte);
            let code = match *sends {
                true => nccl!(ncclSend(place, 1, I32, *peer, comm, stream)),
                false => nccl!(ncclRecv(place, 1, I32, *peer, comm, stream)),
            };
            assert_eq!(code, OK);
        }
        assert_eq!(nccl!(ncclGroupEnd()), OK);
    };
    std::thread::scope(|scope| {
        let group = &group;
        scope.spawn(move || group(0, &[(send, 1, 0), (send, 2, 0)]));
        scope.spawn(move || group(1, &[(recv, 0, 4)]));
        scope.spawn(move || group(2, &[(recv, 0, 4), (recv, 1, 8)]));
        blocked(3);
        group(1, &[(send, 2, 0)]);
    });
    world.synchronize();
    assert_eq!((data[1].get::<i32>(), data[2].get::<i32>()), (vec![1, 0, -1], vec![2, 0, 1]));
    world.destroy();
}

#[test]
fn a_call_of_several_ranks_is_one_blocked_thread() {
    let _alone = alone();
    let world = World::new(3);
    let data: Vec<Buffer> = (0..3).map(|rank| Buffer::of(&[rank, -1, -1])).collect();
    let stream = |rank: usize| world.streams[rank].raw();
    std::thread::scope(|scope| {
        let (world, data) = (&world, &data);
        scope.spawn(move || {
            assert_eq!(nccl!(ncclGroupStart()), OK);
            for (rank, data) in data.iter().enumerate().take(2) {
                let stream = world.streams[rank].raw();
                assert_eq!(nccl!(ncclSend(data.at(0), 1, I32, 2, world.comms[rank], stream)), OK);
            }
            assert_eq!(nccl!(ncclGroupEnd()), OK);
        });
        blocked(1);
        assert_eq!(nccl!(ncclGroupStart()), OK);
        for rank in 0..2 {
            let to = data[2].at(4 + 4 * rank);
            assert_eq!(nccl!(ncclRecv(to, 1, I32, rank as c_int, world.comms[2], stream(2))), OK);
        }
        assert_eq!(nccl!(ncclGroupEnd()), OK);
    });
    blocked(0);
    world.synchronize();
    assert_eq!(data[2].get::<i32>(), [2, 0, 1]);
    world.destroy();
}

/// NCCL makes them of messages.
#[test]
fn all_to_all_and_gather_connect_the_pairs_of_their_ranks() {
    let _alone = alone();
    let world = World::new(3);
    let data: Vec<Buffer> = (0..3).map(|rank| Buffer::of(&[rank, rank, rank, -1, -1, -1])).collect();
    let shared = &world;
    let gather = |rank: usize| {
        let world: &World = shared;
        let (comm, stream) = (world.comms[rank], world.streams[rank].raw());
        assert_eq!(nccl!(ncclGather(data[rank].at(0), data[rank].at(12), 1, I32, 2, comm, stream)), OK);
    };
    // The root waits for rank 0, and rank 1 for the root.
    std::thread::scope(|scope| {
        let gather = &gather;
        scope.spawn(move || gather(2));
        scope.spawn(move || gather(1));
        blocked(2);
        let text = who_waits();
        assert!(text.contains("a message from rank 0 to rank 2: the call of the ranks 0 is missing"), "{text}");
        gather(0);
    });
    world.synchronize();
    assert_eq!(data[2].get::<i32>(), [2, 2, 2, 0, 1, 2]);
    world.run(|rank, comm, stream| nccl!(ncclAlltoAll(data[rank].at(0), data[rank].at(12), 1, I32, comm, stream)));
    assert_eq!(data[0].get::<i32>(), [0, 0, 0, 0, 1, 2]);
    // All pairs are connected, so no host waits for the other side.
    for (rank, peer) in [(0, 1), (2, 1)] {
        let (comm, stream) = (world.comms[rank], world.streams[rank].raw());
        assert_eq!(nccl!(ncclSend(data[rank].at(0), 1, I32, peer, comm, stream)), OK);
    }
    blocked(0);
    for (rank, peer) in [(1, 0), (1, 2)] {
        let (comm, stream) = (world.comms[rank], world.streams[rank].raw());
        assert_eq!(nccl!(ncclRecv(data[rank].at(12), 1, I32, peer, comm, stream)), OK);
    }
    world.synchronize();
    world.destroy();
}

#[test]
fn an_abort_releases_a_connecting_thread_and_an_empty_collective_connects_no_rank() {
    let _alone = alone();
    let world = World::new(2);
    let data = Buffer::of(&[1i32]);
    let stream = world.streams[0].raw();
    assert_eq!(nccl!(ncclAllReduce(data.at(0), data.at(0), 0, I32, SUM, world.comms[0], stream)), OK);
    std::thread::scope(|scope| {
        let (world, data) = (&world, &data);
        let waiting = scope.spawn(move || all_reduce(world, data, 0));
        blocked(1);
        assert_eq!(nccl!(ncclCommAbort(world.comms[0])), OK);
        assert_eq!(waiting.join().unwrap(), ncclResult_t::InvalidUsage);
    });
    assert_eq!(nccl!(ncclCommAbort(world.comms[1])), OK);
    blocked(0);
}
