//! Converts written elements of a scenario to bits, and decides which values a type can represent.
use super::{DType, FloatFormat, decode_f64, encode_f64, encode_int, mask};

/// The value of a written element.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ElementValue {
    /// A whole number (also from text, for numbers that TOML does not have).
    Int(i128),
    /// A number with fraction, `nan`, `inf`, `-0.0`.
    Float(f64),
    /// Bits, from text such as `"0x7fc1"`; compared as bits in `expect`.
    Bits(u64),
}

/// The bits of a written element: rounded or wrapped as [`encode_f64`] and [`encode_int`] do; given bits are cut to the type.
pub fn element_bits(dtype: DType, value: &ElementValue) -> u64 {
    match *value {
        ElementValue::Int(v) => encode_int(dtype, v),
        ElementValue::Float(v) => encode_f64(dtype, v),
        ElementValue::Bits(v) => v & mask(dtype),
    }
}

/// The nearest values of a floating-point type below and above a whole number that the type cannot hold, or only the largest
/// value of its sign if the number is beyond that. `None` if the type holds the number.
pub fn neighbours(dtype: DType, v: i128) -> Option<(i128, Option<i128>)> {
    let format = FloatFormat::of(dtype)?;
    let magnitude = v.unsigned_abs();
    let dropped = (128 - magnitude.leading_zeros()).saturating_sub(format.precision());
    let step = 1u128 << dropped;
    if magnitude.is_multiple_of(step) {
        return None;
    }
    let signed = |m: u128| i128::try_from(m).ok().map(|m| if v < 0 { -m } else { m });
    let near = magnitude / step * step;
    let far = Some(near + step).filter(|far| !overflows(dtype, *far as f64)).and_then(signed);
    let near = signed(near)?;
    Some(match far {
        Some(far) => (near.min(far), Some(near.max(far))),
        None => (near, None),
    })
}

/// True if a finite number is too large to be rounded to a finite one of the type.
fn overflows(dtype: DType, magnitude: f64) -> bool {
    let Some(format) = FloatFormat::of(dtype) else { return false };
    let edge = overflow_edge(dtype);
    // A tie leaves the type if the largest number is odd.
    magnitude > edge || (magnitude == edge && format.max_code & 1 == 1)
}

/// The number half a last place beyond the largest one, from which rounding leaves the type; infinite for integers and f64.
pub fn overflow_edge(dtype: DType) -> f64 {
    let Some(format) = FloatFormat::of(dtype) else { return f64::INFINITY };
    let largest = decode_f64(dtype, format.max_code);
    let below = decode_f64(dtype, format.max_code - 1);
    largest + (largest - below) / 2.0
}

/// True for the floating-point types that have an infinity.
pub fn has_infinity(dtype: DType) -> bool {
    FloatFormat::of(dtype).is_some_and(|format| format.infinity.is_some())
}

/// Least and greatest value of an integer type.
pub fn int_range(dtype: DType) -> Option<(i128, i128)> {
    let bits = dtype.bits();
    match (dtype.is_float(), dtype.is_signed_int()) {
        (true, _) => None,
        (_, true) => Some((-(1 << (bits - 1)), (1 << (bits - 1)) - 1)),
        (_, false) => Some((0, (1 << bits) - 1)),
    }
}

/// The largest finite value of a floating-point type.
pub fn max_finite(dtype: DType) -> Option<f64> {
    FloatFormat::of(dtype).map(|format| decode_f64(dtype, format.max_code))
}
