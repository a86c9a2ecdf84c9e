//! NCCL_ALGO that serves only some operations: the others are invalid usage, and no part of their group happens.
// Ranks are numbers here, as in C.
#![allow(clippy::needless_range_loop)]
mod common;
use common::*;
use nccl_sys::*;
use soft_nccl::{Algorithms, Settings};

#[test]
fn an_algorithm_that_does_not_serve_is_invalid_usage() {
    soft_nccl::set_settings_for_process(Settings { algorithms: Algorithms::parse("Tree"), ..Settings::default() })
        .expect("first use");
    let world = World::new(2);
    let data: Vec<Buffer> = (0..2).map(|r| Buffer::of(&[r + 1, 0])).collect();
    let (i32t, sum) = (ncclDataType_t::Int32, ncclRedOp_t::Sum);
    let gathered = world.group(|r, c, s| {
        nccl!(ncclAllReduce(data[r].at(0), data[r].at(0), 1, i32t, sum, c, s));
        nccl!(ncclAllGather(data[r].at(4 * r), data[r].at(0), 1, i32t, c, s))
    });
    assert_eq!(gathered, ncclResult_t::InvalidUsage);
    assert!(last_error().contains("all_gather"), "{}", last_error());
    world.synchronize();
    assert_eq!(data[0].get::<i32>(), [1, 0], "the all_reduce of the same group did not happen either");
    world.run(|r, c, s| nccl!(ncclAllReduce(data[r].at(0), data[r].at(0), 1, i32t, sum, c, s)));
    assert_eq!(data[1].get::<i32>(), [3, 0]);
    // What goes straight from rank to rank has no algorithm to refuse; neither has a single rank.
    world.run(|r, c, s| nccl!(ncclScatter(data[r].at(0), data[r].at(0), 1, i32t, 0, c, s)));
    world.destroy();
    let one = World::new(1);
    one.run(|_, c, s| nccl!(ncclAllGather(data[0].at(0), data[1].at(0), 1, i32t, c, s)));
    one.destroy();
}
