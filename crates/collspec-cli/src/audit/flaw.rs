//! Flaws of the judge: checks that it leaves out or weakens, as real test suites do.
use collspec_core::judge::{Lane, Outcome, Verdict};
use collspec_core::num::DType;
use collspec_core::plan::Plan;

/// A flaw of the judge; `FLAWS` describes each.
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
pub(super) const BEGINNING_ELEMENTS: u64 = 1024;

impl Flaw {
    /// Every flaw that a judge can be given.
    pub fn all() -> impl Iterator<Item = Self> {
        FLAWS.iter().map(|entry| entry.flaw)
    }

    /// Its index in `FLAWS`.
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
}
