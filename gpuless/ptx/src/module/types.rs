//! Fundamental types and state spaces (PTX ISA, 5.1 and 5.2).

/// The type of a register, of memory or of an instruction's operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Type {
    B8,
    B16,
    B32,
    B64,
    B128,
    U8,
    U16,
    U32,
    U64,
    S8,
    S16,
    S32,
    S64,
    F16,
    F16x2,
    Bf16,
    Bf16x2,
    F32,
    F64,
    E4m3x2,
    E5m2x2,
    Pred,
}

impl Type {
    const ALL: [(&'static str, Self); 22] = [
        ("b8", Self::B8),
        ("b16", Self::B16),
        ("b32", Self::B32),
        ("b64", Self::B64),
        ("b128", Self::B128),
        ("u8", Self::U8),
        ("u16", Self::U16),
        ("u32", Self::U32),
        ("u64", Self::U64),
        ("s8", Self::S8),
        ("s16", Self::S16),
        ("s32", Self::S32),
        ("s64", Self::S64),
        ("f16", Self::F16),
        ("f16x2", Self::F16x2),
        ("bf16", Self::Bf16),
        ("bf16x2", Self::Bf16x2),
        ("f32", Self::F32),
        ("f64", Self::F64),
        ("e4m3x2", Self::E4m3x2),
        ("e5m2x2", Self::E5m2x2),
        ("pred", Self::Pred),
    ];

    /// The type with this PTX name, given without the point.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, ty)| *ty)
    }

    /// PTX's name, without the point.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, ty)| *ty == self).map_or("", |(name, _)| name)
    }

    /// Bytes of a value in memory; 1 for a predicate, which is never in memory.
    pub fn bytes(self) -> u32 {
        match self {
            Self::B8 | Self::U8 | Self::S8 | Self::Pred => 1,
            Self::B16 | Self::U16 | Self::S16 | Self::F16 | Self::Bf16 | Self::E4m3x2 | Self::E5m2x2 => 2,
            Self::B32 | Self::U32 | Self::S32 | Self::F32 | Self::F16x2 | Self::Bf16x2 => 4,
            Self::B64 | Self::U64 | Self::S64 | Self::F64 => 8,
            Self::B128 => 16,
        }
    }

    /// True for signed whole numbers.
    pub fn is_signed(self) -> bool {
        matches!(self, Self::S8 | Self::S16 | Self::S32 | Self::S64)
    }
}

/// A state space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Space {
    Global,
    Const,
    Shared,
    Local,
    Param,
}

impl Space {
    /// The space with this PTX name, given without the point.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "global" => Self::Global,
            "const" => Self::Const,
            "shared" => Self::Shared,
            "local" => Self::Local,
            "param" => Self::Param,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_has_one_name() {
        for (name, ty) in Type::ALL {
            assert_eq!((Type::named(name), ty.name()), (Some(ty), name));
            let bits = name.trim_start_matches(|c: char| c.is_ascii_alphabetic()).parse::<u32>();
            assert!(bits.is_err() || bits == Ok(8 * ty.bytes()), "{name}");
        }
        assert_eq!(Type::named("f31"), None);
    }
}
