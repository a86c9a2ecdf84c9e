//! Results that cannot be copied, because the launch that makes them overwrites them.
use super::super::types::{AllocId, Plan};
use crate::job::CallKind;
use std::collections::{BTreeMap, HashMap, HashSet};

/// Byte ranges that do not overlap, by start.
#[derive(Default)]
struct Ranges(BTreeMap<u64, u64>);

impl Ranges {
    fn overlaps(&self, start: u64, end: u64) -> bool {
        self.0.range(..end).next_back().is_some_and(|(_, other)| *other > start)
    }

    fn add(&mut self, mut start: u64, mut end: u64) {
        while let Some((from, to)) = self.0.range(..=end).next_back().map(|(from, to)| (*from, *to)) {
            if to < start {
                break;
            }
            self.0.remove(&from);
            (start, end) = (start.min(from), end.max(to));
        }
        self.0.insert(start, end);
    }
}

impl Plan {
    /// The writes, by event and number in it, whose results are overwritten before the launch that makes them ends.
    pub fn overwritten_in_their_launch(&self) -> HashSet<(usize, usize)> {
        let mut lost = HashSet::new();
        if !self.programs.iter().flatten().any(|call| matches!(call.kind, CallKind::Launch { .. })) {
            return lost;
        }
        let mut later: HashMap<(usize, u32, AllocId), Ranges> = HashMap::new();
        for (number, event) in self.events.iter().enumerate().rev() {
            let mut own = Vec::new();
            for (at, write) in event.writes().into_iter().enumerate() {
                let Some(write) = write else { continue };
                let (rank, region) = (write.region.rank, write.region);
                let launch = self.programs.get(rank).and_then(|program| Self::launch_of(program, write.after));
                let buffer = self.buffers.get(region.buf);
                let place =
                    buffer.and_then(|buffer| Some((buffer.places.get(rank).copied()??, buffer.dtype.size() as u64)));
                let (Some((launch, _)), Some((place, size))) = (launch, place) else { continue };
                let start = place.offset + region.start * size;
                let end = start + region.len * size;
                if start == end {
                    continue;
                }
                let key = (rank, launch, place.alloc);
                if later.get(&key).is_some_and(|ranges| ranges.overlaps(start, end)) {
                    lost.insert((number, at));
                }
                own.push((key, start, end));
            }
            for (key, start, end) in own {
                later.entry(key).or_default().add(start, end);
            }
        }
        lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn ranges_are_those_of_a_list_of_bytes(added in prop::collection::vec((0u64..40, 1u64..9), 0..20), asked in prop::collection::vec((0u64..50, 1u64..9), 1..20)) {
            let mut ranges = Ranges::default();
            let mut bytes = HashSet::new();
            for (start, len) in added {
                ranges.add(start, start + len);
                bytes.extend(start..start + len);
            }
            for (start, len) in asked {
                prop_assert_eq!(ranges.overlaps(start, start + len), (start..start + len).any(|byte| bytes.contains(&byte)));
            }
        }
    }
}
