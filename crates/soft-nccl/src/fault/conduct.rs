//! The points at which a step can go wrong. Those of a sound library are empty and cost nothing.
use crate::algo::Step;
use crate::arith::{self, Combine, Scalar, Type};
use crate::engine::write;

/// How a step is done. What stands here is how it is done right.
pub(crate) trait Conduct {
    /// The step as it is going to be done.
    fn step(&mut self, step: &Step) -> Step {
        *step
    }

    /// A buffer's address.
    fn base(&mut self, address: usize) -> usize {
        address
    }

    /// A message has come in.
    fn message(&mut self, _step: &Step, _data: &mut [u8]) {}

    /// By what the rank multiplies its own contribution.
    fn scalar(&mut self, _step: &Step, scalar: Option<Scalar>) -> Option<Scalar> {
        scalar
    }

    /// Something was read, and multiplied.
    fn loaded(&mut self, _step: &Step, _data: &mut [u8]) {}

    /// Combines what lies here, or what was combined before, with a message.
    fn combine(&mut self, _step: &Step, ty: Type, operator: Combine, message: &mut [u8], other: &[u8]) {
        arith::combine(ty, operator, message, other);
    }

    /// The value is the whole reduction of `n` ranks.
    fn finish(&mut self, ty: Type, n: usize, average: bool, value: &mut [u8]) {
        if average {
            arith::divide(ty, value, n);
        }
    }

    /// Writes elements from number `at` of a buffer on.
    fn store(&mut self, ty: Type, base: usize, at: usize, data: &[u8]) {
        write(base.wrapping_add(at * ty.size()), data);
    }

    /// The step is done, and this is its value.
    fn done(&mut self, _step: &Step, _value: &[u8]) {}
}

/// A library that does nothing wrong.
pub(crate) struct Sound;

impl Conduct for Sound {}
