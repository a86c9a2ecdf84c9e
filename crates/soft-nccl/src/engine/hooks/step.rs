//! The points of a step at which its correct action can be replaced. A sound step is generic over them, so the
//! empty ones cost nothing.
#![allow(unsafe_code)] // buffers of the caller are written

use crate::algo::Step;
use crate::arith::{self, Combine, Scalar, Type};
use crate::engine::write;

/// Executes a step. The default bodies do so correctly, in NCCL's arithmetic.
pub(crate) trait StepHooks: Send {
    /// The step that will be executed in place of this one.
    fn step(&mut self, step: &Step) -> Step {
        *step
    }

    /// The address to use for a buffer.
    fn base(&mut self, address: usize) -> usize {
        address
    }

    /// A message has arrived.
    fn message(&mut self, _step: &Step, _data: &mut [u8]) {}

    /// The factor of the rank's own contribution.
    fn scalar(&mut self, _step: &Step, scalar: Option<Scalar>) -> Option<Scalar> {
        scalar
    }

    /// Multiplies the rank's own contribution.
    fn scale(&mut self, ty: Type, data: &mut [u8], scalar: &Scalar) {
        arith::scale(ty, data, scalar);
    }

    /// True if data that is read and combined must be a step's whole chunk; otherwise it may come in parts.
    fn needs_whole_chunks(&self) -> bool {
        true
    }

    /// Called when data have been read and multiplied.
    fn loaded(&mut self, _step: &Step, _data: &mut Vec<u8>) {}

    /// Bytes per element of a partial result, if its type is not that of the operation.
    fn partial(&self) -> Option<usize> {
        None
    }

    /// Combines local data, or the result combined so far, with a message.
    fn combine(&mut self, _step: &Step, ty: Type, operator: Combine, message: &mut [u8], other: &[u8]) {
        arith::combine(ty, operator, message, other);
    }

    /// The value is the whole reduction of `n` ranks.
    fn finish(&mut self, ty: Type, n: usize, average: bool, value: &mut Vec<u8>) {
        if average {
            arith::divide(ty, value, n);
        }
    }

    /// Writes elements from number `at` of a buffer on.
    ///
    /// # Safety
    /// `base` is the address of a buffer of the running operation, and the elements lie inside it.
    unsafe fn store(&mut self, ty: Type, base: usize, at: usize, data: &[u8]) {
        // SAFETY: the caller vouches for these elements.
        unsafe { write(base.wrapping_add(at * ty.size()), data) };
    }

    fn done(&mut self, _step: &Step, _value: &[u8]) {}
}

/// The hooks of a sound library.
pub(crate) struct Sound;

impl StepHooks for Sound {
    fn needs_whole_chunks(&self) -> bool {
        false
    }
}
