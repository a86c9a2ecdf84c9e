//! Floating-point formats and exact values, for arithmetic that rounds wrongly or in the wrong place.
use crate::element::Type;

/// The meaning of the largest exponent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Specials {
    /// The format has infinities and NaN.
    Ieee,
    /// Numbers, and one NaN of either sign.
    OneNan,
    /// Numbers alone: the one NaN has the bits that would be -0.
    NanForNegativeZero,
}

/// A binary floating-point format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Format {
    width: u32,
    fraction: u32,
    bias: i32,
    specials: Specials,
}

const fn ieee(exponent: u32, fraction: u32) -> Format {
    Format { width: 1 + exponent + fraction, fraction, bias: (1 << (exponent - 1)) - 1, specials: Specials::Ieee }
}

pub(super) const F64: Format = ieee(11, 52);
pub(super) const F32: Format = ieee(8, 23);
pub(super) const F16: Format = ieee(5, 10);
pub(super) const BF16: Format = ieee(8, 7);
/// The inputs of some matrix units: the range of f32 with the digits of f16.
pub(super) const TF32: Format = ieee(8, 10);
pub(super) const E5M2: Format = ieee(5, 2);
pub(super) const E4M3: Format = Format { width: 8, fraction: 3, bias: 7, specials: Specials::OneNan };
/// The 8-bit formats with suffix FNUZ of another vendor: a bias larger by one, no infinities and no -0.
pub(super) const E5M2_FNUZ: Format = Format { width: 8, fraction: 2, bias: 16, specials: Specials::NanForNegativeZero };
pub(super) const E4M3_FNUZ: Format = Format { width: 8, fraction: 3, bias: 8, specials: Specials::NanForNegativeZero };

/// A value without rounding: mantissa * 2^exponent, and a little more if `more` (less than one unit of the mantissa).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value {
    Nan,
    Infinite { negative: bool },
    Finite { negative: bool, mantissa: u128, exponent: i32, more: bool },
}

/// The rounding mode of a conversion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rounding {
    NearestEven,
    NearestAway,
    TowardZero,
    Up,
}

/// The result for a value beyond the largest number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Overflow {
    Infinity,
    Largest,
    Nan,
}

impl Format {
    /// The format of a type; `None` for integers.
    pub(super) fn of(ty: Type) -> Option<Self> {
        Some(match ty {
            Type::F64 => F64,
            Type::F32 => F32,
            Type::F16 => F16,
            Type::Bf16 => BF16,
            Type::E4m3 => E4M3,
            Type::E5m2 => E5M2,
            _ => return None,
        })
    }

    /// The same range with one bit less.
    pub(super) fn coarser(self) -> Self {
        Self { width: self.width - 1, fraction: self.fraction - 1, ..self }
    }

    /// The overflow rule of the type that has this format.
    pub(super) fn usual_overflow(self) -> Overflow {
        if self.width == 8 { Overflow::Largest } else { Overflow::Infinity }
    }

    pub(super) fn sign(self) -> u64 {
        1 << (self.width - 1)
    }

    fn exponents(self) -> u64 {
        (self.sign() - 1) >> self.fraction << self.fraction
    }

    pub(super) fn infinity(self) -> Option<u64> {
        (self.specials == Specials::Ieee).then(|| self.exponents())
    }

    pub(super) fn largest(self) -> u64 {
        match self.specials {
            Specials::Ieee => self.exponents() - 1,
            Specials::OneNan => self.sign() - 2,
            Specials::NanForNegativeZero => self.sign() - 1,
        }
    }

    pub(super) fn nan(self) -> u64 {
        match self.specials {
            Specials::Ieee => self.exponents() | 1 << (self.fraction - 1),
            Specials::OneNan => self.sign() - 1,
            Specials::NanForNegativeZero => self.sign(),
        }
    }

    pub(super) fn is_nan(self, bits: u64) -> bool {
        match self.specials {
            Specials::NanForNegativeZero => bits == self.sign(),
            _ => bits & (self.sign() - 1) > self.infinity().unwrap_or(self.largest()),
        }
    }

    /// The fraction's highest bit, which says that a NaN is quiet.
    pub(super) fn quiet(self) -> u64 {
        1 << (self.fraction - 1)
    }

    /// True for a NaN that is not quiet; a format with one NaN has none.
    pub(super) fn is_signalling(self, bits: u64) -> bool {
        self.specials == Specials::Ieee && self.is_nan(bits) && bits & self.quiet() == 0
    }

    /// The element nearest to a number.
    pub(super) fn nearest(self, number: f64) -> u64 {
        self.encode(F64.decode(number.to_bits()), Rounding::NearestEven, self.usual_overflow())
    }

    /// The sum as it is beyond the largest number where that is not its end; `None` where it is not beyond.
    pub(super) fn sum_beyond(self, a: u64, b: u64) -> Option<u64> {
        let finite = |bits: u64| matches!(self.decode(bits), Value::Finite { .. });
        let sum = self.decode(a).sum(self.decode(b));
        let [ends, leaves] = [self.usual_overflow(), Overflow::Infinity]
            .map(|overflow| self.encode(sum, Rounding::NearestEven, overflow));
        (finite(a) && finite(b) && ends != leaves).then_some(leaves)
    }

    pub(super) fn is_infinite(self, bits: u64) -> bool {
        Some(bits & (self.sign() - 1)) == self.infinity()
    }

    pub(super) fn is_subnormal(self, bits: u64) -> bool {
        bits & self.exponents() == 0 && bits & (self.sign() - 1) != 0
    }

    pub(super) fn decode(self, bits: u64) -> Value {
        let negative = bits & self.sign() != 0;
        if self.is_nan(bits) {
            return Value::Nan;
        }
        if self.is_infinite(bits) {
            return Value::Infinite { negative };
        }
        let field = (bits & (self.sign() - 1)) >> self.fraction;
        let fraction = u128::from(bits & ((1 << self.fraction) - 1));
        let mantissa = if field == 0 { fraction } else { fraction | 1 << self.fraction };
        let exponent = (field as i32).max(1) - self.bias - self.fraction as i32;
        Value::Finite { negative, mantissa, exponent, more: false }
    }

    pub(super) fn encode(self, value: Value, rounding: Rounding, overflow: Overflow) -> u64 {
        let signed = |bits: u64, negative: bool| match negative {
            true if bits == 0 && self.specials == Specials::NanForNegativeZero => 0,
            true => bits | self.sign(),
            false => bits,
        };
        let beyond = |negative| match (overflow, self.infinity()) {
            (Overflow::Infinity, Some(infinity)) => signed(infinity, negative),
            (Overflow::Largest, _) => signed(self.largest(), negative),
            _ => self.nan(),
        };
        match value {
            Value::Nan => self.nan(),
            Value::Infinite { negative } => beyond(negative),
            Value::Finite { negative, mantissa, exponent, more } => {
                let magnitude = self.magnitude(negative, mantissa, exponent, more, rounding);
                if magnitude <= self.largest() {
                    return signed(magnitude, negative);
                }
                match rounding {
                    Rounding::TowardZero => signed(self.largest(), negative),
                    Rounding::Up if negative => signed(self.largest(), negative),
                    _ => beyond(negative),
                }
            }
        }
    }

    /// The bits without the sign; they may encode a number above the largest.
    fn magnitude(self, negative: bool, mantissa: u128, exponent: i32, more: bool, rounding: Rounding) -> u64 {
        if mantissa == 0 {
            return u64::from(more && rounding == Rounding::Up && !negative);
        }
        let highest = exponent + 127 - mantissa.leading_zeros() as i32;
        let least = 1 - self.bias - self.fraction as i32;
        // The weight of the last place that is kept.
        let unit = (highest - self.fraction as i32).max(least);
        let shift = unit - exponent;
        let (kept, half, rest) = match shift {
            ..=0 => (mantissa << shift.unsigned_abs().min(127), false, more),
            1..=127 => {
                let half = mantissa >> (shift - 1) & 1 == 1;
                (mantissa >> shift, half, more || mantissa & ((1 << (shift - 1)) - 1) != 0)
            }
            _ => (0, false, true),
        };
        let up = match rounding {
            Rounding::NearestEven => half && (rest || kept & 1 == 1),
            Rounding::NearestAway => half,
            Rounding::TowardZero => false,
            Rounding::Up => !negative && (half || rest),
        };
        // A normal number's highest bit counts as one more in the exponent; so does a carry out of the fraction.
        let steps = (unit - least) as u64;
        if steps > self.exponents() >> self.fraction {
            return u64::MAX;
        }
        (steps << self.fraction) + kept as u64 + u64::from(up)
    }
}

impl Value {
    pub(super) fn sum(self, other: Self) -> Self {
        match (self, other) {
            (Self::Nan, _) | (_, Self::Nan) => Self::Nan,
            (Self::Infinite { negative: a }, Self::Infinite { negative: b }) if a != b => Self::Nan,
            (Self::Infinite { .. }, _) => self,
            (_, Self::Infinite { .. }) => other,
            (
                Self::Finite { negative: s, mantissa: m, exponent: e, .. },
                Self::Finite { negative: t, mantissa: k, exponent: f, .. },
            ) => match (m, k) {
                (0, 0) => Self::Finite { negative: s && t, mantissa: 0, exponent: 0, more: false },
                (0, _) => other,
                (_, 0) => self,
                _ if e < f => add((t, k, f), (s, m, e)),
                _ => add((s, m, e), (t, k, f)),
            },
        }
    }

    pub(super) fn product(self, other: Self) -> Self {
        let negative = self.is_negative() != other.is_negative();
        match (self, other) {
            (Self::Nan, _) | (_, Self::Nan) => Self::Nan,
            (Self::Infinite { .. }, zero) | (zero, Self::Infinite { .. }) if zero.is_zero() => Self::Nan,
            (Self::Infinite { .. }, _) | (_, Self::Infinite { .. }) => Self::Infinite { negative },
            (Self::Finite { mantissa: m, exponent: e, .. }, Self::Finite { mantissa: k, exponent: f, .. }) => {
                Self::Finite { negative, mantissa: m * k, exponent: e + f, more: false }
            }
        }
    }

    pub(super) fn is_zero(self) -> bool {
        matches!(self, Self::Finite { mantissa: 0, more: false, .. })
    }

    pub(super) fn is_negative(self) -> bool {
        match self {
            Self::Nan => false,
            Self::Infinite { negative } | Self::Finite { negative, .. } => negative,
        }
    }
}

/// Adds two values that are not zero; the first has the larger exponent (or the same).
fn add((s, m, e): (bool, u128, i32), (t, k, f): (bool, u128, i32)) -> Value {
    let apart = (e - f).unsigned_abs();
    // Mantissas have at most 53 bits, so 64 more places are kept; bits below those matter only as "more".
    let (m, k, exponent, more) = match apart {
        0..=64 => (m << apart, k, f, false),
        _ => {
            let below = (apart - 64).min(127);
            (m << 64, k >> below, e - 64, k & ((1 << below) - 1) != 0)
        }
    };
    if s == t {
        return Value::Finite { negative: s, mantissa: m + k, exponent, more };
    }
    match m.cmp(&k) {
        std::cmp::Ordering::Equal => Value::Finite { negative: false, mantissa: 0, exponent: 0, more: false },
        std::cmp::Ordering::Less => Value::Finite { negative: t, mantissa: k - m, exponent, more },
        // The subtrahend is a little more than `k`, so the result is one unit less and a little more than that.
        std::cmp::Ordering::Greater => {
            Value::Finite { negative: s, mantissa: m - k - u128::from(more), exponent, more }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nearest(format: Format, value: Value) -> u64 {
        format.encode(value, Rounding::NearestEven, format.usual_overflow())
    }

    #[test]
    fn sums_and_products_are_the_machines() {
        let mut state = 9u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state ^ state >> 29
        };
        for _ in 0..20_000 {
            let (a, b) = (next(), next());
            // Near each other, so that sums cancel, and far apart.
            let b = if a & 1 == 0 { b } else { a ^ (b & 0x801f_ffff_ffff_ffff) };
            let (x, y) = (f64::from_bits(a), f64::from_bits(b));
            let (v, w) = (F64.decode(a), F64.decode(b));
            for (exact, machine) in [(v.sum(w), x + y), (v.product(w), x * y)] {
                let bits = nearest(F64, exact);
                assert!(bits == machine.to_bits() || machine.is_nan() && F64.is_nan(bits), "{x:e} {y:e}");
            }
            let (x, y) = (f32::from_bits(a as u32), f32::from_bits((a ^ b >> 32) as u32));
            let (v, w) = (F32.decode(x.to_bits().into()), F32.decode(y.to_bits().into()));
            for (exact, machine) in [(v.sum(w), x + y), (v.product(w), x * y)] {
                let bits = nearest(F32, exact);
                assert!(bits == machine.to_bits().into() || machine.is_nan() && F32.is_nan(bits), "{x:e} {y:e}");
            }
        }
    }

    #[test]
    fn every_code_comes_back() {
        for format in [F16, BF16, E4M3, E5M2, E4M3_FNUZ, E5M2_FNUZ] {
            for bits in 0..format.sign() * 2 {
                let back = format.encode(format.decode(bits), Rounding::NearestEven, Overflow::Infinity);
                assert!(back == bits || format.is_nan(bits) && format.is_nan(back), "{format:?} {bits:#x} {back:#x}");
            }
        }
    }

    #[test]
    fn roundings_and_ranges() {
        let sum = |a: f32, b: f32| F32.decode(a.to_bits().into()).sum(F32.decode(b.to_bits().into()));
        let bf16 = |value, rounding| f32::from_bits((BF16.encode(value, rounding, Overflow::Infinity) << 16) as u32);
        let tie = sum(1.0, 1.0 / 256.0);
        assert_eq!(bf16(tie, Rounding::NearestEven), 1.0);
        assert_eq!(bf16(tie, Rounding::NearestAway), 1.0078125);
        assert_eq!(bf16(tie, Rounding::TowardZero), 1.0);
        assert_eq!(bf16(tie, Rounding::Up), 1.0078125);
        assert_eq!(bf16(sum(-1.0, -1.0 / 256.0), Rounding::Up), -1.0);
        assert_eq!(bf16(sum(1.0, 1e-30), Rounding::Up), 1.0078125);
        assert_eq!(bf16(sum(1.0, -1e-30), Rounding::TowardZero), 0.99609375);
        assert_eq!(E4M3.largest(), 0x7e);
        assert_eq!(E5M2.encode(Value::Infinite { negative: true }, Rounding::NearestEven, Overflow::Largest), 0xfb);
        // 448 is 0x7e; the other vendor's largest number is 240.
        assert_eq!(E4M3_FNUZ.encode(E4M3.decode(0x7e), Rounding::NearestEven, Overflow::Largest), 0x7f);
        assert_eq!(E4M3_FNUZ.decode(0x7f), E4M3.decode(0x77));
    }
}
