//! Rows: the values of neighbouring elements of one rank, for loops that compilers turn into vector instructions.
//!
//! The oracle computes single columns in f64 (see `float`). Rows of types below f64 may be computed in f32 where nothing is
//! multiplied: the sum of two values of a type with p significant bits, taken in f32 and then rounded to the type, equals the
//! exact sum rounded once, because 24 >= 2p + 2 for f16, bf16 and 8 bits, and f32 itself is rounded once. Sums that are
//! subnormal in any of these types are exact in f32. Products may lie below f32's least value, so they are taken in f64.
use super::float::{Float, power};
use crate::num::{DType, canonical_nan, decode_f64, encode_f64, get_element, put_element};
use std::ops::{Add, Mul, Sub};
use std::sync::LazyLock;

/// Number of elements of a row; the rows of a few ranks fit the cache.
pub(super) const ROW: usize = 256;

/// The values of up to [`ROW`] neighbouring elements of one rank.
pub(super) type Row<W> = [W; ROW];

/// A machine type in which rows are computed.
pub(super) trait Machine:
    Copy + PartialOrd + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self>
{
    const ZERO: Self;
    const ONE: Self;
    const INFINITY: Self;
    /// Number of significant bits.
    const PRECISION: i32;

    fn to_f64(self) -> f64;
    /// Converts a value that the type can hold.
    fn of_f64(value: f64) -> Self;
    fn abs(self) -> Self;
    /// True for equal bits, or two NaN.
    fn is_same(self, other: Self) -> bool;
    /// The value of the last set bit in the mantissa of a finite value; 0 for zero.
    fn last_place(self) -> Self;
    /// Decodes as many elements as the row has, from the first byte on; missing ones stay unchanged.
    fn decode(dtype: DType, bytes: &[u8], row: &mut [Self]);
    /// Rounds to a type like [`Float::round`]; NaNs may be any.
    fn round_row(to: Float, row: &mut [Self]);
    /// Adds another row and rounds each sum to a type.
    fn add_rounded(to: Float, row: &mut [Self], other: &[Self]);
}

/// Implements the parts that are identical for both machine types.
macro_rules! alike_for_both_machines {
    ($own:ident) => {
        const ZERO: Self = 0.0;
        const ONE: Self = 1.0;
        const INFINITY: Self = $own::INFINITY;
        const PRECISION: i32 = $own::MANTISSA_DIGITS as i32;

        #[inline(always)]
        fn abs(self) -> Self {
            $own::abs(self)
        }
        #[inline(always)]
        fn is_same(self, other: Self) -> bool {
            (self.to_bits() == other.to_bits()) | (self.is_nan() & other.is_nan())
        }
        #[inline(always)]
        fn last_place(self) -> Self {
            const ABOVE_FRACTION: u32 = 8 * size_of::<$own>() as u32 - ($own::MANTISSA_DIGITS - 1);
            let (magnitude, bits) = (self.abs(), self.abs().to_bits());
            // For a power of two, the last set bit belongs to the exponent.
            let others = if bits << ABOVE_FRACTION == 0 { 0 } else { bits & bits.wrapping_sub(1) };
            magnitude - $own::from_bits(others)
        }
    };
}

impl Machine for f32 {
    alike_for_both_machines!(f32);

    #[inline(always)]
    fn to_f64(self) -> f64 {
        f64::from(self)
    }
    #[inline(always)]
    fn of_f64(value: f64) -> Self {
        value as f32
    }

    fn decode(dtype: DType, bytes: &[u8], row: &mut [Self]) {
        match dtype {
            DType::F32 => {
                row.iter_mut().zip(bytes.as_chunks::<4>().0).for_each(|(v, b)| *v = f32::from_le_bytes(*b));
            }
            DType::Bf16 => {
                let value = |b: &[u8; 2]| f32::from_bits(u32::from(u16::from_le_bytes(*b)) << 16);
                row.iter_mut().zip(bytes.as_chunks::<2>().0).for_each(|(v, b)| *v = value(b));
            }
            DType::F16 => {
                row.iter_mut().zip(bytes.as_chunks::<2>().0).for_each(|(v, b)| *v = of_half(u16::from_le_bytes(*b)));
            }
            DType::F8e4m3 | DType::F8e5m2 => {
                let values = if dtype == DType::F8e4m3 { &EIGHT_BITS.0 } else { &EIGHT_BITS.1 };
                row.iter_mut().zip(bytes).for_each(|(v, b)| *v = values[usize::from(*b)]);
            }
            _ => {
                let count = bytes.len() / dtype.size();
                let value = |i| decode_f64(dtype, get_element(dtype, bytes, i)) as f32;
                row.iter_mut().take(count).enumerate().for_each(|(i, v)| *v = value(i));
            }
        }
    }

    fn round_row(to: Float, row: &mut [Self]) {
        match to {
            Float::F64 | Float::F32 => {}
            Float::F16 => row.iter_mut().for_each(|v| *v = to_f16(*v)),
            Float::Bf16 => row.iter_mut().for_each(|v| *v = to_bf16(*v)),
            Float::E4m3 => row.iter_mut().for_each(|v| *v = to_e4m3(*v)),
            Float::E5m2 => row.iter_mut().for_each(|v| *v = to_e5m2(*v)),
        }
    }

    fn add_rounded(to: Float, row: &mut [Self], other: &[Self]) {
        match to {
            Float::F64 | Float::F32 => each(row, other, |a, b| a + b),
            Float::F16 => each(row, other, |a, b| to_f16(a + b)),
            Float::Bf16 => each(row, other, |a, b| to_bf16(a + b)),
            Float::E4m3 => each(row, other, |a, b| to_e4m3(a + b)),
            Float::E5m2 => each(row, other, |a, b| to_e5m2(a + b)),
        }
    }
}

impl Machine for f64 {
    alike_for_both_machines!(f64);

    #[inline(always)]
    fn to_f64(self) -> f64 {
        self
    }
    #[inline(always)]
    fn of_f64(value: f64) -> Self {
        value
    }

    fn decode(dtype: DType, bytes: &[u8], row: &mut [Self]) {
        if dtype == DType::F64 {
            return row.iter_mut().zip(bytes.as_chunks::<8>().0).for_each(|(v, b)| *v = f64::from_le_bytes(*b));
        }
        let mut narrow = [0.0f32; ROW];
        for (row, bytes) in row.chunks_mut(ROW).zip(bytes.chunks(ROW * dtype.size())) {
            let count = row.len().min(bytes.len() / dtype.size());
            f32::decode(dtype, bytes, &mut narrow[..count]);
            row.iter_mut().zip(&narrow[..count]).for_each(|(v, n)| *v = f64::from(*n));
        }
    }

    fn round_row(to: Float, row: &mut [Self]) {
        // The type is written out so that each loop rounds to a single one.
        match to {
            Float::F64 => {}
            Float::F32 => row.iter_mut().for_each(|v| *v = f64::from(*v as f32)),
            Float::F16 => row.iter_mut().for_each(|v| *v = Float::F16.round(*v)),
            Float::Bf16 => row.iter_mut().for_each(|v| *v = Float::Bf16.round(*v)),
            Float::E4m3 => row.iter_mut().for_each(|v| *v = Float::E4m3.round(*v)),
            Float::E5m2 => row.iter_mut().for_each(|v| *v = Float::E5m2.round(*v)),
        }
    }

    fn add_rounded(to: Float, row: &mut [Self], other: &[Self]) {
        each(row, other, |a, b| a + b);
        Self::round_row(to, row);
    }
}

/// Combines two rows element by element.
#[inline(always)]
pub(super) fn each<W: Copy>(row: &mut [W], other: &[W], combine: impl Fn(W, W) -> W) {
    row.iter_mut().zip(other).for_each(|(a, b)| *a = combine(*a, *b));
}

/// Writes values of the type (or NaNs, which become its canonical one) as elements `from..`.
pub(super) fn encode<W: Machine>(dtype: DType, row: &[W], bytes: &mut [u8], from: usize) {
    let nan = canonical_nan(dtype);
    match dtype {
        DType::F32 => {
            let places = bytes.get_mut(4 * from..).unwrap_or_default().as_chunks_mut::<4>().0;
            for (place, value) in places.iter_mut().zip(row) {
                let value = value.to_f64() as f32;
                *place = (if value.is_nan() { nan as u32 } else { value.to_bits() }).to_le_bytes();
            }
        }
        DType::Bf16 => {
            let places = bytes.get_mut(2 * from..).unwrap_or_default().as_chunks_mut::<2>().0;
            for (place, value) in places.iter_mut().zip(row) {
                let value = value.to_f64() as f32;
                *place = (if value.is_nan() { nan as u16 } else { (value.to_bits() >> 16) as u16 }).to_le_bytes();
            }
        }
        DType::F16 => {
            let places = bytes.get_mut(2 * from..).unwrap_or_default().as_chunks_mut::<2>().0;
            for (place, value) in places.iter_mut().zip(row) {
                let value = value.to_f64() as f32;
                *place = (if value.is_nan() { nan as u16 } else { half_bits(value) }).to_le_bytes();
            }
        }
        _ => {
            let put = |(i, value): (usize, &W)| put_element(dtype, bytes, from + i, encode_f64(dtype, value.to_f64()));
            row.iter().enumerate().for_each(put);
        }
    }
}

/// Rounds to a type like `float::narrow`, without branches.
#[inline(always)]
fn narrow<const PRECISION: i32, const MIN_NORMAL: i32>(value: f32, max: f32, too_large: f32) -> f32 {
    let magnitude = value.abs();
    let bits = magnitude.to_bits();
    // Next to 2^23 least values, f32's own last place is the least value.
    let anchor = power_f32(MIN_NORMAL - PRECISION + 1 + 23);
    let subnormal = (magnitude + anchor) - anchor;
    let cut = (24 - PRECISION) as u32;
    let up = ((1 << (cut - 1)) - 1) + (bits >> cut & 1);
    let normal = f32::from_bits(bits.wrapping_add(up) >> cut << cut);
    let rounded = if magnitude < power_f32(MIN_NORMAL) { subnormal } else { normal };
    let bounded = if rounded > max { too_large } else { rounded };
    (if value.is_nan() { f32::NAN } else { bounded }).copysign(value)
}

const fn power_f32(exponent: i32) -> f32 {
    f32::from_bits(((exponent + 127) as u32) << 23)
}

#[inline(always)]
pub(super) fn to_f16(value: f32) -> f32 {
    narrow::<11, -14>(value, 65504.0, f32::INFINITY)
}

#[inline(always)]
pub(super) fn to_bf16(value: f32) -> f32 {
    // The largest finite value is that of f32 without its last 16 bits.
    narrow::<8, -126>(value, f32::from_bits(0x7f7f_0000), f32::INFINITY)
}

#[inline(always)]
pub(super) fn to_e4m3(value: f32) -> f32 {
    narrow::<4, -6>(value, 448.0, 448.0)
}

#[inline(always)]
pub(super) fn to_e5m2(value: f32) -> f32 {
    narrow::<3, -14>(value, 57344.0, 57344.0)
}

/// Between the exponent fields of f16 and f32, where f32 has its fraction.
const HALF_BIAS: u32 = (127 - 15) << 23;

/// The value of f16 bits.
#[inline(always)]
fn of_half(bits: u16) -> f32 {
    let code = u32::from(bits & 0x7fff);
    let subnormal = code as i32 as f32 * power_f32(-24);
    let normal = f32::from_bits((code << 13).wrapping_add(HALF_BIAS));
    let special = f32::from_bits(code << 13 | 0x7f80_0000);
    let magnitude = if code < 0x400 { subnormal } else { normal };
    let magnitude = if code < 0x7c00 { magnitude } else { special };
    f32::from_bits(magnitude.to_bits() | u32::from(bits & 0x8000) << 16)
}

/// The f16 bits of a value of f16, not of a NaN.
#[inline(always)]
fn half_bits(value: f32) -> u16 {
    let magnitude = value.abs();
    let subnormal = (magnitude.min(1.0) * power_f32(24)) as i32 as u32;
    let normal = magnitude.to_bits().wrapping_sub(HALF_BIAS) >> 13;
    let code = if magnitude < power_f32(-14) { subnormal } else { normal };
    let code = if magnitude > 65504.0 { 0x7c00 } else { code };
    (code | (value.to_bits() >> 16 & 0x8000)) as u16
}

/// The values of all codes of f8e4m3 and f8e5m2.
static EIGHT_BITS: LazyLock<([f32; 256], [f32; 256])> = LazyLock::new(|| {
    let values = |dtype| std::array::from_fn(|code| decode_f64(dtype, code as u64) as f32);
    (values(DType::F8e4m3), values(DType::F8e5m2))
});

/// 2^exponent where the machine type has it; infinite above.
pub(super) fn power_of<W: Machine>(exponent: i32) -> W {
    W::of_f64(power(exponent))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::num::mask;
    use crate::oracle::tests::FLOATS;

    const SMALL: [DType; 4] = [DType::F16, DType::Bf16, DType::F8e4m3, DType::F8e5m2];

    fn codes(dtype: DType) -> Vec<u8> {
        (0..=mask(dtype)).flat_map(|code| code.to_le_bytes()[..dtype.size()].to_vec()).collect()
    }

    #[test]
    fn every_code_is_decoded_and_encoded_as_one_element() {
        for dtype in SMALL {
            let bytes = codes(dtype);
            let count = bytes.len() / dtype.size();
            let (mut row, mut wide) = (vec![0.0f32; count], vec![0.0f64; count]);
            f32::decode(dtype, &bytes, &mut row);
            f64::decode(dtype, &bytes, &mut wide);
            let mut back = vec![0; bytes.len()];
            encode(dtype, &row, &mut back, 0);
            for i in 0..count {
                let bits = get_element(dtype, &bytes, i);
                let want = decode_f64(dtype, bits);
                assert!(f64::from(row[i]).is_same(want) && wide[i].is_same(want), "{dtype:?} {bits:#x}");
                let want = if want.is_nan() { canonical_nan(dtype) } else { encode_f64(dtype, want) };
                assert_eq!(get_element(dtype, &back, i), want, "{dtype:?} {bits:#x}");
            }
        }
    }

    #[test]
    fn rows_are_rounded_as_single_values_at_every_tie_and_beside_it() {
        for dtype in SMALL {
            let float = Float::of(dtype).unwrap();
            for code in 0..=mask(dtype) >> 1 {
                let (low, high) = (decode_f64(dtype, code), decode_f64(dtype, (code + 1) & mask(dtype) >> 1));
                let tie = (low + (high - low) / 2.0) as f32;
                let (low, high) = (low as f32, high as f32);
                for probe in [low, tie, tie.next_up(), tie.next_down(), low.next_up(), high.next_down()] {
                    for probe in [probe, -probe] {
                        let mut row = [probe];
                        f32::round_row(float, &mut row);
                        let want = float.round(f64::from(probe));
                        assert!(f64::from(row[0]).is_same(want), "{dtype:?} {probe:e} {:e} {want:e}", row[0]);
                    }
                }
            }
            let max = float.max_finite() as f32;
            for probe in [max.next_up(), max * 1.01, max * 1.1, f32::MAX, f32::INFINITY, f32::NAN, 1e-38, 1e-45, -0.0] {
                let mut row = [probe, -probe];
                f32::round_row(float, &mut row);
                for (row, probe) in row.into_iter().zip([probe, -probe]) {
                    let want = float.round(f64::from(probe));
                    assert!(f64::from(row).is_same(want), "{dtype:?} {probe:e} {row:e} {want:e}");
                }
            }
        }
    }

    #[test]
    fn sums_of_two_values_are_rounded_once() {
        for dtype in [DType::F8e4m3, DType::F8e5m2] {
            let float = Float::of(dtype).unwrap();
            for a in 0..256 {
                for b in 0..256 {
                    assert_sum(dtype, float, a, b);
                }
            }
        }
        for dtype in FLOATS.into_iter().filter(|dtype| *dtype != DType::F64) {
            let float = Float::of(dtype).unwrap();
            let source = crate::num::Random::new(DType::U64, 5, None, None);
            for i in 0..200_000 {
                let [a, b] = [0, 1].map(|rank| source.bits(rank, i));
                // Near exponents too, so that ties occur.
                let near = (a ^ (b & 0xff)) & mask(dtype);
                assert_sum(dtype, float, a & mask(dtype), b & mask(dtype));
                assert_sum(dtype, float, a & mask(dtype), near);
                assert_sum(dtype, float, a & mask(dtype), near ^ 1 << (dtype.bits() - 1));
                assert_sum(dtype, float, a & mask(dtype), (near >> 4) ^ (b << (dtype.bits() - 1) & mask(dtype)));
            }
        }
    }

    fn assert_sum(dtype: DType, float: Float, a: u64, b: u64) {
        let (x, y) = (decode_f64(dtype, a), decode_f64(dtype, b));
        let mut row = [x as f32];
        f32::add_rounded(float, &mut row, &[y as f32]);
        let want = float.round(x + y);
        assert!(f64::from(row[0]).is_same(want), "{dtype:?} {a:#x} {b:#x}: {:e} {want:e}", row[0]);
    }

    #[test]
    fn the_last_place_is_that_of_the_odd_mantissa() {
        let source = crate::num::Random::new(DType::U64, 6, None, None);
        for i in 0..20_000 {
            for cut in [0, 10, 30, 51, 52] {
                let value = f64::from_bits(source.bits(0, i) >> cut << cut);
                if value.is_finite() && value != 0.0 {
                    let (_, _, exponent) = super::super::float::odd_parts(value);
                    // 2^exponent, which may be subnormal.
                    let want = if exponent < -1022 { f64::from_bits(1 << (exponent + 1074)) } else { power(exponent) };
                    assert_eq!(value.last_place(), want, "{value:e}");
                }
                let value = f32::from_bits((source.bits(1, i) as u32) >> (cut / 2) << (cut / 2));
                if value.is_finite() && value != 0.0 {
                    let (_, _, exponent) = super::super::float::odd_parts(f64::from(value));
                    assert_eq!(f64::from(value.last_place()), power(exponent), "{value:e}");
                }
            }
        }
        assert_eq!((0.0f32.last_place(), f64::from_bits(5).last_place()), (0.0, f64::from_bits(1)));
    }
}
