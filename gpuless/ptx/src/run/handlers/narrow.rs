//! f16 and bf16, alone and in pairs, by way of f32: twice their bits and more, so that rounding twice is rounding once.
use super::{Handler, Isa, computes, each};
use crate::num::{canonical_f32, max_f32, min_f32};

/// A type of 16 bits.
pub trait Half: 'static {
    /// The value of a code.
    fn wide(code: u16) -> f32;
    /// What `cvt.f32` gives: f16's NaN becomes the canonical one, bf16's keeps its bits.
    fn converted(code: u16) -> f32;
    /// The nearest code; NaN becomes the one of all ones but the sign.
    fn narrow(value: f32) -> u16;
    /// The nearest code to a * b + c.
    fn fma(a: u16, b: u16, c: u16) -> u16;
}

/// The format f16.
pub enum F16 {}

/// The format bf16.
pub enum Bf16 {}

const NAN: u16 = 0x7fff;

impl Half for F16 {
    #[inline(always)]
    fn converted(code: u16) -> f32 {
        canonical_f32(Self::wide(code))
    }

    #[inline(always)]
    fn wide(code: u16) -> f32 {
        let code = u32::from(code);
        // As a number whose exponent is too small by 112, which a product puts right, also for subnormal ones.
        let scaled = f32::from_bits((code & 0x7fff) << 13) * f32::from_bits(0x7780_0000);
        let special = if code & 0x7c00 == 0x7c00 { 0x7f80_0000 } else { 0 };
        f32::from_bits(scaled.to_bits() | special | (code & 0x8000) << 16)
    }

    #[inline(always)]
    fn narrow(value: f32) -> u16 {
        let bits = value.to_bits();
        let (sign, magnitude) = (bits >> 16 & 0x8000, bits & 0x7fff_ffff);
        let normal = magnitude.wrapping_add(0xc800_0fff).wrapping_add(magnitude >> 13 & 1) >> 13;
        // A sum with a half shifts the fraction of a subnormal number to its place, and rounds it.
        let subnormal = (f32::from_bits(magnitude) + 0.5).to_bits().wrapping_sub(0.5f32.to_bits());
        let finite = if magnitude < 0x3880_0000 { subnormal } else { normal };
        let code = if magnitude >= 0x4780_0000 { 0x7c00 } else { finite };
        if magnitude > 0x7f80_0000 { NAN } else { (code | sign) as u16 }
    }

    #[inline(always)]
    fn fma(a: u16, b: u16, c: u16) -> u16 {
        // The product is exact.
        let (product, c) = (Self::wide(a) * Self::wide(b), Self::wide(c));
        let sum = product + c;
        let part = sum - product;
        let rest = (product - (sum - part)) + (c - part);
        Self::narrow(f32::from_bits(to_odd_f32(sum, rest > 0.0, rest < 0.0)))
    }
}

impl Half for Bf16 {
    #[inline(always)]
    fn converted(code: u16) -> f32 {
        Self::wide(code)
    }

    #[inline(always)]
    fn wide(code: u16) -> f32 {
        f32::from_bits(u32::from(code) << 16)
    }

    #[inline(always)]
    fn narrow(value: f32) -> u16 {
        let bits = value.to_bits();
        let rounded = bits.wrapping_add(0x7fff).wrapping_add(bits >> 16 & 1) >> 16;
        if bits & 0x7fff_ffff > 0x7f80_0000 { NAN } else { rounded as u16 }
    }

    #[inline(always)]
    fn fma(a: u16, b: u16, c: u16) -> u16 {
        let (product, c) = (f64::from(Self::wide(a)) * f64::from(Self::wide(b)), f64::from(Self::wide(c)));
        let sum = product + c;
        let part = sum - product;
        let rest = (product - (sum - part)) + (c - part);
        let inexact = rest != 0.0 && sum.is_finite();
        let even = sum.to_bits() & 1 == 0;
        let away = (rest > 0.0) == (sum > 0.0);
        let odd = if away { sum.to_bits().wrapping_add(1) } else { sum.to_bits().wrapping_sub(1) };
        let sum = if inexact && even { f64::from_bits(odd) } else { sum };
        let single = sum as f32;
        let (more, less) = (sum > f64::from(single), sum < f64::from(single));
        Self::narrow(f32::from_bits(to_odd_f32(single, more, less)))
    }
}

/// The bits of a rounded value that is odd if the true one is more or less: rounding it again to far fewer bits is like rounding the true
/// one.
#[inline(always)]
fn to_odd_f32(rounded: f32, more: bool, less: bool) -> u32 {
    let bits = rounded.to_bits();
    let even = bits & 1 == 0;
    let away = if rounded.is_sign_negative() { less } else { more };
    let odd = if away { bits.wrapping_add(1) } else { bits.wrapping_sub(1) };
    if even && (more || less) { odd } else { bits }
}

/// An operation on two of them.
pub trait HalfTwo {
    /// The value before it is rounded to the type.
    fn of(a: f32, b: f32) -> f32;
}

macro_rules! two_of {
    ($($name:ident |$a:ident, $b:ident| $value:expr;)*) => {$(
        pub enum $name {}
        impl HalfTwo for $name {
            #[inline(always)]
            fn of($a: f32, $b: f32) -> f32 {
                $value
            }
        }
    )*};
}
two_of! {
    Add |a, b| a + b;
    Sub |a, b| a - b;
    Mul |a, b| a * b;
    Min |a, b| min_f32(a, b);
    Max |a, b| max_f32(a, b);
}

computes! {
    /// An operation on two numbers.
    Single<H: Half, F: HalfTwo> |w, i| {
        let (a, b) = (w.registers.read::<u16>(i.a), w.registers.read::<u16>(i.b));
        w.registers.write(i.to, &each!(u16, |lane| H::narrow(F::of(H::wide(a[lane]), H::wide(b[lane])))), w.mask);
    }
    /// An operation on two pairs.
    Pair<H: Half, F: HalfTwo> |w, i| {
        let (a, b) = (w.registers.read::<u32>(i.a), w.registers.read::<u32>(i.b));
        let low = each!(u32, |lane| u32::from(H::narrow(F::of(H::wide(a[lane] as u16), H::wide(b[lane] as u16)))));
        let high = each!(u32, |lane| {
            u32::from(H::narrow(F::of(H::wide((a[lane] >> 16) as u16), H::wide((b[lane] >> 16) as u16))))
        });
        w.registers.write(i.to, &each!(u32, |lane| low[lane] | high[lane] << 16), w.mask);
    }
    /// `fma` of numbers.
    FmaSingle<H: Half> |w, i| {
        let (a, b) = (w.registers.read::<u16>(i.a), w.registers.read::<u16>(i.b));
        let c = w.registers.read::<u16>(i.c);
        w.registers.write(i.to, &each!(u16, |lane| H::fma(a[lane], b[lane], c[lane])), w.mask);
    }
    FmaPair<H: Half> |w, i| {
        let (a, b) = (w.registers.read::<u32>(i.a), w.registers.read::<u32>(i.b));
        let c = w.registers.read::<u32>(i.c);
        let low = each!(u32, |lane| u32::from(H::fma(a[lane] as u16, b[lane] as u16, c[lane] as u16)));
        let high = each!(u32, |lane| {
            u32::from(H::fma((a[lane] >> 16) as u16, (b[lane] >> 16) as u16, (c[lane] >> 16) as u16))
        });
        w.registers.write(i.to, &each!(u32, |lane| low[lane] | high[lane] << 16), w.mask);
    }
    /// `cvt.f32` of a number of 16 bits.
    Widen<H: Half> |w, i| {
        let a = w.registers.read::<u16>(i.a);
        w.registers.write(i.to, &each!(f32, |lane| H::converted(a[lane])), w.mask);
    }
    /// `cvt.rn` of an f32 to a number of 16 bits.
    Narrow<H: Half> |w, i| {
        let a = w.registers.read::<f32>(i.a);
        w.registers.write(i.to, &each!(u16, |lane| H::narrow(a[lane])), w.mask);
    }
}

/// The handler of an operation on two numbers or pairs.
pub fn two<I: Isa, F: HalfTwo>(is_bf16: bool, is_pair: bool) -> Handler {
    match (is_bf16, is_pair) {
        (false, false) => I::handler::<Single<F16, F>>(),
        (false, true) => I::handler::<Pair<F16, F>>(),
        (true, false) => I::handler::<Single<Bf16, F>>(),
        (true, true) => I::handler::<Pair<Bf16, F>>(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::num::{BF16, F16 as REFERENCE_F16, Narrow as Reference};

    fn check<H: Half>(reference: Reference) {
        let canonical = |code: u16| if reference.is_nan(code) { NAN } else { code };
        for code in 0..=u16::MAX {
            assert_eq!(H::narrow(H::wide(code)), canonical(code), "{code:#06x}");
            let same = f64::from(H::wide(code)) == reference.decode(code) || reference.is_nan(code);
            assert!(same, "{code:#06x}");
        }
        let mut state = 1u64;
        let mut next = || {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            (state >> 40) as u16
        };
        for _ in 0..400_000 {
            let (a, b, c) = (next(), next(), next());
            let two = |of: fn(f32, f32) -> f32| H::narrow(of(H::wide(a), H::wide(b)));
            let triples = [
                (two(|a, b| a + b), reference.add(a, b), "add"),
                (two(|a, b| a * b), reference.mul(a, b), "mul"),
                (two(min_f32), reference.min(a, b), "min"),
                (two(max_f32), reference.max(a, b), "max"),
                (H::fma(a, b, c), reference.fma(a, b, c), "fma"),
                // Close to each other, so that much is cancelled.
                (H::fma(a, 0x3c00, a ^ 0x8001), reference.fma(a, 0x3c00, a ^ 0x8001), "fma with cancellation"),
            ];
            for (is, should, what) in triples {
                assert_eq!(is, should, "{what} of {a:#06x}, {b:#06x}, {c:#06x}");
            }
        }
    }

    #[test]
    fn half_precision_is_as_the_exact_reference_says() {
        check::<F16>(REFERENCE_F16);
    }

    #[test]
    fn bf16_is_as_the_exact_reference_says() {
        check::<Bf16>(BF16);
    }
}
