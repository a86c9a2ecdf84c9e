//! How long a requester waits.

use crate::layout::QpAttr;
use crate::settings::settings;
use std::time::Duration;

/// How long a requester tries without an answer: 4.096 µs * 2^timeout for each of its tries. None: for ever.
pub fn retry_time(attr: &QpAttr) -> Option<Duration> {
    let timeout = attr.timeout & 31;
    let tries = u32::from(attr.retry_cnt & 7) + 1;
    let by_attributes = (timeout != 0).then(|| Duration::from_nanos(4096 << timeout).saturating_mul(tries));
    settings().retry_time.or(by_attributes)
}

/// How long a requester waits for a receive, with the target's RNR timer. None: for ever.
pub fn receive_time(attr: &QpAttr, timer: u8) -> Option<Duration> {
    const FOR_EVER: u8 = 7;
    /// By the code of the timer, in hundredths of milliseconds.
    const TIMES: [u64; 32] = [
        65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072,
        4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
    ];
    let tries = attr.rnr_retry & 7;
    let pause = Duration::from_micros(TIMES.get(usize::from(timer & 31)).copied().unwrap_or(1) * 10);
    (tries != FOR_EVER).then(|| pause * u32::from(tries))
}
