//! Indices of wrong elements, as ranges, so that a whole buffer of wrong elements takes no more memory than one element.
use super::pattern::SAMPLES;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;

/// Limit on the ranges stored for large memory.
pub(crate) const MAX_WRONG_RANGES: usize = 65_536;

/// A set of ascending indices. All are counted; beyond the limit of ranges only some are stored, evenly spread.
#[derive(Clone, Debug)]
pub(crate) struct Indices {
    /// Limit on the stored ranges, besides the last one.
    limit: usize,
    /// The ranges before the last one, which neither touch nor overlap; only up to the limit.
    ranges: Vec<Range<u64>>,
    /// The last range; empty if there are no indices.
    last: Range<u64>,
    first: u64,
    count: u64,
    /// The distance between neighbours, if there are two or more and it is the same for all.
    stride: Option<u64>,
    /// Hash of all ranges before the last one.
    hasher: DefaultHasher,
    /// A sample of all indices, once not all ranges are stored.
    spread: Option<Spread>,
}

impl Indices {
    /// An empty set that stores at most this many ranges.
    pub fn with_limit(limit: usize) -> Self {
        Self {
            limit,
            ranges: Vec::new(),
            last: 0..0,
            first: 0,
            count: 0,
            stride: None,
            hasher: DefaultHasher::new(),
            spread: None,
        }
    }

    /// Adds a range that begins in the last one or after it.
    pub fn add(&mut self, range: Range<u64>) {
        let range = if self.count > 0 { range.start.max(self.last.end)..range.end } else { range };
        if range.is_empty() {
            return;
        }
        let added = range.end - range.start;
        let inside = if added > 1 { Some(1) } else { None };
        self.stride = match self.count {
            0 => inside,
            before => {
                let gap = range.start - (self.last.end - 1);
                let is_regular = (before == 1 || self.stride == Some(gap)) && inside.is_none_or(|one| one == gap);
                is_regular.then_some(gap)
            }
        };
        if let Some(spread) = &mut self.spread {
            spread.add(range.clone());
        }
        if self.count == 0 {
            self.first = range.start;
            self.last = range;
        } else if self.last.end == range.start {
            self.last.end = range.end;
        } else {
            self.last.hash(&mut self.hasher);
            let before = std::mem::replace(&mut self.last, range);
            if self.ranges.len() < self.limit {
                self.ranges.push(before);
            } else if self.spread.is_none() {
                let mut spread = Spread::default();
                self.ranges.iter().chain([&before, &self.last]).for_each(|range| spread.add(range.clone()));
                self.spread = Some(spread);
            }
        }
        self.count += added;
    }

    /// Number of indices in all ranges.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The lowest index.
    pub fn first(&self) -> Option<u64> {
        (self.count > 0).then_some(self.first)
    }

    /// The highest index.
    pub fn last(&self) -> Option<u64> {
        (self.count > 0).then(|| self.last.end - 1)
    }

    /// The distance between neighbours, if there are two or more and it is the same for all.
    pub fn stride(&self) -> Option<u64> {
        self.stride
    }

    /// The indices that are stored in ranges: all of them, unless the limit was passed.
    pub fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        self.ranges.iter().chain([&self.last]).cloned().flatten()
    }

    /// Some of the indices, evenly spread.
    pub fn samples(&self) -> Vec<u64> {
        match &self.spread {
            Some(spread) => spread.kept.clone(),
            None => self.iter().step_by((self.count as usize).div_ceil(SAMPLES).max(1)).collect(),
        }
    }

    /// A hash of all indices.
    pub fn digest(&self) -> u64 {
        let mut hasher = self.hasher.clone();
        self.last.hash(&mut hasher);
        hasher.finish()
    }
}

/// Keeps every index, without a limit on the ranges.
impl FromIterator<u64> for Indices {
    fn from_iter<I: IntoIterator<Item = u64>>(all: I) -> Self {
        let mut indices = Self::with_limit(usize::MAX);
        all.into_iter().for_each(|index| indices.add(index..index + 1));
        indices
    }
}

/// Every `step`-th of the indices that were added; the step grows with their number.
#[derive(Clone, Debug)]
struct Spread {
    step: u64,
    seen: u64,
    kept: Vec<u64>,
}

impl Default for Spread {
    fn default() -> Self {
        Self { step: 1, seen: 0, kept: Vec::new() }
    }
}

impl Spread {
    fn add(&mut self, range: Range<u64>) {
        let len = range.end - range.start;
        let mut next = self.seen.next_multiple_of(self.step);
        while next < self.seen + len {
            self.kept.push(range.start + (next - self.seen));
            if self.kept.len() > SAMPLES {
                let mut place = 0;
                self.kept.retain(|_| {
                    place += 1;
                    place % 2 == 1
                });
                self.step *= 2;
            }
            next = (next + 1).next_multiple_of(self.step);
        }
        self.seen += len;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_say_the_same_as_a_list() {
        let lists: [&[u64]; 8] =
            [&[], &[7], &[3, 4, 5], &[0, 2, 4, 6], &[1, 4, 7, 8], &[2, 3, 5, 7], &[9, 19, 29], &[5, 6, 8, 9]];
        for list in lists {
            let indices: Indices = list.iter().copied().collect();
            assert_eq!(indices.iter().collect::<Vec<_>>(), list);
            assert_eq!(indices.samples(), list);
            assert_eq!((indices.first(), indices.last()), (list.first().copied(), list.last().copied()));
            let gaps: Vec<u64> = list.windows(2).map(|pair| pair[1] - pair[0]).collect();
            let regular = gaps.first().copied().filter(|gap| gaps.iter().all(|other| other == gap));
            assert_eq!((indices.count(), indices.stride()), (list.len() as u64, regular), "{list:?}");
        }
    }

    #[test]
    fn ranges_that_touch_or_overlap_are_one() {
        let mut indices = Indices::with_limit(10);
        [0..3, 2..4, 4..5, 3..4, 8..9].into_iter().for_each(|range| indices.add(range));
        let same: Indices = [0, 1, 2, 3, 4, 8].into_iter().collect();
        assert_eq!((indices.iter().collect::<Vec<_>>(), indices.digest()), (same.iter().collect(), same.digest()));
        let other: Indices = [0, 1, 2, 3, 4, 9].into_iter().collect();
        assert_ne!(other.digest(), same.digest());
    }

    #[test]
    fn beyond_the_limit_indices_are_counted_and_sampled_to_the_end() {
        let (mut few, all) = (Indices::with_limit(4), (0..100_000).map(|i| 3 * i).collect::<Indices>());
        all.iter().for_each(|index| few.add(index..index + 1));
        assert_eq!((few.count(), few.first(), few.last()), (all.count(), all.first(), all.last()));
        assert_eq!((few.stride(), few.digest()), (Some(3), all.digest()));
        assert!(few.ranges.len() <= 4);
        let samples = few.samples();
        assert!((SAMPLES / 2..=SAMPLES).contains(&samples.len()), "{}", samples.len());
        assert!(samples.iter().all(|index| index.is_multiple_of(3)) && samples[samples.len() - 1] > 290_000);
    }
}
