//! Tests the results of ranks in several processes, the communicators they split, and the resources that remain.
use super::common::kernel::{poll_until, sockets};
use super::common::parts::{Orders, Part};
use super::common::{Buffer, World, last_error, suite, unique_id};
use super::{I32, OK, SUM, run};
use crate::nccl;
use nccl_sys::*;
use std::time::Instant;

pub fn whole_suite(id: ncclUniqueId, n: usize, ranks: &[usize], orders: &Orders) {
    let world = World::part(id, n, ranks).expect("init");
    let counts: Vec<usize> = orders.text("counts").split(',').map(|c| c.parse().unwrap()).collect();
    let dtypes: &[i32] = if orders.text("types") == "all" { &suite::DTYPES } else { &[0, 7] };
    suite::every_operation_on(&world, &counts, dtypes);
    world.mark(7);
    let data: Vec<Buffer> = (0..n).map(|r| Buffer::of(&[r as i32])).collect();
    world.run(|r, c, s| nccl!(ncclAllReduce(data[r].at(0), data[r].at(0), 1, I32, SUM, c, s)));
    if orders.text("NCCL_ALGO").is_empty() {
        for traffic in world.traffic(7) {
            // A single element travels with one part of the ring; the empty parts travel nevertheless.
            assert_eq!(traffic.rounds, 2 * (n as u64 - 1), "rounds are those of one process");
            assert!(traffic.sent <= 2 && traffic.received <= 2);
        }
    }
    world.destroy();
}

#[test]
fn every_operation_and_type_in_two_processes_of_three_ranks() {
    run("suite", &[&[0, 2, 4], &[1, 3, 5]], "counts=1,37;types=all;NCCL_BUFFSIZE=128");
}

#[test]
fn every_operation_with_a_process_per_rank() {
    run("suite", &[&[0], &[1], &[2], &[3]], "counts=0,1,37;types=few");
}

#[test]
fn every_operation_by_trees() {
    run(
        "suite",
        &[&[0, 1], &[2], &[3, 4, 5]],
        "counts=37;types=few;NCCL_ALGO=Tree,Ring;NCCL_BUFFSIZE=64;COLLSPEC_SOFT_SEED=5",
    );
    run("suite", &[&[3], &[0], &[1, 2, 4]], "counts=37;types=few;NCCL_ALGO=SingleTree,Ring;NCCL_BUFFSIZE=64");
}

#[test]
fn the_test_itself_can_have_ranks() {
    let id = unique_id();
    let other = Part::start("suite", &id, 4, &[1, 2], "counts=5;types=few");
    let orders_world = World::part(id, 4, &[0, 3]).expect("init");
    suite::every_operation_on(&orders_world, &[5], &[0, 7]);
    let data: Vec<Buffer> = (0..4).map(|r| Buffer::of(&[r])).collect();
    orders_world.run(|r, c, s| nccl!(ncclAllReduce(data[r].at(0), data[r].at(0), 1, I32, SUM, c, s)));
    assert_eq!(data[3].get::<i32>(), [6]);
    orders_world.destroy();
    other.done();
}

pub fn big(id: ncclUniqueId, n: usize, ranks: &[usize]) {
    let world = World::part(id, n, ranks).expect("init");
    let count = 2 << 20;
    let data: Vec<Buffer> = (0..n)
        .map(|r| {
            Buffer::of(
                &(0..if ranks.contains(&r) { count } else { 0 }).map(|i| i as i32 ^ r as i32).collect::<Vec<_>>(),
            )
        })
        .collect();
    world.run(|r, c, s| nccl!(ncclAllReduce(data[r].at(0), data[r].at(0), count, I32, SUM, c, s)));
    for r in ranks {
        let got = data[*r].get::<i32>();
        let wrong = (0..count).find(|i| got[*i] != (0..n as i32).map(|r| *i as i32 ^ r).sum::<i32>());
        assert_eq!(wrong, None, "rank {r}");
    }
    // All pairs at once, in both directions.
    let each = count / n;
    let out: Vec<Buffer> = (0..n).map(|_| Buffer::of(&vec![0i32; count])).collect();
    world.run(|r, c, s| nccl!(ncclAlltoAll(data[r].at(0), out[r].at(0), each, I32, c, s)));
    for r in ranks {
        let (all, got) = (data[*r].get::<i32>(), out[*r].get::<i32>());
        for from in 0..n {
            assert!(got[from * each..(from + 1) * each] == all[r * each..(r + 1) * each]);
        }
    }
    world.destroy();
}

#[test]
fn megabytes_through_large_and_tiny_buffers() {
    run("big", &[&[0, 1], &[2, 3]], "");
    run("big", &[&[0], &[1], &[2]], "NCCL_BUFFSIZE=4096");
}

pub fn splits(id: ncclUniqueId, n: usize, ranks: &[usize]) {
    let world = World::part(id, n, ranks).expect("init");
    let split = |color: &dyn Fn(usize) -> i32| {
        let mut children = vec![std::ptr::null_mut(); n];
        assert_eq!(nccl!(ncclGroupStart()), OK);
        for r in ranks {
            let key = -(*r as i32);
            assert_eq!(
                nccl!(ncclCommSplit(world.comms[*r], color(*r), key, &mut children[*r], std::ptr::null_mut())),
                OK
            );
        }
        assert_eq!(nccl!(ncclGroupEnd()), OK, "{}", last_error());
        children
    };
    // Odd and even, backwards; then neighbours; then all but rank 0, which gets none; then each alone.
    let colors: [&dyn Fn(usize) -> i32; 4] =
        [&|r| (r % 2) as i32, &|r| (r / 2) as i32, &|r| if r == 0 { NCCL_SPLIT_NOCOLOR } else { 0 }, &|r| r as i32];
    for color in colors {
        let children = split(color);
        let data: Vec<Buffer> = (0..n).map(|r| Buffer::of(&[r as i32])).collect();
        assert_eq!(nccl!(ncclGroupStart()), OK);
        for r in ranks.iter().filter(|r| !children[**r].is_null()) {
            let (d, s) = (data[*r].at(0), world.streams[*r].raw());
            assert_eq!(nccl!(ncclAllReduce(d, d, 1, I32, SUM, children[*r], s)), OK);
        }
        assert_eq!(nccl!(ncclGroupEnd()), OK);
        world.synchronize();
        for r in ranks.iter().copied() {
            let family: Vec<usize> = (0..n).filter(|other| color(*other) == color(r)).collect();
            assert_eq!(children[r].is_null(), color(r) == NCCL_SPLIT_NOCOLOR);
            if children[r].is_null() {
                continue;
            }
            assert_eq!(data[r].get::<i32>(), [family.iter().sum::<usize>() as i32]);
            let mut rank = -1;
            assert_eq!(nccl!(ncclCommUserRank(children[r], &mut rank)), OK);
            assert_eq!(rank as usize, family.iter().filter(|other| **other > r).count());
            assert_eq!(nccl!(ncclCommFinalize(children[r])), OK);
            assert_eq!(nccl!(ncclCommDestroy(children[r])), OK);
        }
    }
    world.destroy();
}

#[test]
fn communicators_split_between_processes() {
    run("split", &[&[0, 1, 5], &[2, 3, 4]], "");
    run("split", &[&[3], &[0], &[2], &[1]], "");
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("proc").count()
}

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").expect("proc").count()
}

/// One communicator after the other, made from ids that rank 0 hands on through the first; then all is as before.
pub fn many(id: ncclUniqueId, n: usize, ranks: &[usize], times: usize) {
    let first = World::part(id, n, ranks).expect("init");
    let mut counts = (0, 0);
    for time in 0..times {
        let ids: Vec<Buffer> =
            (0..n).map(|r| Buffer::of(&if r == 0 { unique_id().internal } else { [0; 128] })).collect();
        first.run(|r, c, s| nccl!(ncclBcast(ids[r].at(0), 128, ncclDataType_t::Int8, 0, c, s)));
        let id = ncclUniqueId { internal: ids[ranks[0]].get().try_into().unwrap() };
        let world = World::part(id, n, ranks).expect("init");
        let data: Vec<Buffer> = (0..n).map(|r| Buffer::of(&[r as i32])).collect();
        world.run(|r, c, s| nccl!(ncclAllReduce(data[r].at(0), data[r].at(0), 1, I32, SUM, c, s)));
        assert_eq!(data[ranks[0]].get::<i32>(), [(n * (n - 1) / 2) as i32]);
        if time % 2 == 0 {
            world.destroy();
        } else {
            ranks.iter().for_each(|r| assert_eq!(nccl!(ncclCommAbort(world.comms[*r])), OK));
        }
        if time == 0 {
            counts = (descriptors(), threads());
        }
    }
    assert_eq!(threads(), counts.1);
    assert!(descriptors() <= counts.0, "{} descriptors, {} before", descriptors(), counts.0);
    first.destroy();
    // Links are closed with the last communicator: the listener and the waker of its thread remain, and nothing from others.
    poll_until(|| sockets() <= 1);
    assert_eq!(sockets(), 1, "only the listener is left");
}

#[test]
fn fifty_communicators_leave_nothing_behind() {
    run("many", &[&[0, 3], &[1], &[2]], "times=50");
}

pub fn speed(id: ncclUniqueId, n: usize, ranks: &[usize]) {
    measure(&World::part(id, n, ranks).expect("init"), ranks[0] == 0, "processes");
}

fn measure(world: &World, says: bool, what: &str) {
    let n = world.n();
    let count = 4 << 20;
    let data: Vec<Buffer> = (0..n).map(|_| Buffer::of(&vec![1i32; count])).collect();
    let max = ncclRedOp_t::Max;
    for (count, times) in [(1usize, 2000u32), (4 << 20, 10)] {
        let start = Instant::now();
        for _ in 0..times {
            world.run(|r, c, s| nccl!(ncclAllReduce(data[r].at(0), data[r].at(0), count, I32, max, c, s)));
        }
        if says {
            let each = start.elapsed() / times;
            eprintln!("{what}: all_reduce of {} bytes on {n} ranks: {each:?}", 4 * count);
        }
    }
}

#[test]
#[ignore = "a measurement: run it in a release build with --ignored --nocapture"]
fn how_fast() {
    for n in [2, 4] {
        measure(&World::new(n), true, "threads");
        let ranks: Vec<[usize; 1]> = (0..n).map(|r| [r]).collect();
        run("speed", &ranks.iter().map(|r| &r[..]).collect::<Vec<_>>(), "");
    }
}
