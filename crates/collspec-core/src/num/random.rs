//! Random elements: every element is a function of seed, rank and index alone. The elements are part of a scenario's meaning
//! and snapshot, so they never change between versions or machines.
use super::ElementValue;
use super::encoding::encode_inlined;
use super::{DType, decode, decode_f64, element_bits, encode_f64, int_range, mask, put_elements};

/// A source of elements of one type and range.
#[derive(Clone, Copy, Debug)]
pub struct Random {
    dtype: DType,
    seed: u64,
    range: Range,
}

#[derive(Clone, Copy, Debug)]
enum Range {
    /// All values of an integer type, the least first.
    Type(i128),
    /// The first value, and the number of values.
    Int(i128, u128),
    /// The first value, and the first excluded one with its bits without the sign.
    Float(f64, f64, u64),
}

/// The bounds in the type, with defaults.
enum Bounds {
    /// Whole numbers between two bounds, both included.
    Int(i128, i128),
    /// The second is excluded.
    Float(f64, f64),
}

impl Bounds {
    fn new(dtype: DType, low: Option<&ElementValue>, high: Option<&ElementValue>) -> Self {
        let number = |value: Option<&ElementValue>| value.map(|v| decode(dtype, element_bits(dtype, v)));
        match int_range(dtype) {
            Some((least, greatest)) => {
                let whole = |v: Option<&ElementValue>, or: i128| match number(v) {
                    Some(super::Number::Int(v)) => v,
                    _ => or,
                };
                Self::Int(whole(low, least), whole(high, greatest))
            }
            None => {
                let float = |v, or| number(v).map_or(or, super::Number::as_f64);
                Self::Float(float(low, -1.0), float(high, 1.0))
            }
        }
    }
}

/// The reason the type has no element between the bounds; `None` if it has one.
pub fn empty_range(dtype: DType, low: Option<&ElementValue>, high: Option<&ElementValue>) -> Option<String> {
    let (name, said) = (dtype.name(), |v: Option<&ElementValue>| if v.is_some() { "" } else { " unless said" });
    let (low_said, high_said) = (said(low), said(high));
    match Bounds::new(dtype, low, high) {
        Bounds::Int(low, high) if low <= high => None,
        Bounds::Int(low, high) => Some(format!("in {name} `low` is {low}{low_said} and `high` {high}{high_said}")),
        Bounds::Float(low, high) if low < high => None,
        Bounds::Float(low, high) => Some(format!("in {name} `low` is {low}{low_said} and `high` {high}{high_said}")),
    }
}

impl Random {
    /// Floats: `low <= v < high`, default -1 and 1. Integers: `low <= v <= high`, default the type's range. An empty range
    /// gives `low` always.
    pub fn new(dtype: DType, seed: u64, low: Option<&ElementValue>, high: Option<&ElementValue>) -> Self {
        let range = match Bounds::new(dtype, low, high) {
            Bounds::Int(low, high) if int_range(dtype) == Some((low, high)) => Range::Type(low),
            Bounds::Int(low, high) => Range::Int(low, (high - low + 1).max(1) as u128),
            Bounds::Float(low, high) => Range::Float(low, high, encode_f64(dtype, high.abs())),
        };
        Self { dtype, seed, range }
    }

    /// The bits of an element.
    pub fn bits(&self, rank: u64, index: u64) -> u64 {
        self.drawn(splitmix64(self.start(rank).wrapping_add(index)))
    }

    /// Fills the bytes with a rank's elements from the element `first` on.
    pub fn fill(&self, rank: u64, first: u64, bytes: &mut [u8]) {
        let start = self.start(rank).wrapping_add(first);
        let words = (0..).map(|index| splitmix64(start.wrapping_add(index)));
        match self.range {
            Range::Type(low) => put_elements(self.dtype, bytes, words.map(|word| self.of_type(low, word))),
            Range::Int(low, values) => put_elements(self.dtype, bytes, words.map(|word| self.whole(low, values, word))),
            // The type is a constant in each of these loops.
            Range::Float(low, high, edge) => match self.dtype {
                DType::F16 => self.fill_floats(bytes, words, (low, high, edge), |v| encode_inlined(DType::F16, v)),
                DType::Bf16 => self.fill_floats(bytes, words, (low, high, edge), |v| encode_inlined(DType::Bf16, v)),
                DType::F32 => self.fill_floats(bytes, words, (low, high, edge), |v| encode_inlined(DType::F32, v)),
                DType::F64 => self.fill_floats(bytes, words, (low, high, edge), |v| encode_inlined(DType::F64, v)),
                DType::F8e4m3 => {
                    self.fill_floats(bytes, words, (low, high, edge), |v| encode_inlined(DType::F8e4m3, v))
                }
                DType::F8e5m2 => {
                    self.fill_floats(bytes, words, (low, high, edge), |v| encode_inlined(DType::F8e5m2, v))
                }
                other => self.fill_floats(bytes, words, (low, high, edge), |v| encode_f64(other, v)),
            },
        }
    }

    /// Fills the bytes with floats as [`Random::drawn`] makes them, without a call for those of the first attempt.
    #[inline]
    fn fill_floats(
        &self,
        bytes: &mut [u8],
        words: impl Iterator<Item = u64>,
        (low, high, edge): (f64, f64, u64),
        encode: impl Fn(f64) -> u64,
    ) {
        let magnitude = mask(self.dtype) >> 1;
        let bits = words.map(|word| {
            let exact = between(low, high, word);
            let bits = encode(exact);
            if low <= exact && exact < high && bits & magnitude != edge { bits } else { self.drawn(word) }
        });
        put_elements(self.dtype, bytes, bits);
    }

    /// Multiply and shift: with fewer than 2^64 values the bias is below 2^-64 times their number.
    fn whole(&self, low: i128, values: u128, word: u64) -> u64 {
        let step = (u128::from(word) * values) >> 64;
        (low as u64).wrapping_add(step as u64) & mask(self.dtype)
    }

    fn start(&self, rank: u64) -> u64 {
        splitmix64(splitmix64(self.seed).wrapping_add(rank))
    }

    /// Any value of an integer type: the word's upper bits are its distance from the least.
    fn of_type(&self, low: i128, word: u64) -> u64 {
        (low as u64).wrapping_add(word >> (64 - self.dtype.bits())) & mask(self.dtype)
    }

    fn drawn(&self, mut word: u64) -> u64 {
        match self.range {
            Range::Type(low) => self.of_type(low, word),
            Range::Int(low, values) => self.whole(low, values, word),
            Range::Float(low, high, edge) => {
                // Rounding to a small type can reach `high`, which is excluded: then draw again.
                for _ in 0..64 {
                    let exact = between(low, high, word);
                    let bits = encode_f64(self.dtype, exact);
                    // Rounding keeps order: a value inside has left the range only if it is `high` now (as zero, of
                    // either sign).
                    if low <= exact && exact < high && bits & (mask(self.dtype) >> 1) != edge {
                        return bits;
                    }
                    let value = decode_f64(self.dtype, bits);
                    if low <= value && value < high {
                        return bits;
                    }
                    word = splitmix64(word);
                }
                encode_f64(self.dtype, low)
            }
        }
    }
}

/// The number at the word's place between two others.
#[inline(always)]
fn between(low: f64, high: f64, word: u64) -> f64 {
    // 53 bits, which a signed word holds too: that converts faster.
    let part = (word >> 11) as i64 as f64 / (1u64 << 53) as f64;
    low * (1.0 - part) + high * part
}

/// What SplitMix64 adds to its state for each number.
pub const SPLITMIX64_STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// The number that SplitMix64 makes of a state: every bit of it decides about half of the bits.
#[inline(always)]
pub fn splitmix64(word: u64) -> u64 {
    let word = word.wrapping_add(SPLITMIX64_STEP);
    let word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ word >> 31
}
