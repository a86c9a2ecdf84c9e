//! Faults of numbers, in families: one wrong rule, in each of several types and operations. A family's member is named
//! by its class, its type and its operation: `F41-f16-prod`.
use super::value::{Overflow, Rounding};
use super::wrong::{OtherFormat, Rule};
use crate::call::Kind;
use crate::element::Type::{self, *};

/// The operation in which a rule is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum At {
    Sum,
    Prod,
    Min,
    Max,
    /// The multiplication by 1/n for floats, the division for whole numbers.
    Avg,
    /// The multiplication by the scalar.
    PreMul,
    /// The scalar of a premul_sum.
    Scalar,
    /// A copy made by an operation; send and receive count as one operation.
    Copy(Kind),
    /// A reduction on one rank, which is a copy.
    OneRank,
}

impl At {
    /// The end of a member's name; a scalar has only one place.
    pub(super) fn name(self) -> Option<&'static str> {
        Some(match self {
            Self::Sum => "sum",
            Self::Prod => "prod",
            Self::Min => "min",
            Self::Max => "max",
            Self::Avg => "avg",
            Self::PreMul => "premul_sum",
            Self::Scalar => return None,
            Self::Copy(Kind::Send | Kind::Recv) => "send_recv",
            Self::Copy(kind) => kind.name(),
            Self::OneRank => "one_rank",
        })
    }
}

/// A rule, and all types and operations in which it can be followed.
pub(super) struct Family {
    pub id: &'static str,
    pub rule: Rule,
    pub types: &'static [Type],
    pub at: &'static [At],
    pub text: &'static str,
    pub shown_by: &'static str,
}

const FLOATS: &[Type] = &[F16, F32, F64, Bf16, E4m3, E5m2];
const WITH_INFINITY: &[Type] = &[F16, F32, F64, Bf16];
const WHOLE: &[Type] = &[I8, U8, I32, U32, I64, U64];
const LONG: &[Type] = &[I32, U32, I64, U64];
const LONGEST: &[Type] = &[I64, U64];

const REDUCTIONS: &[At] = &[At::Sum, At::Prod, At::Min, At::Max, At::Avg, At::PreMul];
const ARITHMETIC: &[At] = &[At::Sum, At::Prod, At::Avg, At::PreMul];
const GROWING: &[At] = &[At::Sum, At::Prod, At::PreMul];
const EXTREMES: &[At] = &[At::Min, At::Max];
const SCALAR: &[At] = &[At::Scalar];
const COPIES: &[At] = &[
    At::Copy(Kind::Broadcast),
    At::Copy(Kind::AllGather),
    At::Copy(Kind::Gather),
    At::Copy(Kind::Scatter),
    At::Copy(Kind::AlltoAll),
    At::Copy(Kind::Send),
    At::OneRank,
];

/// Defines families: id, rule, types, operations, the error, and the kind of scenario that shows it.
macro_rules! families {
    ($($id:literal, $rule:expr, $types:expr, $at:expr => $text:literal; $shown_by:literal)*) => {
        pub(super) const FAMILIES: &[Family] = &[
            $(Family { id: $id, rule: $rule, types: $types, at: $at, text: $text, shown_by: $shown_by }),*
        ];
    };
}

families! {
    "F41", Rule::ResultsFlushed, FLOATS, REDUCTIONS => "a subnormal result becomes zero";
        "normal numbers whose result is subnormal; in min and max a subnormal number that wins"
    "F42", Rule::InputsFlushed, FLOATS, REDUCTIONS => "a subnormal input counts as zero";
        "subnormal numbers with results that are not"
    "F43", Rule::Through(OtherFormat::F32), &[F64], REDUCTIONS => "numbers are rounded to f32 on the way";
        "results that need more than 24 bits, or lie outside the range of f32"
    "F43b", Rule::Through(OtherFormat::Bf16), &[F32, F16], REDUCTIONS => "numbers are rounded to bf16 on the way";
        "results that need more than 8 bits"
    "F43c", Rule::Through(OtherFormat::F16), &[F32, Bf16], REDUCTIONS => "numbers are rounded to f16 on the way";
        "numbers outside the range of f16"
    "F43d", Rule::Through(OtherFormat::Tf32), &[F32], REDUCTIONS => "numbers are rounded to 11 bits on the way";
        "results that need more than 11 bits"
    "F43e", Rule::Through(OtherFormat::E5m2), &[E4m3], REDUCTIONS => "numbers are rounded to f8e5m2 on the way";
        "results that need 4 bits"
    "F43f", Rule::Through(OtherFormat::E4m3), &[E5m2], REDUCTIONS => "numbers are rounded to f8e4m3 on the way";
        "numbers outside the range of f8e4m3"
    "F44", Rule::ReadAs(OtherFormat::E5m2), &[E4m3], REDUCTIONS => "bits are taken for those of f8e5m2";
        "any sum or product; in min and max codes that are infinite or NaN in f8e5m2"
    "F44b", Rule::ReadAs(OtherFormat::E4m3), &[E5m2], REDUCTIONS => "bits are taken for those of f8e4m3";
        "any sum or product; in min and max codes that are NaN in only one of the two formats"
    "F44c", Rule::ReadAs(OtherFormat::E4m3Fnuz), &[E4m3], REDUCTIONS => "bits are taken for those of another vendor's f8e4m3";
        "sums near the largest number, products, -0, NaN"
    "F44d", Rule::ReadAs(OtherFormat::E5m2Fnuz), &[E5m2], REDUCTIONS => "bits are taken for those of another vendor's f8e5m2";
        "sums near the largest number, products, -0, NaN, infinities"
    "F44e", Rule::ReadAs(OtherFormat::F16), &[Bf16], REDUCTIONS => "bits are taken for those of f16";
        "any sum or product; in min and max numbers whose codes are NaN in f16"
    "F44f", Rule::ReadAs(OtherFormat::Bf16), &[F16], REDUCTIONS => "bits are taken for those of bf16";
        "any sum or product; in min and max codes that are NaN in f16 and numbers in bf16"
    "F45", Rule::Float(OtherFormat::F32), LONG, REDUCTIONS => "whole numbers become f32 on the way";
        "numbers of more than 24 bits"
    "F45b", Rule::Float(OtherFormat::F64), LONGEST, REDUCTIONS => "whole numbers become f64 on the way";
        "numbers of more than 53 bits"
    "F45c", Rule::OtherSign, WHOLE, &[At::Min, At::Max, At::Avg] => "signed numbers count as unsigned, or the other way round";
        "numbers with the highest bit and without it, in every type of whole numbers"
    "F45d", Rule::LowerHalf, LONG, REDUCTIONS => "only the lower half of each whole number is used";
        "numbers that need their upper half"
    "F45e", Rule::Clamped, WHOLE, ARITHMETIC => "whole numbers saturate at the ends of their range";
        "sums and products that wrap"
    "F45f", Rule::Floor, &[I8, I32, I64], &[At::Avg] => "an average of whole numbers is rounded down";
        "negative averages with a remainder"
    "F45g", Rule::Nearest, WHOLE, &[At::Avg] => "an average of whole numbers is rounded to the nearest";
        "averages with a remainder of more than half of the ranks"
    "F46", Rule::Beyond(Overflow::Largest), WITH_INFINITY, GROWING => "what is too large becomes the largest number";
        "results of either sign beyond the largest number"
    "F46b", Rule::Beyond(Overflow::Nan), FLOATS, GROWING => "what is too large becomes a NaN";
        "results of either sign beyond the largest number"
    "F46c", Rule::Beyond(Overflow::Infinity), &[E5m2], GROWING => "what is too large becomes an infinity";
        "results of either sign beyond the largest number"
    "F47", Rule::NanLost, FLOATS, ARITHMETIC => "a NaN gives way to a number";
        "a NaN on each rank in turn"
    "F47b", Rule::NanWins, FLOATS, EXTREMES => "a NaN wins";
        "a NaN on each rank in turn"
    "F48", Rule::InfinityLargest, WITH_INFINITY, REDUCTIONS => "an infinity counts as the largest number";
        "infinities of either sign on each rank in turn"
    "F48b", Rule::InfinityNan, &[F16, F32, F64, Bf16, E5m2], REDUCTIONS => "an infinity counts as NaN";
        "infinities of either sign on each rank in turn"
    "F48c", Rule::InfinityUnsigned, WITH_INFINITY, REDUCTIONS => "an infinity loses its sign";
        "negative infinities on each rank in turn"
    "F48d", Rule::OppositesCancel, WITH_INFINITY, &[At::Sum] => "the sum of opposite infinities is zero";
        "infinities of both signs"
    "F48e", Rule::ZeroWins, WITH_INFINITY, &[At::Prod, At::PreMul] => "infinity times zero is zero";
        "an infinity and a zero, on each rank in turn"
    "F49", Rule::Rounded(Rounding::TowardZero), FLOATS, ARITHMETIC => "results are truncated instead of rounded";
        "results just below a number of the type, with two ranks"
    "F49b", Rule::Rounded(Rounding::NearestAway), FLOATS, ARITHMETIC => "ties are rounded away from zero";
        "results in the middle between two numbers of which the smaller one is even, with two ranks"
    "F49c", Rule::Rounded(Rounding::Up), FLOATS, ARITHMETIC => "results are rounded up";
        "results just above a number of the type, with two ranks"
    "F50", Rule::Coarse, FLOATS, ARITHMETIC => "with more than 8 ranks the last bit is lost";
        "9 or more ranks with results that need every bit and exact partial results"
    "F51", Rule::Quiet, &[F16, F32, F64, Bf16, E5m2], COPIES => "copies make a signalling NaN quiet";
        "signalling NaN with payloads through every operation that moves data, and reductions on one rank"
    "F52", Rule::Unsigned, &[I8, I32, I64, F16, F32, F64, Bf16, E4m3, E5m2], SCALAR => "premul_sum's scalar loses its sign";
        "premul_sum with negative scalars"
    "F52b", Rule::ZeroExtended, LONG, SCALAR => "the upper half of premul_sum's scalar is lost";
        "premul_sum with scalars that need their upper half"
    "F52c", Rule::SignExtended, LONG, SCALAR => "only the lower half of premul_sum's scalar is read, as a signed number";
        "premul_sum with scalars that need their upper half"
    "F52d", Rule::Float(OtherFormat::F32), LONG, SCALAR => "premul_sum's scalar is read as f32";
        "premul_sum with whole scalars of more than 24 bits"
    "F52e", Rule::Float(OtherFormat::F64), LONGEST, SCALAR => "premul_sum's scalar is read as f64";
        "premul_sum with whole scalars of more than 53 bits"
    "F52f", Rule::Through(OtherFormat::F32), &[F64], SCALAR => "premul_sum's scalar is rounded to f32";
        "premul_sum with scalars that need more than 24 bits"
    "F52g", Rule::Through(OtherFormat::Bf16), &[F32, F16], SCALAR => "premul_sum's scalar is rounded to bf16";
        "premul_sum with scalars that need more than 8 bits"
    "F52h", Rule::Through(OtherFormat::F16), &[F32, Bf16], SCALAR => "premul_sum's scalar is rounded to f16";
        "premul_sum with scalars outside the range of f16"
    "F52i", Rule::Through(OtherFormat::E5m2), &[E4m3], SCALAR => "premul_sum's scalar is rounded to f8e5m2";
        "premul_sum with scalars that need 4 bits"
}
