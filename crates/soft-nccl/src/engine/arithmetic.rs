//! Steps of a correct library that computes in another manner than NCCL (COLLSPEC_SOFT_ARITHMETIC).
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
        Some(Self { manner, ty, acc: manner.accumulator(ty, reduction.combine()), n, average })
    }

    /// Bytes per element of a partial result.
    pub(super) fn partial(&self) -> usize {
        self.acc.size()
    }

    /// Makes partial results of the rank's own contribution, which this factor multiplies.
    pub(super) fn widen_and_scale(&self, scalar: Option<Scalar>, data: &mut Vec<u8>) {
        self.manner.widen_and_scale(self.ty, self.acc, self.n, self.average, scalar, data);
    }

    pub(super) fn combine(&self, operator: Combine, message: &mut [u8], other: &[u8]) {
        self.manner.join(self.acc, operator, message, other);
    }

    /// The value is the whole reduction.
    pub(super) fn finish(&self, value: &mut Vec<u8>) {
        self.manner.finish(self.ty, self.acc, self.n, self.average, value);
    }
}
