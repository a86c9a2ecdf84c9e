//! Binary floating-point formats, and correct rounding to each of them.
use super::DType;

/// The result of rounding a value that is too large.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OverflowRule {
    /// Becomes infinity.
    Infinity,
    /// The largest finite value, as in CUDA's saturating conversion to 8 bits.
    Saturate,
}

/// A format of sign, exponent and fraction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FloatFormat {
    /// Bits of the fraction, the hidden one not counted.
    pub fraction: u32,
    /// Bias of the exponent.
    pub bias: i32,
    /// Code of the largest finite value.
    pub max_code: u64,
    /// Code of infinity, if there is one.
    pub infinity: Option<u64>,
    /// Code of the canonical quiet NaN.
    pub nan: u64,
    /// Position of the sign.
    pub sign_bit: u32,
    /// The result of an overflow when rounding.
    pub overflow: OverflowRule,
}

impl FloatFormat {
    /// No infinity; only the last code is NaN, so the top exponent holds ordinary numbers up to 448.
    pub const E4M3: Self = Self {
        fraction: 3,
        bias: 7,
        max_code: 0x7e,
        infinity: None,
        nan: 0x7f,
        sign_bit: 7,
        overflow: OverflowRule::Saturate,
    };

    /// The format of a floating-point type.
    #[inline]
    pub const fn of(dtype: DType) -> Option<Self> {
        dtype.format()
    }

    /// The IEEE 754 format with these bits of fraction and exponent; the quiet NaN has the first bit of the fraction.
    pub const fn ieee(fraction: u32, exponent: u32, overflow: OverflowRule) -> Self {
        let infinity = ((1 << exponent) - 1) << fraction;
        Self {
            fraction,
            bias: (1 << (exponent - 1)) - 1,
            max_code: infinity - 1,
            infinity: Some(infinity),
            nan: infinity | 1 << (fraction - 1),
            sign_bit: fraction + exponent,
            overflow,
        }
    }

    /// The format with another canonical NaN.
    pub const fn with_nan(self, nan: u64) -> Self {
        Self { nan, ..self }
    }

    /// Significant bits of a normal number.
    pub const fn precision(&self) -> u32 {
        self.fraction + 1
    }

    /// Exponent of the least positive value, which is a power of two.
    pub const fn min_exponent(&self) -> i32 {
        1 - self.bias - self.fraction as i32
    }

    /// Sign, whole mantissa and exponent of a finite code: the value is `mantissa * 2^exponent`. `None` for NaN and infinity.
    #[inline]
    pub fn parts(&self, bits: u64) -> Option<(bool, u64, i32)> {
        let (negative, code) = self.split(bits);
        if code > self.max_code {
            return None;
        }
        let field = (code >> self.fraction) as i32;
        let low = code & ((1 << self.fraction) - 1);
        Some(match field {
            0 => (negative, low, self.min_exponent()),
            _ => (negative, low | 1 << self.fraction, field - 1 + self.min_exponent()),
        })
    }

    /// True if the code is a NaN.
    pub fn is_nan(&self, bits: u64) -> bool {
        let (_, code) = self.split(bits);
        code > self.max_code && Some(code) != self.infinity
    }

    /// The sign, and the code without it.
    #[inline]
    pub const fn split(&self, bits: u64) -> (bool, u64) {
        (bits >> self.sign_bit & 1 == 1, bits & ((1 << self.sign_bit) - 1))
    }

    /// The code with a sign.
    pub const fn signed(&self, negative: bool, code: u64) -> u64 {
        code | (negative as u64) << self.sign_bit
    }

    /// The code for values that are too large: infinity, or the largest finite value.
    pub fn too_large(&self) -> u64 {
        match (self.overflow, self.infinity) {
            (OverflowRule::Infinity, Some(code)) => code,
            _ => self.max_code,
        }
    }
}

/// Rounds `mantissa * 2^exponent` to nearest, ties to even. To round a longer number give its leading bits and a last
/// bit that is set if anything follows.
pub(crate) fn round(format: &FloatFormat, negative: bool, mantissa: u128, exponent: i32) -> u64 {
    if mantissa == 0 {
        return format.signed(negative, 0);
    }
    let length = (128 - mantissa.leading_zeros()) as i32;
    // The exponent of the last place: of a normal number, but never below that of the least value.
    let mut place = (exponent + length - 1 - format.fraction as i32).max(format.min_exponent());
    let shift = place - exponent;
    let mut kept = shifted(mantissa, shift);
    if kept >> format.precision() != 0 {
        kept >>= 1;
        place += 1;
    }
    let hidden = 1u64 << format.fraction;
    let code = if kept < hidden {
        kept
    } else {
        let field = (place - format.min_exponent() + 1) as u64;
        if field >= 1 << 12 {
            return format.signed(negative, format.too_large());
        }
        field << format.fraction | (kept - hidden)
    };
    format.signed(negative, if code > format.max_code { format.too_large() } else { code })
}

/// `mantissa / 2^shift` to nearest, ties to even; the caller ensures that it fits.
fn shifted(mantissa: u128, shift: i32) -> u64 {
    match (shift, u64::try_from(mantissa)) {
        (..=0, Ok(short)) => short << -shift,
        (..=0, Err(_)) => (mantissa << -shift) as u64,
        // Most numbers are short, and halves of words cost several times as much.
        (1..=63, Ok(short)) => {
            let (high, rest, half) = (short >> shift, short & ((1 << shift) - 1), 1 << (shift - 1));
            high + u64::from(rest > half || (rest == half && high & 1 == 1))
        }
        (1..=127, _) => {
            let (high, rest, half) = (mantissa >> shift, mantissa & ((1 << shift) - 1), 1 << (shift - 1));
            high as u64 + u64::from(rest > half || (rest == half && high & 1 == 1))
        }
        (128, _) if mantissa > 1 << 127 => 1,
        _ => 0,
    }
}
