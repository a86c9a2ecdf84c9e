//! The bounded lane: a proven interval around the exact result, for sets that are too large to search.
//!
//! *Sums.* Write u for the type's unit roundoff (2^-p at precision p) and v for that of the widest accumulation that may be
//! narrowed afterwards (0 if there is none). Every join multiplies its exact result by (1 + d) with |d| <= w, where 1 + w =
//! (1 + u)(1 + v): rounded in the accumulator, then perhaps in the type. In any tree a leaf goes through at most n - 1
//! joins; scaled leaves are multiplied once more, before the joins or at the end; a wide result is narrowed once more. So
//! the result is sum x_i s_i (1 + e_i) with |e_i| <= G = (1 + w)^k - 1, where k = n - 1, plus 1 if there are scalars, plus 1
//! if there is a wider type, plus 1 for avg, where dividing by n is multiplying by 1/n as f64 has it, times a (1 + d) of its
//! own; and
//!
//!   |result - exact| <= G * sum |x_i s_i|.
//!
//! Adding values of the type never loses anything below the least value, being multiples of it, so that holds for
//! subnormal results as well. Products may fall there: each of the at most 2n + 1 operations on products then errs by half
//! the least value h more, which later roundings stretch by at most 1 + G: plus (2n + 1) * (h / 2) * (1 + G).
//!
//! *Products.* |result - exact| <= ((1 + w)^k - 1) * |exact|, k = n - 1, plus 1 if there is a wider type, if no partial
//! product is subnormal.
//!
//! *Proof of no overflow.* If (1 + G) * sum |x_i s_i| (and sum |x_i| where the scalar may come last) plus that absolute part
//! does not exceed the largest finite value, no partial result in any order does. For products the same of the product of
//! all factors of magnitude above 1, and the mirror image against the least normal value.
//!
//! A bound with G >= 1 would let a zero, or a wrong sign, pass for anything: it is not used.
//!
//! *Products that may become subnormal* have a wider bound, for inputs that a run gave, where the plan could not refuse the case.
//! Each of at most n operations then errs by another h at most (half of it in the accumulator and half in the type). Write
//! L for the product of all factors of magnitude above 1. Relative to L and the growth, these errors combine as (1 + a)(1 + b)
//! + h, which is at most (1 + h)^(2n) in the end: |result - exact| <= G |exact| + ((1 + h)^(2n) - 1) (1 + G) L.
use super::answer::{ColumnReduction, ReduceKind, RightResults};
use super::dyadic::Dyadic;
use super::exact::reciprocal;
use super::float::{Float, power};
use super::reduction_models::{accumulators, product_accumulators};
use crate::num::{element_text, encode_f64};
use crate::plan::cost::SEARCH_RANKS;
use num_bigint::BigInt;
use std::cmp::Ordering;

impl ColumnReduction {
    /// The interval for a column of finite values, or the reason it does not have one. A NaN makes every result NaN.
    pub(super) fn bound(&self, float: Float, values: &[f64], scalars: &[f64]) -> Result<RightResults, String> {
        if values.iter().chain(scalars).any(|value| value.is_nan()) {
            return Ok(RightResults::AnyNan);
        }
        if let Some((rank, value)) = values.iter().enumerate().find(|(_, value)| value.is_infinite()) {
            return Err(format!("rank {rank}'s {value} makes the result depend on the order"));
        }
        if scalars.iter().any(|s| !s.is_finite()) {
            return Err("a scalar is not finite".into());
        }
        let (exact, low, high) = match self.kind {
            ReduceKind::Prod => self.product_bound(float, values)?,
            _ => self.sum_bound(float, values, scalars)?,
        };
        Ok(self.within(&exact, &low, &high))
    }

    /// True if the value is inside the interval by a margin that f64 can resolve: most right values of types below f64 are.
    /// All sums here err by less than 2^-40 of the sum of magnitudes (up to 2^12 ranks), and the margin allows twice that.
    pub(super) fn surely_within(&self, float: Float, values: &[f64], scalars: &[f64], observed: f64) -> bool {
        if float == Float::F64 || self.kind == ReduceKind::Prod || values.len() > 1 << 12 {
            return false;
        }
        self.sums_of(float, values, scalars).is_some_and(|FloatSums { sum, size, growth, .. }| {
            (observed - sum).abs() + size * power(-39) <= size * growth * (1.0 - power(-40))
        })
    }

    /// The sums that determine the interval, in f64; `None` if a partial result may overflow, or an input is not finite.
    fn sums_of(&self, float: Float, values: &[f64], scalars: &[f64]) -> Option<FloatSums> {
        let growth = self.sum_growth(float, !scalars.is_empty()).ok()?;
        let (mut sum, mut size, mut unscaled) = (0.0, 0.0, 0.0);
        for (rank, x) in values.iter().enumerate() {
            let term = scalars.get(rank).map_or(*x, |s| x * s);
            sum += term;
            size += term.abs();
            unscaled += x.abs();
        }
        let least = power(float.least_exponent()).max(f64::from_bits(1));
        let lost = least * (4 * values.len()) as f64;
        let largest = if self.kind == ReduceKind::Avg { f64::max(size, unscaled) } else { size };
        let fits = largest * (1.0 + growth) * (1.0 + power(-30)) + 2.0 * lost <= float.max_finite();
        fits.then_some(FloatSums { sum, size, growth, lost })
    }

    /// True if the value of a sum of few ranks is outside the interval by a margin that f64 can resolve: most wrong values are.
    pub(super) fn surely_outside(&self, float: Float, values: &[f64], scalars: &[f64], observed: f64) -> bool {
        if self.kind == ReduceKind::Prod {
            return false;
        }
        let Some(sums) = self.sums_of(float, values, scalars) else { return false };
        let FloatSums { sum, size, growth, lost } = sums;
        // Twice the interval, and the possible error of f64: a NaN is outside, too.
        let inside = (observed - sum).abs() <= size * (2.0 * growth + power(-39)) + 2.0 * lost;
        !inside
    }

    fn sum_bound(&self, float: Float, values: &[f64], scalars: &[f64]) -> Result<(Dyadic, Dyadic, Dyadic), String> {
        let n = values.len();
        let scaled = !scalars.is_empty();
        let wide = accumulators(float);
        let growth = self.sum_growth(float, scaled)?;
        // The factors of each leaf: its scalar; for avg also 1/n in a wider type, and that of a division.
        let mut sets = vec![scalars.to_vec()];
        if self.kind == ReduceKind::Avg {
            sets.extend(wide.iter().chain(&[Float::F64]).map(|acc| vec![reciprocal(*acc, self.ranks); n]));
            sets.dedup();
        }
        let mut ends: Option<(Dyadic, Dyadic, Dyadic)> = None;
        for scalars in &sets {
            let terms: Vec<Dyadic> = match scaled {
                true => {
                    values.iter().zip(scalars).map(|(x, s)| Dyadic::from_f64(*x).mul(&Dyadic::from_f64(*s))).collect()
                }
                false => values.iter().map(|x| Dyadic::from_f64(*x)).collect(),
            };
            let exact = exact_sum(terms.iter().cloned());
            let size = exact_sum(terms.iter().map(Dyadic::abs));
            let lost = match scaled {
                true => {
                    Dyadic::new(BigInt::from(2 * n + 1), i64::from(float.least_exponent()) - 1).mul(&one_plus(growth))
                }
                false => Dyadic::from_f64(0.0),
            };
            self.fits(float, &size.mul(&one_plus(growth)).add(&lost))?;
            let error = size.mul(&Dyadic::from_f64(growth)).add(&lost);
            let (low, high) = (exact.add(&error.neg()), exact.add(&error));
            ends = Some(match ends {
                None => (exact, low, high),
                Some((first, l, h)) => {
                    let low = if low.cmp(&l) == Ordering::Less { low } else { l };
                    let high = if high.cmp(&h) == Ordering::Greater { high } else { h };
                    (first, low, high)
                }
            });
        }
        if self.kind == ReduceKind::Avg {
            let size = exact_sum(values.iter().map(|x| Dyadic::from_f64(x.abs())));
            self.fits(float, &size.mul(&one_plus(growth)))?;
        }
        ends.ok_or_else(|| "there are no inputs".into())
    }

    fn product_bound(&self, float: Float, values: &[f64]) -> Result<(Dyadic, Dyadic, Dyadic), String> {
        if values.contains(&0.0) {
            return Err("a partial product may overflow before it meets the zero".into());
        }
        let growth = product_growth(float, values.len())?;
        let ExactProduct { exact, large, small } = ExactProduct::of(values);
        self.fits(float, &large.mul(&one_plus(growth)))?;
        let kept = small.mul(&Dyadic::from_f64((1.0 - growth).next_down()));
        if kept.cmp(&Dyadic::power(float.min_normal_exponent())) == Ordering::Less {
            return Err(format!("a partial product may fall below the least normal {} number", self.dtype.name()));
        }
        let error = exact.abs().mul(&Dyadic::from_f64(growth));
        let (low, high) = (exact.add(&error.neg()), exact.add(&error));
        Ok((exact, low, high))
    }

    /// The wider interval of a product whose partial results may become subnormal; `None` if they may overflow, and for
    /// sums, which have the narrow interval or none. For inputs from a run: known ones are refused without a bound.
    pub(super) fn wide_bound(&self, float: Float, values: &[f64]) -> Option<RightResults> {
        if self.kind != ReduceKind::Prod || values.iter().any(|value| !value.is_finite()) {
            return None;
        }
        let g = product_growth(float, values.len()).ok()?;
        let subnormal = growth(power(float.least_exponent()), 2 * values.len()).ok()?;
        let ExactProduct { exact, large, .. } = ExactProduct::of(values);
        let lost = Dyadic::from_f64(subnormal).mul(&one_plus(g)).mul(&large);
        self.fits(float, &large.mul(&one_plus(g)).add(&lost)).ok()?;
        let error = exact.abs().mul(&Dyadic::from_f64(g)).add(&lost);
        Some(self.within(&exact, &exact.add(&error.neg()), &exact.add(&error)))
    }

    fn within(&self, exact: &Dyadic, low: &Dyadic, high: &Dyadic) -> RightResults {
        let bits = |value| encode_f64(self.dtype, value);
        let (lo, hi) = (bits(low.around(self.dtype).0), bits(high.around(self.dtype).1));
        let exact = element_text(crate::num::DType::F64, exact.nearest(crate::num::DType::F64));
        RightResults::Within { lo, hi, exact }
    }

    /// True if the bound of a sum with these scalars is less than the sum of magnitudes.
    pub(super) fn has_sum_growth(&self, float: Float, scalars: &[f64]) -> bool {
        self.kind != ReduceKind::Prod
            && scalars.iter().all(|scalar| scalar.is_finite())
            && self.sum_growth(float, !scalars.is_empty()).is_ok()
    }

    /// True if the rounding errors of this many ranks stay smaller than the result, so that they have a bound, or if the result is exact
    /// or searched for. Particular inputs may still be too large or too small to be judged.
    pub fn has_bound(&self) -> bool {
        let Some(float) = Float::of(self.dtype).filter(|_| self.ranks > SEARCH_RANKS) else { return true };
        match self.kind {
            ReduceKind::Min | ReduceKind::Max => true,
            ReduceKind::Prod => product_growth(float, self.ranks).is_ok(),
            _ => self.sum_growth(float, matches!(self.kind, ReduceKind::Avg | ReduceKind::PreMulSum { .. })).is_ok(),
        }
    }

    /// The growth G of a sum.
    fn sum_growth(&self, float: Float, scaled: bool) -> Result<f64, String> {
        let wide = accumulators(float);
        let ends = [scaled, !wide.is_empty(), self.kind == ReduceKind::Avg].map(usize::from);
        growth(combined_roundoff(float, wide), self.ranks - 1 + ends.iter().sum::<usize>())
    }

    fn fits(&self, float: Float, size: &Dyadic) -> Result<(), String> {
        match size.cmp(&Dyadic::from_f64(float.max_finite())) {
            Ordering::Greater => Err(format!("a partial result may overflow {}", self.dtype.name())),
            _ => Ok(()),
        }
    }
}

/// The terms of the interval of a sum, in f64.
struct FloatSums {
    sum: f64,
    /// The sum of magnitudes.
    size: f64,
    /// The growth G of the module's formulas.
    growth: f64,
    /// Upper bound on the error of products below the least value.
    lost: f64,
}

/// A product of finite factors.
struct ExactProduct {
    exact: Dyadic,
    /// The product of the magnitudes above 1.
    large: Dyadic,
    /// The product of the other magnitudes.
    small: Dyadic,
}

impl ExactProduct {
    fn of(values: &[f64]) -> Self {
        let one = Dyadic::power(0);
        let mut product = Self { exact: one.clone(), large: one.clone(), small: one };
        for value in values {
            let factor = Dyadic::from_f64(*value);
            product.exact = product.exact.mul(&factor);
            let part = if value.abs() > 1.0 { &mut product.large } else { &mut product.small };
            *part = part.mul(&factor.abs());
        }
        product
    }
}

/// The growth G of a product with a factor from each rank.
fn product_growth(float: Float, ranks: usize) -> Result<f64, String> {
    let wide = product_accumulators(float);
    growth(combined_roundoff(float, wide), ranks - 1 + usize::from(!wide.is_empty()))
}

fn unit_roundoff(float: Float) -> f64 {
    power(-float.precision())
}

/// The combined roundoff w: a rounding in one of the wide types and one in the type.
fn combined_roundoff(float: Float, wide: &[Float]) -> f64 {
    let (u, v) = (unit_roundoff(float), wide.iter().map(|acc| unit_roundoff(*acc)).fold(0.0, f64::max));
    if v == 0.0 { u } else { (u + v + u * v).next_up() }
}

fn one_plus(growth: f64) -> Dyadic {
    Dyadic::power(0).add(&Dyadic::from_f64(growth))
}

/// (1 + w)^steps - 1, rounded up; an error if it is 1 or more.
fn growth(w: f64, steps: usize) -> Result<f64, String> {
    let product = (w * steps as f64).next_up();
    let growth = if product < power(-10) {
        // (1 + w)^k <= 1 / (1 - k w)
        (product / (1.0 - product).next_down()).next_up()
    } else {
        let factor = (1.0 + w).next_up();
        (0..steps).fold(1.0f64, |power, _| (power * factor).next_up().min(4.0)) - 1.0
    };
    if growth < 1.0 {
        Ok(growth)
    } else {
        Err(format!("the error bound of {steps} roundings is as large as the result"))
    }
}

/// The sum without rounding.
fn exact_sum(terms: impl Iterator<Item = Dyadic>) -> Dyadic {
    terms.fold(Dyadic::from_f64(0.0), |sum, term| sum.add(&term))
}
