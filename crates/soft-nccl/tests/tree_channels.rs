//! NCCL_MIN_NCHANNELS for trees: the first half of the channels uses the first tree.
mod common;
use common::*;
use nccl_sys::*;
use soft_nccl::{Algorithms, Settings};

#[test]
fn every_operation_on_trees_of_three_channels() {
    // Set before anything else uses the library.
    let _ = soft_nccl::set_settings_for_process(Settings {
        algorithms: Algorithms::parse("Ring;allreduce:Tree"),
        min_channels: Some(3),
        buffer_bytes: 8 * 2048,
        ..Settings::default()
    });
    suite::every_operation(2..=5, &[1, 5000, 40_961], &[0, 7]);

    // A small operation fits one channel, and so one tree.
    let world = World::new(4);
    let data: Vec<Buffer> = (0..4).map(|_| Buffer::of(&[1i32; 10])).collect();
    world.mark(1);
    world.run(|r, c, s| {
        nccl!(ncclAllReduce(data[r].at(0), data[r].at(0), 10, ncclDataType_t::Int32, ncclRedOp_t::Sum, c, s))
    });
    assert!(data.iter().all(|buffer| buffer.get::<i32>() == [4; 10]));
    let sent: u64 = world.traffic(1).iter().map(|t| t.sent).sum();
    assert_eq!(sent, 2 * 3 * 10, "three edges carry all of it up and down");
    world.destroy();
}
