//! Communicators: made by threads, by one thread, split, finalized, asked; user operators; groups.
// Ranks are numbers here, as in C.
#![allow(clippy::needless_range_loop)]
mod common;
use common::*;
use nccl_sys::*;
use std::ffi::c_int;

const OK: ncclResult_t = ncclResult_t::Success;
const ARGUMENT: ncclResult_t = ncclResult_t::InvalidArgument;
const USAGE: ncclResult_t = ncclResult_t::InvalidUsage;
const I32: ncclDataType_t = ncclDataType_t::Int32;
const SUM: ncclRedOp_t = ncclRedOp_t::Sum;

fn rank_of(comm: ncclComm_t) -> (c_int, c_int) {
    let (mut rank, mut count) = (-1, -1);
    assert_eq!(nccl!(ncclCommUserRank(comm, &mut rank)), OK);
    assert_eq!(nccl!(ncclCommCount(comm, &mut count)), OK);
    (rank, count)
}

#[test]
fn ranks_on_threads_meet_by_unique_id() {
    let n = 5;
    let id = unique_id();
    std::thread::scope(|scope| {
        for rank in 0..n {
            scope.spawn(move || {
                let mut comm = std::ptr::null_mut();
                if rank % 2 == 0 {
                    assert_eq!(nccl!(ncclCommInitRank(&mut comm, n, id, rank)), OK);
                } else {
                    let mut config = ncclConfig_t::unset(23007);
                    assert_eq!(nccl!(ncclCommInitRankConfig(&mut comm, n, id, rank, &mut config)), OK);
                }
                assert_eq!(rank_of(comm), (rank, n));
                let stream = gpuless_device::Stream::new();
                let data = Buffer::of(&[rank + 1]);
                assert_eq!(nccl!(ncclAllReduce(data.at(0), data.at(0), 1, I32, SUM, comm, stream.raw())), OK);
                stream.synchronize();
                assert_eq!(data.get::<i32>(), [n * (n + 1) / 2]);
                assert_eq!(nccl!(ncclCommFinalize(comm)), OK);
                assert_eq!(nccl!(ncclAllReduce(data.at(0), data.at(0), 1, I32, SUM, comm, stream.raw())), USAGE);
                assert_eq!(nccl!(ncclCommDestroy(comm)), OK);
                assert_eq!(nccl!(ncclCommDestroy(comm)), ARGUMENT);
            });
        }
    });
}

#[test]
fn one_thread_makes_all_ranks_in_a_group() {
    let n = 4;
    let id = unique_id();
    let mut comms = vec![std::ptr::null_mut(); n];
    assert_eq!(nccl!(ncclGroupStart()), OK);
    for (rank, comm) in comms.iter_mut().enumerate() {
        assert_eq!(nccl!(ncclCommInitRank(comm, n as c_int, id, rank as c_int)), OK);
    }
    assert_eq!(nccl!(ncclGroupEnd()), OK);
    for (rank, comm) in comms.iter().enumerate() {
        assert_eq!(rank_of(*comm), (rank as c_int, n as c_int));
        let mut error = USAGE;
        assert_eq!(nccl!(ncclCommGetAsyncError(*comm, &mut error)), OK);
        assert_eq!(error, OK);
    }
    for comm in comms {
        assert_eq!(nccl!(ncclCommDestroy(comm)), OK);
    }
}

#[test]
fn init_all_takes_devices() {
    let mut comms = vec![std::ptr::null_mut(); 3];
    assert_eq!(nccl!(ncclCommInitAll(comms.as_mut_ptr(), 3, [4, 2, 7].as_ptr())), OK);
    for (comm, expected) in comms.iter().zip([4, 2, 7]) {
        let mut device = -1;
        assert_eq!(nccl!(ncclCommCuDevice(*comm, &mut device)), OK);
        assert_eq!(device, expected);
        assert_eq!(nccl!(ncclCommAbort(*comm)), OK);
    }
}

#[test]
fn split_orders_by_key_and_then_by_rank() {
    let world = World::new(7);
    // Colours 1 1 0 - 1 0 1, keys 5 5 9 0 -3 2 5.
    let colors = [1, 1, 0, NCCL_SPLIT_NOCOLOR, 1, 0, 1];
    let keys = [5, 5, 9, 0, -3, 2, 5];
    let mut children = [std::ptr::null_mut(); 7];
    children[3] = 8 as ncclComm_t;
    assert_eq!(nccl!(ncclGroupStart()), OK);
    for (r, child) in children.iter_mut().enumerate() {
        let config = std::ptr::null_mut();
        assert_eq!(nccl!(ncclCommSplit(world.comms[r], colors[r], keys[r], child, config)), OK);
    }
    assert_eq!(nccl!(ncclGroupEnd()), OK);
    assert!(children[3].is_null());
    let expected = [(1, 4), (2, 4), (1, 2), (0, 0), (0, 4), (0, 2), (3, 4)];
    for r in [0, 1, 2, 4, 5, 6] {
        assert_eq!(rank_of(children[r]), expected[r], "rank {r}");
    }
    // Both children and the parent work, with their own numbers.
    let data: Vec<Buffer> = (0..7).map(|r| Buffer::of(&[1 << r])).collect();
    let outs: Vec<Buffer> = (0..7).map(|_| Buffer::of(&[0i32; 4])).collect();
    world.run(|r, parent, s| match children[r].is_null() {
        true => nccl!(ncclAllReduce(data[r].at(0), data[r].at(0), 1, I32, SUM, parent, s)),
        false => {
            nccl!(ncclAllReduce(data[r].at(0), data[r].at(0), 1, I32, SUM, parent, s));
            nccl!(ncclAllGather(outs[r].at(12), outs[r].at(0), 0, I32, children[r], s));
            nccl!(ncclAllReduce(outs[r].at(0), outs[r].at(4), 1, I32, SUM, children[r], s))
        }
    });
    assert_eq!(data[3].get::<i32>(), [127]);
    for r in [0, 1, 2, 4, 5, 6] {
        assert_eq!(
            nccl!(ncclBroadcast(data[r].at(0), outs[r].at(0), 1, I32, 9, children[r], world.streams[r].raw())),
            ARGUMENT
        );
        assert_eq!(nccl!(ncclCommDestroy(children[r])), OK);
    }
    assert_eq!(nccl!(ncclCommSplit(world.comms[0], -5, 0, &mut children[0], std::ptr::null_mut())), ARGUMENT);
    world.destroy();
}

#[test]
fn pre_multiplied_sums() {
    let (n, f32t) = (3usize, ncclDataType_t::Float32);
    let world = World::new(n);
    let scalars: Vec<Buffer> = (0..n).map(|r| Buffer::of(&[0.5f32 * (r + 1) as f32])).collect();
    let mut ops = vec![ncclRedOp_t(0); n];
    for r in 0..n {
        let mut immediate = 0.5f32 * (r + 1) as f32;
        let (place, residence) = match r {
            0 => ((&raw mut immediate).cast(), ncclScalarResidence_t::HostImmediate),
            _ => (scalars[r].at(0), ncclScalarResidence_t::Device),
        };
        assert_eq!(nccl!(ncclRedOpCreatePreMulSum(&mut ops[r], place, f32t, residence, world.comms[r])), OK);
        assert!(ops[r].0 >= 5);
        immediate = -1.0;
        assert_eq!(immediate, -1.0, "the host's scalar was read at once");
    }
    let data: Vec<Buffer> = (0..n).map(|r| Buffer::of(&[r as f32 + 1.0, 8.0])).collect();
    world.run(|r, c, s| nccl!(ncclAllReduce(data[r].at(0), data[r].at(0), 2, f32t, ops[r], c, s)));
    for d in &data {
        assert_eq!(d.get::<f32>(), [0.5 + 2.0 + 4.5, 4.0 + 8.0 + 12.0]);
    }
    // Another type, another communicator, a destroyed operator.
    let (d, s) = (data[0].at(0), world.streams[0].raw());
    assert_eq!(nccl!(ncclAllReduce(d, d, 1, I32, ops[0], world.comms[0], s)), ARGUMENT);
    assert_eq!(nccl!(ncclAllReduce(d, d, 1, f32t, ops[0], world.comms[1], s)), ARGUMENT);
    assert_eq!(nccl!(ncclRedOpDestroy(ops[0], world.comms[0])), OK);
    assert_eq!(nccl!(ncclAllReduce(d, d, 1, f32t, ops[0], world.comms[0], s)), ARGUMENT);
    assert_eq!(nccl!(ncclRedOpDestroy(ops[0], world.comms[0])), ARGUMENT);
    assert_eq!(nccl!(ncclRedOpDestroy(ncclRedOp_t::Sum, world.comms[0])), ARGUMENT);
    world.destroy();
    // A single rank scales too.
    let one = World::new(1);
    let mut op = ncclRedOp_t(0);
    let mut scalar = 3f32;
    let host = ncclScalarResidence_t::HostImmediate;
    assert_eq!(nccl!(ncclRedOpCreatePreMulSum(&mut op, (&raw mut scalar).cast(), f32t, host, one.comms[0])), OK);
    let (from, to) = (Buffer::of(&[2f32]), Buffer::of(&[0f32]));
    one.run(|_, c, s| nccl!(ncclReduce(from.at(0), to.at(0), 1, f32t, op, 0, c, s)));
    assert_eq!(to.get::<f32>(), [6.0]);
    one.destroy();
}

#[test]
fn averages_scale_each_input_before_the_sum() {
    let (n, f32t) = (3usize, ncclDataType_t::Float32);
    let world = World::new(n);
    let data: Vec<Buffer> = (0..n).map(|_| Buffer::of(&[f32::MAX, 7.0])).collect();
    world.run(|r, c, s| nccl!(ncclAllReduce(data[r].at(0), data[r].at(0), 2, f32t, ncclRedOp_t::Avg, c, s)));
    let third = 1f32 / 3.0;
    let scaled = 7f32 * third;
    let got = data[0].get::<f32>();
    assert!(got[0].is_finite(), "the sum of the inputs would overflow");
    assert_eq!(got[1], scaled + scaled + scaled);
    world.destroy();
}

#[test]
fn groups_nest_and_fail_as_one() {
    let world = World::new(2);
    let data: Vec<Buffer> = (0..2).map(|r| Buffer::of(&[r + 1])).collect();
    let all = |r: usize| {
        let (d, s) = (data[r].at(0), world.streams[r].raw());
        nccl!(ncclAllReduce(d, d, 1, I32, SUM, world.comms[r], s))
    };
    assert_eq!(nccl!(ncclGroupEnd()), USAGE, "nothing was started");
    assert_eq!(nccl!(ncclGroupStart()), OK);
    assert_eq!(all(0), OK);
    assert_eq!(nccl!(ncclGroupStart()), OK);
    assert_eq!(all(1), OK);
    assert_eq!(nccl!(ncclGroupEnd()), OK);
    world.synchronize();
    assert_eq!(data[0].get::<i32>(), [1], "an inner end enqueues nothing");
    assert_eq!(nccl!(ncclGroupEnd()), OK);
    world.synchronize();
    assert_eq!(data[0].get::<i32>(), [3]);

    // One bad call spoils the group; the next group works.
    assert_eq!(nccl!(ncclGroupStart()), OK);
    assert_eq!(all(0), OK);
    let (d, s) = (data[1].at(0), world.streams[1].raw());
    assert_eq!(nccl!(ncclAllReduce(d, d, 1, ncclDataType_t(12), SUM, world.comms[1], s)), ARGUMENT);
    assert_eq!(all(1), OK);
    assert_eq!(nccl!(ncclGroupEnd()), ARGUMENT);
    world.synchronize();
    assert_eq!(data[0].get::<i32>(), [3]);
    assert_eq!(world.group(|r, _, _| all(r)), OK);
    world.synchronize();
    assert_eq!(data[0].get::<i32>(), [6]);

    // Making communicators does not share a group with operations.
    let mut comm = std::ptr::null_mut();
    assert_eq!(nccl!(ncclGroupStart()), OK);
    assert_eq!(nccl!(ncclCommInitRank(&mut comm, 1, unique_id(), 0)), OK);
    assert_eq!(all(0), OK);
    assert_eq!(nccl!(ncclGroupEnd()), USAGE);
    assert!(comm.is_null());
    world.destroy();
}

#[test]
fn messages_of_a_pair_match_in_order_and_to_oneself() {
    let world = World::new(3);
    let out: Vec<Buffer> = (0..3).map(|r| Buffer::of(&[10 * r, 10 * r + 1, 10 * r + 2, 10 * r + 3])).collect();
    let into: Vec<Buffer> = (0..3).map(|_| Buffer::of(&[-1i32; 4])).collect();
    world.mark(1);
    // Rank 0 sends 0, 1 and an empty message to rank 1; everybody sends to itself.
    world.run(|r, c, s| {
        match r {
            0 => {
                nccl!(ncclSend(out[0].at(0), 1, I32, 1, c, s));
                nccl!(ncclSend(out[0].at(0), 0, I32, 1, c, s));
                nccl!(ncclSend(out[0].at(4), 1, I32, 1, c, s));
            }
            1 => {
                nccl!(ncclRecv(into[1].at(0), 1, I32, 0, c, s));
                nccl!(ncclRecv(into[1].at(0), 0, I32, 0, c, s));
                nccl!(ncclRecv(into[1].at(4), 1, I32, 0, c, s));
            }
            _ => {}
        }
        nccl!(ncclRecv(into[r].at(12), 1, I32, r as c_int, c, s));
        nccl!(ncclSend(out[r].at(12), 1, I32, r as c_int, c, s))
    });
    assert_eq!(into[1].get::<i32>(), [0, 1, -1, 13]);
    assert_eq!(into[2].get::<i32>(), [-1, -1, -1, 23]);
    let traffic = world.traffic(1);
    assert_eq!((traffic[0].sent, traffic[0].rounds), (2, 0));
    assert_eq!((traffic[1].received, traffic[1].rounds), (2, 1));
    assert_eq!(traffic[2], collspecTraffic_t::default(), "messages to oneself are no traffic");
    world.destroy();
}

#[test]
fn a_chain_of_sends_takes_its_length_in_rounds() {
    let n = 4usize;
    let world = World::new(n);
    let data: Vec<Buffer> = (0..n).map(|r| Buffer::of(&[r as i32])).collect();
    world.mark(3);
    for step in 0..n - 1 {
        world.run(|r, c, s| match r {
            r if r == step => nccl!(ncclSend(data[r].at(0), 1, I32, r as c_int + 1, c, s)),
            r if r == step + 1 => nccl!(ncclRecv(data[r].at(0), 1, I32, r as c_int - 1, c, s)),
            _ => OK,
        });
    }
    assert_eq!(data[3].get::<i32>(), [0]);
    world.destroy();
}
