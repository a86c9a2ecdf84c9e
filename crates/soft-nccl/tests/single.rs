//! NCCL_ALGO=SingleTree: one binary tree, and operations it does not serve.
// Ranks are numbers here, as in C.
#![allow(clippy::needless_range_loop)]
mod common;
use common::*;
use nccl_sys::*;
use soft_nccl::{Algorithms, Settings};

fn settings(text: &str) {
    // Later tests of this program find them set.
    let _ = soft_nccl::set_settings_for_process(Settings {
        algorithms: Algorithms::parse(text),
        buffer_bytes: 100,
        ..Settings::default()
    });
}

const VALUE: &str = "SingleTree;allgather:Ring;reducescatter:Ring";

#[test]
fn every_operation() {
    settings(VALUE);
    suite::every_operation(1..=8, &[3, 40], &[0, 7]);
}

#[test]
fn rooted_operations_are_short() {
    settings(VALUE);
    let n = 64usize;
    let world = World::new(n);
    let data: Vec<Buffer> = (0..n).map(|r| Buffer::of(&[r as i64])).collect();
    world.mark(1);
    world.run(|r, c, s| nccl!(ncclBroadcast(data[r].at(0), data[r].at(0), 1, ncclDataType_t::Int64, 5, c, s)));
    for (t, d) in world.traffic(1).iter().zip(&data) {
        assert_eq!(d.get::<i64>(), [5]);
        assert!(t.rounds <= 6 && t.sent <= 2, "{t:?}");
        assert_eq!(t.inner, u64::from(t.sent > 0));
    }
    world.destroy();
}
