//! The twelve element types.
use nccl_sys::ncclDataType_t;
use serde::{Deserialize, Serialize};

/// An element type; the name in scenarios is the lower-case one (`f8e4m3`, `bf16`, ...).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum DType {
    I8,
    U8,
    I32,
    U32,
    I64,
    U64,
    F16,
    Bf16,
    F32,
    F64,
    F8e4m3,
    F8e5m2,
}

impl DType {
    /// All types, in the order of the scenario language.
    pub const ALL: [Self; 12] = {
        use DType::*;
        [I8, U8, I32, U32, I64, U64, F16, Bf16, F32, F64, F8e4m3, F8e5m2]
    };

    /// Bytes of one element.
    pub const fn size(self) -> usize {
        use DType::*;
        match self {
            I8 | U8 | F8e4m3 | F8e5m2 => 1,
            F16 | Bf16 => 2,
            I32 | U32 | F32 => 4,
            I64 | U64 | F64 => 8,
        }
    }

    /// Bits of one element.
    pub const fn bits(self) -> u32 {
        self.size() as u32 * 8
    }

    /// NCCL's code.
    pub const fn nccl(self) -> ncclDataType_t {
        use DType::*;
        use ncclDataType_t as N;
        match self {
            I8 => N::Int8,
            U8 => N::Uint8,
            I32 => N::Int32,
            U32 => N::Uint32,
            I64 => N::Int64,
            U64 => N::Uint64,
            F16 => N::Float16,
            Bf16 => N::Bfloat16,
            F32 => N::Float32,
            F64 => N::Float64,
            F8e4m3 => N::Float8e4m3,
            F8e5m2 => N::Float8e5m2,
        }
    }

    /// The scenario language's name.
    pub fn name(self) -> &'static str {
        self.nccl().name().unwrap_or("?")
    }

    /// True for the six floating-point types.
    pub const fn is_float(self) -> bool {
        use DType::*;
        matches!(self, F16 | Bf16 | F32 | F64 | F8e4m3 | F8e5m2)
    }

    /// True for signed integers.
    pub const fn is_signed_int(self) -> bool {
        matches!(self, Self::I8 | Self::I32 | Self::I64)
    }

    /// A type by the language's name or one of NCCL's (`float32`, `ncclFloat32`, `half`, `bfloat16`, ...).
    pub fn parse(text: &str) -> Option<Self> {
        if let Some(found) = Self::ALL.into_iter().find(|t| t.name() == text) {
            return Some(found);
        }
        let short = text.strip_prefix("nccl").unwrap_or(text).to_ascii_lowercase();
        use DType::*;
        Some(match short.as_str() {
            "int8" | "char" => I8,
            "uint8" => U8,
            "int32" | "int" => I32,
            "uint32" => U32,
            "int64" => I64,
            "uint64" => U64,
            "float16" | "half" => F16,
            "bfloat16" => Bf16,
            "float32" | "float" => F32,
            "float64" | "double" => F64,
            "float8e4m3" => F8e4m3,
            "float8e5m2" => F8e5m2,
            _ => return None,
        })
    }
}
