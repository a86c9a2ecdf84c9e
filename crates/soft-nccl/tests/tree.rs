//! NCCL_ALGO=Tree for all_reduce: the double binary tree, with a buffer so small that everything takes many chunks.
// Ranks are numbers here, as in C.
#![allow(clippy::needless_range_loop)]
mod common;
use common::*;
use nccl_sys::*;
use soft_nccl::{Algorithms, Settings};

fn settings() {
    // Later tests of this program find them set.
    let _ = soft_nccl::set_settings_for_process(Settings {
        algorithms: Algorithms::parse("Ring;allreduce:Tree"),
        buffer_bytes: 64,
        seed: Some(7),
        ..Settings::default()
    });
}

#[test]
fn every_operation() {
    settings();
    suite::every_operation(1..=8, &[1, 2, 31], &[1, 4, 6, 7, 8, 9, 10, 11]);
}

#[test]
fn each_tree_carries_half_and_no_rank_is_inner_twice() {
    settings();
    for n in [2usize, 3, 4, 7, 16, 33, 64] {
        let world = World::new(n);
        let count = 10;
        let data: Vec<Buffer> = (0..n).map(|r| Buffer::of(&vec![r as i32; count])).collect();
        world.mark(9);
        world.run(|r, c, s| {
            nccl!(ncclAllReduce(data[r].at(0), data[r].at(0), count, ncclDataType_t::Int32, ncclRedOp_t::Sum, c, s))
        });
        let traffic = world.traffic(9);
        for d in &data {
            assert_eq!(d.get::<i32>(), vec![(n * (n - 1) / 2) as i32; count]);
        }
        for t in &traffic {
            assert!(t.inner <= 1, "{t:?}");
            assert!(t.rounds <= 2 * u64::from(n.ilog2()), "{n}: {t:?}");
            assert!(t.rounds > 0);
            // A leaf sends its half once; an inner node sends up and to its children.
            let half = count as u64 / 2;
            assert!(t.sent >= half && t.sent <= 4 * half, "{t:?}");
        }
        let sent: u64 = traffic.iter().map(|t| t.sent).sum();
        assert_eq!(sent, 2 * (n as u64 - 1) * count as u64, "every edge of both trees carries its half up and down");
        world.destroy();
    }
}

#[test]
fn all_ranks_get_the_same_bits() {
    settings();
    let (n, count) = (7usize, 101usize);
    let world = World::new(n);
    let value = |r: usize, i: usize| ((r * 31 + i * 17) as f32).sin() * 10f32.powi((r % 3) as i32 * 3);
    let data: Vec<Buffer> = (0..n).map(|r| Buffer::of(&(0..count).map(|i| value(r, i)).collect::<Vec<_>>())).collect();
    world.run(|r, c, s| {
        nccl!(ncclAllReduce(data[r].at(0), data[r].at(0), count, ncclDataType_t::Float32, ncclRedOp_t::Sum, c, s))
    });
    for d in &data[1..] {
        assert_eq!(d.get::<u32>(), data[0].get::<u32>());
    }
    for (i, got) in data[0].get::<f32>().into_iter().enumerate() {
        let exact: f64 = (0..n).map(|r| f64::from(value(r, i))).sum();
        let magnitude: f64 = (0..n).map(|r| f64::from(value(r, i)).abs()).sum();
        let bound = n as f64 * f64::from(f32::EPSILON) / 2.0 * magnitude;
        assert!((f64::from(got) - exact).abs() <= bound, "{got} {exact}");
    }
    world.destroy();
}
