//! All values that a way of computing may give: dynamic programming over subsets of ranks. S(A) holds what the ranks of A
//! may have been joined to; S(A) = all joins of S(B) with S(A without B), duplicates removed. Each member remembers whether
//! a chain leads to it: then one side was a single rank in every join.
use super::families::Shape;
use super::ways::{Fuse, Leaf, ReductionModel};

/// A value, and whether a chain yields it (a tree always does).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Member {
    pub value: f64,
    pub chain: bool,
}

impl Member {
    pub fn shape(&self) -> Shape {
        if self.chain { Shape::Chain } else { Shape::Tree }
    }
}

/// Why a search ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SearchStop {
    /// The budget is used up.
    Budget,
    /// A set outgrew [`MAX_SET`].
    TooMany,
}

/// The most members a set may have.
const MAX_SET: usize = 4096;
const SLOTS: usize = 4 * MAX_SET;

/// The memory of searches, used again by each.
#[derive(Debug)]
pub(super) struct Search {
    sets: Vec<Vec<Member>>,
    seen: Seen,
}

impl Default for Search {
    fn default() -> Self {
        Self { sets: Vec::new(), seen: Seen { slots: vec![Slot::default(); SLOTS], generation: 0 } }
    }
}

impl Search {
    /// The possible last partial results of these leaves; takes what it costs off `joins`.
    pub fn run(&mut self, way: &ReductionModel, leaves: &[Leaf], joins: &mut u64) -> Result<&[Member], SearchStop> {
        let full = (1usize << leaves.len()) - 1;
        if self.sets.len() <= full {
            self.sets.resize_with(full + 1, Vec::new);
        }
        if let Some(value) = way.only_sum(leaves) {
            *joins = joins.checked_sub(leaves.len() as u64).ok_or(SearchStop::Budget)?;
            self.sets[full].clear();
            self.sets[full].push(Member { value, chain: true });
            return Ok(&self.sets[full]);
        }
        for ranks in 1..=full {
            let mut found = std::mem::take(&mut self.sets[ranks]);
            found.clear();
            self.seen.clear();
            let done = self.fill(way, leaves, ranks, &mut found, joins);
            self.sets[ranks] = found;
            done?;
        }
        Ok(&self.sets[full])
    }

    fn fill(
        &mut self,
        way: &ReductionModel,
        leaves: &[Leaf],
        ranks: usize,
        members: &mut Vec<Member>,
        joins: &mut u64,
    ) -> Result<(), SearchStop> {
        let sets = &self.sets;
        let mut found = Found { members, seen: &mut self.seen, too_many: false };
        if let Some(leaf) = single(ranks).and_then(|rank| leaves.get(rank)) {
            way.alone(*leaf, |value| found.add(value, true));
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
            let (one_left, one_right) = (single(left), single(right));
            *joins = joins.checked_sub((a.len() * b.len()) as u64).ok_or(SearchStop::Budget)?;
            if way.fuse != Fuse::Never {
                for (one, others) in [(one_left, b), (one_right, a)] {
                    let Some(leaf) = one.and_then(|rank| leaves.get(rank)) else { continue };
                    for other in others {
                        way.join_fused(*leaf, other.value, |value| found.add(value, other.chain));
                    }
                }
            }
            if way.fuse != Fuse::Always || (one_left.is_none() && one_right.is_none()) {
                for x in a {
                    for y in b {
                        let chain = (one_left.is_some() && y.chain) || (one_right.is_some() && x.chain);
                        way.join(x.value, y.value, |value| found.add(value, chain));
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
fn single(ranks: usize) -> Option<usize> {
    ranks.is_power_of_two().then(|| ranks.trailing_zeros() as usize)
}

/// A set in the making.
struct Found<'a> {
    members: &'a mut Vec<Member>,
    seen: &'a mut Seen,
    too_many: bool,
}

impl Found<'_> {
    #[inline]
    fn add(&mut self, value: f64, chain: bool) {
        let key = value.to_bits();
        let mut at = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize % SLOTS;
        loop {
            let slot = &mut self.seen.slots[at];
            if slot.generation != self.seen.generation {
                if self.members.len() >= MAX_SET {
                    self.too_many = true;
                    return;
                }
                *slot = Slot { key, generation: self.seen.generation, index: self.members.len() as u32 };
                return self.members.push(Member { value, chain });
            }
            if slot.key == key {
                if chain {
                    self.members[slot.index as usize].chain = true;
                }
                return;
            }
            at = (at + 1) % SLOTS;
        }
    }
}

/// A hash table that is emptied by counting up.
#[derive(Debug)]
struct Seen {
    slots: Vec<Slot>,
    generation: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    key: u64,
    generation: u32,
    index: u32,
}

impl Seen {
    fn clear(&mut self) {
        self.generation = self.generation.wrapping_add(1);
        if self.generation == 0 {
            self.slots.fill(Slot::default());
            self.generation = 1;
        }
    }
}
