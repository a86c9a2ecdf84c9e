//! Channels: contiguous shares of an operation's data that travel in parallel.

/// The elements of one channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Share {
    pub start: usize,
    pub len: usize,
}

/// Equal shares of all elements, in the order of the data: at most `channels`, and none is empty.
pub(super) fn shares(count: usize, channels: usize) -> Vec<Share> {
    let each = count.div_ceil(channels.max(1)).max(1);
    (0..count).step_by(each).map(|start| Share { start, len: each.min(count - start) }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_element_has_one_channel() {
        for channels in 1..=9 {
            for count in [1, 7, 1023, 4096, 8193, 1_000_003] {
                let shares = shares(count, channels);
                assert!(shares.len() <= channels && shares.iter().all(|share| share.len > 0), "{count} {channels}");
                let end = shares.iter().fold(0, |end, share| if share.start == end { end + share.len } else { 0 });
                assert_eq!(end, count, "{channels}");
            }
        }
        let lens: Vec<usize> = shares(10, 4).iter().map(|share| share.len).collect();
        assert_eq!(lens, [3, 3, 3, 1]);
    }
}
