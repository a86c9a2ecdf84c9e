//! All values that a model may give: dynamic programming over subsets of ranks. S(A) holds the possible partial results of
//! the ranks in A: all joins of S(B) with S(A without B), duplicates removed. Each has a flag that is true if a chain yields
//! it, which is an order in which one side of every join is a single rank.
use super::families::Shape;
use super::reduction_models::{Fusion, Leaf, ReductionModel};

/// A partial result; `chain` if a chain yields it (a tree always does).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct PartialResult {
    pub value: f64,
    pub chain: bool,
}

impl PartialResult {
    pub fn shape(&self) -> Shape {
        if self.chain { Shape::Chain } else { Shape::Tree }
    }
}

/// The reason why a search ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SearchStop {
    /// The budget is used up.
    Budget,
    /// A set outgrew [`MAX_SET`].
    TooMany,
}

/// Largest size of a set.
pub(super) const MAX_SET: usize = 4096;
const SLOTS: usize = 4 * MAX_SET;

/// The memory of searches, which each search uses again.
#[derive(Debug, Default)]
pub(super) struct Search {
    sets: Vec<Vec<PartialResult>>,
    seen: SeenValues,
}

impl Search {
    /// The possible last partial results of these leaves; subtracts its cost from `joins`.
    ///
    /// # Errors
    ///
    /// The budget is used up, or a set outgrew its limit.
    pub fn run(
        &mut self,
        model: &ReductionModel,
        leaves: &[Leaf],
        joins: &mut u64,
    ) -> Result<&[PartialResult], SearchStop> {
        let full = self.set_of_all(leaves);
        if let Some(value) = model.order_independent_sum(leaves) {
            *joins = joins.checked_sub(leaves.len() as u64).ok_or(SearchStop::Budget)?;
            self.sets[full].clear();
            self.sets[full].push(PartialResult { value, chain: true });
            return Ok(&self.sets[full]);
        }
        for ranks in 1..=full {
            let mut found = std::mem::take(&mut self.sets[ranks]);
            found.clear();
            self.seen.clear();
            let done = self.fill(model, leaves, ranks, &mut found, joins);
            self.sets[ranks] = found;
            done?;
        }
        Ok(&self.sets[full])
    }

    /// The number of the set that holds the results of all leaves; there is one for each group of leaves.
    fn set_of_all(&mut self, leaves: &[Leaf]) -> usize {
        let full = (1usize << leaves.len()) - 1;
        if self.sets.len() <= full {
            self.sets.resize_with(full + 1, Vec::new);
        }
        full
    }

    fn fill(
        &mut self,
        model: &ReductionModel,
        leaves: &[Leaf],
        ranks: usize,
        members: &mut Vec<PartialResult>,
        joins: &mut u64,
    ) -> Result<(), SearchStop> {
        let sets = &self.sets;
        let mut found = ResultSet { members, seen: &mut self.seen, too_many: false };
        if let Some(leaf) = single_rank(ranks).and_then(|rank| leaves.get(rank)) {
            model.leaf_results(*leaf, |value| found.add(value, true));
            return Ok(());
        }
        // Joins commute, so the lowest rank is always on the left.
        let lowest = ranks & ranks.wrapping_neg();
        let rest = ranks ^ lowest;
        let mut more = rest;
        while more != 0 {
            more = (more - 1) & rest;
            let (left, right) = (lowest | more, rest ^ more);
            let (a, b) = (&sets[left], &sets[right]);
            let (one_left, one_right) = (single_rank(left), single_rank(right));
            *joins = joins.checked_sub((a.len() * b.len()) as u64).ok_or(SearchStop::Budget)?;
            if model.fuse != Fusion::Never {
                for (one, others) in [(one_left, b), (one_right, a)] {
                    let Some(leaf) = one.and_then(|rank| leaves.get(rank)) else { continue };
                    for other in others {
                        model.join_fused(*leaf, other.value, |value| found.add(value, other.chain));
                    }
                }
            }
            if model.fuse != Fusion::Always || (one_left.is_none() && one_right.is_none()) {
                for x in a {
                    for y in b {
                        let chain = (one_left.is_some() && y.chain) || (one_right.is_some() && x.chain);
                        model.join(x.value, y.value, |value| found.add(value, chain));
                    }
                }
            }
            if found.too_many {
                return Err(SearchStop::TooMany);
            }
        }
        Ok(())
    }
}

/// The only rank of a subset of one.
fn single_rank(ranks: usize) -> Option<usize> {
    ranks.is_power_of_two().then(|| ranks.trailing_zeros() as usize)
}

/// The set of partial results of a subset of ranks.
struct ResultSet<'a> {
    members: &'a mut Vec<PartialResult>,
    seen: &'a mut SeenValues,
    too_many: bool,
}

impl ResultSet<'_> {
    #[inline]
    fn add(&mut self, value: f64, chain: bool) {
        match self.seen.add(value.to_bits(), self.members.len()) {
            Seen::Before(index) => self.members[index].chain |= chain,
            Seen::New => self.members.push(PartialResult { value, chain }),
            Seen::Full => self.too_many = true,
        }
    }
}

/// The result of adding a value to a set.
enum Seen {
    /// It is the member with this index.
    Before(usize),
    /// It is the next member.
    New,
    /// The value is not a member, and the set already has [`MAX_SET`] members.
    Full,
}

/// A hash table of the values in a set, which is emptied by a new generation.
#[derive(Debug, Default)]
struct SeenValues {
    /// Empty before the first use.
    slots: Vec<SeenSlot>,
    generation: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct SeenSlot {
    key: u64,
    generation: u32,
    index: u32,
}

impl SeenValues {
    /// Removes all values.
    pub fn clear(&mut self) {
        self.generation = self.generation.wrapping_add(1);
        if self.generation == 0 || self.slots.is_empty() {
            self.slots.clear();
            self.slots.resize(SLOTS, SeenSlot::default());
            self.generation = 1;
        }
    }

    /// Adds a value to a set with this many members.
    #[inline]
    pub fn add(&mut self, key: u64, members: usize) -> Seen {
        let mut at = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize % SLOTS;
        loop {
            let slot = &mut self.slots[at];
            if slot.generation != self.generation {
                if members >= MAX_SET {
                    return Seen::Full;
                }
                *slot = SeenSlot { key, generation: self.generation, index: members as u32 };
                return Seen::New;
            }
            if slot.key == key {
                return Seen::Before(slot.index as usize);
            }
            at = (at + 1) % SLOTS;
        }
    }
}
