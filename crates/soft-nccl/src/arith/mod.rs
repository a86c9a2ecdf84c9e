//! NCCL's arithmetic, in software: twelve element types, reductions, scaling and division. Nothing outside this module
//! adds, multiplies or rounds an element, but for faults that are asked for.
mod fp8;
mod kernels;
pub mod manner;
#[cfg(test)]
mod tests;

pub(crate) use manner::Manner;

use half::{bf16, f16};
use nccl_sys::ncclDataType_t;
use serde::{Deserialize, Serialize};

/// An element type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum Type {
    I8,
    U8,
    I32,
    U32,
    I64,
    U64,
    F16,
    F32,
    F64,
    Bf16,
    E4m3,
    E5m2,
}

/// How two values become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum Combine {
    Sum,
    Prod,
    Max,
    Min,
}

/// A value of any element type, in the first bytes.
pub(crate) type Scalar = [u8; 8];

impl Type {
    pub(crate) fn of(dtype: ncclDataType_t) -> Option<Self> {
        Some(match dtype {
            ncclDataType_t::Int8 => Self::I8,
            ncclDataType_t::Uint8 => Self::U8,
            ncclDataType_t::Int32 => Self::I32,
            ncclDataType_t::Uint32 => Self::U32,
            ncclDataType_t::Int64 => Self::I64,
            ncclDataType_t::Uint64 => Self::U64,
            ncclDataType_t::Float16 => Self::F16,
            ncclDataType_t::Float32 => Self::F32,
            ncclDataType_t::Float64 => Self::F64,
            ncclDataType_t::Bfloat16 => Self::Bf16,
            ncclDataType_t::Float8e4m3 => Self::E4m3,
            ncclDataType_t::Float8e5m2 => Self::E5m2,
            _ => return None,
        })
    }

    /// Bytes of one element.
    pub(crate) fn size(self) -> usize {
        match self {
            Self::I8 | Self::U8 | Self::E4m3 | Self::E5m2 => 1,
            Self::F16 | Self::Bf16 => 2,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::I64 | Self::U64 | Self::F64 => 8,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::I8 => "i8",
            Self::U8 => "u8",
            Self::I32 => "i32",
            Self::U32 => "u32",
            Self::I64 => "i64",
            Self::U64 => "u64",
            Self::F16 => "f16",
            Self::F32 => "f32",
            Self::F64 => "f64",
            Self::Bf16 => "bf16",
            Self::E4m3 => "f8e4m3",
            Self::E5m2 => "f8e5m2",
        }
    }

    /// 1/n rounded to the type, by which an average multiplies each input; `None` for integers, which divide the sum.
    pub(crate) fn reciprocal(self, n: usize) -> Option<Scalar> {
        let exact = 1.0 / n as f64;
        let single = exact as f32;
        let mut scalar = Scalar::default();
        match self {
            Self::F64 => scalar = exact.to_ne_bytes(),
            Self::F32 => scalar[..4].copy_from_slice(&single.to_ne_bytes()),
            Self::F16 => scalar[..2].copy_from_slice(&f16::from_f32(single).to_ne_bytes()),
            Self::Bf16 => scalar[..2].copy_from_slice(&bf16::from_f32(single).to_ne_bytes()),
            Self::E4m3 => scalar[0] = fp8::E4M3.encode(single),
            Self::E5m2 => scalar[0] = fp8::E5M2.encode(single),
            _ => return None,
        }
        Some(scalar)
    }
}

/// `acc[i] = acc[i] (op) other[i]` for every whole element both have.
pub(crate) fn combine(ty: Type, op: Combine, acc: &mut [u8], other: &[u8]) {
    kernels::combine(ty, op, acc, other);
}

/// Multiplies every element by `scalar`, rounding to the type.
pub(crate) fn scale(ty: Type, data: &mut [u8], scalar: &Scalar) {
    kernels::scale(ty, data, scalar);
}

/// Divides every element by `n`, towards zero; integers only, floats stay as they are.
pub(crate) fn divide(ty: Type, data: &mut [u8], n: usize) {
    kernels::divide(ty, data, n);
}

/// The value of a floating-point scalar; `None` for integers.
pub(crate) fn value(ty: Type, scalar: &Scalar) -> Option<f64> {
    let [a, b, c, d, ..] = *scalar;
    Some(match ty {
        Type::F64 => f64::from_ne_bytes(*scalar),
        Type::F32 => f32::from_ne_bytes([a, b, c, d]).into(),
        Type::F16 => f16::from_ne_bytes([a, b]).into(),
        Type::Bf16 => bf16::from_ne_bytes([a, b]).into(),
        Type::E4m3 => fp8::E4M3.decode(a).into(),
        Type::E5m2 => fp8::E5M2.decode(a).into(),
        _ => return None,
    })
}
