//! Floats of 8 bits: decoding by table, encoding with rounding to nearest even and saturation.
use super::kernels::is_greater;
use half::f16;
use std::sync::LazyLock;

/// A format: how a code becomes a value, and which positive codes are finite.
pub(super) struct Format {
    mantissa_bits: u32,
    bias: i32,
    largest: u8,
    infinity: Option<u8>,
    tables: LazyLock<Tables>,
}

/// Precomputed conversions between a format's codes and numbers.
pub(super) struct Tables {
    /// The value of every code.
    values: [f32; 256],
    /// For the leading bits of a magnitude: the greatest finite code whose value is not above it.
    below: [u8; 1 << (31 - DROPPED_BITS)],
}

/// Bits of an f32 below its first three of the mantissa. No format here has more than three, so they decide nothing about which
/// value is the next one below.
const DROPPED_BITS: u32 = 20;

const NAN: u8 = 0x7f;

impl Format {
    pub(super) const fn new(
        mantissa_bits: u32,
        bias: i32,
        largest: u8,
        infinity: Option<u8>,
        tables: fn() -> Tables,
    ) -> Self {
        Self { mantissa_bits, bias, largest, infinity, tables: LazyLock::new(tables) }
    }

    pub(super) fn make_tables(&self) -> Tables {
        let values: [f32; 256] = std::array::from_fn(|code| {
            let code = code as u8;
            let magnitude = code & 0x7f;
            let value = if Some(magnitude) == self.infinity {
                f32::INFINITY
            } else if magnitude > self.largest {
                f32::NAN
            } else {
                let exponent = i32::from(magnitude >> self.mantissa_bits);
                let fraction =
                    f32::from(magnitude & ((1 << self.mantissa_bits) - 1)) / (1 << self.mantissa_bits) as f32;
                if exponent == 0 {
                    fraction * 2f32.powi(1 - self.bias)
                } else {
                    (1.0 + fraction) * 2f32.powi(exponent - self.bias)
                }
            };
            if code & 0x80 == 0 { value } else { -value }
        });
        // The positive finite codes are in the order of their values.
        let finite = &values[..=usize::from(self.largest)];
        let below = std::array::from_fn(|leading| {
            let magnitude = f32::from_bits((leading as u32) << DROPPED_BITS);
            finite.partition_point(|&v| v <= magnitude).saturating_sub(1) as u8
        });
        Tables { values, below }
    }

    pub(super) fn decode(&self, code: u8) -> f32 {
        self.tables.values[usize::from(code)]
    }

    /// The nearest code, ties to the even one; values beyond the largest finite one are clamped to it.
    pub(super) fn encode(&self, value: f32) -> u8 {
        if value.is_nan() {
            return NAN;
        }
        let sign = if value.is_sign_negative() { 0x80 } else { 0 };
        let magnitude = value.abs();
        let Tables { values, below } = &*self.tables;
        if magnitude >= values[usize::from(self.largest)] {
            return sign | self.largest;
        }
        let low = below[(magnitude.to_bits() >> DROPPED_BITS) as usize];
        let middle = (values[usize::from(low)] + values[usize::from(low) + 1]) / 2.0;
        let goes_up = magnitude > middle || (magnitude == middle && low % 2 == 1);
        sign | (low + u8::from(goes_up))
    }

    /// A sum as the GPU forms it: in half precision, then narrowed.
    pub(super) fn add(&self, a: u8, b: u8) -> u8 {
        self.encode(f16::from_f32(self.decode(a) + self.decode(b)).to_f32())
    }

    /// A product as the GPU forms it: in half precision, then narrowed.
    pub(super) fn multiply(&self, a: u8, b: u8) -> u8 {
        self.encode(f16::from_f32(self.decode(a) * self.decode(b)).to_f32())
    }

    /// The greater value; a NaN loses against a number.
    pub(super) fn max(&self, a: u8, b: u8) -> u8 {
        if is_greater!(self.decode(b), self.decode(a)) { b } else { a }
    }

    /// The lesser value; a NaN loses against a number.
    pub(super) fn min(&self, a: u8, b: u8) -> u8 {
        if is_greater!(-self.decode(b), -self.decode(a)) { b } else { a }
    }
}
