//! The floating-point types with values held in f64, and rounding to them. `num` rounds whole mantissas with different code; the
//! tests compare the two at every tie.
//!
//! Why f64 is enough. Every type but f64 itself has at most 24 significant bits. The sum of two such values, taken in f64
//! (53 >= 2 * 24 + 2 bits) and then rounded to the type, equals the exact sum rounded once: rounding twice is harmless when
//! the wider precision is at least twice the narrower plus two. The same holds for f32 between f16, bf16 or 8 bits and the
//! exact sum, and for f16 between 8 bits and the exact sum. Products of two such values are exact in f64. Only product plus
//! addend is not covered by that rule; there [`add_to_odd`] keeps what rounding would lose.
use crate::num::DType;

/// A floating-point type of the language.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Float {
    F64,
    F32,
    F16,
    Bf16,
    E4m3,
    E5m2,
}

impl Float {
    pub const fn of(dtype: DType) -> Option<Self> {
        Some(match dtype {
            DType::F64 => Self::F64,
            DType::F32 => Self::F32,
            DType::F16 => Self::F16,
            DType::Bf16 => Self::Bf16,
            DType::F8e4m3 => Self::E4m3,
            DType::F8e5m2 => Self::E5m2,
            DType::I8 | DType::U8 | DType::I32 | DType::U32 | DType::I64 | DType::U64 => return None,
        })
    }

    /// The type's name in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::F64 => "f64",
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::E4m3 => "f8e4m3",
            Self::E5m2 => "f8e5m2",
        }
    }

    /// Number of significant bits.
    pub const fn precision(self) -> i32 {
        match self {
            Self::F64 => 53,
            Self::F32 => 24,
            Self::F16 => 11,
            Self::Bf16 => 8,
            Self::E4m3 => 4,
            Self::E5m2 => 3,
        }
    }

    /// Exponent of the least normal value.
    pub const fn min_normal_exponent(self) -> i32 {
        match self {
            Self::F64 => -1022,
            Self::F32 | Self::Bf16 => -126,
            Self::F16 | Self::E5m2 => -14,
            Self::E4m3 => -6,
        }
    }

    /// Exponent of the least positive value.
    pub const fn least_exponent(self) -> i32 {
        self.min_normal_exponent() - self.precision() + 1
    }

    /// The largest finite value.
    pub fn max_finite(self) -> f64 {
        match self {
            Self::F64 => f64::MAX,
            Self::F32 => f64::from(f32::MAX),
            Self::F16 => 65504.0,
            Self::Bf16 => 255.0 * power(120),
            Self::E4m3 => 448.0,
            Self::E5m2 => 57344.0,
        }
    }

    /// True for the 8-bit types, which turn values that are too large (including infinity) into the largest finite value.
    pub const fn saturates(self) -> bool {
        matches!(self, Self::E4m3 | Self::E5m2)
    }

    /// Rounds to nearest, ties to even; every NaN becomes the same one.
    #[inline]
    pub fn round(self, value: f64) -> f64 {
        match self {
            _ if value.is_nan() => f64::NAN,
            Self::F64 => value,
            Self::F32 => f64::from(value as f32),
            Self::F16 => narrow::<11, -14>(value, 65504.0, f64::INFINITY),
            Self::Bf16 => narrow::<8, -126>(value, Self::Bf16.max_finite(), f64::INFINITY),
            Self::E4m3 => narrow::<4, -6>(value, 448.0, 448.0),
            Self::E5m2 => narrow::<3, -14>(value, 57344.0, 57344.0),
        }
    }
}

/// 2^exponent; 0 or infinity outside f64's normal range.
pub(super) const fn power(exponent: i32) -> f64 {
    match exponent {
        ..-1022 => 0.0,
        -1022..=1023 => f64::from_bits(((exponent + 1023) as u64) << 52),
        _ => f64::INFINITY,
    }
}

#[inline]
fn narrow<const PRECISION: i32, const MIN_NORMAL: i32>(value: f64, max: f64, too_large: f64) -> f64 {
    let magnitude = value.abs();
    let rounded = if magnitude < power(MIN_NORMAL) {
        // Next to 2^52 least values, f64's own last place is the least value.
        let anchor = power(MIN_NORMAL - PRECISION + 1 + 52);
        (magnitude + anchor) - anchor
    } else {
        let cut = (53 - PRECISION) as u32;
        let bits = magnitude.to_bits();
        let up = ((1 << (cut - 1)) - 1) + (bits >> cut & 1);
        f64::from_bits((bits + up) >> cut << cut)
    };
    (if rounded > max { too_large } else { rounded }).copysign(value)
}

/// `a + b` rounded to odd: towards zero, and with the last bit set if anything was lost. Rounding that to any type of at
/// most 51 bits equals rounding the exact sum. Must not overflow.
#[inline]
pub(super) fn add_to_odd(a: f64, b: f64) -> f64 {
    let sum = a + b;
    if !sum.is_finite() {
        return sum;
    }
    // Knuth's two-sum: sum + error is a + b exactly.
    let part = sum - a;
    let error = (a - (sum - part)) + (b - part);
    if error == 0.0 || sum.to_bits() & 1 == 1 {
        return sum;
    }
    // An even last place with something lost: its odd neighbour on the side of the exact sum.
    if error > 0.0 { sum.next_up() } else { sum.next_down() }
}

/// `x * s + addend`, rounded once to `to`.
#[inline]
pub(super) fn fused(to: Float, x: f64, s: f64, addend: f64) -> f64 {
    match to {
        Float::F64 => to.round(libm::fma(x, s, addend)),
        _ => to.round(add_to_odd(x * s, addend)),
    }
}

/// Sign, odd mantissa and exponent of a finite, nonzero value.
pub(super) fn odd_parts(value: f64) -> (bool, u64, i32) {
    let bits = value.to_bits();
    let (field, low) = ((bits >> 52 & 0x7ff) as i32, bits & ((1 << 52) - 1));
    let (mantissa, exponent) = if field == 0 { (low, -1074) } else { (low | 1 << 52, field - 1075) };
    let zeros = mantissa.trailing_zeros();
    (value.is_sign_negative(), mantissa >> zeros, exponent + zeros as i32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::num::{decode_f64, encode_f64};

    #[test]
    fn rounding_agrees_with_num_at_every_tie_and_beside_it() {
        for dtype in [DType::F16, DType::Bf16, DType::F8e4m3, DType::F8e5m2] {
            let float = Float::of(dtype).unwrap();
            for code in 0..1u64 << (dtype.bits() - 1) {
                let (low, high) = (decode_f64(dtype, code), decode_f64(dtype, code + 1));
                if !high.is_finite() {
                    break;
                }
                let tie = low + (high - low) / 2.0;
                for probe in [low, tie, tie.next_up(), tie.next_down(), low.next_up(), high.next_down()] {
                    for probe in [probe, -probe] {
                        let want = decode_f64(dtype, encode_f64(dtype, probe));
                        assert_eq!(float.round(probe).to_bits(), want.to_bits(), "{dtype:?} {probe:e}");
                    }
                }
            }
            for probe in [
                float.max_finite() * 1.01,
                float.max_finite() * 1.1,
                f64::MAX,
                f64::INFINITY,
                f64::NEG_INFINITY,
                1e-300,
            ] {
                let want = decode_f64(dtype, encode_f64(dtype, probe));
                assert_eq!(float.round(probe).to_bits(), want.to_bits(), "{dtype:?} {probe:e}");
            }
            assert_eq!(crate::num::max_finite(dtype), Some(float.max_finite()));
        }
    }

    #[test]
    fn a_sum_rounded_to_odd_keeps_what_a_tie_needs() {
        // 1 + 2^-8 is a tie of bf16; a far smaller addend decides it.
        let tie = 1.0 + power(-8);
        assert_eq!(Float::Bf16.round(tie + power(-60)), 1.0);
        assert_eq!(Float::Bf16.round(add_to_odd(tie, power(-60))), 1.0 + power(-7));
        assert_eq!(Float::Bf16.round(add_to_odd(tie, -power(-60))), 1.0);
        assert_eq!(Float::Bf16.round(add_to_odd(-tie, -power(-60))), -1.0 - power(-7));
    }

    #[test]
    fn fused_f32_is_the_machines() {
        let source = crate::num::Random::new(DType::F32, 9, None, None);
        for i in 0..100_000 {
            let [x, s, c] = [0, 1, 2].map(|rank| f32::from_bits(source.bits(rank, i) as u32));
            let want = x.mul_add(s, c);
            assert_eq!(fused(Float::F32, x.into(), s.into(), c.into()), f64::from(want));
        }
    }

    #[test]
    fn parts_are_odd() {
        assert_eq!(odd_parts(-12.0), (true, 3, 2));
        assert_eq!(odd_parts(f64::from_bits(6)), (false, 3, -1073));
    }
}
