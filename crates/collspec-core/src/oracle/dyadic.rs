//! Exact numbers `mantissa * 2^exponent` of any length.
use crate::num::{DType, FloatFormat, decode_f64, round};
use num_bigint::{BigInt, BigUint, Sign};
use std::cmp::Ordering;

/// A dyadic rational: a whole number times a power of two.
#[derive(Clone, Debug)]
pub(super) struct Dyadic {
    mantissa: BigInt,
    exponent: i64,
}

impl Dyadic {
    pub fn new(mantissa: BigInt, exponent: i64) -> Self {
        Self { mantissa, exponent }
    }

    /// Converts a finite number; others count as 0.
    pub fn from_f64(value: f64) -> Self {
        if value == 0.0 || !value.is_finite() {
            return Self::new(BigInt::ZERO, 0);
        }
        let (negative, mantissa, exponent) = super::float::odd_parts(value);
        let mantissa = BigInt::from(mantissa);
        Self::new(if negative { -mantissa } else { mantissa }, exponent.into())
    }

    /// The number 2^exponent.
    pub fn power(exponent: i32) -> Self {
        Self::new(BigInt::from(1), exponent.into())
    }

    pub fn add(&self, other: &Self) -> Self {
        let (high, low) = if self.exponent >= other.exponent { (self, other) } else { (other, self) };
        let shifted = &high.mantissa << (high.exponent - low.exponent) as u64;
        Self::new(shifted + &low.mantissa, low.exponent)
    }

    pub fn neg(&self) -> Self {
        Self::new(-&self.mantissa, self.exponent)
    }

    pub fn mul(&self, other: &Self) -> Self {
        Self::new(&self.mantissa * &other.mantissa, self.exponent + other.exponent)
    }

    pub fn abs(&self) -> Self {
        Self::new(self.mantissa.magnitude().clone().into(), self.exponent)
    }

    pub fn cmp(&self, other: &Self) -> Ordering {
        match self.add(&other.neg()).mantissa.sign() {
            Sign::Minus => Ordering::Less,
            Sign::NoSign => Ordering::Equal,
            Sign::Plus => Ordering::Greater,
        }
    }

    /// The nearest value of a floating-point type, as bits; ties to even, overflow by the rule of the type.
    pub fn nearest(&self, dtype: DType) -> u64 {
        let Some(format) = FloatFormat::of(dtype) else { return 0 };
        let magnitude: &BigUint = self.mantissa.magnitude();
        // More than twice the longest precision, and a last bit for everything after it.
        let cut = magnitude.bits().saturating_sub(120);
        let lead = u128::try_from(magnitude >> cut).unwrap_or(0);
        let rest = u128::from(cut > 0 && magnitude.trailing_zeros().is_some_and(|zeros| zeros < cut));
        let exponent = (self.exponent + cut as i64 - 1).clamp(-100_000, 100_000) as i32;
        round(&format, self.mantissa.sign() == Sign::Minus, lead << 1 | rest, exponent)
    }

    /// The neighbouring values of the type, below and above (or the number itself), as f64; largest finite values
    /// where the type ends.
    pub fn around(&self, dtype: DType) -> (f64, f64) {
        let largest = FloatFormat::of(dtype).map_or(f64::MAX, |format| decode_f64(dtype, format.max_code));
        let near = decode_f64(dtype, self.nearest(dtype)).clamp(-largest, largest);
        let step = |up: bool| step(dtype, near, up).clamp(-largest, largest);
        match self.cmp(&Self::from_f64(near)) {
            Ordering::Equal => (near, near),
            Ordering::Less => (step(false), near),
            Ordering::Greater => (near, step(true)),
        }
    }
}

/// The next value of the type.
fn step(dtype: DType, value: f64, up: bool) -> f64 {
    let Some(format) = FloatFormat::of(dtype) else { return value };
    let (negative, code) = format.split(crate::num::encode_f64(dtype, value));
    let bits = match (code, up == negative) {
        (0, _) => format.signed(!up, 1),
        (_, true) => format.signed(negative, code - 1),
        (_, false) => format.signed(negative, code + 1),
    };
    match decode_f64(dtype, bits) {
        next if next.is_finite() => next,
        _ => value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_and_products_are_exact() {
        let sum = Dyadic::from_f64(1e300).add(&Dyadic::from_f64(-3e-300)).add(&Dyadic::from_f64(-1e300));
        assert_eq!(sum.cmp(&Dyadic::from_f64(-3e-300)), Ordering::Equal);
        let product = Dyadic::from_f64(0.1).mul(&Dyadic::from_f64(-0.2));
        assert_eq!(decode_f64(DType::F64, product.nearest(DType::F64)), -0.1 * 0.2);
        assert_eq!(product.abs().cmp(&product.neg()), Ordering::Equal);
    }

    #[test]
    fn neighbours_enclose() {
        let third = Dyadic::from_f64(1.0 / 3.0);
        let (low, high) = third.around(DType::F16);
        assert_eq!((low, high), (0.333251953125, 0.33349609375));
        assert_eq!(third.neg().around(DType::F16), (-high, -low));
        let tiny = Dyadic::power(-2000);
        assert_eq!(tiny.around(DType::F32), (0.0, f64::from(f32::from_bits(1))));
        assert_eq!(tiny.neg().around(DType::F32), (-f64::from(f32::from_bits(1)), 0.0));
        assert_eq!(Dyadic::from_f64(500.0).around(DType::F8e4m3), (448.0, 448.0));
        // Half a place and a little, far below.
        let long = Dyadic::from_f64(1.0).add(&Dyadic::power(-11)).add(&Dyadic::power(-400));
        assert_eq!(long.nearest(DType::F16), 0x3c01);
    }
}
