//! Finds the elements of a block with one right result and those that round, as far as loops over rows can; see `exact` for the
//! rules.
use super::answer::{ColumnReduction, ReduceKind};
use super::float::Float;
use super::rows::{Machine, ROW, Row, each, power_of};

/// The elements' properties found from the rows.
pub(super) struct RowExactness {
    /// True for elements that `exact` has no answer for: finite inputs that some order rounds.
    pub rounds: [bool; ROW],
    /// True for sums that are the same in every order and never rounded.
    pub exact: [bool; ROW],
    /// Approximate sums of magnitudes.
    pub size: [f64; ROW],
}

impl RowExactness {
    /// The state in which nothing is known of any element.
    pub fn unknown() -> Self {
        Self { rounds: [false; ROW], exact: [false; ROW], size: [f64::INFINITY; ROW] }
    }

    /// The exactness of the first `count` columns of the rows, one row per rank; `products` has the memory for theirs.
    pub fn of<W: Machine>(
        &mut self,
        reduction: &ColumnReduction,
        float: Float,
        scalars: &[f64],
        rows: &[Row<W>],
        products: &mut Vec<Row<f64>>,
        count: usize,
    ) {
        *self = Self::unknown();
        match reduction.kind {
            ReduceKind::Sum => self.of_sum(float, rows, count),
            ReduceKind::Avg | ReduceKind::PreMulSum { .. } if float != Float::F64 && reduction.ranks > 1 => {
                self.of_scaled(reduction, float, scalars, rows, products, count);
            }
            _ => {}
        }
    }

    /// Like `exact::sum`. The grid is the least last place of all inputs, and every partial sum is exact if the sum of magnitudes
    /// is at most 2^p steps of the grid. As far as it is at most 2^24 steps, or 2^53, it is exact itself, so it is above the
    /// limit only if the exact one is; only where both are 2^24 steps of f32 may rounding have hidden the difference.
    fn of_sum<W: Machine>(&mut self, float: Float, rows: &[Row<W>], count: usize) {
        let (mut size, mut grid, mut numbers) = ([W::ZERO; ROW], [W::INFINITY; ROW], [W::ZERO; ROW]);
        for row in rows {
            let columns = row[..count].iter().zip(&mut size).zip(&mut grid).zip(&mut numbers);
            for (((value, size), grid), numbers) in columns {
                let is_zero = *value == W::ZERO;
                let place = if is_zero { W::INFINITY } else { value.last_place() };
                *size = *size + value.abs();
                *grid = if place < *grid { place } else { *grid };
                *numbers = *numbers + if is_zero { W::ZERO } else { W::ONE };
            }
        }
        let steps = power_of::<W>(float.precision());
        let (largest, three) = (W::of_f64(float.max_finite()), W::of_f64(3.0));
        // At 2^p steps `size` may have been rounded down to the limit.
        let may_hide = float.precision() == W::PRECISION;
        let is_f64 = float == Float::F64;
        for i in 0..count {
            let limit = grid[i] * steps;
            // Two numbers are rounded once and so are exact; NaN and infinities have their own rules.
            let plain = size[i] < W::INFINITY && numbers[i] >= three;
            let at_limit = size[i] == limit;
            let above = size[i] > limit || size[i] > largest;
            self.rounds[i] = plain & (above | (at_limit & is_f64));
            self.exact[i] = plain & !above & !(at_limit & may_hide);
            self.size[i] = size[i].to_f64();
        }
    }

    /// Like `exact::average` and `exact::scaled_sum`: an inexact product, or sum of products, is enough, and for an average a
    /// rounded sum of the inputs. Products of types below f64 are exact in f64.
    fn of_scaled<W: Machine>(
        &mut self,
        reduction: &ColumnReduction,
        float: Float,
        scalars: &[f64],
        rows: &[Row<W>],
        products: &mut Vec<Row<f64>>,
        count: usize,
    ) {
        if scalars.len() != rows.len() || scalars.iter().any(|scalar| !scalar.is_finite()) {
            return;
        }
        let (mut rounded, mut size) = ([false; ROW], [0.0; ROW]);
        let mut held = [0.0; ROW];
        products.resize(rows.len(), [0.0; ROW]);
        for ((row, product), scalar) in rows.iter().zip(&mut *products).zip(scalars) {
            for ((value, product), size) in row[..count].iter().zip(&mut *product).zip(&mut size) {
                *product = value.to_f64() * scalar;
                *size += value.to_f64().abs();
            }
            held[..count].copy_from_slice(&product[..count]);
            f64::round_row(float, &mut held[..count]);
            for i in 0..count {
                rounded[i] |= held[i] != product[i];
            }
        }
        self.of_sum(float, products, count);
        each(&mut rounded[..count], &self.rounds, |a, b| a | b);
        if reduction.kind == ReduceKind::Avg {
            self.of_sum(float, rows, count);
            each(&mut rounded[..count], &self.rounds, |a, b| a | b);
        }
        for i in 0..count {
            self.rounds[i] = rounded[i] & (size[i] < f64::INFINITY);
        }
        (self.exact, self.size) = ([false; ROW], size);
    }
}
