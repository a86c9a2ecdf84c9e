//! The right results of a reduction, and the ruling on an observed one.
use super::families::FamilySet;
use crate::num::{DType, bits_matter, decode_f64, element_hex, element_text, is_nan, mask};

/// One reduction of one element type over one communicator.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ColumnReduction {
    /// Element type of the reduction.
    pub dtype: DType,
    /// The operation that combines elements.
    pub kind: ReduceKind,
    /// Number of ranks; every column has one element from each, in rank order.
    pub ranks: usize,
}

/// The operation of a reduction.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ReduceKind {
    /// The sum of the inputs.
    Sum,
    /// The product of the inputs.
    Prod,
    /// The smallest input.
    Min,
    /// The largest input.
    Max,
    /// The sum divided by the number of ranks.
    Avg,
    /// Every rank's element times its scalar, then the sum.
    PreMulSum {
        /// The scalars' bits in the element type, by rank.
        scalars: Vec<u64>,
    },
}

/// The right results for one element.
#[derive(Clone, Debug, PartialEq)]
pub enum RightResults {
    /// Only these bits are right.
    Bits(u64),
    /// Any NaN is right.
    AnyNan,
    /// Any of these values is right.
    OneOf(Vec<AdmissibleValue>),
    /// Any value of an interval, both ends included.
    Within {
        /// Bits of the lowest value.
        lo: u64,
        /// Bits of the highest value.
        hi: u64,
        /// The exact result before rounding, as text for messages.
        exact: String,
    },
}

/// A member of an admissible set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdmissibleValue {
    /// The value's bits; a NaN represents every NaN.
    pub bits: u64,
    /// The families that yield it.
    pub families: FamilySet,
}

impl RightResults {
    /// True if these bits are right.
    pub fn admits(&self, dtype: DType, bits: u64) -> bool {
        let bits = bits & mask(dtype);
        match self {
            Self::Bits(want) => bits == *want,
            Self::AnyNan => is_nan(dtype, bits),
            Self::OneOf(choices) => choices.iter().any(|c| same_value(dtype, c.bits, bits)),
            Self::Within { lo, hi, .. } => {
                let value = decode_f64(dtype, bits);
                decode_f64(dtype, *lo) <= value && value <= decode_f64(dtype, *hi)
            }
        }
    }

    /// The answer as text for messages: `4`, `one of 0.1 (0x3dcccccd), ...`.
    pub fn text(&self, dtype: DType) -> String {
        let both = |bits: u64| {
            let text = element_text(dtype, bits);
            if bits_matter(dtype, bits) { format!("{text} ({})", element_hex(dtype, bits)) } else { text }
        };
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

impl ColumnReduction {
    /// True for two results that may differ between ranks because they are the same number: any two NaN, and for min and
    /// max either zero. They occur in a library in which each rank begins with its own input.
    pub fn may_differ_between_ranks(&self, a: u64, b: u64) -> bool {
        let zero = |bits| self.dtype.is_float() && decode_f64(self.dtype, bits) == 0.0;
        let either_zero = matches!(self.kind, ReduceKind::Min | ReduceKind::Max) && zero(a) && zero(b);
        either_zero || (is_nan(self.dtype, a) && is_nan(self.dtype, b))
    }
}

/// True for equal bits, or two NaN.
pub(super) fn same_value(dtype: DType, a: u64, b: u64) -> bool {
    a == b || (is_nan(dtype, a) && is_nan(dtype, b))
}

/// The method by which an element was judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ElementLane {
    /// Every order and rounding gives the same result.
    Exact,
    /// The set of right results. A search finds it; a value far outside the proven bound cannot be in it, so the search is skipped.
    Admissible,
    /// A proven error bound contains the right results.
    Bounded,
}

/// The judgement on one element.
#[derive(Clone, Debug, PartialEq)]
pub struct JudgedElement {
    /// The lane that judged the element.
    pub lane: ElementLane,
    /// The decision on the element.
    pub ruling: Ruling,
    /// The reason no more precise method was used.
    pub note: Option<&'static str>,
}

/// The decision on one element.
#[derive(Clone, Debug, PartialEq)]
pub enum Ruling {
    /// The value is right.
    Accept {
        /// The families that yield it; `None` if they were not computed.
        families: Option<FamilySet>,
        /// Size of the admissible set; `None` if it was not computed. If it is at least two, the element *distinguishes* families.
        set_size: Option<usize>,
    },
    /// The value is wrong.
    Reject {
        /// The right results. `None` if the observed value is so far off that they were not computed;
        /// [`ColumnReduction::right_results`] does that.
        answer: Option<RightResults>,
    },
    /// Undecided, because no lane applies; never treated as right.
    Unable {
        /// The reason, in words.
        why: String,
    },
}

impl Ruling {
    /// True if the value is right.
    pub fn accepted(&self) -> bool {
        matches!(self, Self::Accept { .. })
    }
}

/// The only right result of every element of a buffer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExactBuffer {
    /// The bytes; elements in `special` have a canonical member.
    pub bytes: Vec<u8>,
    /// Elements with more than one right bit pattern (any NaN, either zero), by ascending index.
    pub special: Vec<(usize, RightResults)>,
}
