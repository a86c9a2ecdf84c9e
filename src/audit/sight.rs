//! By what a fault was noticed.
use crate::judge::{Lane, Outcome, Verdict};

/// By what a fault was noticed first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Sight {
    /// A lane.
    Lane(Lane),
    /// A call failed that must not.
    Error,
    /// It did not come to its end.
    Hang,
    /// A process died.
    Crash,
}

impl Sight {
    /// Of a verdict that fails.
    pub fn of(verdict: &Verdict) -> Self {
        match verdict.outcome {
            Some(Outcome::Error) => Self::Error,
            Some(Outcome::Hang) => Self::Hang,
            Some(Outcome::Crash) => Self::Crash,
            Some(Outcome::Ok | Outcome::Refused) | None => {
                Self::Lane(verdict.findings.first().map_or(Lane::Expected, |finding| finding.lane))
            }
        }
    }

    /// In a word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Lane(lane) => lane.name(),
            Self::Error => "error",
            Self::Hang => "hang",
            Self::Crash => "crash",
        }
    }
}

/// The lanes that can be switched off, in the order in which they are told.
pub const LANES: [Lane; 5] = [Lane::Exact, Lane::Admissible, Lane::Bounded, Lane::Invariants, Lane::Expected];

/// A set of lanes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lanes(u8);

impl Lanes {
    /// Those that a verdict fails.
    pub fn failed(verdict: &Verdict) -> Self {
        let failed = verdict.lanes.iter().filter(|result| !result.pass);
        Self(failed.fold(0, |bits, result| bits | 1 << result.lane as u8))
    }

    /// True if there is one besides this.
    pub fn any_but(self, lane: Lane) -> bool {
        self.0 & !(1 << lane as u8) != 0
    }
}
