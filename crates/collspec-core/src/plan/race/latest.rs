//! The latest use of every byte of an allocation by one stream, as ranges between the ends of all its uses.

/// Numbers of uses by range of bytes. Uses are recorded in ascending order, so the latest one has the largest number.
#[derive(Debug, Default)]
pub(super) struct Latest {
    /// Ends of all ranges that will be recorded, sorted; range `i` lies between end `i` and the next.
    ends: Vec<u64>,
    /// Number of leaves of a binary tree over the ranges, a power of two. Node 1 is the root, node `i` has the children
    /// `2 * i` and `2 * i + 1`.
    leaves: usize,
    /// For each node: the latest use that covers all of it.
    whole: Vec<u32>,
    /// For each node: the latest use of any part of it.
    part: Vec<u32>,
}

impl Latest {
    /// Announces a range that will be recorded.
    pub(super) fn announce(&mut self, start: u64, end: u64) {
        self.ends.extend([start, end]);
    }

    /// Prepares for recording; to be called between the last announcement and the first record.
    pub(super) fn prepare(&mut self) {
        self.ends.sort_unstable();
        self.ends.dedup();
        self.leaves = self.ends.len().saturating_sub(1).next_power_of_two();
        self.whole = vec![0; 2 * self.leaves];
        self.part = vec![0; 2 * self.leaves];
    }

    /// Records a use of an announced range; its number is larger than all before.
    pub(super) fn record(&mut self, start: u64, end: u64, number: u32) {
        let (from, to) = (self.ends.partition_point(|e| *e < start), self.ends.partition_point(|e| *e < end));
        let (mut left, mut right) = (from + self.leaves, to + self.leaves);
        while left < right {
            if left % 2 == 1 {
                self.cover(left, number);
                left += 1;
            }
            if right % 2 == 1 {
                right -= 1;
                self.cover(right, number);
            }
            left /= 2;
            right /= 2;
        }
    }

    fn cover(&mut self, node: usize, number: u32) {
        self.whole[node] = number;
        let mut above = node;
        while above > 0 {
            self.part[above] = number;
            above /= 2;
        }
    }

    /// The latest use of any byte of the range, 0 if there was none.
    pub(super) fn of(&self, start: u64, end: u64) -> u32 {
        // A range that is only partly covered counts too: every use that covers a range covers all of it.
        let from = self.ends.partition_point(|e| *e <= start).saturating_sub(1);
        let to = self.ends.partition_point(|e| *e < end).min(self.ends.len().saturating_sub(1));
        if from >= to {
            return 0;
        }
        let (mut left, mut right) = (from + self.leaves, to + self.leaves);
        let mut latest = self.above(left).max(self.above(right - 1));
        while left < right {
            if left % 2 == 1 {
                latest = latest.max(self.part[left]);
                left += 1;
            }
            if right % 2 == 1 {
                right -= 1;
                latest = latest.max(self.part[right]);
            }
            left /= 2;
            right /= 2;
        }
        latest
    }

    /// The latest use that covers a node above this leaf.
    fn above(&self, leaf: usize) -> u32 {
        let (mut latest, mut node) = (0, leaf / 2);
        while node > 0 {
            latest = latest.max(self.whole[node]);
            node /= 2;
        }
        latest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_latest_use_is_that_of_a_list_of_all(
            uses in prop::collection::vec((0u64..40, 1u64..12), 0..30),
            asked in prop::collection::vec((0u64..45, 1u64..20), 1..20),
        ) {
            let mut latest = Latest::default();
            uses.iter().for_each(|(start, len)| latest.announce(*start, start + len));
            latest.prepare();
            let mut list: Vec<(u64, u64, u32)> = Vec::new();
            let check = |latest: &Latest, list: &[(u64, u64, u32)]| {
                for (start, len) in &asked {
                    let overlapping = list.iter().filter(|(s, e, _)| *s < start + len && *start < *e);
                    let expected = overlapping.map(|(_, _, number)| *number).max().unwrap_or(0);
                    prop_assert_eq!(latest.of(*start, start + len), expected);
                }
                Ok(())
            };
            check(&latest, &list)?;
            for (number, (start, len)) in (1..).zip(&uses) {
                latest.record(*start, start + len, number);
                list.push((*start, start + len, number));
                check(&latest, &list)?;
            }
        }
    }
}
