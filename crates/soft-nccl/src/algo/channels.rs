//! Channels: contiguous shares of an operation's data that travel in parallel, cut as NCCL cuts them.
//!
//! The rules are those of NCCL from 2.29 on: data is dealt out in cells of at least 32 KiB of traffic per channel (16 KiB before), so
//! a small operation uses fewer channels than there are.
use crate::op::Kind;

/// Bytes that a channel moves at least, over all ranks' links.
const MIN_TRAFFIC: usize = 32 << 10;
/// Cells and a ring's chunks are multiples of this many bytes.
pub(super) const GRAIN_BYTES: usize = 16;

/// The elements of one channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Share {
    pub start: usize,
    pub len: usize,
}

impl Share {
    /// All elements, for an operation on a single channel.
    pub(super) fn whole(count: usize) -> Self {
        Self { start: 0, len: count }
    }
}

/// The facts that determine how an operation is divided among channels.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    pub kind: Kind,
    /// Elements of a rank, as the call counts them.
    pub count: usize,
    /// Bytes of an element.
    pub size: usize,
    /// Number of ranks.
    pub n: usize,
}

impl Load {
    /// Number of times a byte of the count travels.
    fn traffic_per_byte(&self) -> usize {
        match self.kind {
            Kind::AllReduce => 2,
            Kind::AllGather | Kind::ReduceScatter => self.n,
            _ => 1,
        }
    }

    /// The shares of at most `channels` channels, in the order of the data. None is empty.
    pub(super) fn shares(&self, channels: usize) -> Vec<Share> {
        if channels <= 1 || self.count == 0 {
            return vec![Share::whole(self.count)];
        }
        let per_byte = self.traffic_per_byte();
        let bytes = self.count.saturating_mul(self.size);
        let cell = MIN_TRAFFIC.div_ceil(per_byte).next_multiple_of(GRAIN_BYTES);
        let cells = bytes.div_ceil(cell);
        let per_channel = (bytes.saturating_mul(per_byte) / channels).max(MIN_TRAFFIC);
        let most = per_channel.div_ceil(cell * per_byte).min(cells);
        let lens = deal(cells, most, channels);
        let elements = cell / self.size.max(1);
        let mut start = 0;
        let shares = lens.into_iter().map(|cells| {
            let len = cells.saturating_mul(elements).min(self.count - start);
            start += len;
            Share { start: start - len, len }
        });
        shares.collect()
    }
}

/// Cells by channel: `most` on each but the last. If that would need more channels than there are, all but the first
/// share the rest equally, and the last takes the remainder.
fn deal(cells: usize, most: usize, channels: usize) -> Vec<usize> {
    let rest = cells - most;
    let needed = 1 + rest.div_ceil(most);
    if needed <= channels {
        let mut lens = vec![most; 1 + rest / most];
        lens.extend(Some(rest % most).filter(|left| *left > 0));
        return lens;
    }
    let others = channels - 1;
    let each = rest / others;
    let mut lens = vec![most];
    lens.extend(std::iter::repeat_n(each, others - 1));
    lens.push(each + rest % others);
    lens
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lens(kind: Kind, count: usize, n: usize, channels: usize) -> Vec<usize> {
        let load = Load { kind, count, size: 4, n };
        let shares = load.shares(channels);
        let mut end = 0;
        for share in &shares {
            assert_eq!(share.start, end);
            end += share.len;
        }
        assert_eq!(end, count);
        shares.into_iter().map(|share| share.len).collect()
    }

    #[test]
    fn a_mebibyte_on_two_channels_is_cut_in_halves() {
        assert_eq!(lens(Kind::AllReduce, 1 << 18, 4, 2), [1 << 17, 1 << 17]);
    }

    #[test]
    fn small_operations_use_fewer_channels() {
        // 16 KiB of an all_reduce are 32 KiB of traffic: one cell.
        assert_eq!(lens(Kind::AllReduce, 4096, 4, 8), [4096]);
        assert_eq!(lens(Kind::AllReduce, 4097, 4, 8), [4096, 1]);
        assert_eq!(lens(Kind::Broadcast, 4096, 4, 8), [4096]);
        // Each rank's block travels to all four.
        assert_eq!(lens(Kind::AllGather, 4096, 4, 8), [2048, 2048]);
    }

    #[test]
    fn uneven_cells_go_to_the_first_and_the_last_channels() {
        // Five cells of 4,096 elements on three channels, and on two.
        assert_eq!(lens(Kind::AllReduce, 5 * 4096, 4, 3), [2 * 4096, 2 * 4096, 4096]);
        assert_eq!(lens(Kind::AllReduce, 5 * 4096, 4, 2), [3 * 4096, 2 * 4096]);
        assert_eq!(lens(Kind::AllReduce, 5 * 4096 - 7, 4, 2), [3 * 4096, 2 * 4096 - 7]);
    }

    #[test]
    fn every_element_has_one_channel() {
        for kind in [Kind::AllReduce, Kind::AllGather, Kind::ReduceScatter, Kind::Reduce, Kind::Broadcast] {
            for channels in 1..=9 {
                for count in [1, 7, 1023, 4096, 8191, 8193, 40_000, 1_000_003] {
                    let lens = lens(kind, count, 5, channels);
                    assert!(
                        lens.len() <= channels && lens.iter().all(|len| *len > 0),
                        "{kind:?} {count} {channels}: {lens:?}"
                    );
                }
            }
        }
    }
}
