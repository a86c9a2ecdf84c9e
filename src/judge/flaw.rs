//! Faults of the judge: ways of looking at less than all, as checks of this kind have done. A judge can be given one, so
//! that a corpus can be asked whether it would notice ([`crate::audit`]).
use super::{Lane, Outcome, Verdict};
use crate::num::{DType, decode_f64, get, is_nan};
use crate::plan::Plan;

/// What the judge does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Flaw {
    /// J01.
    OnlyRank0,
    /// J02.
    OnlyBeginning,
    /// J03.
    NanIsAnything,
    /// J04.
    HalfAllowance,
    /// J05.
    NoGuards,
    /// J06.
    NoInputs,
    /// J07.
    NoSameBits,
    /// J08.
    NoOrder,
    /// J09.
    OnlyLast,
    /// J09b.
    OnePerPack,
    /// J10.
    NoEnding,
}

/// What is known of a flaw.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Which.
    pub flaw: Flaw,
    /// `J09`, or `J09b` for a further one of the class.
    pub id: &'static str,
    /// What goes wrong.
    pub text: &'static str,
    /// What kind of scenario shows it, together with a fault of the library.
    pub shown_by: &'static str,
}

impl Entry {
    /// The class: the id without a letter.
    pub fn class(&self) -> &'static str {
        self.id.get(..3).unwrap_or(self.id)
    }
}

/// All flaws, in the order of their ids, which is that of [`Flaw`].
pub const FLAWS: &[Entry] = &[
    Entry {
        flaw: Flaw::OnlyRank0,
        id: "J01",
        text: "only rank 0's results are compared",
        shown_by: "operations whose result lies on other ranks: broadcast, scatter, recv, a root that is not 0",
    },
    Entry {
        flaw: Flaw::OnlyBeginning,
        id: "J02",
        text: "only the first 1,024 elements of a buffer are compared",
        shown_by: "more than 1,024 elements: a fault of the tail, of slices or of chunks then spares the beginning",
    },
    Entry {
        flaw: Flaw::NanIsAnything,
        id: "J03",
        text: "NaN counts as equal to anything",
        shown_by: "NaN through min and max, NaN payloads through broadcast and all_gather",
    },
    Entry {
        flaw: Flaw::HalfAllowance,
        id: "J04",
        text: "f32 and f64 may be as far off as f16: by one part in 1,024",
        shown_by: "reductions of f32 and f64 whose partial sums round",
    },
    Entry {
        flaw: Flaw::NoGuards,
        id: "J05",
        text: "the guards around buffers are not looked at",
        shown_by: "a small count that is no multiple of 16 bytes",
    },
    Entry {
        flaw: Flaw::NoInputs,
        id: "J06",
        text: "inputs and buffers that no step writes are not looked at",
        shown_by: "out-of-place operations, reduce and gather with buffers on the other ranks",
    },
    Entry {
        flaw: Flaw::NoSameBits,
        id: "J07",
        text: "that all ranks hold the same bits is not looked at",
        shown_by: "all_reduce of values that round, in three ranks or more",
    },
    Entry {
        flaw: Flaw::NoOrder,
        id: "J08",
        text: "elements are compared as a set, without their order",
        shown_by: "all_gather, all_to_all or gather, in which blocks can change places",
    },
    Entry {
        flaw: Flaw::OnlyLast,
        id: "J09",
        text: "of results under one name only the last is compared",
        shown_by: "a result that a later step overwrites with a right one",
    },
    Entry {
        flaw: Flaw::OnePerPack,
        id: "J09b",
        text: "one element of every 16 bytes is compared",
        shown_by: "a count that is no multiple of a pack; values that round, overflow or are special here and there",
    },
    Entry {
        flaw: Flaw::NoEnding,
        id: "J10",
        text: "hangs, crashes and error codes count as a good end",
        shown_by: "programs that a lost message makes hang, calls that must be refused",
    },
];

/// Elements that [`Flaw::OnlyBeginning`] compares.
const BEGINNING: u64 = 1024;
/// Bytes of a pack.
const PACK: u64 = 16;
/// What [`Flaw::HalfAllowance`] lets pass, as a part of the right value: f16's unit in the last place.
const HALF: f64 = 1.0 / 1024.0;

impl Flaw {
    /// All of them.
    pub fn all() -> impl Iterator<Item = Self> {
        FLAWS.iter().map(|entry| entry.flaw)
    }

    /// Its place in [`FLAWS`].
    pub fn number(self) -> usize {
        self as usize
    }

    /// Its entry.
    pub fn entry(self) -> &'static Entry {
        &FLAWS[self.number()]
    }

    /// False if a judge with this flaw surely fails what this verdict fails, so that it need not be asked.
    pub fn may_hide(self, plan: &Plan, verdict: &Verdict) -> bool {
        let dtypes = || plan.buffers.iter().map(|buffer| buffer.dtype);
        let failed = |lane| verdict.lanes.iter().any(|result| result.lane == lane && !result.pass);
        let ended_well = verdict.outcome == Some(Outcome::Ok);
        match self {
            Self::NoEnding => failed(Lane::Expected),
            // what did not end well has no data: only the flaw above makes a difference
            _ if !ended_well => false,
            Self::OnlyRank0 => plan.n > 1,
            Self::OnlyBeginning => {
                plan.buffers.iter().flat_map(|b| &b.places).flatten().any(|place| place.count > BEGINNING)
            }
            Self::NanIsAnything => dtypes().any(DType::is_float),
            Self::HalfAllowance => dtypes().any(|dtype| matches!(dtype, DType::F32 | DType::F64)),
            Self::NoGuards | Self::NoInputs | Self::NoSameBits => failed(Lane::Invariants),
            Self::NoOrder | Self::OnlyLast | Self::OnePerPack => true,
        }
    }
}

/// With what a judge looks: all of it, or all but a flaw.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Eyes(pub Option<Flaw>);

impl Eyes {
    /// True unless it has this flaw.
    pub fn without(self, flaw: Flaw) -> bool {
        self.0 != Some(flaw)
    }

    /// True if it looks at this rank's data.
    pub fn rank(self, rank: usize) -> bool {
        rank == 0 || self.without(Flaw::OnlyRank0)
    }

    /// True if it looks at this element of a buffer.
    pub fn element(self, dtype: DType, index: u64) -> bool {
        match self.0 {
            Some(Flaw::OnlyBeginning) => index < BEGINNING,
            Some(Flaw::OnePerPack) => index.is_multiple_of(PACK / dtype.size() as u64),
            _ => true,
        }
    }

    /// False if it takes a wrong value for right.
    fn differs(self, dtype: DType, expected: u64, actual: u64) -> bool {
        match self.0 {
            Some(Flaw::NanIsAnything) => !is_nan(dtype, expected) && !is_nan(dtype, actual),
            Some(Flaw::HalfAllowance) if matches!(dtype, DType::F32 | DType::F64) => {
                let (expected, actual) = (decode_f64(dtype, expected), decode_f64(dtype, actual));
                // NaN and infinities are never near
                let near = (expected - actual).abs() <= expected.abs() * HALF;
                !near
            }
            _ => true,
        }
    }

    /// Those of the wrong elements that it notices; they are counted from `start`, as are both sets of bytes.
    pub fn noticed(self, dtype: DType, start: u64, wrong: Vec<u64>, expected: &[u8], actual: &[u8]) -> Vec<u64> {
        let Some(flaw) = self.0 else { return wrong };
        let bits = |bytes: &[u8], at: &u64| get(dtype, bytes, *at as usize);
        if flaw == Flaw::NoOrder {
            let sorted = |bytes: &[u8]| {
                let mut all: Vec<u64> = wrong.iter().map(|at| bits(bytes, at)).collect();
                all.sort_unstable();
                all
            };
            return if sorted(expected) == sorted(actual) { Vec::new() } else { wrong };
        }
        let notices =
            |at: &u64| self.element(dtype, start + at) && self.differs(dtype, bits(expected, at), bits(actual, at));
        wrong.into_iter().filter(notices).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_order_and_has_ten_classes() {
        assert!(FLAWS.iter().enumerate().all(|(at, entry)| entry.flaw.number() == at));
        assert!(FLAWS.is_sorted_by(|a, b| a.id < b.id));
        let mut classes: Vec<_> = FLAWS.iter().map(Entry::class).collect();
        classes.dedup();
        assert_eq!(classes, (1..=10).map(|class| format!("J{class:02}")).collect::<Vec<_>>());
    }

    fn noticed(flaw: Option<Flaw>, expected: &[f32], actual: &[f32]) -> Vec<u64> {
        let bytes = |values: &[f32]| values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
        let wrong = (0..expected.len() as u64)
            .filter(|i| expected[*i as usize].to_bits() != actual[*i as usize].to_bits())
            .collect();
        Eyes(flaw).noticed(DType::F32, 1022, wrong, &bytes(expected), &bytes(actual))
    }

    #[test]
    fn what_is_not_noticed_is_what_the_flaw_says() {
        let expected = [1.0, 2.0, 3.0, 4.0, f32::NAN];
        let actual = [1.0005, 3.0, 2.0, f32::NAN, 0.0];
        assert_eq!(noticed(None, &expected, &actual), [0, 1, 2, 3, 4]);
        assert_eq!(noticed(Some(Flaw::NoGuards), &expected, &actual), [0, 1, 2, 3, 4]);
        assert_eq!(noticed(Some(Flaw::HalfAllowance), &expected, &actual), [1, 2, 3, 4]);
        assert_eq!(noticed(Some(Flaw::NanIsAnything), &expected, &actual), [0, 1, 2]);
        assert_eq!(noticed(Some(Flaw::OnlyBeginning), &expected, &actual), [0, 1]);
        assert_eq!(noticed(Some(Flaw::OnePerPack), &expected, &actual), [2]);
        assert_eq!(noticed(Some(Flaw::NoOrder), &expected, &actual), [0, 1, 2, 3, 4]);
        assert_eq!(noticed(Some(Flaw::NoOrder), &[1.0, 2.0, 3.0], &[1.0, 3.0, 2.0]), [] as [u64; 0]);
    }
}
