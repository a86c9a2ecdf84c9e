//! The means that detects a fault: a lane of the judge, or the ending.
use collspec_core::judge::{Lane, Outcome, Verdict};

/// The means that detected a fault first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DetectedBy {
    /// A finding of this lane.
    Lane(Lane),
    /// An error of a call that must succeed.
    Error,
    /// The case hung.
    Hang,
    /// The death of a process.
    Crash,
}

impl DetectedBy {
    /// The means that detected the fault in a failing verdict.
    pub fn from_verdict(verdict: &Verdict) -> Self {
        match verdict.outcome {
            Some(Outcome::Error) => Self::Error,
            Some(Outcome::Hang) => Self::Hang,
            Some(Outcome::Crash) => Self::Crash,
            Some(Outcome::Ok | Outcome::Refused) | None => {
                Self::Lane(verdict.findings.first().map_or(Lane::Expected, |finding| finding.lane))
            }
        }
    }

    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Lane(lane) => lane.name(),
            Self::Error => "error",
            Self::Hang => "hang",
            Self::Crash => "crash",
        }
    }
}

/// The lanes whose worth is reported, in the order of the report.
pub const LANES: [Lane; 5] = [Lane::Exact, Lane::Admissible, Lane::Bounded, Lane::Invariants, Lane::Expected];

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaneSet(u8);

impl LaneSet {
    /// The lanes that fail in a verdict.
    pub fn failed_in(verdict: &Verdict) -> Self {
        let failed = verdict.lanes.iter().filter(|result| !result.pass);
        Self(failed.fold(0, |bits, result| bits | 1 << result.lane as u8))
    }

    /// True if the set has a lane other than `lane`.
    pub fn has_other_than(self, lane: Lane) -> bool {
        self.0 & !(1 << lane as u8) != 0
    }
}
