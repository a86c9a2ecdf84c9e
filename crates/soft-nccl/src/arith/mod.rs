//! NCCL's arithmetic, in software: twelve element types, reductions, scaling and division. Nothing outside this module
//! adds, multiplies or rounds an element.
//!
//! It shares nothing with the oracle, so that both cannot make the same mistake: this module rounds with the `half` crate and its own
//! tables, the oracle works on exact values and rounds them itself.
mod fp8;
mod kernels;
pub mod manner;
#[cfg(test)]
mod tests;
mod types;

pub(crate) use manner::Manner;
pub(crate) use types::Type;

use serde::{Deserialize, Serialize};

/// The operation that combines two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum Combine {
    Sum,
    Prod,
    Max,
    Min,
}

/// A value of any element type, in the first bytes.
pub(crate) type Scalar = [u8; 8];

/// `acc[i] = acc[i] (op) other[i]` for every whole element both have.
pub(crate) fn combine(ty: Type, op: Combine, acc: &mut [u8], other: &[u8]) {
    (ty.kernels().combine)(op, acc, other);
}

/// Multiplies every element by `scalar`, rounding to the type.
pub(crate) fn scale(ty: Type, data: &mut [u8], scalar: &Scalar) {
    (ty.kernels().scale)(data, scalar);
}

/// Divides every element by `n`, towards zero; integers only, floats stay as they are.
pub(crate) fn divide(ty: Type, data: &mut [u8], n: usize) {
    (ty.kernels().divide)(data, n);
}

/// The value of a floating-point scalar; `None` for integers.
pub(crate) fn value(ty: Type, scalar: &Scalar) -> Option<f64> {
    (ty.kernels().value)(scalar)
}
