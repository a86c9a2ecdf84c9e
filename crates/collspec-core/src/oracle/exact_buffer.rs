//! The exact lane over whole buffers: blocks of elements in simple loops, and single columns where the shortcut fails.
use super::answer::{ColumnReduction, ExactBuffer, ReduceKind, RightResults};
use super::float::{Float, power};
use super::integer;
use super::rows::{self, Machine};
use crate::num::{encode_f64, get_element, put_element};
use std::ops::Range;

/// Number of elements in a block; a block's values of all ranks fit the cache.
const BLOCK: usize = 128;

impl ColumnReduction {
    /// [`ColumnReduction::exact`] for every element of buffers of equal length.
    ///
    /// # Errors
    ///
    /// The index of the first element without an exact answer; 0 if the inputs differ in length or are not one per rank.
    pub fn exact_buffer(&self, inputs: &[&[u8]]) -> Result<ExactBuffer, usize> {
        let bytes = inputs.first().map_or(0, |first| first.len());
        if !self.has_one_input_per_rank(inputs.len()) || inputs.iter().any(|input| input.len() != bytes) {
            return Err(0);
        }
        if self.is_copy() {
            return Ok(ExactBuffer { bytes: inputs[0].to_vec(), special: Vec::new() });
        }
        let Some(float) = Float::of(self.dtype) else {
            return integer::reduce_buffers(self, inputs)
                .map(|bytes| ExactBuffer { bytes, special: Vec::new() })
                .ok_or(0);
        };
        let mut out = ExactBuffer { bytes: vec![0; bytes], special: Vec::new() };
        let count = bytes / self.dtype.size();
        let mut blocks = Blocks::new(self, float);
        blocks.run(inputs, 0..count, &mut out.bytes, &mut out.special)?;
        Ok(out)
    }

    /// The column of element `index`.
    pub fn column(&self, inputs: &[&[u8]], index: usize) -> Vec<u64> {
        inputs.iter().map(|input| get_element(self.dtype, input, index)).collect()
    }
}

/// Working memory of a loop over blocks.
pub(super) struct Blocks<'a> {
    reduction: &'a ColumnReduction,
    float: Float,
    /// The scalars to multiply with before adding: their product with any of the inputs must be exact for the shortcut.
    scalars: Vec<f64>,
    values: Vec<[f64; BLOCK]>,
}

impl<'a> Blocks<'a> {
    pub fn new(reduction: &'a ColumnReduction, float: Float) -> Self {
        let values = vec![[0.0; BLOCK]; reduction.ranks];
        Self { reduction, float, scalars: reduction.scalar_values(), values }
    }

    /// Writes the answers of some elements; `special` gets those with more than one right bit pattern.
    ///
    /// # Errors
    ///
    /// The index of the first element without an exact answer.
    pub fn run(
        &mut self,
        inputs: &[&[u8]],
        elements: Range<usize>,
        bytes: &mut [u8],
        special: &mut Vec<(usize, RightResults)>,
    ) -> Result<(), usize> {
        for from in elements.clone().step_by(BLOCK) {
            self.run_block(inputs, from, BLOCK.min(elements.end - from), bytes, special)?;
        }
        Ok(())
    }

    fn run_block(
        &mut self,
        inputs: &[&[u8]],
        from: usize,
        count: usize,
        bytes: &mut [u8],
        special: &mut Vec<(usize, RightResults)>,
    ) -> Result<(), usize> {
        let dtype = self.reduction.dtype;
        for (values, input) in self.values.iter_mut().zip(inputs) {
            f64::decode(dtype, input.get(from * dtype.size()..).unwrap_or_default(), &mut values[..count]);
        }
        let simple = match self.reduction.kind {
            ReduceKind::Sum => self.sums(count, 1.0),
            // A power of two as scalar changes no mantissa: sums first and products first are the same.
            ReduceKind::Avg if self.reduction.ranks.is_power_of_two() && self.scalars[0] != 0.0 => {
                self.sums(count, self.scalars[0])
            }
            ReduceKind::Min => self.extremes(count, |a, b| if b < a { b } else { a }),
            ReduceKind::Max => self.extremes(count, |a, b| if b > a { b } else { a }),
            _ => Simple { answers: [0.0; BLOCK], known: [false; BLOCK] },
        };
        if simple.known[..count].iter().fold(true, |all, known| all & known) {
            rows::encode(dtype, &simple.answers[..count], bytes, from);
            return Ok(());
        }
        let mut column = vec![0.0; self.reduction.ranks];
        for i in 0..count {
            let index = from + i;
            if simple.known[i] {
                put_element(dtype, bytes, index, encode_f64(dtype, simple.answers[i]));
                continue;
            }
            for (value, values) in column.iter_mut().zip(&self.values) {
                *value = values[i];
            }
            match self.reduction.exact_values(self.float, &column) {
                Some(RightResults::Bits(bits)) => put_element(dtype, bytes, index, bits),
                Some(answer) => {
                    let bits = self.reduction.canonical(&self.reduction.column(inputs, index));
                    put_element(dtype, bytes, index, bits);
                    special.push((index, answer));
                }
                None => return Err(index),
            }
        }
        Ok(())
    }

    /// Sums times a power of two, for the elements that lie on one grid (see `exact`): the grid is made as fine as the
    /// precision allows for the sum of magnitudes, then every value must be on it.
    fn sums(&self, count: usize, scalar: f64) -> Simple {
        let (mut size, mut total) = ([0.0f64; BLOCK], [-0.0f64; BLOCK]);
        for values in &self.values {
            for i in 0..count {
                size[i] += values[i].abs();
                total[i] += values[i];
            }
        }
        // Far from both ends of f64, so that the steps below stay exact; and scaled values must stay normal in the type.
        let least = power((self.float.min_normal_exponent() + self.float.precision()).max(-900)) / scalar;
        let most = self.float.max_finite().min(power(900));
        let (mut steps, mut known) = ([0.0f64; BLOCK], [false; BLOCK]);
        for i in 0..count {
            known[i] = (size[i] == 0.0) | ((least <= size[i]) & (size[i] <= most));
            // 2^(e+1) > size >= 2^e: a grid of 2^(e+1-p) has fewer than 2^p steps up to size.
            let exponent = (size[i].to_bits() >> 52) as i32 - 1023;
            steps[i] = power((self.float.precision() - 1 - exponent).clamp(-1000, 1000));
        }
        for values in &self.values {
            for i in 0..count {
                let scaled = values[i] * steps[i];
                // A zero that was not zero before has fallen below f64's lower end.
                known[i] &= is_whole(scaled) & ((scaled != 0.0) | (values[i] == 0.0));
            }
        }
        total.iter_mut().for_each(|total| *total *= scalar);
        Simple { answers: total, known }
    }

    /// The lowest or highest values, if they are finite and not zero, and no value is a NaN: then only one result is right.
    fn extremes(&self, count: usize, better: impl Fn(f64, f64) -> f64) -> Simple {
        let Some((first, others)) = self.values.split_first() else {
            return Simple { answers: [0.0; BLOCK], known: [false; BLOCK] };
        };
        let mut best = *first;
        let mut known = first.map(|value| !value.is_nan());
        for values in others {
            for i in 0..count {
                best[i] = better(best[i], values[i]);
                known[i] &= !values[i].is_nan();
            }
        }
        for i in 0..count {
            known[i] &= (best[i] != 0.0) & best[i].is_finite();
        }
        Simple { answers: best, known }
    }
}

/// The answers for a block's elements that simple loops can find; each is a value of the type.
struct Simple {
    answers: [f64; BLOCK],
    known: [bool; BLOCK],
}

/// True for whole numbers; the larger ones have no bits for a fraction.
#[inline(always)]
fn is_whole(value: f64) -> bool {
    const NO_FRACTION: f64 = (1u64 << 52) as f64;
    let size = value.abs();
    // Numbers in the range of this sum are whole, so the machine rounds to a whole number.
    ((size + NO_FRACTION) - NO_FRACTION == size) | (NO_FRACTION..f64::INFINITY).contains(&size)
}
