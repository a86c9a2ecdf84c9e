//! The lifetimes of one rank's registrations with one communicator, stored so that those which hold at a call are found without
//! walking over all that have ended.

/// Registrations in the order in which they begin.
#[derive(Debug)]
pub(super) struct Lifetimes {
    starts: Vec<usize>,
    /// A binary tree in which each node has the latest end below it. The root is entry 1, the children of entry `i` are `2 * i`
    /// and `2 * i + 1`, and the leaves are the second half. There is at least one more leaf than there are registrations.
    latest_ends: Vec<usize>,
}

impl Default for Lifetimes {
    fn default() -> Self {
        Self { starts: Vec::new(), latest_ends: vec![0; 2] }
    }
}

impl Lifetimes {
    fn leaves(&self) -> usize {
        self.latest_ends.len() / 2
    }

    /// Adds a registration that has not ended, and returns its index. It must not begin before any of those added earlier.
    pub(super) fn begin(&mut self, call: usize) -> usize {
        let index = self.starts.len();
        self.starts.push(call);
        if self.starts.len() == self.leaves() {
            self.double();
        }
        self.set_end(index, usize::MAX);
        index
    }

    fn double(&mut self) {
        let leaves = self.leaves();
        let mut tree = vec![0; 2 * leaves];
        tree.extend_from_slice(&self.latest_ends[leaves..]);
        tree.resize(4 * leaves, 0);
        self.latest_ends = tree;
        for node in (1..2 * leaves).rev() {
            self.update(node);
        }
    }

    fn update(&mut self, node: usize) {
        self.latest_ends[node] = self.latest_ends[2 * node].max(self.latest_ends[2 * node + 1]);
    }

    /// Sets the call at which a registration ends.
    pub(super) fn set_end(&mut self, index: usize, call: usize) {
        let mut node = self.leaves() + index;
        self.latest_ends[node] = call;
        while node > 1 {
            node /= 2;
            self.update(node);
        }
    }

    /// The indices of the registrations that begin before a call and do not end before it, the newest first.
    pub(super) fn holding_at(&self, call: usize) -> impl Iterator<Item = usize> {
        let mut bound = self.starts.partition_point(|start| *start < call);
        std::iter::from_fn(move || {
            bound = self.last_before(bound, call)?;
            Some(bound)
        })
    }

    /// The last of the first `bound` registrations that does not end before a call.
    fn last_before(&self, bound: usize, call: usize) -> Option<usize> {
        let leaves = self.leaves();
        let mut node = leaves + bound;
        while node > 1 {
            let left = node - 1;
            if node % 2 == 1 && self.latest_ends[left] >= call {
                let mut found = left;
                while found < leaves {
                    let right = 2 * found + 1;
                    found = if self.latest_ends[right] >= call { right } else { 2 * found };
                }
                return Some(found - leaves);
            }
            node /= 2;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn finds_what_a_walk_over_all_finds(
            spans in proptest::collection::vec((0_usize..4, proptest::option::of(0_usize..30)), 0..70),
            at in 1_usize..300,
        ) {
            let (mut lifetimes, mut all, mut now) = (Lifetimes::default(), Vec::new(), 0);
            for (later, length) in spans {
                now += later;
                let index = lifetimes.begin(now);
                let end = length.map_or(usize::MAX, |length| now + length);
                lifetimes.set_end(index, end);
                all.push((now, end));
            }
            let held = |(_, (start, end)): &(usize, &(usize, usize))| *start < at && at <= *end;
            let walked: Vec<usize> = all.iter().enumerate().rev().filter(held).map(|(index, _)| index).collect();
            prop_assert_eq!(lifetimes.holding_at(at).collect::<Vec<_>>(), walked);
        }
    }
}
