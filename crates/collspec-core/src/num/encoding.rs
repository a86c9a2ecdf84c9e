//! Converts bits of elements to numbers and back.
use super::{DType, FloatFormat, round};

/// The exact value of an element.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// The value of an integer type.
    Int(i128),
    /// The value of a floating-point type; f64 holds all of them.
    Float(f64),
}

impl Number {
    /// The number rounded to the nearest f64.
    pub fn as_f64(self) -> f64 {
        match self {
            Self::Int(v) => v as f64,
            Self::Float(v) => v,
        }
    }
}

/// The bits that an element of the type uses.
#[inline]
pub const fn mask(dtype: DType) -> u64 {
    u64::MAX >> (64 - dtype.bits())
}

/// The exact value of an element's bits (higher bits are ignored). Every NaN gives a NaN; its payload is lost.
#[inline]
pub fn decode(dtype: DType, bits: u64) -> Number {
    if dtype.is_float() {
        return Number::Float(decode_f64(dtype, bits));
    }
    let unused = 64 - dtype.bits();
    Number::Int(if dtype.is_signed_int() {
        i128::from((bits << unused) as i64 >> unused)
    } else {
        i128::from(bits & mask(dtype))
    })
}

/// The value of an element's bits as f64: exact for every floating-point type, the nearest for 64-bit integers.
#[inline]
pub fn decode_f64(dtype: DType, bits: u64) -> f64 {
    match dtype {
        DType::F64 => f64::from_bits(bits),
        DType::F32 => f64::from(f32::from_bits(bits as u32)),
        _ => match FloatFormat::of(dtype) {
            Some(format) => small_to_f64(&format, bits & mask(dtype)),
            None => decode(dtype, bits).as_f64(),
        },
    }
}

/// The value of an element of a type whose values are all normal in f64.
#[inline]
fn small_to_f64(format: &FloatFormat, bits: u64) -> f64 {
    let (negative, code) = format.split(bits);
    let magnitude = match format.parts(bits) {
        Some((_, mantissa, exponent)) => mantissa as f64 * power_of_two(exponent),
        None if Some(code) == format.infinity => f64::INFINITY,
        None => return f64::NAN,
    };
    if negative { -magnitude } else { magnitude }
}

/// 2^exponent for exponents of normal f64 numbers.
#[inline]
fn power_of_two(exponent: i32) -> f64 {
    f64::from_bits(((exponent + 1023) as u64) << 52)
}

/// Rounds a number into the type.
///
/// Floats: to nearest, ties to even; too large is infinite, but 8-bit types saturate (also from infinity, as CUDA's
/// conversion does); NaN becomes [`canonical_nan`]. Integers: towards zero, then the low bits of that whole number
/// (wrapping); NaN and infinities become 0.
pub fn encode_f64(dtype: DType, value: f64) -> u64 {
    encode_inlined(dtype, value)
}

/// [`encode_f64`] for loops in which the type is a constant.
#[inline(always)]
pub(super) fn encode_inlined(dtype: DType, value: f64) -> u64 {
    let Some(format) = FloatFormat::of(dtype) else { return wrap_f64(value) & mask(dtype) };
    if value.is_nan() {
        return format.nan;
    }
    match dtype {
        DType::F64 => value.to_bits(),
        DType::F32 => u64::from((value as f32).to_bits()),
        _ => small_of_f64(&format, value),
    }
}

/// [`round`] for a number that is not a NaN, into a format whose values are all normal in f64: the steps are those of whole words.
#[inline(always)]
fn small_of_f64(format: &FloatFormat, value: f64) -> u64 {
    let magnitude = value.to_bits() & (u64::MAX >> 1);
    let shift = F64_FORMAT.fraction - format.fraction;
    // The difference between a code's exponent field and f64's.
    let bias = ((F64_FORMAT.bias - format.bias) as u64) << F64_FORMAT.fraction;
    let least_normal = bias + (1 << F64_FORMAT.fraction);
    let code = if magnitude < least_normal {
        // The last place of this sum is the format's least value, so the machine rounds to a multiple of that.
        let rounds = power_of_two(format.min_exponent() + F64_FORMAT.fraction as i32);
        (f64::from_bits(magnitude) + rounds).to_bits() - rounds.to_bits()
    } else {
        // Half a place less one, and one more where the last place that stays is odd: then a tie carries.
        let tie = (1 << (shift - 1)) - 1 + (magnitude >> shift & 1);
        (magnitude - bias + tie) >> shift
    };
    format.signed(value.is_sign_negative(), if code > format.max_code { format.too_large() } else { code })
}

const F64_FORMAT: FloatFormat = match FloatFormat::of(DType::F64) {
    Some(format) => format,
    None => panic!("f64 has a format"),
};

/// The low 64 bits of the number without its fraction.
fn wrap_f64(value: f64) -> u64 {
    let Some((negative, mantissa, exponent)) = F64_FORMAT.parts(value.to_bits()) else { return 0 };
    let whole = match exponent {
        64.. => 0,
        0.. => mantissa << exponent,
        -63..0 => mantissa >> -exponent,
        _ => 0,
    };
    if negative { whole.wrapping_neg() } else { whole }
}

/// Puts a whole number into the type: integers wrap; floats round once, straight from the whole number.
pub fn encode_int(dtype: DType, value: i128) -> u64 {
    match FloatFormat::of(dtype) {
        // f64 holds the whole number, so it is rounded only once.
        Some(_) if value.unsigned_abs() <= EXACT => encode_f64(dtype, value as i64 as f64),
        Some(format) => round(&format, value < 0, value.unsigned_abs(), 0),
        None => value as u64 & mask(dtype),
    }
}

/// Up to here f64 holds every whole number.
const EXACT: u128 = 1 << 53;

/// The type's canonical NaN: quiet, positive, without payload (8 bits: 0x7f). 0 for integer types.
pub fn canonical_nan(dtype: DType) -> u64 {
    FloatFormat::of(dtype).map_or(0, |format| format.nan)
}

/// True if the bits are one of the type's NaNs.
pub fn is_nan(dtype: DType, bits: u64) -> bool {
    FloatFormat::of(dtype).is_some_and(|format| format.is_nan(bits & mask(dtype)))
}

/// The bits of element `index`; 0 beyond the end of the bytes.
pub fn get_element(dtype: DType, bytes: &[u8], index: usize) -> u64 {
    let size = dtype.size();
    let Some(place) = index.checked_mul(size).and_then(|from| bytes.get(from..from.checked_add(size)?)) else {
        return 0;
    };
    let mut word = [0; 8];
    word[..size].copy_from_slice(place);
    u64::from_le_bytes(word)
}

/// Writes the bits of element `index`; beyond the end of the bytes nothing happens.
pub fn put_element(dtype: DType, bytes: &mut [u8], index: usize, bits: u64) {
    let size = dtype.size();
    if let Some(place) = index.checked_mul(size).and_then(|from| bytes.get_mut(from..from.checked_add(size)?)) {
        place.copy_from_slice(&bits.to_le_bytes()[..size]);
    }
}

/// Writes elements from the first on, until bits or bytes end.
pub fn put_elements(dtype: DType, bytes: &mut [u8], bits: impl Iterator<Item = u64>) {
    fn store<const N: usize>(bytes: &mut [u8], bits: impl Iterator<Item = u64>) {
        for (place, bits) in bytes.as_chunks_mut::<N>().0.iter_mut().zip(bits) {
            if let Some(low) = bits.to_le_bytes().first_chunk() {
                *place = *low;
            }
        }
    }
    match dtype.size() {
        1 => store::<1>(bytes, bits),
        2 => store::<2>(bytes, bits),
        4 => store::<4>(bytes, bits),
        _ => store::<8>(bytes, bits),
    }
}

/// Rounds numbers into elements as [`encode_f64`] does, and writes them as [`put_elements`] does.
pub fn put_floats(dtype: DType, bytes: &mut [u8], values: &[f64]) {
    macro_rules! put {
        ($($constant:ident)*) => {
            match dtype {
                // The type is a constant in each of these loops.
                $(DType::$constant => {
                    put_elements(dtype, bytes, values.iter().map(|v| encode_inlined(DType::$constant, *v)));
                })*
                _ => put_elements(dtype, bytes, values.iter().map(|v| encode_f64(dtype, *v))),
            }
        };
    }
    put!(F16 Bf16 F32 F64 F8e4m3 F8e5m2);
}

/// Fills the bytes with repetitions of their first `period` bytes.
pub fn repeat_period(bytes: &mut [u8], period: usize) {
    let mut done = period.max(1);
    while done < bytes.len() {
        let more = done.min(bytes.len() - done);
        bytes.copy_within(..more, done);
        done += more;
    }
}
