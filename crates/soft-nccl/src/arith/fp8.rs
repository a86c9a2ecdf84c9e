//! Floats of 8 bits: decoding by table, encoding with rounding to nearest even and saturation.
use half::f16;
use std::sync::LazyLock;

/// A format: how a code becomes a value, and which positive codes are finite.
pub(super) struct Format {
    mantissa_bits: u32,
    bias: i32,
    largest: u8,
    infinity: Option<u8>,
    /// The value of every code.
    values: LazyLock<[f32; 256]>,
}

const NAN: u8 = 0x7f;

impl Format {
    pub(super) const fn new(
        mantissa_bits: u32,
        bias: i32,
        largest: u8,
        infinity: Option<u8>,
        values: fn() -> [f32; 256],
    ) -> Self {
        Self { mantissa_bits, bias, largest, infinity, values: LazyLock::new(values) }
    }

    /// The value of every code.
    pub(super) fn table(&self) -> [f32; 256] {
        std::array::from_fn(|code| {
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
        })
    }

    pub(super) fn decode(&self, code: u8) -> f32 {
        self.values[usize::from(code)]
    }

    /// The nearest code, ties to the even one; what lies beyond the largest finite value becomes that value.
    pub(super) fn encode(&self, value: f32) -> u8 {
        if value.is_nan() {
            return NAN;
        }
        let sign = if value.is_sign_negative() { 0x80 } else { 0 };
        let magnitude = value.abs();
        let values: &[f32; 256] = &self.values;
        if magnitude >= values[usize::from(self.largest)] {
            return sign | self.largest;
        }
        // The positive finite codes are in the order of their values, so the neighbours are found by halving.
        let above = values[..=usize::from(self.largest)].partition_point(|&v| v <= magnitude);
        let low = above - 1;
        let middle = (values[low] + values[above]) / 2.0;
        let code = if magnitude < middle || (magnitude == middle && low % 2 == 0) { low } else { above };
        sign | code as u8
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
        let (x, y) = (self.decode(a), self.decode(b));
        if x.is_nan() || y > x { b } else { a }
    }

    /// The lesser value; a NaN loses against a number.
    pub(super) fn min(&self, a: u8, b: u8) -> u8 {
        let (x, y) = (self.decode(a), self.decode(b));
        if x.is_nan() || y < x { b } else { a }
    }
}
