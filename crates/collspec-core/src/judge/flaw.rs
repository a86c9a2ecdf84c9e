//! Flaws of the judge: checks that it leaves out or weakens, as real test suites do. The audit gives the judge one of them
//! to test whether a corpus would notice.
use super::indices::{Indices, MAX_WRONG_RANGES};
use super::{Lane, Outcome, Verdict};
use crate::num::{DType, decode_f64, get_element, is_nan};
use crate::plan::Plan;

/// A flaw of the judge; [`FLAWS`] describes each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Flaw {
    /// J01: compares the results of rank 0 only.
    OnlyRank0,
    /// J02: compares the first 1,024 elements of a buffer only.
    OnlyBeginning,
    /// J03: treats NaN as equal to anything.
    NanEqualsAnything,
    /// J04: allows f32 and f64 the error of f16.
    F16Tolerance,
    /// J05: does not compare guards.
    NoGuards,
    /// J06: does not compare inputs and buffers that no step writes.
    NoInputs,
    /// J07: does not compare results between ranks.
    NoSameBits,
    /// J08: compares elements without their order.
    NoOrder,
    /// J09: compares only the last result under a name.
    OnlyLast,
    /// J09b: compares one element of every 16 bytes.
    OnePerPack,
    /// J10: treats hangs, crashes and error codes as a good end.
    NoOutcome,
}

/// The description of a flaw.
#[derive(Clone, Copy, Debug)]
pub struct FlawInfo {
    /// The flaw that is described.
    pub flaw: Flaw,
    /// `J09`, or `J09b` for a further flaw of the class.
    pub id: &'static str,
    /// The judge's mistake, in one line.
    pub text: &'static str,
    /// The kind of scenario that reveals the flaw, together with a fault of the library.
    pub shown_by: &'static str,
}

impl FlawInfo {
    /// The class: the id without a letter.
    pub fn class(&self) -> &'static str {
        self.id.get(..3).unwrap_or(self.id)
    }
}

/// All flaws, in the order of their ids, which is that of [`Flaw`].
pub const FLAWS: &[FlawInfo] = &[
    FlawInfo {
        flaw: Flaw::OnlyRank0,
        id: "J01",
        text: "only rank 0's results are compared",
        shown_by: "operations whose result lies on other ranks: broadcast, scatter, recv, a root that is not 0",
    },
    FlawInfo {
        flaw: Flaw::OnlyBeginning,
        id: "J02",
        text: "only the first 1,024 elements of a buffer are compared",
        shown_by: "more than 1,024 elements: a fault of the tail, of slices or of chunks then spares the beginning",
    },
    FlawInfo {
        flaw: Flaw::NanEqualsAnything,
        id: "J03",
        text: "NaN counts as equal to anything",
        shown_by: "NaN through min and max, NaN payloads through broadcast and all_gather",
    },
    FlawInfo {
        flaw: Flaw::F16Tolerance,
        id: "J04",
        text: "f32 and f64 may be as far off as f16: by one part in 1,024",
        shown_by: "reductions of f32 and f64 whose partial sums round",
    },
    FlawInfo {
        flaw: Flaw::NoGuards,
        id: "J05",
        text: "the guards around buffers are not checked",
        shown_by: "a small count that is not a multiple of 16 bytes",
    },
    FlawInfo {
        flaw: Flaw::NoInputs,
        id: "J06",
        text: "inputs and buffers that no step writes are not checked",
        shown_by: "out-of-place operations, reduce and gather with buffers on the other ranks",
    },
    FlawInfo {
        flaw: Flaw::NoSameBits,
        id: "J07",
        text: "that all ranks hold the same bits is not checked",
        shown_by: "all_reduce of values that round, in three ranks or more",
    },
    FlawInfo {
        flaw: Flaw::NoOrder,
        id: "J08",
        text: "elements are compared as a set, without their order",
        shown_by: "all_gather, all_to_all or gather, in which blocks can change places",
    },
    FlawInfo {
        flaw: Flaw::OnlyLast,
        id: "J09",
        text: "of results under one name only the last is compared",
        shown_by: "a result that a later step overwrites with a right one",
    },
    FlawInfo {
        flaw: Flaw::OnePerPack,
        id: "J09b",
        text: "one element of every 16 bytes is compared",
        shown_by: "a count that is not a multiple of a pack; values that round, overflow or are special here and there",
    },
    FlawInfo {
        flaw: Flaw::NoOutcome,
        id: "J10",
        text: "hangs, crashes and error codes count as a good end",
        shown_by: "programs that a lost message makes hang, calls that must be refused",
    },
];

/// Number of elements that [`Flaw::OnlyBeginning`] compares.
const BEGINNING_ELEMENTS: u64 = 1024;
/// Bytes of a pack; [`Flaw::OnePerPack`] compares one element of each.
const PACK_BYTES: u64 = 16;
/// Relative error that [`Flaw::F16Tolerance`] accepts: f16's unit in the last place.
const F16_EPSILON: f64 = 1.0 / 1024.0;

impl Flaw {
    /// Every flaw that a judge can be given.
    pub fn all() -> impl Iterator<Item = Self> {
        FLAWS.iter().map(|entry| entry.flaw)
    }

    /// Its index in [`FLAWS`].
    pub fn index(self) -> usize {
        self as usize
    }

    /// The flaw's description.
    pub fn info(self) -> &'static FlawInfo {
        &FLAWS[self.index()]
    }

    /// False if a judge with this flaw certainly fails a case with this failing verdict too.
    pub fn may_hide(self, plan: &Plan, verdict: &Verdict) -> bool {
        let dtypes = || plan.buffers.iter().map(|buffer| buffer.dtype);
        let failed = |lane| verdict.lanes.iter().any(|result| result.lane == lane && !result.pass);
        let ended_well = verdict.outcome == Some(Outcome::Ok);
        match self {
            Self::NoOutcome => failed(Lane::Expected),
            // a run that did not end well has no data: only the flaw above makes a difference
            _ if !ended_well => false,
            Self::OnlyRank0 => plan.n > 1,
            Self::OnlyBeginning => {
                plan.buffers.iter().flat_map(|b| &b.places).flatten().any(|place| place.count > BEGINNING_ELEMENTS)
            }
            Self::NanEqualsAnything => dtypes().any(DType::is_float),
            Self::F16Tolerance => dtypes().any(|dtype| matches!(dtype, DType::F32 | DType::F64)),
            Self::NoGuards | Self::NoInputs | Self::NoSameBits => failed(Lane::Invariants),
            Self::NoOrder | Self::OnlyLast | Self::OnePerPack => true,
        }
    }
}

/// The flaw that a judge has, if any, and the comparisons that it leaves out because of it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct JudgeMutation(pub Option<Flaw>);

impl JudgeMutation {
    /// True unless the judge has this flaw.
    pub fn is_free_of(self, flaw: Flaw) -> bool {
        self.0 != Some(flaw)
    }

    /// True if the judge compares this rank's data.
    pub fn compares_rank(self, rank: usize) -> bool {
        rank == 0 || self.is_free_of(Flaw::OnlyRank0)
    }

    /// True if the judge compares this element of a buffer.
    pub fn compares_element(self, dtype: DType, index: u64) -> bool {
        match self.0 {
            Some(Flaw::OnlyBeginning) => index < BEGINNING_ELEMENTS,
            Some(Flaw::OnePerPack) => index.is_multiple_of(PACK_BYTES / dtype.size() as u64),
            _ => true,
        }
    }

    /// False if the judge considers the wrong value `actual` equal to `expected`.
    fn tells_apart(self, dtype: DType, expected: u64, actual: u64) -> bool {
        match self.0 {
            Some(Flaw::NanEqualsAnything) => !is_nan(dtype, expected) && !is_nan(dtype, actual),
            Some(Flaw::F16Tolerance) if matches!(dtype, DType::F32 | DType::F64) => {
                let (expected, actual) = (decode_f64(dtype, expected), decode_f64(dtype, actual));
                // NaN and infinities are never close
                let near = (expected - actual).abs() <= expected.abs() * F16_EPSILON;
                !near
            }
            _ => true,
        }
    }

    /// Limit on the ranges of wrong elements that a judge stores for large memory. A judge with a flaw examines each of them again.
    pub fn most_ranges(self) -> usize {
        if self.0.is_some() { usize::MAX } else { MAX_WRONG_RANGES }
    }

    /// True for a judge with a flaw that can find one wrong element without the others. Such a judge is only asked if it fails the
    /// case, which one element may decide.
    pub fn may_answer_from_one(self) -> bool {
        self.0.is_some_and(|flaw| flaw != Flaw::NoOrder)
    }

    /// The wrong elements that the judge notices; with a flaw, not more than needed to fail the case. Their indices and the
    /// bytes count from element `start` of the buffer.
    pub fn noticed(self, dtype: DType, start: u64, wrong: Indices, expected: &[u8], actual: &[u8]) -> Indices {
        let Some(flaw) = self.0 else { return wrong };
        let bits = |bytes: &[u8], at: u64| get_element(dtype, bytes, at as usize);
        match flaw {
            Flaw::NoOrder => {
                let all = |bytes| wrong.iter().map(move |at| bits(bytes, at));
                let sum = |bytes| all(bytes).fold(0u64, u64::wrapping_add);
                let sorted = |bytes| {
                    let mut all: Vec<u64> = all(bytes).collect();
                    all.sort_unstable();
                    all
                };
                // Sorting is needed only if the sums are equal; in most cases an addition is enough to see a difference.
                let alike = sum(expected) == sum(actual) && sorted(expected) == sorted(actual);
                if alike { Indices::with_limit(0) } else { wrong }
            }
            Flaw::OnlyBeginning | Flaw::OnePerPack | Flaw::NanEqualsAnything | Flaw::F16Tolerance => {
                let notices = |at: &u64| {
                    self.compares_element(dtype, start + at)
                        && self.tells_apart(dtype, bits(expected, *at), bits(actual, *at))
                };
                wrong.iter().find(notices).into_iter().collect()
            }
            Flaw::OnlyRank0 | Flaw::NoGuards | Flaw::NoInputs | Flaw::NoSameBits | Flaw::OnlyLast | Flaw::NoOutcome => {
                wrong
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_order_and_has_ten_classes() {
        assert!(FLAWS.iter().enumerate().all(|(at, entry)| entry.flaw.index() == at));
        assert!(FLAWS.is_sorted_by(|a, b| a.id < b.id));
        let mut classes: Vec<_> = FLAWS.iter().map(FlawInfo::class).collect();
        classes.dedup();
        assert_eq!(classes, (1..=10).map(|class| format!("J{class:02}")).collect::<Vec<_>>());
    }

    fn is_wrong(expected: &[f32], actual: &[f32], at: u64) -> bool {
        expected[at as usize].to_bits() != actual[at as usize].to_bits()
    }

    fn noticed_of(flaw: Option<Flaw>, expected: &[f32], actual: &[f32], wrong: Indices) -> Vec<u64> {
        let bytes = |values: &[f32]| values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
        JudgeMutation(flaw).noticed(DType::F32, 1022, wrong, &bytes(expected), &bytes(actual)).iter().collect()
    }

    /// The wrong elements noticed one by one; elements noticed all at once must begin with the first of them.
    fn noticed(flaw: Option<Flaw>, expected: &[f32], actual: &[f32]) -> Vec<u64> {
        let wrong: Vec<u64> = (0..expected.len() as u64).filter(|at| is_wrong(expected, actual, *at)).collect();
        let alone = |at: &u64| !noticed_of(flaw, expected, actual, [*at].into_iter().collect()).is_empty();
        let each: Vec<u64> = wrong.iter().copied().filter(alone).collect();
        let together = noticed_of(flaw, expected, actual, wrong.into_iter().collect());
        assert_eq!(together.first(), each.first(), "{flaw:?}");
        each
    }

    fn noticed_together(flaw: Flaw, expected: &[f32], actual: &[f32]) -> Vec<u64> {
        let wrong = (0..expected.len() as u64).filter(|at| is_wrong(expected, actual, *at)).collect();
        noticed_of(Some(flaw), expected, actual, wrong)
    }

    #[test]
    fn what_is_not_noticed_is_what_the_flaw_says() {
        let expected = [1.0, 2.0, 3.0, 4.0, f32::NAN];
        let actual = [1.0005, 3.0, 2.0, f32::NAN, 0.0];
        assert_eq!(noticed(None, &expected, &actual), [0, 1, 2, 3, 4]);
        assert_eq!(noticed(Some(Flaw::NoGuards), &expected, &actual), [0, 1, 2, 3, 4]);
        assert_eq!(noticed(Some(Flaw::F16Tolerance), &expected, &actual), [1, 2, 3, 4]);
        assert_eq!(noticed(Some(Flaw::NanEqualsAnything), &expected, &actual), [0, 1, 2]);
        assert_eq!(noticed(Some(Flaw::OnlyBeginning), &expected, &actual), [0, 1]);
        assert_eq!(noticed(Some(Flaw::OnePerPack), &expected, &actual), [2]);
        assert_eq!(noticed_together(Flaw::NoOrder, &expected, &actual), [0, 1, 2, 3, 4]);
        assert_eq!(noticed_together(Flaw::NoOrder, &[1.0, 2.0, 3.0], &[1.0, 3.0, 2.0]), [] as [u64; 0]);
    }

    #[test]
    fn without_order_it_counts_how_often_each_number_stands_there() {
        let noticed = |expected: [u32; 3], actual: [u32; 3]| {
            let wrong = (0..3).filter(|at| expected[*at] != actual[*at]).map(|at| at as u64).collect();
            !noticed_of(Some(Flaw::NoOrder), &expected.map(f32::from_bits), &actual.map(f32::from_bits), wrong)
                .is_empty()
        };
        assert!(!noticed([3, 1, 1], [1, 3, 1]));
        assert!(noticed([3, 1, 1], [3, 3, 1]));
        // Other numbers with the same sum.
        assert!(noticed([1, 4, 7], [2, 3, 7]));
    }
}
