//! NCCL_MIN_NCHANNELS: rings on several channels sum each channel's share by itself.
// Ranks are numbers here, as in C.
#![allow(clippy::needless_range_loop)]
mod common;
use common::*;
use nccl_sys::*;
use soft_nccl::Settings;

const CHANNELS: usize = 3;
/// Bytes of a chunk: an eighth of the buffer.
const CHUNK: usize = 2048;

fn settings() {
    // Later tests of this program find them set.
    let _ = soft_nccl::set_settings_for_process(Settings {
        min_channels: Some(CHANNELS),
        buffer_bytes: 8 * CHUNK,
        ..Settings::default()
    });
}

#[test]
fn every_operation() {
    settings();
    suite::every_operation(2..=4, &[1, 5000, 40_961], &[0, 7]);
}

/// Sizes at which a sum in f32 depends on the order of its parts.
fn value(r: usize, i: usize) -> f32 {
    ((r * 31 + i * 17) as f32).sin() * 10f32.powi((r % 4) as i32 * 2)
}

/// The sum of the parts of all ranks, beginning with `first` and going round.
fn around(first: usize, n: usize, i: usize) -> f32 {
    (1..n).fold(value(first, i), |sum, step| sum + value((first + step) % n, i))
}

#[test]
fn each_channel_sums_part_k_from_rank_k_plus_1_on() {
    settings();
    let (n, count) = (4usize, 5 * 4096 - 1001usize);
    let each = count.div_ceil(CHANNELS);
    let shares = [(0, each), (each, each), (2 * each, count - 2 * each)];
    let world = World::new(n);
    let data: Vec<Buffer> = (0..n).map(|r| Buffer::of(&(0..count).map(|i| value(r, i)).collect::<Vec<_>>())).collect();
    world.run(|r, comm, stream| {
        let (at, f32) = (data[r].at(0), ncclDataType_t::Float32);
        nccl!(ncclAllReduce(at, at, count, f32, ncclRedOp_t::Sum, comm, stream))
    });
    let mut expected = vec![0f32; count];
    for (start, len) in shares {
        // Passes of a chunk per rank.
        let chunk = CHUNK / 4;
        for pass in (0..len).step_by(n * chunk) {
            let left = (len - pass).min(n * chunk);
            let each = left.div_ceil(n);
            for i in 0..left {
                expected[start + pass + i] = around((i / each + 1) % n, n, start + pass + i);
            }
        }
    }
    for r in 0..n {
        let got = data[r].get::<f32>();
        let wrong = (0..count).find(|i| got[*i].to_bits() != expected[*i].to_bits());
        assert_eq!(wrong, None, "rank {r}: the first element that another order explains");
    }
    world.destroy();
}
