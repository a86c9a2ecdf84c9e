//! Operations with so much data that several threads may move it. One test at a time: the census covers the whole process.
// Ranks are numbers here, as in C.
#![allow(clippy::needless_range_loop)]
mod common;
use common::idle::{standstill, standstill_with, when_idle};
use common::*;
use nccl_sys::*;
use std::sync::{Mutex, MutexGuard, PoisonError};

const OK: ncclResult_t = ncclResult_t::Success;
const F32: ncclDataType_t = ncclDataType_t::Float32;
const SUM: ncclRedOp_t = ncclRedOp_t::Sum;
/// Elements of a chunk: an eighth of 512 KiB.
const CHUNK: usize = (64 << 10) / size_of::<f32>();
/// More than 16 MiB, and no multiple of anything.
const COUNT: usize = (16 << 20) / size_of::<f32>() + 12_347;

fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Values whose sum depends on the order.
fn value(rank: usize, i: usize) -> f32 {
    let x = (i as u32).wrapping_mul(2_654_435_761).wrapping_add(rank as u32 * 40_503);
    (x >> 8) as f32 * [1.0, 1e-3, 1e4][rank % 3]
}

fn values(rank: usize, count: usize) -> Vec<f32> {
    (0..count).map(|i| value(rank, i)).collect()
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// The sum of element `i`: part k of a pass is added from rank k + 1 on, around to rank k.
fn ring_sum(n: usize, count: usize, i: usize) -> f32 {
    let base = i / (n * CHUNK) * (n * CHUNK);
    let each = (n * CHUNK).min(count - base).div_ceil(n);
    let part = (i - base) / each;
    (2..=n).fold(value((part + 1) % n, i), |sum, step| sum + value((part + step) % n, i))
}

#[test]
fn sums_have_the_bits_of_the_ring() {
    let _alone = alone();
    for (n, in_place) in [(2, false), (3, false), (3, true)] {
        let world = World::new(n);
        let inputs: Vec<Buffer> = (0..n).map(|r| Buffer::of(&values(r, COUNT))).collect();
        // One byte off, so that no line of the processor's begins where the data do.
        let outputs: Vec<Buffer> = (0..n).map(|_| Buffer::new(&vec![7; 4 * COUNT + 1])).collect();
        world.mark(1);
        world.run(|r, c, s| {
            let out = if in_place { inputs[r].at(0) } else { outputs[r].at(1) };
            nccl!(ncclAllReduce(inputs[r].at(0), out, COUNT, F32, SUM, c, s))
        });
        let expected: Vec<f32> = (0..COUNT).map(|i| ring_sum(n, COUNT, i)).collect();
        for r in 0..n {
            let sums = if in_place { inputs[r].get::<u8>() } else { outputs[r].get::<u8>().split_off(1) };
            assert!(
                sums.as_chunks::<4>().0.iter().zip(&expected).all(|(a, b)| *a == b.to_ne_bytes()),
                "{n} {in_place}"
            );
            assert!(in_place || outputs[r].get::<u8>()[0] == 7);
        }
        let once = 2 * (COUNT as u64) * (n as u64 - 1);
        assert_eq!(world.traffic(1).iter().map(|t| t.sent).sum::<u64>(), once);
        assert!(world.traffic(1).iter().all(|t| t.rounds == 2 * (n as u64 - 1)));
        world.destroy();
    }
}

#[test]
fn other_operations_move_every_element() {
    let _alone = alone();
    let (n, count) = (2usize, COUNT / 2);
    let world = World::new(n);
    let inputs: Vec<Buffer> = (0..n).map(|r| Buffer::of(&values(r, n * count))).collect();
    let outputs: Vec<Buffer> = (0..n).map(|_| Buffer::of(&vec![-1f32; n * count])).collect();
    let out = |r: usize| outputs[r].get::<f32>();

    world.run(|r, c, s| nccl!(ncclAllGather(inputs[r].at(0), outputs[r].at(0), count, F32, c, s)));
    let gathered = [values(0, count), values(1, count)].concat();
    assert!((0..n).all(|r| bits(&out(r)) == bits(&gathered)));

    world.run(|r, c, s| nccl!(ncclReduceScatter(inputs[r].at(0), outputs[r].at(0), count, F32, SUM, c, s)));
    for r in 0..n {
        let sums: Vec<f32> = (r * count..(r + 1) * count).map(|i| value(0, i) + value(1, i)).collect();
        assert!(bits(&out(r)[..count]) == bits(&sums));
    }

    world.run(|r, c, s| nccl!(ncclBroadcast(inputs[r].at(0), outputs[r].at(0), n * count, F32, 1, c, s)));
    assert!((0..n).all(|r| bits(&out(r)) == bits(&values(1, n * count))));

    world.run(|r, c, s| nccl!(ncclReduce(inputs[r].at(0), outputs[r].at(0), n * count, F32, SUM, 0, c, s)));
    let sums: Vec<f32> = (0..n * count).map(|i| value(0, i) + value(1, i)).collect();
    assert!(bits(&out(0)) == bits(&sums));
    world.destroy();
}

#[test]
fn what_nobody_waits_for_ends_all_the_same() {
    let _alone = alone();
    let world = World::new(2);
    let data: Vec<Buffer> = (0..2).map(|_| Buffer::of(&vec![1f32; COUNT])).collect();
    let group = world.group(|r, c, s| nccl!(ncclAllReduce(data[r].at(0), data[r].at(0), COUNT, F32, SUM, c, s)));
    assert_eq!(group, OK);
    when_idle(|| world.streams.iter().all(gpuless_device::Stream::query));
    assert!(data.iter().all(|d| d.get::<f32>().iter().all(|value| *value == 2.0)));
    assert_eq!(standstill().pending, 0);
    world.destroy();
}

#[test]
fn a_rank_that_is_missing_is_a_standstill_and_an_abort_ends_it() {
    let _alone = alone();
    let world = World::new(3);
    let data: Vec<Buffer> = (0..3).map(|_| Buffer::of(&vec![1f32; COUNT])).collect();
    std::thread::scope(|scope| {
        for r in 0..2usize {
            let (world, data) = (&world, &data);
            scope.spawn(move || {
                let (d, stream) = (data[r].at(0), &world.streams[r]);
                assert_eq!(nccl!(ncclAllReduce(d, d, COUNT, F32, SUM, world.comms[r], stream.raw())), OK);
                stream.synchronize();
            });
        }
        let still = standstill_with(2);
        assert_eq!((still.busy, still.blocked_hosts), (0, 2));
        let text = who_waits();
        assert!(text.contains("rank 0 waits for a message from rank 2"), "{text}");
        for comm in &world.comms {
            assert_eq!(nccl!(ncclCommAbort(*comm)), OK);
        }
    });
    assert_eq!(standstill().pending, 0);
}

#[test]
fn an_abort_in_the_middle_leaves_no_thread_at_the_memory() {
    let _alone = alone();
    for _ in 0..20 {
        let world = World::new(2);
        let data: Vec<Buffer> = (0..2).map(|_| Buffer::of(&vec![1f32; COUNT])).collect();
        let group = world.group(|r, c, s| nccl!(ncclAllReduce(data[r].at(0), data[r].at(0), COUNT, F32, SUM, c, s)));
        assert_eq!(group, OK);
        for comm in &world.comms {
            assert_eq!(nccl!(ncclCommAbort(*comm)), OK);
        }
        // The memory is unmapped here: a step that still ran would end the process.
        drop(data);
        assert_eq!(standstill().pending, 0);
    }
}
