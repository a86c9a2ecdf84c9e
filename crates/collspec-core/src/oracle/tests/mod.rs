//! The oracle against a second, dumber one, and by hand.
mod brute;
mod hand;
mod laws;
mod repeated;
mod rows;
mod speed;

use super::*;
use crate::num::{DType, encode_f64};

/// Random cases per law.
const CASES: u32 = 4000;

pub(super) const FLOATS: [DType; 6] = [DType::F16, DType::Bf16, DType::F32, DType::F64, DType::F8e4m3, DType::F8e5m2];

/// A reduction and a column of these values.
fn case(dtype: DType, kind: ReduceKind, values: &[f64]) -> (ColumnReduction, Vec<u64>) {
    let column = values.iter().map(|v| encode_f64(dtype, *v)).collect();
    (ColumnReduction { dtype, kind, ranks: values.len() }, column)
}
