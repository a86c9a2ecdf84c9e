//! The search of `search` for models whose partial results are values of f32, as those of most types are.
//!
//! The possible partial results of some ranks lie within a few last places of each other, so instead of being hashed they are
//! marked in a table of the values between the least and the greatest: both are known before any join, because rounding never
//! changes the order of two sums. Once every value of the table is marked, joins of two groups of ranks cannot add another.
//! After cancellation the values may lie too far apart; such a set is hashed.
use super::float::Float;
use super::reduction_models::{Leaf, ReductionModel};
use super::rows::{to_bf16, to_e4m3, to_e5m2, to_f16};
use super::search::{PartialResult, SearchStop, Seen, SeenValues, single_rank};

/// Most values between the least and the greatest of a set that is marked in the table.
const TABLE: usize = 2048;

/// A mark of a value.
const TREE: u8 = 1;
/// A mark of a value that a chain yields.
const CHAIN: u8 = 3;

/// The memory of searches, which each search uses again.
#[derive(Debug, Default)]
pub(super) struct NarrowSearch {
    /// By subset of ranks.
    sets: Vec<Set>,
    /// The ends of each of them.
    ends: Vec<Ends>,
    table: Vec<u8>,
    seen: SeenValues,
}

/// The possible partial results of some ranks, and their marks.
#[derive(Debug, Default)]
struct Set {
    values: Vec<f32>,
    marks: Vec<u8>,
}

/// What a set's size and range tell of the sets that it is joined to.
#[derive(Clone, Copy, Debug, Default)]
struct Ends {
    /// The least member, and the greatest with its sign turned, so that of both the less is the end.
    ends: [f32; 2],
    members: u32,
}

impl NarrowSearch {
    /// [`Search::run`](super::search::Search::run) with the same results and the same cost; `None` if a partial result is not
    /// finite.
    pub fn run(
        &mut self,
        model: &ReductionModel,
        leaves: &[Leaf],
        joins: &mut u64,
    ) -> Option<Result<impl Iterator<Item = PartialResult> + '_, SearchStop>> {
        let full = (1usize << leaves.len()) - 1;
        if self.sets.len() <= full {
            self.sets.resize_with(full + 1, Set::default);
            self.ends.resize(full + 1, Ends::default());
        }
        self.table.resize(TABLE, 0);
        let mut left = *joins;
        let filled = match model.acc {
            Float::F64 => return None,
            Float::F32 => self.fill_all::<0>(model, leaves, &mut left, |sum| sum),
            Float::F16 => self.fill_all::<13>(model, leaves, &mut left, to_f16),
            Float::Bf16 => self.fill_all::<16>(model, leaves, &mut left, to_bf16),
            Float::E4m3 => self.fill_all::<20>(model, leaves, &mut left, to_e4m3),
            Float::E5m2 => self.fill_all::<21>(model, leaves, &mut left, to_e5m2),
        }?;
        *joins = left;
        let Set { values, marks } = &self.sets[full];
        let result = |(value, mark): (&f32, &u8)| PartialResult { value: f64::from(*value), chain: *mark == CHAIN };
        Some(filled.map(|()| values.iter().zip(marks).map(result)))
    }

    /// Fills the sets of all subsets of ranks; `None` if a partial result is not finite. Of the bits of f32 as many as are
    /// `UNUSED` are zeros in all values of the type.
    fn fill_all<const UNUSED: u32>(
        &mut self,
        model: &ReductionModel,
        leaves: &[Leaf],
        joins: &mut u64,
        round: impl Fn(f32) -> f32,
    ) -> Option<Result<(), SearchStop>> {
        for ranks in 1..1usize << leaves.len() {
            let mut set = std::mem::take(&mut self.sets[ranks]);
            set.values.clear();
            set.marks.clear();
            let filled = match single_rank(ranks).and_then(|rank| leaves.get(rank)) {
                Some(leaf) => {
                    let mut value = f32::NAN;
                    model.leaf_results(*leaf, |result| value = result as f32);
                    set.add(value, CHAIN);
                    self.ends[ranks].ends = [value, -value];
                    value.is_finite().then_some(Ok(()))
                }
                None => self.fill::<UNUSED>(ranks, &mut set, joins, &round),
            };
            self.ends[ranks].members = set.values.len() as u32;
            self.sets[ranks] = set;
            match filled? {
                Ok(()) => {}
                Err(stop) => return Some(Err(stop)),
            }
        }
        Some(Ok(()))
    }

    fn fill<const UNUSED: u32>(
        &mut self,
        ranks: usize,
        set: &mut Set,
        joins: &mut u64,
        round: &impl Fn(f32) -> f32,
    ) -> Option<Result<(), SearchStop>> {
        let (mut ends, mut cost) = ([f32::INFINITY; 2], 0);
        for (left, right) in splits(ranks) {
            let (a, b) = (&self.ends[left], &self.ends[right]);
            for (end, sum) in ends.iter_mut().zip([a.ends[0] + b.ends[0], a.ends[1] + b.ends[1]]) {
                *end = if sum < *end { sum } else { *end };
            }
            cost += u64::from(a.members) * u64::from(b.members);
        }
        let ends = ends.map(round);
        self.ends[ranks].ends = ends;
        let [least, greatest] = [ends[0], -ends[1]];
        if !least.is_finite() || !greatest.is_finite() {
            return None;
        }
        // Either zero may be where the other one is the end.
        let first = key::<UNUSED>(least) - 1;
        let length = i64::from(key::<UNUSED>(greatest)) + 2 - i64::from(first);
        if length > TABLE as i64 {
            return Some(self.fill_hashed(ranks, set, joins, round));
        }
        match joins.checked_sub(cost) {
            Some(left) => *joins = left,
            None => return Some(Err(self.spend_all(ranks, joins))),
        }
        let table = &mut self.table[..length as usize];
        let place = |sum: f32| (key::<UNUSED>(round(sum)) - first) as usize;
        // A rank added to a chain is a chain.
        for one in bits(ranks) {
            let (Some(x), others) = (self.sets[one].values.first(), &self.sets[ranks ^ one]) else { continue };
            for (y, y_mark) in others.values.iter().zip(&others.marks) {
                if let Some(mark) = table.get_mut(place(x + y)) {
                    *mark |= y_mark;
                }
            }
        }
        // The places beside the ends are for zeros only, so without them all is marked.
        let mut unmarked = table.iter().filter(|mark| **mark == 0).count();
        let least_unmarked = if least == 0.0 || greatest == 0.0 { 0 } else { 2 };
        for (left, right) in splits(ranks).filter(|(left, right)| !is_single(*left) && !is_single(*right)) {
            if unmarked <= least_unmarked {
                break;
            }
            for x in &self.sets[left].values {
                for y in &self.sets[right].values {
                    if let Some(mark) = table.get_mut(place(x + y)) {
                        unmarked -= usize::from(*mark == 0);
                        *mark |= TREE;
                    }
                }
            }
        }
        for (place, mark) in table.iter_mut().enumerate().filter(|(_, mark)| **mark != 0) {
            set.add(value::<UNUSED>(first + place as i32), std::mem::take(mark));
        }
        Some(Ok(()))
    }

    /// Pays for the joins of these ranks until the budget does not suffice.
    fn spend_all(&self, ranks: usize, joins: &mut u64) -> SearchStop {
        for (left, right) in splits(ranks) {
            match joins.checked_sub(self.cost(left, right)) {
                Some(left) => *joins = left,
                None => break,
            }
        }
        SearchStop::Budget
    }

    fn cost(&self, left: usize, right: usize) -> u64 {
        u64::from(self.ends[left].members) * u64::from(self.ends[right].members)
    }

    fn fill_hashed(
        &mut self,
        ranks: usize,
        set: &mut Set,
        joins: &mut u64,
        round: &impl Fn(f32) -> f32,
    ) -> Result<(), SearchStop> {
        self.seen.clear();
        for (left, right) in splits(ranks) {
            *joins = joins.checked_sub(self.cost(left, right)).ok_or(SearchStop::Budget)?;
            let (a, b) = (&self.sets[left], &self.sets[right]);
            let mut too_many = false;
            for (x, x_mark) in a.values.iter().zip(&a.marks) {
                for (y, y_mark) in b.values.iter().zip(&b.marks) {
                    let mark = TREE | mark_if(is_single(left), *y_mark) | mark_if(is_single(right), *x_mark);
                    let sum = round(x + y);
                    match self.seen.add(u64::from(sum.to_bits()), set.values.len()) {
                        Seen::Before(index) => set.marks[index] |= mark,
                        Seen::New => set.add(sum, mark),
                        Seen::Full => too_many = true,
                    }
                }
            }
            if too_many {
                return Err(SearchStop::TooMany);
            }
        }
        Ok(())
    }
}

impl Set {
    fn add(&mut self, value: f32, mark: u8) {
        self.values.push(value);
        self.marks.push(mark);
    }
}

/// The ways to join two subsets to these ranks. Joins commute, so the lowest rank is always on the left.
fn splits(ranks: usize) -> impl Iterator<Item = (usize, usize)> {
    let lowest = ranks & ranks.wrapping_neg();
    let rest = ranks ^ lowest;
    let mut more = rest;
    std::iter::from_fn(move || {
        more = (more != 0).then(|| (more - 1) & rest)?;
        Some((lowest | more, rest ^ more))
    })
}

/// The subsets of one of these ranks.
fn bits(ranks: usize) -> impl Iterator<Item = usize> {
    let mut rest = ranks;
    std::iter::from_fn(move || {
        let one = rest & rest.wrapping_neg();
        rest ^= one;
        (one != 0).then_some(one)
    })
}

fn is_single(ranks: usize) -> bool {
    ranks.is_power_of_two()
}

fn mark_if(condition: bool, mark: u8) -> u8 {
    if condition { mark } else { 0 }
}

/// The number of a value among all values whose last bits are unused, in ascending order; -0 is before 0.
#[inline(always)]
fn key<const UNUSED: u32>(value: f32) -> i32 {
    let bits = value.to_bits() as i32;
    (bits ^ ((bits >> 31) as u32 >> 1) as i32) >> UNUSED
}

/// The value with this number.
fn value<const UNUSED: u32>(key: i32) -> f32 {
    let bits = key << UNUSED;
    let bits = if key < 0 { bits | ((1 << UNUSED) - 1) } else { bits };
    f32::from_bits((bits ^ ((bits >> 31) as u32 >> 1) as i32) as u32)
}

#[cfg(test)]
mod tests {
    use super::super::budget::PreparedReduction;
    use super::super::families::Rounding;
    use super::super::search::Search;
    use super::super::{ColumnReduction, ReduceKind};
    use super::*;
    use crate::num::{DType, Random, decode_f64, encode_f64, mask};
    use proptest::prelude::*;

    #[test]
    fn keys_are_in_the_order_of_the_values() {
        keys_are_in_order::<0>();
        keys_are_in_order::<13>();
        keys_are_in_order::<16>();
        keys_are_in_order::<21>();
    }

    fn keys_are_in_order<const UNUSED: u32>() {
        for code in (0..0x7f7f_ffffu32).step_by(99_991) {
            let magnitude = f32::from_bits(code >> UNUSED << UNUSED);
            for signed in [magnitude, -magnitude] {
                assert_eq!(value::<UNUSED>(key::<UNUSED>(signed)).to_bits(), signed.to_bits());
            }
            let next = f32::from_bits(((code >> UNUSED) + 1) << UNUSED);
            assert_eq!(key::<UNUSED>(next), key::<UNUSED>(magnitude) + 1);
            assert_eq!(key::<UNUSED>(-next), key::<UNUSED>(-magnitude) - 1);
        }
        assert_eq!(key::<UNUSED>(-0.0) + 1, key::<UNUSED>(0.0));
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn the_same_values_are_found_for_the_same_cost(
            dtype in prop::sample::select(vec![DType::F32, DType::F16, DType::Bf16, DType::F8e4m3, DType::F8e5m2]),
            which in 0usize..3,
            ranks in 2usize..8,
            seed in any::<u64>(),
            (joins, sort) in (prop::sample::select(vec![u64::MAX, 2000, 100]), 0u32..4),
        ) {
            let (codes, usual) = (Random::new(DType::U64, seed, None, None), Random::new(dtype, seed, None, None));
            let values: Vec<f64> = (0..ranks as u64).map(|rank| {
                let code = codes.bits(rank, 0);
                let bits = match sort {
                    0 => usual.bits(rank, 0),
                    1 => code & mask(dtype),
                    2 => usual.bits(rank / 2, 0) ^ (rank & 1) << (dtype.bits() - 1) ^ code & 1,
                    _ => code & 0x8000_0000_0000_0007 >> (64 - dtype.bits()),
                };
                decode_f64(dtype, bits)
            }).collect();
            let scalars = (0..ranks as u64).map(|rank| encode_f64(dtype, [0.1, 1.0, -3.0][(codes.bits(rank, 1) % 3) as usize])).collect();
            let kind = [ReduceKind::Sum, ReduceKind::Avg, ReduceKind::PreMulSum { scalars }][which].clone();
            let prepared = PreparedReduction::new(&ColumnReduction { dtype, kind, ranks });
            let models = &prepared.models;
            let (mut search, mut narrow) = (Search::default(), NarrowSearch::default());
            for model in models.usual.iter().chain(&models.wider).chain(&models.rare) {
                if !model.fits_f32() || model.rounding == Rounding::Mixed {
                    continue;
                }
                let leaves = model.leaves(&values, &prepared.scalars);
                let (mut cost, mut narrow_cost) = (joins, joins);
                let sorted = |mut found: Vec<PartialResult>| {
                    found.sort_by(|a, b| a.value.total_cmp(&b.value));
                    found.into_iter().map(|result| (result.value.to_bits(), result.chain)).collect::<Vec<_>>()
                };
                let want = search.run_wide(model, &leaves, &mut cost).map(|found| sorted(found.to_vec()));
                let Some(found) = narrow.run(model, &leaves, &mut narrow_cost) else { continue };
                prop_assert_eq!(found.map(|found| sorted(found.collect())), want);
                prop_assert_eq!(narrow_cost, cost);
            }
        }
    }
}
