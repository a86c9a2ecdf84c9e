//! The points at which a step can go wrong. Those of a sound library are empty and cost nothing.
use crate::algo::Step;
use crate::arith::{self, Combine, Manner, Scalar, Type};
use crate::engine::write;
use crate::op::{Reduction, Spec};

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

    /// Multiplies the rank's own contribution.
    fn scale(&mut self, ty: Type, data: &mut [u8], scalar: &Scalar) {
        arith::scale(ty, data, scalar);
    }

    /// Called when data have been read and multiplied.
    fn loaded(&mut self, _step: &Step, _data: &mut Vec<u8>) {}

    /// Bytes per element of a partial result, if its type is not that of the operation.
    fn partial(&self) -> Option<usize> {
        None
    }

    /// Combines what lies here, or what was combined before, with a message.
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
    fn store(&mut self, ty: Type, base: usize, at: usize, data: &[u8]) {
        write(base.wrapping_add(at * ty.size()), data);
    }

    /// The step is done, and this is its value.
    fn done(&mut self, _step: &Step, _value: &[u8]) {}
}

/// A library that does nothing wrong.
pub(crate) struct Sound;

impl Conduct for Sound {}

/// A correct library that computes in another manner.
pub(crate) struct Other {
    manner: Manner,
    ty: Type,
    /// The type of partial results.
    acc: Type,
    n: usize,
    average: bool,
    scalar: Option<Scalar>,
}

impl Other {
    /// For a reduction of `n` ranks.
    pub(crate) fn of(manner: Manner, spec: &Spec, n: usize) -> Option<Self> {
        let reduction = spec.reduction.filter(|_| manner != Manner::default())?;
        // With one rank a plain reduction is a copy.
        if n == 1 && matches!(reduction, Reduction::Plain(_)) {
            return None;
        }
        let (ty, average) = (spec.ty, reduction == Reduction::Average);
        Some(Self { manner, ty, acc: manner.accumulator(ty, reduction.combine()), n, average, scalar: None })
    }
}

impl Conduct for Other {
    fn scalar(&mut self, _: &Step, scalar: Option<Scalar>) -> Option<Scalar> {
        // The factor is applied after the data have been widened.
        self.scalar = scalar;
        None
    }

    fn loaded(&mut self, step: &Step, data: &mut Vec<u8>) {
        if step.own {
            self.manner.own(self.ty, self.acc, self.n, self.average, self.scalar.take(), data);
        }
    }

    fn partial(&self) -> Option<usize> {
        Some(self.acc.size())
    }

    fn combine(&mut self, _: &Step, _: Type, operator: Combine, message: &mut [u8], other: &[u8]) {
        self.manner.join(self.acc, operator, message, other);
    }

    fn finish(&mut self, ty: Type, n: usize, average: bool, value: &mut Vec<u8>) {
        self.manner.finish(ty, self.acc, n, average, value);
    }
}
