//! The arithmetic of the suites' references: in the type, or in f32 and rounded to the type after each step.
use crate::num::{DType, Number, decode, decode_f64, encode_f64, encode_int};
use crate::plan::Reduction;
use nccl_sys::ncclRedOp_t;

/// The operator that combines two elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FoldOp {
    Sum,
    Prod,
    Min,
    Max,
}

impl FoldOp {
    /// The operator of a reduction; averages and premultiplied sums are sums.
    pub fn from_reduction(reduce: &Reduction) -> Self {
        match reduce {
            Reduction::Builtin(ncclRedOp_t::Prod) => Self::Prod,
            Reduction::Builtin(ncclRedOp_t::Min) => Self::Min,
            Reduction::Builtin(ncclRedOp_t::Max) => Self::Max,
            Reduction::Builtin(_) | Reduction::PreMulSum(_) => Self::Sum,
        }
    }
}

/// True for the average.
pub(crate) fn is_avg(reduce: &Reduction) -> bool {
    *reduce == Reduction::Builtin(ncclRedOp_t::Avg)
}

/// One step of a reference: integers wrap; f64 in itself, every other type in f32 and then rounded to itself.
pub(crate) fn fold(dtype: DType, how: FoldOp, a: u64, b: u64) -> u64 {
    match (decode(dtype, a), decode(dtype, b)) {
        (Number::Int(x), Number::Int(y)) => encode_int(
            dtype,
            match how {
                FoldOp::Sum => x + y,
                // Only the low bits count, and the low 64 bits of the product are right.
                FoldOp::Prod => i128::from((x as u64).wrapping_mul(y as u64)),
                FoldOp::Min => x.min(y),
                FoldOp::Max => x.max(y),
            },
        ),
        (x, y) => {
            let (x, y) = (x.as_f64(), y.as_f64());
            match how {
                FoldOp::Sum => round(dtype, x + y),
                FoldOp::Prod => round(dtype, x * y),
                FoldOp::Min => {
                    if y < x {
                        b
                    } else {
                        a
                    }
                }
                FoldOp::Max => {
                    if y > x {
                        b
                    } else {
                        a
                    }
                }
            }
        }
    }
}

/// Rounds the exact result of one operation on f32 values to f32, then to the type; f64 stays.
pub(crate) fn round(dtype: DType, value: f64) -> u64 {
    match dtype {
        DType::F64 => value.to_bits(),
        _ => encode_f64(dtype, f64::from(value as f32)),
    }
}

/// Divides by the number of ranks: integers towards zero.
pub(crate) fn divide(dtype: DType, bits: u64, n: usize) -> u64 {
    match decode(dtype, bits) {
        Number::Int(v) => encode_int(dtype, v / n as i128),
        Number::Float(v) => round(dtype, v / n as f64),
    }
}

/// The difference of two elements, as the suites take it: of their values.
pub(crate) fn distance(dtype: DType, a: u64, b: u64) -> f64 {
    (decode_f64(dtype, a) - decode_f64(dtype, b)).abs()
}
