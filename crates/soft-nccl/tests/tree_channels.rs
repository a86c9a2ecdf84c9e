//! NCCL_MIN_NCHANNELS for trees: the first half of the channels uses the first tree.
mod common;
use common::*;
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
}
