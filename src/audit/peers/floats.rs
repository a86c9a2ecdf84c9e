//! Arithmetic as the suites' references do it: in the type, or through f32 and rounded back after each step.
use crate::num::{DType, Number, decode, decode_f64, encode_f64, encode_int};
use crate::plan::Reduction;
use nccl_sys::ncclRedOp_t;

/// What two elements are combined with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fold {
    Sum,
    Prod,
    Min,
    Max,
}

impl Fold {
    /// Averages and premultiplied sums are sums.
    pub fn of(reduce: &Reduction) -> Self {
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
pub(crate) fn fold(dtype: DType, how: Fold, a: u64, b: u64) -> u64 {
    match (decode(dtype, a), decode(dtype, b)) {
        (Number::Int(x), Number::Int(y)) => encode_int(
            dtype,
            match how {
                Fold::Sum => x + y,
                // the low bits are all that counts, and those of the low 64 bits are right
                Fold::Prod => i128::from((x as u64).wrapping_mul(y as u64)),
                Fold::Min => x.min(y),
                Fold::Max => x.max(y),
            },
        ),
        (x, y) => {
            let (x, y) = (x.as_f64(), y.as_f64());
            match how {
                Fold::Sum => round(dtype, x + y),
                Fold::Prod => round(dtype, x * y),
                Fold::Min => {
                    if y < x {
                        b
                    } else {
                        a
                    }
                }
                Fold::Max => {
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
