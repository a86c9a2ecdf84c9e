//! Numbers of single and double precision (PTX ISA, 9.7.3). A NaN produced by arithmetic is the canonical one.

/// The NaN that instructions on f32 give.
const NAN_F32: u32 = 0x7fff_ffff;
/// The NaN that instructions on f64 give if no operand is one.
const NAN_F64: u64 = 0xfff8_0000_0000_0000;

/// The result of an operation on f32: any NaN becomes the canonical one.
#[inline(always)]
pub fn canonical_f32(value: f32) -> f32 {
    // Chosen as bits, which compilers do for many lanes at once.
    f32::from_bits(if value.is_nan() { NAN_F32 } else { value.to_bits() })
}

/// The result of f64 arithmetic: a NaN is that of the first of these operands that is one, made quiet. "NaN payloads are supported for
/// double-precision instructions" (9.7.3). Which operand comes first was seen on compute capability 9.0.
#[inline(always)]
pub fn with_payload<const N: usize>(value: f64, operands: [f64; N]) -> f64 {
    let mut nan = NAN_F64;
    let mut at = N;
    while at > 0 {
        at -= 1;
        nan = if operands[at].is_nan() { operands[at].to_bits() | 1 << 51 } else { nan };
    }
    f64::from_bits(if value.is_nan() { nan } else { value.to_bits() })
}

/// `fma.rn.f32`: one rounding, of the exact a * b + c.
#[inline(always)]
pub fn fma_f32(a: f32, b: f32, c: f32) -> f32 {
    canonical_f32(a.mul_add(b, c))
}

/// `fma.rn.f64`.
#[inline(always)]
pub fn fma_f64(a: f64, b: f64, c: f64) -> f64 {
    with_payload(a.mul_add(b, c), [b, c, a])
}

/// `a * b - c`: the sign of a NaN stays.
#[inline(always)]
pub fn product_minus_f64(a: f64, b: f64, c: f64) -> f64 {
    with_payload(a.mul_add(b, -c), [b, c, a])
}

/// `c - a * b`: the sign of a NaN stays.
#[inline(always)]
pub fn minus_product_f64(a: f64, b: f64, c: f64) -> f64 {
    with_payload((-a).mul_add(b, c), [b, c, a])
}

#[inline(always)]
pub fn add_f64(a: f64, b: f64) -> f64 {
    with_payload(a + b, [b, a])
}

#[inline(always)]
pub fn sub_f64(a: f64, b: f64) -> f64 {
    with_payload(a - b, [b, a])
}

#[inline(always)]
pub fn mul_f64(a: f64, b: f64) -> f64 {
    with_payload(a * b, [b, a])
}

/// `div.rn.f64`.
#[inline(always)]
pub fn div_f64(a: f64, b: f64) -> f64 {
    with_payload(a / b, [a, b])
}

/// `cvt.f64.f32`: a NaN keeps its payload and becomes quiet.
#[inline(always)]
pub fn f64_from_f32(value: f32) -> f64 {
    let bits = value.to_bits();
    let nan = u64::from(bits >> 31) << 63 | 0x7ff8_0000_0000_0000 | u64::from(bits & 0x7f_ffff) << 29;
    f64::from_bits(if value.is_nan() { nan } else { f64::from(value).to_bits() })
}

/// `cvt.rn.f32.f64`: a NaN keeps the upper bits of its payload and becomes quiet.
#[inline(always)]
pub fn f32_from_f64(value: f64) -> f32 {
    let bits = value.to_bits();
    let nan = ((bits >> 63) as u32) << 31 | 0x7fc0_0000 | ((bits >> 29) as u32 & 0x7f_ffff);
    f32::from_bits(if value.is_nan() { nan } else { (value as f32).to_bits() })
}

/// The smaller (or, with `largest`, the larger) of two numbers in the order in which -0 comes before +0; a NaN loses against
/// a number.
macro_rules! extreme {
    ($name:ident, $float:ty, $both:expr, $takes_first:expr, $text:literal) => {
        #[doc = $text]
        #[inline(always)]
        pub fn $name(a: $float, b: $float) -> $float {
            let takes_first: fn($float, $float) -> bool = $takes_first;
            let both: fn($float, $float) -> $float = $both;
            match (a.is_nan(), b.is_nan()) {
                (true, true) => both(a, b),
                (true, false) => b,
                (false, true) => a,
                (false, false) if a == b => {
                    if takes_first(if a.is_sign_negative() { -1.0 } else { 1.0 }, 0.0) {
                        a
                    } else {
                        b
                    }
                }
                (false, false) => {
                    if takes_first(a, b) {
                        a
                    } else {
                        b
                    }
                }
            }
        }
    };
}

extreme!(
    min_f32,
    f32,
    |a, _| canonical_f32(a),
    |a, b| a < b,
    "`min.f32`: -0 is less than +0, and a NaN loses against a number."
);
extreme!(
    max_f32,
    f32,
    |a, _| canonical_f32(a),
    |a, b| a > b,
    "`max.f32`: +0 is more than -0, and a NaN loses against a number."
);
extreme!(
    min_f64,
    f64,
    |a, b| with_payload(a, [b, a]),
    |a, b| a < b,
    "`min.f64`: -0 is less than +0, and a NaN loses against a number."
);
extreme!(
    max_f64,
    f64,
    |a, b| with_payload(a, [b, a]),
    |a, b| a > b,
    "`max.f64`: +0 is more than -0, and a NaN loses against a number."
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_and_nans_in_extremes() {
        for (a, b) in [(0.0, -0.0), (-0.0, 0.0)] {
            assert!(min_f32(a, b).is_sign_negative() && max_f32(a, b).is_sign_positive());
            let (a, b) = (f64::from(a), f64::from(b));
            assert!(min_f64(a, b).is_sign_negative() && max_f64(a, b).is_sign_positive());
        }
        let signalling = f32::from_bits(0xff80_0001);
        assert_eq!((min_f32(signalling, 2.0), max_f32(-3.0, signalling)), (2.0, -3.0));
        assert_eq!(min_f32(signalling, f32::NAN).to_bits(), NAN_F32);
        assert_eq!(max_f32(f32::NAN, -f32::NAN).to_bits(), NAN_F32);
        assert_eq!(
            (min_f32(1.0, 2.0), max_f32(1.0, 2.0), min_f64(-1.0, 1.0), max_f64(-1.0, 1.0)),
            (1.0, 2.0, -1.0, 1.0)
        );
    }

    #[test]
    fn a_fused_sum_rounds_once() {
        let x = 1.0 + 3.0 * f32::EPSILON;
        let exact = f64::from(x) * f64::from(x) - 1.0;
        assert_eq!(fma_f32(x, x, -1.0), exact as f32);
        assert_ne!(x * x - 1.0, exact as f32);
        assert_eq!(fma_f32(f32::INFINITY, 0.0, 1.0).to_bits(), NAN_F32);
        assert_eq!(fma_f64(f64::INFINITY, 0.0, 1.0).to_bits(), NAN_F64);
    }

    #[test]
    fn nans_keep_their_payloads_as_on_compute_capability_9() {
        // Operands and results of an H200.
        let [quiet, loud, other] =
            [0xfffd_fffd_fffd_fffd, 0xfff0_0000_ff80_fc00, 0x7ff8_0000_7fc0_0000].map(f64::from_bits);
        let made = 0xfff8_0000_ff80_fc00;
        let all = [
            add_f64(quiet, loud),
            sub_f64(other, loud),
            mul_f64(quiet, loud),
            min_f64(quiet, loud),
            max_f64(other, loud),
        ];
        assert_eq!(all.map(f64::to_bits), [made; 5]);
        let first = f64::from_bits(0x7ff0_7ff0_7ff0_7ff0);
        let all = [fma_f64(1.0, other, loud), fma_f64(first, 1.0, other), minus_product_f64(first, 1.0, other)];
        assert_eq!(all.map(f64::to_bits), [other.to_bits(); 3]);
        assert_eq!(minus_product_f64(f64::from_bits(0x7ff1_7ff1_7ff1_7ff1), 1.0, 2.0).to_bits(), 0x7ff9_7ff1_7ff1_7ff1);
        assert_eq!(div_f64(0.0, -0.0).to_bits(), 0xfff8_0000_0000_0000);
        assert_eq!(f64_from_f32(f32::from_bits(0x7f80_7f80)).to_bits(), 0x7ff8_0ff0_0000_0000);
        assert_eq!(f32_from_f64(first).to_bits(), 0x7fc3_ff83);
        assert_eq!(with_payload(1.5, [quiet, loud]), 1.5);
    }
}
