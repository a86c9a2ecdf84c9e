//! Elements as text, for messages and snapshots.
use super::{DType, Number, decode, encode_f64, mask};

/// The shortest decimal text that reads back as the same element: `4`, `0.1`, `-0.0`, `1e30`, `nan`, `inf`. Whole numbers
/// below 2^53 are written in full, so that 448 is not written as 450 where both have the same 8 bits.
pub fn element_text(dtype: DType, bits: u64) -> String {
    let value = match decode(dtype, bits) {
        Number::Int(v) => return v.to_string(),
        Number::Float(v) => v,
    };
    if value.is_nan() {
        return "nan".into();
    }
    if value.is_infinite() {
        return if value < 0.0 { "-inf" } else { "inf" }.into();
    }
    if value == 0.0 {
        return if value.is_sign_negative() { "-0.0" } else { "0" }.into();
    }
    if value.fract() == 0.0 && value.abs() < (1u64 << 53) as f64 {
        return format!("{value:.0}");
    }
    let bits = bits & mask(dtype);
    for digits in 0..17 {
        let short = format!("{value:.digits$e}");
        if short.parse().is_ok_and(|read| encode_f64(dtype, read) == bits) {
            return plain(&short);
        }
    }
    format!("{value:e}")
}

/// Scientific notation as a plain decimal number, if that is short.
fn plain(scientific: &str) -> String {
    let parsed =
        scientific.split_once('e').and_then(|(digits, exponent)| Some((digits, exponent.parse::<i32>().ok()?)));
    let Some((mantissa, exponent)) = parsed else { return scientific.into() };
    let (sign, mantissa) = mantissa.strip_prefix('-').map_or(("", mantissa), |rest| ("-", rest));
    let digits = mantissa.replace('.', "");
    let digits = match digits.trim_end_matches('0') {
        "" => "0",
        kept => kept,
    };
    match exponent {
        -5..=-1 => format!("{sign}0.{}{digits}", "0".repeat((-exponent - 1) as usize)),
        0..=15 => {
            let point = exponent as usize + 1;
            match digits.len() > point {
                true => format!("{sign}{}.{}", &digits[..point], &digits[point..]),
                false => format!("{sign}{digits}{}", "0".repeat(point - digits.len())),
            }
        }
        _ if digits.len() == 1 => format!("{sign}{digits}e{exponent}"),
        _ => format!("{sign}{}.{}e{exponent}", &digits[..1], &digits[1..]),
    }
}

/// The bits in full: `0x3f800000`.
pub fn element_hex(dtype: DType, bits: u64) -> String {
    format!("0x{:0width$x}", bits & mask(dtype), width = dtype.size() * 2)
}

/// True if the bits of an element say more than its decimal text: of a NaN, of the negative zero, and of floating-point numbers
/// that are not whole, where they show by how little two of them differ.
pub fn bits_matter(dtype: DType, bits: u64) -> bool {
    match decode(dtype, bits) {
        Number::Int(_) => false,
        Number::Float(v) => v.is_nan() || (v == 0.0 && v.is_sign_negative()) || (v.is_finite() && v.fract() != 0.0),
    }
}
