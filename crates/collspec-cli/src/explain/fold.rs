//! What is left out of large worlds and large buffers.

/// The number of ranks up to which all are shown, and of the first ones of more.
const ALL_RANKS: usize = 8;
const FIRST_RANKS: usize = 3;
/// The number of elements up to which all are shown, and the most of a longer buffer.
const ALL_ELEMENTS: u64 = 12;
const MOST_ELEMENTS: usize = 10;

/// The ranks that are shown of these: all, or the first ones, the last, and `also`.
pub fn shown_ranks(ranks: &[usize], also: Option<usize>) -> Vec<usize> {
    let last = ranks.len().saturating_sub(1);
    let is_shown = |(at, rank): &(usize, &usize)| {
        ranks.len() <= ALL_RANKS || *at < FIRST_RANKS || *at == last || also == Some(**rank)
    };
    ranks.iter().enumerate().filter(is_shown).map(|(_, rank)| *rank).collect()
}

/// The elements that are shown of a buffer, in ascending order: all, or two from each of these points on, and the first and the last.
pub fn shown_elements(len: u64, points: impl Iterator<Item = u64>) -> Vec<u64> {
    if len <= ALL_ELEMENTS {
        return (0..len).collect();
    }
    let mut points: Vec<u64> = points.chain([0]).filter(|point| *point < len).collect();
    points.sort_unstable();
    points.dedup();
    let mut shown: Vec<u64> = points.into_iter().flat_map(|point| [point, point + 1]).collect();
    shown.dedup();
    shown.retain(|element| *element < len - 1);
    shown.truncate(MOST_ELEMENTS - 1);
    shown.push(len - 1);
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_worlds_keep_the_first_the_root_and_the_last() {
        let ranks: Vec<usize> = (0..1024).collect();
        assert_eq!(shown_ranks(&ranks, Some(70)), [0, 1, 2, 70, 1023]);
        assert_eq!(shown_ranks(&ranks[..8], None), ranks[..8]);
    }

    #[test]
    fn large_buffers_keep_the_beginnings_of_their_blocks() {
        assert_eq!(shown_elements(1_000_000, [500_000].into_iter()), [0, 1, 500_000, 500_001, 999_999]);
        assert_eq!(shown_elements(3, [].into_iter()), [0, 1, 2]);
        let shown = shown_elements(1 << 40, (0..1 << 20).map(|block| block << 20));
        assert_eq!((shown.len(), shown.last()), (MOST_ELEMENTS, Some(&((1 << 40) - 1))));
    }
}
