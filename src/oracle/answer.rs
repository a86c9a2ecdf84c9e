//! What may come out of a reduction, and the judgement on what did.
use super::families::FamilySet;
use crate::num::{DType, decode_f64, hex, is_nan, mask, text};

/// One reduction of one element type over one communicator.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Reduction {
    /// Element type.
    pub dtype: DType,
    /// What is computed.
    pub kind: ReduceKind,
    /// Number of ranks; every column has one element of each, in rank order.
    pub ranks: usize,
}

/// What is computed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ReduceKind {
    /// Sum.
    Sum,
    /// Product.
    Prod,
    /// Least.
    Min,
    /// Greatest.
    Max,
    /// Sum over the number of ranks.
    Avg,
    /// Every rank's element times its scalar, then the sum.
    PreMulSum {
        /// The scalars' bits in the element type, by rank.
        scalars: Vec<u64>,
    },
}

/// What may come out for one element.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// These bits and no others.
    Bits(u64),
    /// Any NaN.
    AnyNan,
    /// One of these.
    OneOf(Vec<Choice>),
    /// Anything between, both ends included; for people also the exact result before rounding.
    Within {
        /// Bits of the least.
        lo: u64,
        /// Bits of the greatest.
        hi: u64,
        /// The exact result, as text.
        exact: String,
    },
}

/// A member of an admissible set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Its bits; a NaN stands for every NaN.
    pub bits: u64,
    /// The families that yield it.
    pub families: FamilySet,
}

impl Answer {
    /// True if these bits may come out.
    pub fn admits(&self, dtype: DType, bits: u64) -> bool {
        let bits = bits & mask(dtype);
        match self {
            Self::Bits(want) => bits == *want,
            Self::AnyNan => is_nan(dtype, bits),
            Self::OneOf(choices) => choices.iter().any(|c| same(dtype, c.bits, bits)),
            Self::Within { lo, hi, .. } => {
                let value = decode_f64(dtype, bits);
                decode_f64(dtype, *lo) <= value && value <= decode_f64(dtype, *hi)
            }
        }
    }

    /// For people: `4 (0x40800000)`, `one of ...`.
    pub fn text(&self, dtype: DType) -> String {
        let both = |bits: u64| format!("{} ({})", text(dtype, bits), hex(dtype, bits));
        match self {
            Self::Bits(bits) => both(*bits),
            Self::AnyNan => "nan".into(),
            Self::OneOf(choices) => {
                const SHOWN: usize = 6;
                let mut list: Vec<String> = choices.iter().take(SHOWN).map(|c| both(c.bits)).collect();
                if choices.len() > SHOWN {
                    list.push(format!("{} more", choices.len() - SHOWN));
                }
                format!("one of {}", list.join(", "))
            }
            Self::Within { lo, hi, exact } => {
                format!("between {} and {} (exactly {exact})", both(*lo), both(*hi))
            }
        }
    }
}

impl Reduction {
    /// True for two right results that ranks need not agree on, because they are the same number: any two NaN, and of min and
    /// max either zero. A library in which each rank begins with its own input gives such.
    pub(crate) fn leaves_open(&self, a: u64, b: u64) -> bool {
        let zero = |bits| self.dtype.is_float() && decode_f64(self.dtype, bits) == 0.0;
        let either_zero = matches!(self.kind, ReduceKind::Min | ReduceKind::Max) && zero(a) && zero(b);
        either_zero || (is_nan(self.dtype, a) && is_nan(self.dtype, b))
    }
}

/// Equal bits, or both NaN.
pub(super) fn same(dtype: DType, a: u64, b: u64) -> bool {
    a == b || (is_nan(dtype, a) && is_nan(dtype, b))
}

/// How an element was judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Lane {
    /// Every order and rounding gives the same.
    Exact,
    /// A set worked out by search.
    Admissible,
    /// A proven bound.
    Bounded,
}

/// The judgement on one element.
#[derive(Clone, Debug, PartialEq)]
pub struct Judged {
    /// Which lane decided.
    pub lane: Lane,
    /// The decision.
    pub ruling: Ruling,
    /// Why it was not a better lane.
    pub note: Option<&'static str>,
}

/// The decision on one element.
#[derive(Clone, Debug, PartialEq)]
pub enum Ruling {
    /// Right.
    Accept {
        /// The families that yield it; `None` where that was not worked out.
        families: Option<FamilySet>,
        /// Members of the admissible set; `None` where that was not worked out. From two on the element *tells*.
        set_size: Option<usize>,
    },
    /// Wrong; this would have been right.
    Reject {
        /// For the message.
        answer: Answer,
    },
    /// Neither can be said: no lane applies. Never to be taken as right.
    Unable {
        /// Why.
        why: String,
    },
}

impl Ruling {
    /// True if accepted.
    pub fn accepted(&self) -> bool {
        matches!(self, Self::Accept { .. })
    }
}

/// The one answer of every element of a buffer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExactBuffer {
    /// The bytes; a canonical member where `special` has the element.
    pub bytes: Vec<u8>,
    /// Elements that bits alone cannot say (any NaN, either zero), by ascending index.
    pub special: Vec<(usize, Answer)>,
}
