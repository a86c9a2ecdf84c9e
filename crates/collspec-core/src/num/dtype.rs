//! The twelve element types.
use super::format::{FloatFormat, OverflowRule};
use nccl_sys::ncclDataType_t;
use serde::{Deserialize, Serialize};

/// An element type; the name in scenarios is the lower-case one (`f8e4m3`, `bf16`, ...).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
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

/// The properties of an element type.
#[derive(Clone, Copy, Debug)]
struct DTypeInfo {
    dtype: DType,
    /// NCCL's code; its name is also the type's name in scenarios.
    nccl: ncclDataType_t,
    /// Bytes of an element.
    size: usize,
    kind: DTypeKind,
    /// The first release of NCCL that has the type.
    since: &'static str,
    /// Other names, in lower case and without `nccl` in front.
    others: &'static [&'static str],
}

#[derive(Clone, Copy, Debug)]
enum DTypeKind {
    Signed,
    Unsigned,
    Float(FloatFormat),
}

impl DTypeInfo {
    const fn new(
        dtype: DType,
        nccl: ncclDataType_t,
        size: usize,
        kind: DTypeKind,
        since: &'static str,
        others: &'static [&'static str],
    ) -> Self {
        Self { dtype, nccl, size, kind, since, others }
    }
}

/// Every element type, in the order of the scenario language, which is that of [`DType`].
const DTYPES: [DTypeInfo; 12] = {
    use DTypeKind::{Float, Signed, Unsigned};
    use OverflowRule::{Infinity, Saturate};
    use ncclDataType_t as N;
    [
        DTypeInfo::new(DType::I8, N::Int8, 1, Signed, "2.0", &["int8", "char"]),
        DTypeInfo::new(DType::U8, N::Uint8, 1, Unsigned, "2.0", &["uint8"]),
        DTypeInfo::new(DType::I32, N::Int32, 4, Signed, "2.0", &["int32", "int"]),
        DTypeInfo::new(DType::U32, N::Uint32, 4, Unsigned, "2.0", &["uint32"]),
        DTypeInfo::new(DType::I64, N::Int64, 8, Signed, "2.0", &["int64", "long"]),
        DTypeInfo::new(DType::U64, N::Uint64, 8, Unsigned, "2.0", &["uint64"]),
        DTypeInfo::new(
            DType::F16,
            N::Float16,
            2,
            Float(FloatFormat::ieee(10, 5, Infinity)),
            "2.0",
            &["float16", "half"],
        ),
        DTypeInfo::new(DType::Bf16, N::Bfloat16, 2, Float(FloatFormat::ieee(7, 8, Infinity)), "2.10", &["bfloat16"]),
        DTypeInfo::new(
            DType::F32,
            N::Float32,
            4,
            Float(FloatFormat::ieee(23, 8, Infinity)),
            "2.0",
            &["float32", "float"],
        ),
        DTypeInfo::new(
            DType::F64,
            N::Float64,
            8,
            Float(FloatFormat::ieee(52, 11, Infinity)),
            "2.0",
            &["float64", "double"],
        ),
        DTypeInfo::new(
            DType::F8e4m3,
            N::Float8e4m3,
            1,
            Float(FloatFormat::E4M3),
            "2.24",
            &["float8e4m3", "float8_e4m3fn"],
        ),
        // The NaN that CUDA's conversions give has all bits set.
        DTypeInfo::new(
            DType::F8e5m2,
            N::Float8e5m2,
            1,
            Float(FloatFormat::ieee(2, 5, Saturate).with_nan(0x7f)),
            "2.24",
            &["float8e5m2", "float8_e5m2"],
        ),
    ]
};

impl DType {
    /// All types, in the order of the scenario language.
    pub const ALL: [Self; 12] = {
        let mut all = [Self::I8; 12];
        let mut at = 0;
        while at < all.len() {
            all[at] = DTYPES[at].dtype;
            assert!(all[at] as usize == at, "the table is in the order of the types");
            at += 1;
        }
        all
    };

    #[inline]
    const fn entry(self) -> &'static DTypeInfo {
        &DTYPES[self as usize]
    }

    /// Bytes of one element.
    #[inline]
    pub const fn size(self) -> usize {
        self.entry().size
    }

    /// Bits of one element.
    #[inline]
    pub const fn bits(self) -> u32 {
        self.size() as u32 * 8
    }

    /// The type's code in NCCL.
    pub const fn nccl(self) -> ncclDataType_t {
        self.entry().nccl
    }

    /// The scenario language's name.
    pub fn name(self) -> &'static str {
        self.nccl().name().unwrap_or("?")
    }

    /// The first release of NCCL that has the type.
    pub const fn since(self) -> &'static str {
        self.entry().since
    }

    /// The format of a floating-point type.
    #[inline]
    pub(crate) const fn format(self) -> Option<FloatFormat> {
        match self.entry().kind {
            DTypeKind::Float(format) => Some(format),
            DTypeKind::Signed | DTypeKind::Unsigned => None,
        }
    }

    /// Significant bits of a floating-point type: all whole numbers of as many bits are exact.
    pub fn precision(self) -> Option<u32> {
        self.format().map(|format| format.precision())
    }

    /// True for the six floating-point types.
    #[inline]
    pub const fn is_float(self) -> bool {
        matches!(self.entry().kind, DTypeKind::Float(_))
    }

    /// True for signed integers.
    #[inline]
    pub const fn is_signed_int(self) -> bool {
        matches!(self.entry().kind, DTypeKind::Signed)
    }

    /// All types, in the order of the scenario language.
    pub fn all() -> [Self; 12] {
        DTYPES.map(|entry| entry.dtype)
    }

    /// A type by the language's name or one of NCCL's or torch's (`float32`, `ncclFloat32`, `half`, `torch.bfloat16`, ...).
    pub fn parse(text: &str) -> Option<Self> {
        let short = ["nccl", "torch."].into_iter().find_map(|prefix| text.strip_prefix(prefix));
        let short = short.unwrap_or(text).to_ascii_lowercase();
        let found = |entry: &&DTypeInfo| entry.dtype.name() == text || entry.others.contains(&short.as_str());
        DTYPES.iter().find(found).map(|entry| entry.dtype)
    }
}
