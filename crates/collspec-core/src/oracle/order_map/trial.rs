//! Tries an order and a way of computing on elements of a result, within a budget of additions.
use super::computing::Computing;
use super::shapes::Order;
use crate::cores::in_parallel;
use crate::num::{DType, decode_f64, get_element};
use crate::oracle::answer::ReduceKind;
use crate::oracle::parts::parts;
use crate::oracle::reduction_models::Leaf;
use crate::oracle::row_models::{RowElements, RowMemory};
use crate::oracle::rows::{Machine, ROW};
use std::ops::Range;

/// The first elements, up to this number, are tried one after the other, because most orders fail at once.
const FEW: usize = 4;
/// Telling elements are gathered from rows with gaps if they are this many times fewer than the elements between.
const MOST_BETWEEN: usize = 4;
/// Number of elements that are tried before the budget is checked again.
const MOST_AT_ONCE: usize = 1 << 20;

/// The inputs and the observed result of a reduction, and the elements for which rounding matters.
#[derive(Clone)]
pub(crate) struct Columns<'a> {
    /// The type of inputs and result.
    pub dtype: DType,
    /// Inputs by rank of the communicator.
    pub inputs: &'a [&'a [u8]],
    /// Bytes of the result.
    pub result: &'a [u8],
    /// Elements with several right values, ascending; the others do not depend on the order.
    pub telling: Vec<u32>,
}

impl<'a> Columns<'a> {
    /// The same without elements for which every order gives a NaN: one of their inputs is a NaN, or, in a sum of the
    /// inputs themselves, they have infinities of both signs.
    pub fn without_certain_nans(self, kind: &ReduceKind) -> Columns<'a> {
        // Their right result is a NaN, which most results do not contain.
        if !has_nan(self.dtype, self.result) {
            return self;
        }
        let Columns { dtype, inputs, result, mut telling } = self;
        let adds_inputs = matches!(kind, ReduceKind::Sum | ReduceKind::Avg);
        telling.retain(|element| {
            let (mut least, mut greatest) = (f64::INFINITY, f64::NEG_INFINITY);
            for bytes in inputs {
                let value = decode_f64(dtype, get_element(dtype, bytes, *element as usize));
                if value.is_nan() {
                    return false;
                }
                (least, greatest) = (least.min(value), greatest.max(value));
            }
            !(adds_inputs && least == f64::NEG_INFINITY && greatest == f64::INFINITY)
        });
        Columns { dtype, inputs, result, telling }
    }

    /// Number of elements in the result.
    pub fn len(&self) -> u64 {
        (self.result.len() / self.dtype.size()) as u64
    }

    /// The element with that index among the telling ones; past the last, the end.
    pub fn element(&self, index: usize) -> u64 {
        self.telling.get(index).map_or(self.len(), |element| u64::from(*element))
    }

    /// The index of the first telling element from this one on.
    pub fn index(&self, element: u64) -> usize {
        if self.telling.len() as u64 == self.len() {
            return element.min(self.len()) as usize;
        }
        self.telling.partition_point(|known| u64::from(*known) < element)
    }
}

/// The error that the budget is used up.
#[derive(Debug)]
pub(super) struct Spent;

/// Tries explanations on telling elements, which it numbers from 0. The ways of computing are those of one reduction.
pub(super) struct Trial<'a> {
    pub columns: &'a Columns<'a>,
    scalars: &'a [f64],
    /// Number of additions that may still be made.
    pub additions: u64,
    /// The last telling elements that were tried alone, each at the position of its number modulo [`HELD`].
    held: [Option<usize>; HELD],
    /// The inputs by rank, followed by the observed value.
    values: Vec<f64>,
    /// Their leaves, and the number of the way of computing to which these belong.
    leaves: [(Option<usize>, Vec<Leaf>); HELD],
    stack: Vec<f64>,
    rows: RowMemory,
}

/// Number of elements whose values are kept, because every order is tried on the same ones first.
const HELD: usize = FEW;

impl<'a> Trial<'a> {
    pub fn new(columns: &'a Columns<'a>, scalars: &'a [f64], additions: u64) -> Self {
        Self {
            columns,
            scalars,
            additions,
            held: [None; HELD],
            values: vec![0.0; HELD * (columns.inputs.len() + 1)],
            leaves: Default::default(),
            stack: Vec::new(),
            rows: RowMemory::default(),
        }
    }

    /// Number of additions that a trial on one element takes.
    fn cost(&self) -> u64 {
        self.columns.inputs.len() as u64 + 1
    }

    /// Prepares an element's leaves, at the position in the first result; the second is its observed value.
    fn load(&mut self, index: usize, computing: &Computing) -> (usize, f64) {
        let columns = self.columns;
        let ranks = columns.inputs.len();
        let slot = index % HELD;
        let values = &mut self.values[slot * (ranks + 1)..(slot + 1) * (ranks + 1)];
        if self.held[slot] != Some(index) {
            let element = columns.telling.get(index).map_or(0, |element| *element as usize);
            let all = columns.inputs.iter().copied().chain([columns.result]);
            let value = |bytes: &[u8]| decode_f64(columns.dtype, get_element(columns.dtype, bytes, element));
            values.iter_mut().zip(all).for_each(|(held, bytes)| *held = value(bytes));
            self.held[slot] = Some(index);
            self.leaves[slot].0 = None;
        }
        let (of, leaves) = &mut self.leaves[slot];
        if *of != Some(computing.number) {
            computing.leaves(&values[..ranks], self.scalars, leaves);
            *of = Some(computing.number);
        }
        (slot, values[ranks])
    }

    /// [`Self::explains`] without the budget.
    fn holds(&mut self, index: usize, computing: &Computing, order: &Order) -> bool {
        let (slot, observed) = self.load(index, computing);
        let mut values = computing.results(order, &self.leaves[slot].1, &mut self.stack);
        values.any(|value| value.to_bits() == observed.to_bits() || (value.is_nan() && observed.is_nan()))
    }

    /// True if the order gives the observed value of this telling element.
    ///
    /// # Errors
    ///
    /// The budget is used up.
    pub fn explains(&mut self, index: usize, computing: &Computing, order: &Order) -> Result<bool, Spent> {
        self.additions = self.additions.checked_sub(self.cost()).ok_or(Spent)?;
        Ok(self.holds(index, computing, order))
    }

    /// The first telling element of these that the order does not explain.
    ///
    /// # Errors
    ///
    /// The budget is used up.
    pub fn first_failure(
        &mut self,
        indices: Range<usize>,
        computing: &Computing,
        order: &Order,
    ) -> Result<Option<usize>, Spent> {
        let (mut from, mut length) = (indices.start, 1);
        while from < indices.end {
            let affordable = usize::try_from(self.additions / self.cost()).unwrap_or(usize::MAX);
            let count = length.min(indices.end - from).min(affordable);
            if count == 0 {
                return Err(Spent);
            }
            let part = from..from + count;
            let failed = if count <= FEW {
                part.into_iter().find(|index| !self.holds(*index, computing, order))
            } else if count <= ROW {
                failed_in_rows(self.columns, self.scalars, part, computing, order, &mut self.rows)
            } else {
                self.failed_in_parts(part, computing, order)
            };
            let tried = failed.map_or(count, |failed| failed + 1 - from);
            self.additions -= tried as u64 * self.cost();
            if failed.is_some() {
                return Ok(failed);
            }
            (from, length) = (from + count, (2 * length).min(MOST_AT_ONCE));
        }
        Ok(None)
    }

    fn failed_in_parts(&self, indices: Range<usize>, computing: &Computing, order: &Order) -> Option<usize> {
        let (columns, scalars) = (self.columns, self.scalars);
        let first_of = |part: Range<usize>| {
            let mut rows = RowMemory::default();
            let blocks = (part.start..part.end).step_by(ROW).map(|from| from..(from + ROW).min(part.end));
            blocks.into_iter().find_map(|block| failed_in_rows(columns, scalars, block, computing, order, &mut rows))
        };
        let parts = parts(indices.len(), self.columns.inputs.len(), ROW);
        let tasks = parts.into_iter().map(|part| indices.start + part.start..indices.start + part.end);
        in_parallel(tasks.collect(), first_of).into_iter().flatten().next()
    }

    /// True if the order explains all of these.
    ///
    /// # Errors
    ///
    /// The budget is used up.
    pub fn explain_all(&mut self, indices: &[usize], computing: &Computing, order: &Order) -> Result<bool, Spent> {
        for index in indices {
            if !self.explains(*index, computing, order)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The least number, not below `down_to`, from which on the order explains every telling element before `from`.
    ///
    /// # Errors
    ///
    /// The budget is used up.
    pub fn back_from(
        &mut self,
        from: usize,
        down_to: usize,
        computing: &Computing,
        order: &Order,
    ) -> Result<usize, Spent> {
        let mut least = from;
        while least > down_to && self.explains(least - 1, computing, order)? {
            least -= 1;
        }
        Ok(least)
    }

    /// Of these telling elements, those whose result may depend on the order; if there are many, the first ones.
    ///
    /// # Errors
    ///
    /// The budget is used up.
    pub fn order_dependent(
        &mut self,
        indices: Range<usize>,
        computing: &Computing,
        most: usize,
    ) -> Result<Vec<usize>, Spent> {
        let mut found = Vec::new();
        for index in indices {
            self.additions = self.additions.checked_sub(self.cost()).ok_or(Spent)?;
            let (slot, _) = self.load(index, computing);
            if found.len() < most && !computing.is_order_independent(&self.leaves[slot].1) {
                found.push(index);
            }
        }
        Ok(found)
    }
}

fn has_nan(dtype: DType, bytes: &[u8]) -> bool {
    bytes.chunks(ROW * dtype.size()).any(|bytes| {
        let mut row = [0.0f64; ROW];
        f64::decode(dtype, bytes, &mut row);
        row.iter().fold(false, |found, value| found | value.is_nan())
    })
}

/// The first of at most [`ROW`] telling elements that the order does not explain.
fn failed_in_rows(
    columns: &Columns<'_>,
    scalars: &[f64],
    indices: Range<usize>,
    computing: &Computing,
    order: &Order,
    memory: &mut RowMemory,
) -> Option<usize> {
    let mut explained = |elements: RowElements<'_>| {
        let trials = computing.row_trials(order, columns.dtype, columns.inputs, scalars, columns.result);
        let mut all = [false; ROW];
        for trial in trials {
            let hits = memory.explained(&trial, elements);
            all.iter_mut().zip(hits).for_each(|(explained, hit)| *explained |= hit);
        }
        all
    };
    let (mut at, mut rest) = (indices.start, columns.telling.get(indices).unwrap_or_default());
    while let Some(first) = rest.first() {
        let near = rest.partition_point(|element| element - first < ROW as u32);
        let reach = rest.get(near - 1).map_or(1, |last| (last - first) as usize + 1);
        let failed = if reach > MOST_BETWEEN * near {
            let hits = explained(RowElements::Listed(&rest[..near]));
            hits[..near].iter().position(|hit| !hit)
        } else {
            // The elements between them are computed, too: that is cheaper than gathering these.
            let hits = explained(RowElements::From(*first as usize, reach));
            match hits[..reach].iter().all(|hit| *hit) {
                true => None,
                false => rest[..near].iter().position(|element| !hits[(element - first) as usize]),
            }
        };
        if let Some(failed) = failed {
            return Some(at + failed);
        }
        (at, rest) = (at + near, &rest[near..]);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::computing::prepare;
    use super::super::named_orders::{grouped_orders, named_orders};
    use super::*;
    use crate::num::{Random, encode_f64, mask, put_element};
    use crate::oracle::{ColumnReduction, ReduceKind};
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

        /// Elements that are tried at the same time fail where the first of them fails alone, and cost the same.
        #[test]
        fn the_first_failure_is_that_of_single_elements(
            dtype in prop::sample::select(vec![DType::F16, DType::Bf16, DType::F32, DType::F64, DType::F8e4m3, DType::F8e5m2]),
            which in 0usize..4,
            ranks in 2usize..9,
            elements in prop::sample::select(vec![3usize, 60, 700]),
            (seed, pick) in (any::<u64>(), any::<prop::sample::Index>()),
            (from, wrong, additions) in (0usize..40, 0usize..900, 0u64..8000),
            (all_codes, dense) in (any::<bool>(), any::<bool>()),
        ) {
            let source = if all_codes { Random::new(DType::U64, seed, None, None) } else { Random::new(dtype, seed, None, None) };
            let scalars = (0..ranks as u64).map(|rank| encode_f64(dtype, [0.1, 1.0, -3.0][(source.bits(rank, 0) % 3) as usize])).collect();
            let kind = [ReduceKind::Sum, ReduceKind::Avg, ReduceKind::PreMulSum { scalars }, ReduceKind::Prod][which].clone();
            let reduction = ColumnReduction { dtype, kind, ranks };
            let prepared = prepare(&reduction);
            let computings = Computing::all(&prepared);
            let computing = pick.get(&computings);
            let orders = if computing.grouped { grouped_orders(ranks as u32) } else { named_orders(ranks as u32, computing.is_fused()) };
            prop_assume!(!orders.is_empty());
            let order = pick.get(&orders);
            let mut inputs = vec![vec![0; elements * dtype.size()]; ranks];
            for (rank, row) in inputs.iter_mut().enumerate() {
                (0..elements).for_each(|i| put_element(dtype, row, i, source.bits(rank as u64, i as u64) & mask(dtype)));
            }
            let inputs: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
            let mut result = vec![0; elements * dtype.size()];
            let (mut leaves, mut stack) = (Vec::new(), Vec::new());
            for i in 0..elements {
                let values: Vec<f64> = inputs.iter().map(|row| decode_f64(dtype, get_element(dtype, row, i))).collect();
                computing.leaves(&values, &prepared.scalars, &mut leaves);
                let bits = encode_f64(dtype, computing.results(order, &leaves, &mut stack).last().unwrap_or_default());
                put_element(dtype, &mut result, i, bits ^ u64::from(i == wrong));
            }
            let telling: Vec<u32> = (0..elements as u32).filter(|i| dense || i % 3 != 1).collect();
            let end = telling.len();
            let columns = Columns { dtype, inputs: &inputs, result: &result, telling };
            let budget = if additions.is_multiple_of(2) { u64::MAX } else { additions };
            let mut together = Trial::new(&columns, &prepared.scalars, budget);
            let mut alone = Trial::new(&columns, &prepared.scalars, budget);
            let range = from.min(end)..end;
            let found = together.first_failure(range.clone(), computing, order).map_err(|_| ());
            let mut want = Ok(None);
            for index in range {
                match alone.explains(index, computing, order) {
                    Ok(true) => continue,
                    Ok(false) => want = Ok(Some(index)),
                    Err(Spent) => want = Err(()),
                }
                break;
            }
            prop_assert_eq!(found, want);
            prop_assert_eq!(together.additions, alone.additions);
        }
    }

    #[test]
    fn the_first_failure_of_many_elements_is_found_in_parts() {
        let (elements, ranks) = (200_000, 4);
        let source = Random::new(DType::F32, 9, None, None);
        let rows: Vec<Vec<u8>> = (0..ranks)
            .map(|rank| (0..elements).flat_map(|i| (source.bits(rank, i) as u32).to_le_bytes()).collect())
            .collect();
        let inputs: Vec<&[u8]> = rows.iter().map(Vec::as_slice).collect();
        let reduction = ColumnReduction { dtype: DType::F32, kind: ReduceKind::Sum, ranks: ranks as usize };
        let (prepared, order) = (prepare(&reduction), &named_orders(4, false)[0]);
        let computing = &Computing::all(&prepared)[0];
        let right: Vec<u8> = (0..elements as usize)
            .flat_map(|i| {
                let value = |rank: usize| f32::from_bits(get_element(DType::F32, inputs[rank], i) as u32);
                (value(1) + value(2) + value(3) + value(0)).to_le_bytes()
            })
            .collect();
        for wrong in [None, Some(100), Some(99_999), Some(199_999)] {
            let mut result = right.clone();
            if let Some(wrong) = wrong {
                result[4 * wrong] ^= 1;
            }
            let columns = Columns {
                dtype: DType::F32,
                inputs: &inputs,
                result: &result,
                telling: (0..elements as u32).collect(),
            };
            let mut trial = Trial::new(&columns, &prepared.scalars, 5 * elements);
            assert_eq!(trial.first_failure(0..elements as usize, computing, order).ok(), Some(wrong));
            let tried = wrong.map_or(elements, |wrong| wrong as u64 + 1);
            assert_eq!(trial.additions, 5 * (elements - tried));
            let mut short = Trial::new(&columns, &prepared.scalars, 5 * 1000 + 3);
            let found = short.first_failure(0..elements as usize, computing, order);
            assert_eq!(found.is_ok(), wrong == Some(100));
            assert_eq!(short.additions, if wrong == Some(100) { 5 * (1000 - 101) + 3 } else { 3 });
        }
    }
}
