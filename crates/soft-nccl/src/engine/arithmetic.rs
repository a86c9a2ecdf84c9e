//! Steps of a correct library that computes in another manner than NCCL (COLLSPEC_SOFT_ARITHMETIC).
use super::hooks::StepHooks;
use crate::algo::Step;
use crate::arith::{Combine, Manner, Scalar, Type};
use crate::op::{Reduction, Spec};

/// The steps of one reduction.
pub(super) struct OtherArithmetic {
    manner: Manner,
    ty: Type,
    /// The type of partial results.
    acc: Type,
    n: usize,
    average: bool,
    scalar: Option<Scalar>,
}

impl OtherArithmetic {
    /// The arithmetic for a reduction of `n` ranks; `None` if the manner makes no difference.
    pub(super) fn of(manner: Manner, spec: &Spec, n: usize) -> Option<Self> {
        let reduction = spec.reduction.filter(|_| manner != Manner::default())?;
        // With one rank a plain reduction is a copy.
        if n == 1 && matches!(reduction, Reduction::Plain(_)) {
            return None;
        }
        let (ty, average) = (spec.ty, reduction == Reduction::Average);
        Some(Self { manner, ty, acc: manner.accumulator(ty, reduction.combine()), n, average, scalar: None })
    }
}

impl StepHooks for OtherArithmetic {
    fn scalar(&mut self, _: &Step, scalar: Option<Scalar>) -> Option<Scalar> {
        // The factor is applied after the data have been widened.
        self.scalar = scalar;
        None
    }

    fn loaded(&mut self, step: &Step, data: &mut Vec<u8>) {
        if step.own {
            self.manner.widen_and_scale(self.ty, self.acc, self.n, self.average, self.scalar.take(), data);
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
