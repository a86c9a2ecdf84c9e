//! The exact lane: columns for which every order, rounding and scale gives the same result, found in one pass.
//!
//! *Sums.* Let 2^g be the greatest power of two that divides every input, and A = sum |x_i|. Every partial result, in any
//! order, is a multiple of 2^g of magnitude at most A. If A <= 2^(g+p), p being the type's precision, and A does not exceed
//! the largest finite value, then every partial result is a value of the type (2^g is at least the least value, as the
//! inputs are values of the type): nothing is ever rounded, in the type or in any wider one. Of two inputs that are not zero
//! the sum is rounded, but only once. The same holds for scaled inputs if each product is itself a value of the type.
//!
//! *Products.* With x_i = m_i * 2^(e_i), m_i odd: if the product of all m_i has at most p bits, and neither the product of
//! the large factors overflows nor that of the small ones falls below the least value, every partial product is exact.
//!
//! *Special values* (reduce_kernel.h, onerank.cu). A NaN input makes a sum or product NaN; opposite infinities, or infinity
//! times zero, too. min and max prefer numbers to NaN; between +0 and -0 either may win. For one rank everything but float
//! avg and premul_sum is a copy, payload included. An infinity of f8e5m2 becomes 57344 in the first sum
//! or product with it; in min and max, where it may or may not travel through f16, both that and the infinity are admitted.
use super::answer::{AdmissibleValue, ColumnReduction, ReduceKind, RightResults};
use super::families::FamilySet;
use super::float::{Float, odd_parts, power};
use super::integer;
use crate::num::{decode_f64, encode_f64, mask};

impl ColumnReduction {
    /// The only answer, if a pass over the column shows that every admissible order, rounding and scale gives the same.
    /// (For min and max it may be "either zero".) `None` also if the column does not have one element per rank.
    pub fn exact(&self, column: &[u64]) -> Option<RightResults> {
        if !self.has_one_input_per_rank(column.len()) {
            return None;
        }
        let Some(float) = Float::of(self.dtype) else { return Some(RightResults::Bits(integer::reduce(self, column))) };
        if self.is_copy() {
            return Some(RightResults::Bits(column[0] & mask(self.dtype)));
        }
        let values: Vec<f64> = column.iter().map(|bits| decode_f64(self.dtype, *bits)).collect();
        self.exact_values(float, &values)
    }

    /// True if there is one input per rank, and one scalar per rank if the reduction has scalars.
    pub(super) fn has_one_input_per_rank(&self, inputs: usize) -> bool {
        let scalars = if let ReduceKind::PreMulSum { scalars } = &self.kind { scalars.len() } else { self.ranks };
        inputs == self.ranks && inputs == scalars && inputs > 0
    }

    /// True for a reduction over one rank without a scalar.
    pub(super) fn is_copy(&self) -> bool {
        let scales = matches!(self.kind, ReduceKind::PreMulSum { .. })
            || (self.kind == ReduceKind::Avg && self.dtype.is_float());
        self.ranks == 1 && !scales
    }

    /// [`Self::exact`] for decoded values; not for copies.
    pub(super) fn exact_values(&self, float: Float, values: &[f64]) -> Option<RightResults> {
        let found = match &self.kind {
            ReduceKind::Min | ReduceKind::Max => return Some(self.extreme(values)),
            ReduceKind::Prod => product(float, values),
            ReduceKind::Sum => sum(float, values),
            ReduceKind::Avg => average(float, values, self.scalar_values()[0]),
            ReduceKind::PreMulSum { .. } => scaled_sum(float, values, &self.scalar_values()),
        };
        found.map(|v| self.answer_of(v))
    }

    /// The answer that consists of a value.
    pub(super) fn answer_of(&self, value: f64) -> RightResults {
        if value.is_nan() { RightResults::AnyNan } else { RightResults::Bits(encode_f64(self.dtype, value)) }
    }

    /// The scalars by rank; empty if the reduction does not have any.
    pub(super) fn scalar_values(&self) -> Vec<f64> {
        match &self.kind {
            ReduceKind::PreMulSum { scalars } => scalars.iter().map(|s| decode_f64(self.dtype, *s)).collect(),
            ReduceKind::Avg => match Float::of(self.dtype) {
                Some(float) => vec![reciprocal(float, self.ranks); self.ranks],
                None => Vec::new(),
            },
            _ => Vec::new(),
        }
    }

    fn extreme(&self, values: &[f64]) -> RightResults {
        let numbers = || values.iter().copied().filter(|v| !v.is_nan());
        let best = match self.kind {
            ReduceKind::Min => numbers().reduce(f64::min),
            _ => numbers().reduce(f64::max),
        };
        let Some(best) = best else { return RightResults::AnyNan };
        let zero = |negative| numbers().any(|v| v == 0.0 && v.is_sign_negative() == negative);
        if best == 0.0 && zero(true) && zero(false) {
            let choice = |v| AdmissibleValue { bits: encode_f64(self.dtype, v), families: FamilySet::ALL };
            return RightResults::OneOf(vec![choice(0.0), choice(-0.0)]);
        }
        let saturated = encode_f64(self.dtype, best);
        if best.is_infinite() && decode_f64(self.dtype, saturated) != best {
            // Compared in f16 and narrowed back it saturates; compared directly it is unchanged.
            let kept = if best > 0.0 { E5M2_INFINITY } else { E5M2_INFINITY | 0x80 };
            let choice = |bits| AdmissibleValue { bits, families: FamilySet::ALL };
            return RightResults::OneOf(vec![choice(saturated), choice(kept)]);
        }
        RightResults::Bits(saturated)
    }
}

/// The infinity of the only saturating type that has one.
const E5M2_INFINITY: u64 = 0x7c;

/// The scalar of avg: 1/n in the type, computed in f32 for smaller types.
pub(super) fn reciprocal(float: Float, ranks: usize) -> f64 {
    match float {
        Float::F64 => 1.0 / ranks as f64,
        _ => float.round(f64::from(1.0 / ranks as f32)),
    }
}

/// The sum if it is the same in any order.
pub(super) fn sum(float: Float, values: &[f64]) -> Option<f64> {
    if let [a, b] = values {
        // Addition commutes, and rounding twice is harmless (see `float`).
        return Some(float.round(a + b));
    }
    if values.iter().any(|v| v.is_nan()) {
        return Some(f64::NAN);
    }
    let size: f64 = values.iter().filter(|v| v.is_finite()).map(|v| v.abs()).sum();
    let (up, down) = (values.contains(&f64::INFINITY), values.contains(&f64::NEG_INFINITY));
    if up || down {
        return sum_of_infinities(float, up, down, size);
    }
    if partial_sums_are_exact(float, values, size) {
        return Some(values.iter().fold(-0.0, |sum, v| sum + v));
    }
    // Zeros do not matter, and two numbers are added once.
    let mut numbers = values.iter().filter(|v| **v != 0.0);
    match (numbers.next(), numbers.next(), numbers.next()) {
        (Some(a), Some(b), None) => Some(float.round(a + b)),
        _ => None,
    }
}

/// The sum of infinities of one sign or both and of finite numbers whose magnitudes add up to `size`, if it is the same in any order.
fn sum_of_infinities(float: Float, up: bool, down: bool, size: f64) -> Option<f64> {
    match (float.saturates(), up && down) {
        (true, _) => None,
        (_, true) => Some(f64::NAN),
        // Half the range keeps rounding of partial results away from overflow to the other infinity.
        _ if size <= float.max_finite() / 2.0 => Some(if up { f64::INFINITY } else { f64::NEG_INFINITY }),
        _ => None,
    }
}

/// True if every partial sum of these finite values, whose magnitudes add up to `size`, is a value of the type.
pub(super) fn partial_sums_are_exact(float: Float, values: &[f64], size: f64) -> bool {
    let grid = values.iter().filter(|v| **v != 0.0).map(|v| odd_parts(*v).2).min();
    let Some(grid) = grid else { return true };
    let limit = power(grid + float.precision());
    // `size` may itself be rounded where it is beyond 2^53 grid steps: for f64 that is the limit, so it must stay below.
    size <= float.max_finite() && (size < limit || (size == limit && float != Float::F64))
}

/// Sum of products with the scalars, if it is the same in any order, fused or not.
fn scaled_sum(float: Float, values: &[f64], scalars: &[f64]) -> Option<f64> {
    if let ([x], [s]) = (values, scalars) {
        return Some(float.round(x * s));
    }
    let products = || values.iter().zip(scalars).map(|(x, s)| (x.is_infinite() || s.is_infinite(), x * s));
    if products().any(|(_, product)| product.is_nan()) {
        return Some(f64::NAN);
    }
    let exact: Option<Vec<f64>> = values.iter().zip(scalars).map(|(x, s)| exact_product(float, *x, *s)).collect();
    if let Some(exact) = exact {
        return sum(float, &exact);
    }
    // Infinities determine the sum however the other products are rounded.
    let has = |infinity: f64| products().any(|(infinite, product)| infinite && product == infinity);
    let (up, down) = (has(f64::INFINITY), has(f64::NEG_INFINITY));
    let size = products().filter(|(infinite, _)| !infinite).map(|(_, product)| product.abs()).sum();
    if up || down { sum_of_infinities(float, up, down, size) } else { None }
}

/// The product, unless it is NaN, if it is a value of the type, or an infinity that stays one.
fn exact_product(float: Float, x: f64, s: f64) -> Option<f64> {
    if x.is_infinite() || s.is_infinite() {
        return (!float.saturates()).then_some(x * s);
    }
    if x == 0.0 || s == 0.0 {
        return Some(x * s);
    }
    let ((_, m, e), (_, k, f)) = (odd_parts(x), odd_parts(s));
    let bits = 128 - (u128::from(m) * u128::from(k)).leading_zeros() as i32;
    (bits <= float.precision() && e + f >= float.least_exponent() && (x * s).abs() <= float.max_finite())
        .then_some(x * s)
}

/// The average if it is the same with products first or the sum first, by multiplying or by dividing.
fn average(float: Float, values: &[f64], scalar: f64) -> Option<f64> {
    let before = scaled_sum(float, values, &vec![scalar; values.len()])?;
    if before.is_nan() || values.len() == 1 {
        return Some(before);
    }
    // The sum first: exact for numbers on one grid, and then scaled exactly if the scalar is a power of two. With another
    // scalar not even a sum of zero is certain: a wider one may round where this does not.
    let after = sum(float, values)?;
    let scalar_is_exact = scalar != 0.0 && odd_parts(scalar).1 == 1 && scalar * values.len() as f64 == 1.0;
    let zero = values.iter().all(|value| *value == 0.0);
    let exact = zero || after.is_infinite() || scalar_is_exact;
    (exact && (after * scalar).to_bits() == before.to_bits()).then_some(before)
}

/// The product if it is the same in any order.
fn product(float: Float, values: &[f64]) -> Option<f64> {
    if values.iter().any(|v| v.is_nan()) {
        return Some(f64::NAN);
    }
    if let [a, b] = values {
        return Some(float.round(a * b));
    }
    let infinite = values.iter().any(|v| v.is_infinite());
    let zero = values.contains(&0.0);
    match (infinite, zero) {
        (true, _) if float.saturates() => return None,
        (true, true) => return Some(f64::NAN),
        _ => {}
    }
    let (mut mantissa, mut bits, mut low, mut high, mut negative) = (1u64, 0, 0i64, 0i64, false);
    for value in values.iter().filter(|v| !v.is_nan()) {
        negative ^= value.is_sign_negative();
        if *value == 0.0 || value.is_infinite() {
            continue;
        }
        let (_, m, e) = odd_parts(*value);
        // A power of two is its own bound, so that many ones, or ones and a two, do not seem to overflow.
        let length = if m == 1 { 0 } else { 64 - m.leading_zeros() as i64 };
        low += i64::from(e).min(0);
        high += (i64::from(e) + length).max(0);
        if bits <= float.precision() {
            let wide = u128::from(mantissa) * u128::from(m);
            bits = 128 - wide.leading_zeros() as i32;
            mantissa = wide as u64;
        }
    }
    let sign = if negative { -1.0 } else { 1.0 };
    // The product of the large factors is at most 2^high, so no partial product overflows.
    let bounded = power(high.min(2000) as i32) <= float.max_finite();
    if zero {
        // Zero times infinity is the only way to anything but zero; what saturates can only get there in f32.
        let bounded = bounded || (float.saturates() && power(high.min(2000) as i32) <= Float::F32.max_finite());
        return bounded.then_some(0.0 * sign);
    }
    let exact = bits <= float.precision() && low >= i64::from(float.least_exponent());
    match infinite {
        // The finite factors must not become zero before they meet the infinity.
        true => exact.then_some(f64::INFINITY * sign),
        false => (exact && bounded).then(|| values.iter().product()),
    }
}
