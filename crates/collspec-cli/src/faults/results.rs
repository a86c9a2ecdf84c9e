//! What a library does under faults of the machine, as a file that can be compared with another.
use collspec_core::job::{FaultKind, MachineCounts};
use serde::{Deserialize, Serialize};

/// The version of the files.
pub const VERSION: u32 = 1;

/// What a library did.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// [`VERSION`].
    pub collspec_faults: u32,
    /// The library and its devices.
    pub library: String,
    /// The first seed.
    pub seed: u64,
    /// Runs of each case with each kind of fault.
    pub runs: u64,
    /// The cases that passed without a fault.
    pub cases: Vec<CaseResults>,
    /// Cases, or kinds of faults of a case, that were not run, with the reason.
    pub skipped: Vec<Skipped>,
}

/// The runs of a case.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub struct CaseResults {
    /// Its name.
    pub case: String,
    /// The runs without a fault: one with the placement in the file, and one with each rank on a different host.
    pub sound: Vec<SoundRun>,
    /// The runs with a fault.
    pub faulty: Vec<FaultyRun>,
}

/// A run without a fault.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub struct SoundRun {
    /// True if each rank was on a different host.
    pub on_hosts: bool,
    /// Its time.
    pub seconds: f64,
    /// What faults could have struck, in all processes together.
    #[serde(flatten)]
    pub counts: MachineCounts,
}

/// A run with a fault.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FaultyRun {
    pub kind: FaultKind,
    /// The seed that decided its place and time.
    pub seed: u64,
    /// The end.
    pub outcome: Outcome,
    /// The code of the first error that NCCL returned.
    pub code: Option<String>,
    /// What the fault did; empty if it did not strike.
    pub fault: String,
    /// The verdict's reason; empty if the results are right.
    pub reason: String,
}

/// A case that was not run at all, or not with a kind of fault.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub struct Skipped {
    pub case: String,
    pub kind: FaultKind,
    pub reason: String,
    /// True if the case fails without a fault.
    pub fails_without_fault: bool,
}

/// The end of a run with a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    Right,
    Wrong,
    Error,
    Hang,
    Crash,
}

impl Outcome {
    /// All of them, in the order of columns.
    pub const ALL: [Self; 5] = [Self::Right, Self::Error, Self::Wrong, Self::Hang, Self::Crash];

    /// The head of its column.
    pub fn name(self) -> &'static str {
        match self {
            Self::Right => "right",
            Self::Wrong => "wrong",
            Self::Error => "error",
            Self::Hang => "hang",
            Self::Crash => "crash",
        }
    }

    /// True if a program cannot go on correctly or learn from NCCL that it cannot.
    pub fn is_bad(self) -> bool {
        matches!(self, Self::Wrong | Self::Hang | Self::Crash)
    }
}

/// How often each outcome occurred.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// In the order of [`Outcome::ALL`].
    pub by_outcome: [u64; 5],
    /// Right results of runs in which the fault's moment never came.
    pub not_struck: u64,
}

impl Tally {
    /// The tally of these runs.
    pub fn of<'a>(runs: impl IntoIterator<Item = &'a FaultyRun>) -> Self {
        let mut tally = Self::default();
        for run in runs {
            if run.outcome == Outcome::Right && run.fault.is_empty() {
                tally.not_struck += 1;
            } else if let Some(at) = Outcome::ALL.iter().position(|known| *known == run.outcome) {
                tally.by_outcome[at] += 1;
            }
        }
        tally
    }

    /// The runs in which the fault struck.
    pub fn struck(&self) -> u64 {
        self.by_outcome.iter().sum()
    }

    /// How many of these ended badly.
    pub fn bad(&self) -> u64 {
        Outcome::ALL.iter().zip(self.by_outcome).filter(|(outcome, _)| outcome.is_bad()).map(|(_, count)| count).sum()
    }
}

impl Results {
    /// The kinds of faults that were tried, in their order.
    pub fn kinds(&self) -> Vec<FaultKind> {
        FaultKind::all().filter(|kind| self.of_kind(*kind).next().is_some()).collect()
    }

    /// The runs with a kind of fault, and their cases.
    pub fn of_kind(&self, kind: FaultKind) -> impl Iterator<Item = (&str, &FaultyRun)> {
        let runs = self.cases.iter().flat_map(|case| case.faulty.iter().map(|run| (case.case.as_str(), run)));
        runs.filter(move |(_, run)| run.kind == kind)
    }

    pub fn tally(&self, kind: FaultKind) -> Tally {
        Tally::of(self.of_kind(kind).map(|(_, run)| run))
    }
}
