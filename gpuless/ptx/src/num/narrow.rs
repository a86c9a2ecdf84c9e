//! Floating-point types of 16 and 8 bits (PTX ISA, 5.2.2 and 5.2.3).
//!
//! Each of their numbers, and every sum or product of two of them, is a number of double precision: so an operation is done in
//! double precision and rounded once.

/// A format of at most 16 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Narrow {
    exponent_bits: u32,
    fraction_bits: u32,
    /// No infinities: the largest exponent has numbers, and the code of all ones is the NaN.
    finite: bool,
}

/// IEEE 754's half precision.
pub const F16: Narrow = Narrow { exponent_bits: 5, fraction_bits: 10, finite: false };
/// The upper half of single precision.
pub const BF16: Narrow = Narrow { exponent_bits: 8, fraction_bits: 7, finite: false };
/// 8 bits with 4 of exponent, up to 448.
pub const E4M3: Narrow = Narrow { exponent_bits: 4, fraction_bits: 3, finite: true };
/// 8 bits with 5 of exponent, up to 57,344 and infinity.
pub const E5M2: Narrow = Narrow { exponent_bits: 5, fraction_bits: 2, finite: false };

/// Bits of a number of double precision.
const F64_FRACTION: u32 = 52;
const F64_BIAS: i32 = 1023;

impl Narrow {
    const fn bits(self) -> u32 {
        1 + self.exponent_bits + self.fraction_bits
    }

    const fn sign_bit(self) -> u16 {
        1 << (self.bits() - 1)
    }

    const fn bias(self) -> i32 {
        (1 << (self.exponent_bits - 1)) - 1
    }

    /// The code of the largest number.
    const fn largest(self) -> u16 {
        if self.finite { self.sign_bit() - 2 } else { self.infinity() - 1 }
    }

    const fn infinity(self) -> u16 {
        ((1 << self.exponent_bits) - 1) << self.fraction_bits
    }

    /// The NaN that instructions give.
    pub const fn nan(self) -> u16 {
        self.sign_bit() - 1
    }

    /// True for a code that is not a number.
    pub const fn is_nan(self, code: u16) -> bool {
        let magnitude = code & (self.sign_bit() - 1);
        if self.finite { magnitude == self.nan() } else { magnitude > self.infinity() }
    }

    /// The number of a code.
    pub fn decode(self, code: u16) -> f64 {
        if self.is_nan(code) {
            return f64::NAN;
        }
        let magnitude = code & (self.sign_bit() - 1);
        let fraction = u64::from(magnitude & ((1 << self.fraction_bits) - 1));
        let exponent = i32::from(magnitude >> self.fraction_bits);
        let value = if !self.finite && magnitude == self.infinity() {
            f64::INFINITY
        } else if exponent == 0 {
            fraction as f64 * power_of_two(1 - self.bias() - self.fraction_bits as i32)
        } else {
            let bits = ((exponent - self.bias() + F64_BIAS) as u64) << F64_FRACTION
                | fraction << (F64_FRACTION - self.fraction_bits);
            f64::from_bits(bits)
        };
        if code & self.sign_bit() == 0 { value } else { -value }
    }

    /// The nearest code; of two that are equally near, the even one. A value that is too large becomes infinity, or with
    /// `saturate`, and in formats without infinities, the largest number.
    pub fn encode(self, value: f64, saturate: bool) -> u16 {
        if value.is_nan() {
            return self.nan();
        }
        let sign = if value.is_sign_negative() { self.sign_bit() } else { 0 };
        let too_large = if saturate || self.finite { self.largest() } else { self.infinity() };
        if value.is_infinite() {
            return sign | too_large;
        }
        let bits = value.abs().to_bits();
        let exponent = (bits >> F64_FRACTION) as i32 - F64_BIAS;
        let least = 1 - self.bias();
        // Below the least exponent, numbers have fewer bits.
        let dropped = F64_FRACTION as i32 - self.fraction_bits as i32 + (least - exponent).max(0);
        if dropped > F64_FRACTION as i32 + 1 {
            // Less than half of the least number, or a subnormal number of double precision.
            return sign;
        }
        let whole = bits & ((1 << F64_FRACTION) - 1) | 1 << F64_FRACTION;
        let (kept, rest) = (whole >> dropped, whole & ((1 << dropped) - 1));
        let half = 1u64 << (dropped - 1);
        let up = rest > half || (rest == half && kept & 1 == 1);
        let kept = kept + u64::from(up);
        // The leading one adds to the exponent, as does a carry out of the fraction.
        let code = if exponent < least { kept } else { (((exponent - least) as u64) << self.fraction_bits) + kept };
        if code > u64::from(self.largest()) { sign | too_large } else { sign | code as u16 }
    }

    /// `add.rn` of this type (9.7.4.1).
    pub fn add(self, a: u16, b: u16) -> u16 {
        self.encode(self.decode(a) + self.decode(b), false)
    }

    /// `mul.rn` of this type (9.7.4.3).
    pub fn mul(self, a: u16, b: u16) -> u16 {
        self.encode(self.decode(a) * self.decode(b), false)
    }

    /// `fma.rn` of this type: one rounding, of the exact a * b + c (9.7.4.4).
    pub fn fma(self, a: u16, b: u16, c: u16) -> u16 {
        let (product, c) = (self.decode(a) * self.decode(b), self.decode(c));
        self.encode(sum_to_odd(product, c), false)
    }

    /// `min` of this type: -0 is less than +0, and a NaN loses against a number (9.7.4.7).
    pub fn min(self, a: u16, b: u16) -> u16 {
        self.extreme(a, b, true)
    }

    /// `max` of this type (9.7.4.8).
    pub fn max(self, a: u16, b: u16) -> u16 {
        self.extreme(a, b, false)
    }

    fn extreme(self, a: u16, b: u16, least: bool) -> u16 {
        match (self.is_nan(a), self.is_nan(b)) {
            (true, true) => self.nan(),
            (true, false) => b,
            (false, true) => a,
            (false, false) if (self.order(a) < self.order(b)) == least => a,
            (false, false) => b,
        }
    }

    /// A number that is greater for greater codes, with -0 before +0.
    fn order(self, code: u16) -> i32 {
        let magnitude = i32::from(code & (self.sign_bit() - 1));
        if code & self.sign_bit() == 0 { magnitude } else { -1 - magnitude }
    }
}

/// 2 to this power, which is that of a normal number.
fn power_of_two(exponent: i32) -> f64 {
    f64::from_bits(((exponent + F64_BIAS) as u64) << F64_FRACTION)
}

/// The sum of two numbers, rounded to one whose last bit is 1 if it is not exact. Rounded again, to fewer bits, it gives the same
/// result as the exact sum (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", 2008).
fn sum_to_odd(a: f64, b: f64) -> f64 {
    let sum = a + b;
    if !sum.is_finite() {
        return sum;
    }
    // Knuth's exact error of a sum.
    let of_b = sum - a;
    let error = (a - (sum - of_b)) + (b - of_b);
    if error == 0.0 || sum.to_bits() & 1 == 1 {
        return sum;
    }
    // Towards the exact sum.
    let outwards = (error > 0.0) == (sum > 0.0);
    f64::from_bits(if outwards { sum.to_bits() + 1 } else { sum.to_bits() - 1 })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn codes(format: Narrow) -> impl Iterator<Item = u16> {
        (0..1u32 << format.bits()).map(|code| code as u16)
    }

    #[test]
    fn every_code_is_decoded_as_other_implementations_do() {
        let same = |ours: f64, theirs: f64| ours.to_bits() == theirs.to_bits() || (ours.is_nan() && theirs.is_nan());
        for code in codes(F16) {
            assert!(same(F16.decode(code), half::f16::from_bits(code).to_f64()), "f16 {code:#x}");
        }
        for code in codes(BF16) {
            assert!(same(BF16.decode(code), half::bf16::from_bits(code).to_f64()), "bf16 {code:#x}");
        }
        for code in codes(E4M3) {
            assert!(same(E4M3.decode(code), float8::F8E4M3::from_bits(code as u8).to_f64()), "e4m3 {code:#x}");
        }
        for code in codes(E5M2) {
            assert!(same(E5M2.decode(code), float8::F8E5M2::from_bits(code as u8).to_f64()), "e5m2 {code:#x}");
        }
    }

    /// Compares each code, the middle between it and the next, and the numbers just next to both, with the definition: the nearest code.
    #[test]
    fn every_number_becomes_the_nearest_code() {
        for format in [F16, BF16, E4M3, E5M2] {
            for code in 0..format.largest() {
                let (low, high) = (format.decode(code), format.decode(code + 1));
                let middle = (low + high) / 2.0;
                let even = if code % 2 == 0 { code } else { code + 1 };
                for (value, expected) in [
                    (low, code),
                    (low.next_up(), code),
                    (middle.next_down(), code),
                    (middle, even),
                    (middle.next_up(), code + 1),
                    (high.next_down(), code + 1),
                    (high, code + 1),
                ] {
                    assert_eq!(format.encode(value, false), expected, "{format:?} {value:e}");
                    assert_eq!(format.encode(-value, true), expected | format.sign_bit(), "{format:?} -{value:e}");
                }
            }
        }
    }

    #[test]
    fn numbers_beyond_the_largest() {
        for format in [F16, BF16, E4M3, E5M2] {
            let largest = format.decode(format.largest());
            let step = largest - format.decode(format.largest() - 1);
            let too_large = if format.finite { format.largest() } else { format.infinity() };
            assert_eq!(format.encode(largest + step / 2.0, true), format.largest());
            assert_eq!(format.encode((largest + step / 2.0).next_down(), false), format.largest());
            assert_eq!(format.encode(largest + step / 2.0, false), too_large);
            assert_eq!(format.encode(f64::INFINITY, true), format.largest());
            assert_eq!(format.encode(-f64::INFINITY, false), too_large | format.sign_bit());
            assert_eq!(format.encode(-f64::NAN, true), format.nan());
        }
        assert_eq!((E4M3.decode(E4M3.largest()), E5M2.decode(E5M2.largest())), (448.0, 57_344.0));
    }

    /// Pairs of 16-bit codes in steps, against sums and products rounded by other implementations.
    #[test]
    fn sums_and_products() {
        for a in (0..=u16::MAX).step_by(157) {
            for b in (0..=u16::MAX).step_by(149) {
                let (x, y) = (half::f16::from_bits(a), half::f16::from_bits(b));
                assert_same_f16(F16.add(a, b), half::f16::from_f64(x.to_f64() + y.to_f64()));
                assert_same_f16(F16.mul(a, b), half::f16::from_f64(x.to_f64() * y.to_f64()));
                let (x, y) = (half::bf16::from_bits(a), half::bf16::from_bits(b));
                assert_same_bf16(BF16.add(a, b), half::bf16::from_f64(x.to_f64() + y.to_f64()));
                assert_same_bf16(BF16.mul(a, b), half::bf16::from_f64(x.to_f64() * y.to_f64()));
            }
        }
    }

    fn assert_same_f16(ours: u16, theirs: half::f16) {
        assert!(ours == theirs.to_bits() || (ours == F16.nan() && theirs.is_nan()), "{ours:#x} {theirs:?}");
    }

    fn assert_same_bf16(ours: u16, theirs: half::bf16) {
        assert!(ours == theirs.to_bits() || (ours == BF16.nan() && theirs.is_nan()), "{ours:#x} {theirs:?}");
    }

    /// Limbs of 32 bits.
    const LIMBS: usize = 24;

    /// An exact value: a whole number of units of 2^-384, in limbs that may be negative, least first.
    #[derive(Clone)]
    struct Exact([i128; LIMBS]);

    impl Exact {
        fn of(value: f64) -> Self {
            let mut limbs = [0i128; LIMBS];
            if value != 0.0 {
                let bits = value.abs().to_bits();
                let exponent = (bits >> 52) as usize + 384 - 1075;
                let whole = i128::from(bits & ((1 << 52) - 1) | 1 << 52) << (exponent % 32);
                for part in 0..3 {
                    let limb = whole >> (32 * part) & 0xffff_ffff;
                    limbs[exponent / 32 + part] = if value < 0.0 { -limb } else { limb };
                }
            }
            Self(limbs)
        }

        fn plus(&self, other: &Self, times: i128) -> Self {
            Self(std::array::from_fn(|at| self.0[at] + times * other.0[at]))
        }

        /// -1, 0 or 1.
        fn sign(&self) -> i128 {
            let mut limbs = self.0;
            for at in 1..LIMBS {
                let carry = limbs[at - 1].div_euclid(1 << 32);
                limbs[at - 1] -= carry << 32;
                limbs[at] += carry;
            }
            let last = limbs[LIMBS - 1];
            if last != 0 { last.signum() } else { limbs.iter().any(|limb| *limb != 0).into() }
        }
    }

    /// Fused sums against their definition in exact arithmetic: no code is nearer to a * b + c.
    #[test]
    fn fused_sums_round_once() {
        for format in [F16, BF16] {
            let step = [3989, 4001, 4003];
            for a in codes(format).step_by(step[0]) {
                for b in codes(format).step_by(step[1]) {
                    for c in codes(format).step_by(step[2]).chain([1, 0x8001, format.sign_bit()]) {
                        let parts = [a, b, c].map(|code| format.decode(code));
                        let result = format.fma(a, b, c);
                        if parts.iter().any(|part| !part.is_finite()) || result & 0x7fff >= format.infinity() {
                            continue;
                        }
                        let exact = Exact::of(parts[0] * parts[1]).plus(&Exact::of(parts[2]), 1);
                        let distance = |code: u16| {
                            let away = exact.plus(&Exact::of(format.decode(code)), -1);
                            let sign = if away.sign() < 0 { -1 } else { 1 };
                            Exact(away.0.map(|limb| limb * sign))
                        };
                        let ours = distance(result);
                        for other in [result.wrapping_sub(1), result.wrapping_add(1)] {
                            if other & 0x7fff < format.infinity() {
                                let nearer = distance(other).plus(&ours, -1).sign();
                                let tie_to_odd = nearer == 0 && result & 1 == 1 && (other ^ result) & 0x8000 == 0;
                                assert!(
                                    nearer >= 0 && !tie_to_odd,
                                    "{format:?} {a:#x} * {b:#x} + {c:#x} = {result:#x}"
                                );
                            }
                        }
                    }
                }
            }
        }
    }

    /// Products in the middle between two bf16 numbers: an addend too small for double precision next to them breaks the tie.
    #[test]
    fn a_tiny_addend_breaks_a_tie() {
        let code = |value: f64| BF16.encode(value, false);
        let tiny = BF16.decode(1);
        for (a, b, below, above, even) in [(129.0, 192.0, 193.0, 194.0, 194.0), (130.0, 160.0, 162.0, 163.0, 162.0)] {
            let fused = |addend: f64| BF16.fma(code(a / 128.0), code(b / 128.0), code(addend));
            assert_eq!(fused(0.0), code(even / 128.0));
            assert_eq!(fused(-tiny), code(below / 128.0));
            assert_eq!(fused(tiny), code(above / 128.0));
        }
    }

    #[test]
    fn extremes_of_every_pair_of_eight_bits() {
        for format in [E4M3, E5M2] {
            for (a, b) in codes(format).flat_map(|a| codes(format).map(move |b| (a, b))) {
                let (x, y) = (format.decode(a), format.decode(b));
                let (least, most) = (format.min(a, b), format.max(a, b));
                if x.is_nan() || y.is_nan() {
                    let left = if x.is_nan() { b } else { a };
                    let expected = if x.is_nan() && y.is_nan() { format.nan() } else { left };
                    assert_eq!((least, most), (expected, expected));
                } else {
                    assert!(format.decode(least) == x.min(y) && format.decode(most) == x.max(y));
                    assert!(x != y || (least | most == a | b && least & format.sign_bit() >= most & format.sign_bit()));
                }
            }
        }
    }
}
