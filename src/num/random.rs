//! Random elements by counter: every element is a function of seed, rank and index alone. The stream is part of scenarios'
//! meaning and of their snapshots, so it never changes: not between versions, not between machines.
use super::{DType, decode, decode_f64, element_bits, encode_f64, encode_int, int_range, mask};
use crate::scenario::case::ElementValue;

/// A source of elements of one type and range.
#[derive(Clone, Copy, Debug)]
pub struct Random {
    dtype: DType,
    seed: u64,
    range: Range,
}

#[derive(Clone, Copy, Debug)]
enum Range {
    /// From, and how many values there are.
    Int(i128, u128),
    /// From, and the first excluded.
    Float(f64, f64),
}

impl Random {
    /// Floats: `low <= v < high`, default -1 and 1. Integers: `low <= v <= high`, default the type's range. An empty range
    /// gives `low` for ever.
    pub fn new(dtype: DType, seed: u64, low: Option<&ElementValue>, high: Option<&ElementValue>) -> Self {
        let number = |value: Option<&ElementValue>| value.map(|v| decode(dtype, element_bits(dtype, v)));
        let range = match int_range(dtype) {
            Some((least, greatest)) => {
                let whole = |v: Option<&ElementValue>, or: i128| match number(v) {
                    Some(super::Number::Int(v)) => v,
                    _ => or,
                };
                let (low, high) = (whole(low, least), whole(high, greatest));
                Range::Int(low, (high - low + 1).max(1) as u128)
            }
            None => Range::Float(
                number(low).map_or(-1.0, super::Number::as_f64),
                number(high).map_or(1.0, super::Number::as_f64),
            ),
        };
        Self { dtype, seed, range }
    }

    /// The bits of an element.
    pub fn bits(&self, rank: u64, index: u64) -> u64 {
        self.drawn(self.start(rank), index)
    }

    /// A rank's elements from the first on, as many as there is room for.
    pub fn fill(&self, rank: u64, bytes: &mut [u8]) {
        let (start, size) = (self.start(rank), self.dtype.size());
        for (index, place) in (0..).zip(bytes.chunks_exact_mut(size)) {
            place.copy_from_slice(&self.drawn(start, index).to_le_bytes()[..size]);
        }
    }

    fn start(&self, rank: u64) -> u64 {
        mix(mix(self.seed).wrapping_add(rank))
    }

    fn drawn(&self, start: u64, index: u64) -> u64 {
        let mut word = mix(start.wrapping_add(index));
        match self.range {
            // All values of the type: 2^bits of them, so the upper bits of the word count from the least.
            Range::Int(low, values) if values == 1 << self.dtype.bits() => {
                (low as u64).wrapping_add(word >> (64 - self.dtype.bits())) & mask(self.dtype)
            }
            // Multiply and shift: with at most 2^64 values the bias is below 2^-64 times their number.
            Range::Int(low, values) => {
                let step = if values == 1 << 64 { u128::from(word) } else { (u128::from(word) * values) >> 64 };
                encode_int(self.dtype, low + step as i128)
            }
            Range::Float(low, high) => {
                // Rounding to a small type can reach `high`, which is excluded: then draw again.
                for _ in 0..64 {
                    let part = (word >> 11) as f64 / (1u64 << 53) as f64;
                    let bits = encode_f64(self.dtype, low * (1.0 - part) + high * part);
                    let value = decode_f64(self.dtype, bits);
                    if low <= value && value < high {
                        return bits;
                    }
                    word = mix(word);
                }
                encode_f64(self.dtype, low)
            }
        }
    }
}

/// One element of [`Random`].
pub fn random(
    dtype: DType,
    seed: u64,
    rank: u64,
    index: u64,
    low: Option<&ElementValue>,
    high: Option<&ElementValue>,
) -> u64 {
    Random::new(dtype, seed, low, high).bits(rank, index)
}

/// The step and the mixer of SplitMix64.
fn mix(word: u64) -> u64 {
    let word = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ word >> 31
}
