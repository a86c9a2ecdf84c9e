//! Numbers rounded once, in any direction, from what is known exactly (PTX ISA, 9.7.3 and 9.7.9.21).

/// The direction of rounding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// `rn`: to nearest, ties to even.
    Nearest,
    /// `rz`: towards zero.
    Zero,
    /// `rm`: towards minus infinity.
    Down,
    /// `rp`: towards infinity.
    Up,
}

/// A format of IEEE 754, or bf16, which is like one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Binary {
    exponent_bits: u32,
    fraction_bits: u32,
}

pub const HALF: Binary = Binary { exponent_bits: 5, fraction_bits: 10 };
pub const BRAIN: Binary = Binary { exponent_bits: 8, fraction_bits: 7 };
pub const SINGLE: Binary = Binary { exponent_bits: 8, fraction_bits: 23 };
pub const DOUBLE: Binary = Binary { exponent_bits: 11, fraction_bits: 52 };

/// A finite number: a whole one times a power of two. Where it is the beginning of a longer one, it has 60 bits or more, and its last bit
/// is set if anything follows: then no rounding to 53 bits or fewer can tell the difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exact {
    pub negative: bool,
    pub whole: u64,
    pub exponent: i32,
}

impl Exact {
    /// `None` for infinities and NaN.
    pub fn of(value: f64) -> Option<Self> {
        let bits = value.to_bits();
        let (negative, exponent, fraction) = (bits >> 63 == 1, (bits >> 52 & 0x7ff) as i32, bits & ((1 << 52) - 1));
        match exponent {
            0x7ff => None,
            0 => Some(Self { negative, whole: fraction, exponent: -1074 }),
            _ => Some(Self { negative, whole: fraction | 1 << 52, exponent: exponent - 1075 }),
        }
    }

    /// The bits of the number that is nearest in a direction.
    pub fn round(self, to: Binary, direction: Direction) -> u64 {
        let sign = u64::from(self.negative) << (to.exponent_bits + to.fraction_bits);
        if self.whole == 0 {
            return sign;
        }
        let least = 2 - (1 << (to.exponent_bits - 1));
        let leading = 63 - self.whole.leading_zeros() as i32 + self.exponent;
        // Below the least exponent, numbers have fewer bits.
        let dropped = leading.max(least) - to.fraction_bits as i32 - self.exponent;
        let (kept, rest, half) = if dropped <= 0 {
            (self.whole << -dropped, 0, 1)
        } else {
            let (whole, dropped) = (u128::from(self.whole), dropped.min(100));
            ((whole >> dropped) as u64, whole & ((1 << dropped) - 1), 1u128 << (dropped - 1))
        };
        let outwards = match direction {
            Direction::Nearest => rest > half || (rest == half && kept & 1 == 1),
            Direction::Zero => false,
            Direction::Down => self.negative && rest > 0,
            Direction::Up => !self.negative && rest > 0,
        };
        let kept = kept + u64::from(outwards);
        // The leading one adds to the exponent, as does a carry out of the fraction.
        let code = if leading < least {
            kept
        } else {
            // The first exponent that is too large stands for all of them.
            (((leading.min(2 - least) - least) as u64) << to.fraction_bits) + kept
        };
        let infinity = ((1 << to.exponent_bits) - 1) << to.fraction_bits;
        let reaches = match direction {
            Direction::Nearest => true,
            Direction::Zero => false,
            Direction::Down => self.negative,
            Direction::Up => !self.negative,
        };
        sign | if code < infinity || reaches { code.min(infinity) } else { infinity - 1 }
    }

    /// One divided by it; it must not be zero.
    pub fn reciprocal(self) -> Self {
        // 53 bits of any number of these formats, the first of them set.
        let shift = self.whole.leading_zeros() as i32 - 11;
        let divisor = u128::from(self.whole) << shift.max(0) >> (-shift).max(0);
        let (quotient, rest) = ((1u128 << 115) / divisor.max(1), (1u128 << 115) % divisor.max(1));
        let exponent = -115 - (self.exponent - shift);
        Self { negative: self.negative, whole: quotient as u64 | u64::from(rest != 0), exponent }
    }

    /// Its square root; it must not be negative.
    pub fn square_root(self) -> Self {
        let shift = self.whole.leading_zeros() as i32 + 62;
        // An even exponent.
        let shift = shift - (self.exponent - shift).rem_euclid(2);
        let square = u128::from(self.whole) << shift;
        let root = square.isqrt();
        Self {
            negative: false,
            whole: root as u64 | u64::from(root * root != square),
            exponent: (self.exponent - shift) / 2,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIRECTIONS: [Direction; 4] = [Direction::Nearest, Direction::Zero, Direction::Down, Direction::Up];

    fn numbers(seed: u64) -> impl Iterator<Item = u64> {
        let mut state = seed;
        std::iter::repeat_with(move || {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            (state ^ state >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
        })
    }

    fn single(value: f64, direction: Direction) -> f32 {
        f32::from_bits(Exact::of(value).unwrap().round(SINGLE, direction) as u32)
    }

    #[test]
    fn the_nearest_number_is_the_processors_and_the_others_enclose_the_value() {
        let any = numbers(1).take(200_000).map(f64::from_bits);
        let near = numbers(2)
            .take(200_000)
            .map(|bits| f64::from(f32::from_bits(bits as u32)) * (1.0 + (bits >> 40) as f64 * 1e-12));
        for value in any.chain(near).filter(|value| value.is_finite()) {
            assert_eq!(single(value, Direction::Nearest).to_bits(), (value as f32).to_bits(), "{value:e}");
            let [_, zero, down, up] = DIRECTIONS.map(|direction| single(value, direction));
            assert!(f64::from(down) <= value && value <= f64::from(up), "{value:e}");
            assert!(down == up || down.next_up() == up, "{value:e}: {down:e} {up:e}");
            assert_eq!(zero, if value < 0.0 { up } else { down });
        }
    }

    #[test]
    fn whole_numbers_of_64_bits_are_rounded_once() {
        for bits in numbers(3).take(200_000).flat_map(|bits| [bits, bits >> 20, bits >> 40, bits | 0xff << 56]) {
            let exact = Exact { negative: false, whole: bits, exponent: 0 };
            assert_eq!(exact.round(SINGLE, Direction::Nearest) as u32, (bits as f32).to_bits());
            assert_eq!(exact.round(DOUBLE, Direction::Nearest), (bits as f64).to_bits());
        }
        let exact = Exact { negative: false, whole: u64::MAX, exponent: 0 };
        assert_eq!(exact.round(HALF, Direction::Nearest), 0x7c00);
        assert_eq!(exact.round(HALF, Direction::Zero), 0x7bff);
        let once = Exact { negative: false, whole: (0x101 << 48) | 1, exponent: 0 };
        assert_eq!(once.round(BRAIN, Direction::Nearest), 0x5b81, "just above the middle of two numbers");
        assert_eq!(
            half::bf16::from_f64(once.whole as f64).to_bits(),
            0x5b80,
            "rounded twice it would be the other one"
        );
    }

    #[test]
    fn reciprocals_and_roots_are_the_processors_and_in_other_directions_next_to_it() {
        for bits in numbers(4).take(200_000) {
            let value = f64::from_bits(bits & !(1 << 63));
            let Some(exact) = Exact::of(value).filter(|exact| exact.whole > 0) else { continue };
            let of = |exact: Exact| DIRECTIONS.map(|direction| f64::from_bits(exact.round(DOUBLE, direction)));
            for (all, nearest) in [(of(exact.reciprocal()), 1.0 / value), (of(exact.square_root()), value.sqrt())] {
                assert_eq!(all[0].to_bits(), nearest.to_bits(), "{value:e}");
                assert!(all[2] <= all[0] && all[0] <= all[3] && all[1] == all[2], "{value:e}: {all:?}");
                assert!(all[2] == all[3] || all[2].next_up() == all[3], "{value:e}: {all:?}");
            }
            let value = f32::from_bits(bits as u32 & 0x7fff_ffff);
            let Some(exact) = Exact::of(value.into()).filter(|exact| exact.whole > 0) else { continue };
            assert_eq!(exact.reciprocal().round(SINGLE, Direction::Nearest) as u32, (1.0 / value).to_bits());
            assert_eq!(exact.square_root().round(SINGLE, Direction::Nearest) as u32, value.sqrt().to_bits());
        }
        let four = Exact::of(4.0).unwrap();
        assert_eq!(DIRECTIONS.map(|direction| four.square_root().round(DOUBLE, direction)), [2f64.to_bits(); 4]);
        assert_eq!(DIRECTIONS.map(|direction| four.reciprocal().round(DOUBLE, direction)), [0.25f64.to_bits(); 4]);
    }

    #[test]
    fn numbers_beyond_the_largest_and_below_the_least() {
        let large = DIRECTIONS.map(|direction| single(1e300, direction));
        assert_eq!(large, [f32::INFINITY, f32::MAX, f32::MAX, f32::INFINITY]);
        let large = DIRECTIONS.map(|direction| single(-1e300, direction));
        assert_eq!(large, [-f32::INFINITY, -f32::MAX, -f32::INFINITY, -f32::MAX]);
        let small = DIRECTIONS.map(|direction| single(1e-300, direction).to_bits());
        assert_eq!(small, [0, 0, 0, 1]);
        assert_eq!(single(-0.0, Direction::Up).to_bits(), 1 << 31);
        let huge = Exact { negative: false, whole: 3, exponent: i32::MAX - 100 };
        assert_eq!(DIRECTIONS.map(|direction| huge.round(HALF, direction)), [0x7c00, 0x7bff, 0x7bff, 0x7c00]);
        assert_eq!(huge.round(DOUBLE, Direction::Nearest), f64::INFINITY.to_bits());
    }
}
