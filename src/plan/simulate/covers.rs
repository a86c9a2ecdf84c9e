//! Ranges of bytes, and whether one of them holds another range.
use std::collections::BTreeMap;
use std::ops::Range;

/// The ranges that no other one holds, start to end: their ends rise with their starts.
#[derive(Default)]
pub(super) struct Covers(BTreeMap<u64, u64>);

impl Covers {
    /// Adds a range; false if one of those before holds it.
    pub(super) fn add(&mut self, range: &Range<u64>) -> bool {
        if self.0.range(..=range.start).next_back().is_some_and(|(_, end)| range.end <= *end) {
            return false;
        }
        while let Some((start, end)) = self.0.range(range.start..).next().map(|(start, end)| (*start, *end))
            && end <= range.end
        {
            self.0.remove(&start);
        }
        self.0.insert(range.start, range.end);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_range_is_held_by_one_of_those_before(ranges in prop::collection::vec((0u64..30, 1u64..12), 0..40)) {
            let mut covers = Covers::default();
            let mut before: Vec<Range<u64>> = Vec::new();
            for (start, len) in ranges {
                let range = start..start + len;
                let held = before.iter().any(|other| other.start <= range.start && range.end <= other.end);
                prop_assert_eq!(covers.add(&range), !held);
                before.push(range);
                // None of those that are kept holds another one.
                let kept: Vec<(&u64, &u64)> = covers.0.iter().collect();
                prop_assert!(kept.windows(2).all(|pair| pair[0].1 < pair[1].1));
            }
        }
    }
}
