//! The default settings: rings and chains.
// Ranks are numbers here, as in C.
#![allow(clippy::needless_range_loop)]
mod common;
use common::*;
use nccl_sys::*;

#[test]
fn ring_all_reduce() {
    for n in 1..=8usize {
        let world = World::new(n);
        for count in [0, 1, 2, 5, 1000, 70_001] {
            let sends: Vec<Buffer> =
                (0..n).map(|r| Buffer::of(&(0..count).map(|i| (r * 7 + i) as f32).collect::<Vec<_>>())).collect();
            let recvs: Vec<Buffer> = (0..n).map(|_| Buffer::of(&vec![-1f32; count])).collect();
            world.mark(count as u32);
            world.run(|r, comm, stream| {
                nccl!(ncclAllReduce(
                    sends[r].at(0),
                    recvs[r].at(0),
                    count,
                    ncclDataType_t::Float32,
                    ncclRedOp_t::Sum,
                    comm,
                    stream
                ))
            });
            let expected: Vec<f32> = (0..count).map(|i| (0..n).map(|r| (r * 7 + i) as f32).sum()).collect();
            for recv in &recvs {
                assert_eq!(recv.get::<f32>(), expected);
            }
            for t in world.traffic(count as u32) {
                if count >= n {
                    assert_eq!(t.rounds, 2 * (n as u64 - 1));
                }
            }
        }
        world.destroy();
    }
}

#[test]
fn a_thousand_ranks() {
    let n = 1024;
    let start = std::time::Instant::now();
    let world = World::new(n);
    eprintln!("init {:?}", start.elapsed());
    let data: Vec<Buffer> = (0..n).map(|r| Buffer::of(&vec![r as u32; n])).collect();
    let start = std::time::Instant::now();
    world.run(|r, comm, stream| {
        nccl!(ncclAllReduce(data[r].at(0), data[r].at(0), n, ncclDataType_t::Uint32, ncclRedOp_t::Sum, comm, stream))
    });
    eprintln!("all_reduce {:?}", start.elapsed());
    for d in &data {
        assert!(d.get::<u32>().iter().all(|v| *v == (n * (n - 1) / 2) as u32));
    }
    world.destroy();
}

#[test]
fn every_operation_and_type() {
    suite::every_operation(1..=8, &[0, 1, 5, 17], &suite::DTYPES);
}

#[test]
fn many_chunks() {
    suite::every_operation([2, 3], &[40_001], &[7]);
}

#[test]
fn a_ring_sends_each_part_twice_around() {
    let (n, count) = (5usize, 40usize);
    let world = World::new(n);
    let data: Vec<Buffer> = (0..n).map(|_| Buffer::of(&vec![1i32; count * n])).collect();
    let out: Vec<Buffer> = (0..n).map(|_| Buffer::of(&vec![1i32; count * n])).collect();
    let (i32t, sum) = (ncclDataType_t::Int32, ncclRedOp_t::Sum);
    world.mark(1);
    world.run(|r, c, s| nccl!(ncclAllReduce(data[r].at(0), out[r].at(0), count, i32t, sum, c, s)));
    world.mark(2);
    world.run(|r, c, s| nccl!(ncclAllGather(data[r].at(0), out[r].at(0), count, i32t, c, s)));
    world.mark(3);
    world.run(|r, c, s| nccl!(ncclAlltoAll(data[r].at(0), out[r].at(0), count, i32t, c, s)));
    world.mark(4);
    world.run(|r, c, s| nccl!(ncclBroadcast(data[r].at(0), out[r].at(0), count, i32t, 0, c, s)));
    let (n, count) = (n as u64, count as u64);
    for t in world.traffic(1) {
        let each = 2 * (n - 1) * count / n;
        assert_eq!(t, collspecTraffic_t { rounds: 2 * (n - 1), sent: each, received: each, inner: 0 });
    }
    for t in world.traffic(2) {
        let each = (n - 1) * count;
        assert_eq!(t, collspecTraffic_t { rounds: n - 1, sent: each, received: each, inner: 0 });
    }
    for t in world.traffic(3) {
        let each = (n - 1) * count;
        assert_eq!(t, collspecTraffic_t { rounds: 1, sent: each, received: each, inner: 0 });
    }
    for (r, t) in world.traffic(4).into_iter().enumerate() {
        assert_eq!(t.rounds, r as u64, "the chain begins at the root");
        assert_eq!(t.sent, if r == 4 { 0 } else { count });
    }
    world.destroy();
}

/// A chunk of 512 KiB is read and combined in parts; the last part and the last chunk are not full.
#[test]
fn every_part_of_a_large_chunk_is_multiplied_and_combined() {
    let (n, count) = (3usize, 300_001usize);
    let world = World::new(n);
    let value = |rank: usize, i: usize| (3 * (i % 1009) + 6 * rank) as f64;
    let data: Vec<Buffer> =
        (0..n).map(|rank| Buffer::of(&(0..count).map(|i| value(rank, i)).collect::<Vec<_>>())).collect();
    let out: Vec<Buffer> = (0..n).map(|_| Buffer::of(&vec![-1f64; count])).collect();
    for (operator, factor) in [(ncclRedOp_t::Sum, 1.0), (ncclRedOp_t::Avg, 1.0 / 3.0)] {
        world.run(|rank, comm, stream| {
            let (from, to) = (data[rank].at(0), out[rank].at(0));
            nccl!(ncclAllReduce(from, to, count, ncclDataType_t::Float64, operator, comm, stream))
        });
        for out in &out {
            let sum = |i: usize| (0..n).map(|rank| value(rank, i)).sum::<f64>() * factor;
            let right = |(i, found): (usize, &f64)| (found - sum(i)).abs() <= 1e-9 * sum(i).max(1.0);
            assert_eq!(out.get::<f64>().iter().enumerate().position(|found| !right(found)), None);
        }
    }
    world.destroy();
}
