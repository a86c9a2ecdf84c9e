//! Element types, and the bits of their elements.
use nccl_sys::{ncclDataType_t, ncclRedOp_t};

/// An element type of NCCL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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

use Type::*;

/// The types by the numbers that NCCL gives them.
const BY_NUMBER: [Type; 12] = [I8, U8, I32, U32, I64, U64, F16, F32, F64, Bf16, E4m3, E5m2];

impl Type {
    pub(crate) fn of(dtype: ncclDataType_t) -> Option<Self> {
        BY_NUMBER.get(usize::try_from(dtype.0).ok()?).copied()
    }

    fn number(self) -> ncclDataType_t {
        ncclDataType_t(self as i32)
    }

    pub(crate) fn name(self) -> &'static str {
        self.number().name().unwrap_or_default()
    }

    pub(crate) const fn size(self) -> usize {
        match self {
            I8 | U8 | E4m3 | E5m2 => 1,
            F16 | Bf16 => 2,
            I32 | U32 | F32 => 4,
            I64 | U64 | F64 => 8,
        }
    }

    pub(crate) fn is_float(self) -> bool {
        matches!(self, F16 | F32 | F64 | Bf16 | E4m3 | E5m2)
    }
}

/// The way in which a reduction combines two elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Operator {
    Sum,
    Prod,
    Min,
    Max,
}

impl Operator {
    /// The operator of a plain reduction.
    pub(crate) fn of(op: ncclRedOp_t) -> Option<Self> {
        Some(match op {
            ncclRedOp_t::Sum => Self::Sum,
            ncclRedOp_t::Prod => Self::Prod,
            ncclRedOp_t::Min => Self::Min,
            ncclRedOp_t::Max => Self::Max,
            _ => return None,
        })
    }

    pub(crate) fn opposite(self) -> Self {
        match self {
            Self::Sum => Self::Prod,
            Self::Prod => Self::Sum,
            Self::Min => Self::Max,
            Self::Max => Self::Min,
        }
    }
}

/// The bits of an element.
pub(crate) fn get(bytes: &[u8]) -> u64 {
    let mut wide = [0; 8];
    let len = bytes.len().min(8);
    if cfg!(target_endian = "big") {
        wide[8 - len..].copy_from_slice(&bytes[..len]);
    } else {
        wide[..len].copy_from_slice(&bytes[..len]);
    }
    u64::from_ne_bytes(wide)
}

/// Writes the bits of an element.
pub(crate) fn put(bytes: &mut [u8], bits: u64) {
    let wide = bits.to_ne_bytes();
    let len = bytes.len().min(8);
    let from = if cfg!(target_endian = "big") { 8 - len } else { 0 };
    bytes[..len].copy_from_slice(&wide[from..from + len]);
}

/// The bits of the element at an index; 0 outside of the bytes.
pub(crate) fn element(ty: Type, bytes: &[u8], at: usize) -> u64 {
    bytes.get(at * ty.size()..(at + 1) * ty.size()).map_or(0, get)
}
