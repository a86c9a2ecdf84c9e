//! Reduces a part of whole buffers of floats block by block: in loops over rows where these suffice, in single columns elsewhere.
use super::answer::{ColumnReduction, ReduceKind, RightResults};
use super::exact_buffer::Blocks;
use super::float::Float;
use super::reduced_buffer::reduce_element;
use super::row_exactness::RowExactness;
use super::row_models::canonical_row;
use super::rows::{Machine, ROW, Row, encode};
use crate::num::put_element;
use crate::plan::cost::SEARCH_RANKS;
use std::ops::Range;

/// The results of a part's elements.
pub(super) struct RowResults<'a> {
    /// The canonical values.
    pub bytes: &'a mut [u8],
    /// True for elements with several right values; on entry for those whose inputs have.
    pub ambiguous: &'a mut [bool],
    /// True for elements that the rows show to have no exact answer.
    pub rounds: &'a mut [bool],
}

/// With at most this many ranks a bound's growth is so small that the margin in [`RowReduction::bounded`] suffices.
const MOST_BOUNDED_RANKS: usize = 1 << 12;

/// Reduces all elements of the inputs.
///
/// # Errors
///
/// The first element that cannot be judged, and the reason; not for elements with ambiguous inputs that are `observed`.
pub(super) fn reduce_rows(
    reduction: &ColumnReduction,
    float: Float,
    inputs: &[&[u8]],
    observed: bool,
    results: &mut RowResults<'_>,
) -> Result<(), (usize, String)> {
    if float == Float::F64 {
        RowReduction::<f64>::new(reduction, float, inputs, observed).run(results)
    } else {
        RowReduction::<f32>::new(reduction, float, inputs, observed).run(results)
    }
}

struct RowReduction<'a, W> {
    reduction: &'a ColumnReduction,
    float: Float,
    inputs: &'a [&'a [u8]],
    observed: bool,
    scalars: Vec<f64>,
    /// Elements with a smaller sum of magnitudes are certain to be judgeable.
    bounded: f64,
    rows: Vec<Row<W>>,
    products: Vec<Row<f64>>,
}

impl<'a, W: Machine> RowReduction<'a, W> {
    fn new(reduction: &'a ColumnReduction, float: Float, inputs: &'a [&'a [u8]], observed: bool) -> Self {
        let scalars = reduction.scalar_values();
        let bounded = if reduction.ranks <= SEARCH_RANKS {
            f64::INFINITY
        } else if reduction.ranks <= MOST_BOUNDED_RANKS && reduction.has_sum_growth(float, &scalars) {
            // The bound needs less than four times the sum of magnitudes, plus the possible loss of subnormal products.
            float.max_finite() / 8.0 / scalars.iter().fold(1.0, |most, scalar| scalar.abs().max(most))
        } else {
            0.0
        };
        let rows = vec![[W::ZERO; ROW]; inputs.len()];
        Self { reduction, float, inputs, observed, scalars, bounded, rows, products: Vec::new() }
    }

    fn run(&mut self, results: &mut RowResults<'_>) -> Result<(), (usize, String)> {
        let mut exact = Blocks::new(self.reduction, self.float);
        let mut special: Vec<(usize, RightResults)> = Vec::new();
        let mut mostly_exact = true;
        let count = results.ambiguous.len();
        for from in (0..count).step_by(ROW) {
            let block = from..(from + ROW).min(count);
            if mostly_exact && exact.run(self.inputs, block.clone(), results.bytes, &mut special).is_ok() {
                special.drain(..).for_each(|(element, _)| results.ambiguous[element] = true);
                continue;
            }
            special.clear();
            mostly_exact = !self.run_block(block, results)?;
        }
        Ok(())
    }

    /// True if an element of the block rounds.
    fn run_block(&mut self, block: Range<usize>, results: &mut RowResults<'_>) -> Result<bool, (usize, String)> {
        let dtype = self.reduction.dtype;
        let count = block.len();
        let mut exactness = RowExactness::unknown();
        let by_rows = !matches!(self.reduction.kind, ReduceKind::Prod | ReduceKind::Min | ReduceKind::Max);
        if by_rows {
            for (row, input) in self.rows.iter_mut().zip(self.inputs) {
                W::decode(dtype, input.get(block.start * dtype.size()..).unwrap_or_default(), &mut row[..count]);
            }
            let Self { reduction, float, scalars, rows, products, .. } = self;
            exactness.of(reduction, *float, scalars, rows, products, count);
            let mut canonical = [W::ZERO; ROW];
            canonical_row(*float, scalars, rows, count, &mut canonical);
            encode(dtype, &canonical[..count], results.bytes, block.start);
        }
        let all_round = exactness.rounds[..count].iter().fold(true, |all, rounds| all & rounds);
        if all_round && self.bounded == f64::INFINITY {
            results.rounds[block.clone()].fill(true);
            results.ambiguous[block].fill(true);
            return Ok(true);
        }
        let mut any_rounds = false;
        for (i, element) in block.enumerate() {
            if exactness.exact[i] {
                continue;
            }
            if exactness.rounds[i] && exactness.size[i] < self.bounded {
                any_rounds = true;
                results.rounds[element] = true;
                results.ambiguous[element] = true;
                continue;
            }
            let observed = self.observed && results.ambiguous[element];
            let (bits, is_ambiguous) =
                reduce_element(self.reduction, self.inputs, element, observed).map_err(|why| (element, why))?;
            any_rounds |= is_ambiguous;
            results.ambiguous[element] |= is_ambiguous;
            put_element(dtype, results.bytes, element, bits);
        }
        Ok(any_rounds)
    }
}
