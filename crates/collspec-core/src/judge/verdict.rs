//! A case's verdict with its lanes and findings.
use super::buffer_contents::BufferContents;
use crate::scenario::Span;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Result of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    Pass,
    Fail,
    Skip,
    /// The case could not be run to a verdict, for instance because no worker could be started: it says nothing about the library.
    Error,
}

impl Status {
    /// True if a run with such a case cannot count as passed.
    pub fn is_bad(self) -> bool {
        matches!(self, Self::Fail | Self::Error)
    }
}

/// The way the run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    Ok,
    Error,
    Hang,
    Crash,
    Refused,
}

/// A way of judging.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Lane {
    Exact,
    Admissible,
    Bounded,
    Invariants,
    Expected,
    Snapshot,
}

impl Lane {
    /// The lane's name in documents and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Admissible => "admissible",
            Self::Bounded => "bounded",
            Self::Invariants => "invariants",
            Self::Expected => "expected",
            Self::Snapshot => "snapshot",
        }
    }
}

/// Result of one lane for a case. Lanes that do not apply to the case have no result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LaneResult {
    /// The lane that was checked.
    pub lane: Lane,
    /// True if nothing that the lane compared was wrong.
    pub pass: bool,
    /// Number of elements (or checks) that the lane compared.
    pub looked_at: u64,
    /// A note, for instance how many elements only the bound could judge.
    pub note: Option<String>,
}

impl LaneResult {
    /// A lane without a note in which nothing is wrong.
    #[doc(hidden)]
    pub fn passed(lane: Lane, looked_at: u64) -> Self {
        Self { lane, pass: true, looked_at, note: None }
    }
}

/// The subject of a finding, which a report writes in front of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Subject {
    /// A lane's finding about data, guards, inputs or answers: reports name the lane.
    Lane,
    /// A buffer that does not match `expect`.
    Expect,
    /// An `assert` that does not hold.
    Assert,
    /// An ending that the file does not admit.
    Ending,
    /// A call's result that does not match the step's `error`.
    Error,
    /// A refusal that the file does not expect.
    Refusal,
}

/// One thing that is wrong with a run.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// The lane that found it.
    pub lane: Lane,
    /// The kind of thing that is wrong.
    pub subject: Subject,
    /// World rank; if there are several, the first.
    pub rank: Option<usize>,
    /// Further world ranks with the same finding, ascending.
    pub other_ranks: Vec<usize>,
    /// World ranks on which the same elements are wrong with other actual or expected values.
    pub ranks_with_other_values: Vec<usize>,
    /// Name of the buffer.
    pub buffer: Option<String>,
    /// Index of the first wrong element.
    pub element: Option<u64>,
    /// Label of the step that wrote the element, for instance `step 2 (all_reduce)`.
    pub step: Option<String>,
    /// Place of that step, `expect` or `assert` in the file.
    #[serde(skip)]
    pub span: Option<Span>,
    /// Expected value and its bits.
    pub expected: String,
    /// Actual value and its bits.
    pub actual: String,
    /// Number of wrong elements.
    pub wrong: u64,
    /// A hash of their indices, to find out if the same elements are wrong on another rank.
    #[serde(skip)]
    pub wrong_elements: u64,
    /// Number of elements that were compared.
    pub of: u64,
    /// The pattern of the wrong elements, if one is recognised.
    pub pattern: Option<String>,
    /// The finding in one line.
    pub text: String,
    /// The probable culprit, and what to write instead.
    pub advice: Option<String>,
    /// True if the right result would meet this expectation, so that the failure follows from a wrong result.
    #[serde(skip)]
    pub follows: bool,
    /// Other things that are wrong because of this, each in one line.
    pub consequences: Vec<String>,
    /// Number of rounds of a loop in which the step's result is wrong; the finding is about the first of them.
    pub rounds: u64,
}

/// A failing test shows what a report says, not twenty fields.
impl fmt::Debug for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.lane.name(), self.text)?;
        let more = [("pattern", &self.pattern), ("advice", &self.advice)];
        let more = more.into_iter().filter_map(|(name, words)| Some((name, words.as_ref()?)));
        more.chain(self.consequences.iter().map(|words| ("therefore", words)))
            .try_for_each(|(name, words)| write!(f, "\n  {name}: {words}"))
    }
}

impl Finding {
    /// The word that a report writes in front of the finding; `None` for an assert, whose text names it.
    pub fn label(&self) -> Option<&'static str> {
        match self.subject {
            Subject::Lane => Some(self.lane.name()),
            Subject::Expect => Some("expect"),
            Subject::Assert => None,
            Subject::Ending => Some("ending"),
            Subject::Error => Some("error"),
            Subject::Refusal => Some("refused"),
        }
    }

    /// The finding's text without line breaks.
    pub fn in_one_line(&self) -> String {
        let lines: Vec<&str> = self.text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        lines.join("; ")
    }

    /// True if the finding is about the step's result, not about memory that the step should have left alone.
    pub fn is_of_result(&self) -> bool {
        self.lane != Lane::Invariants
    }

    /// True if the finding names this world rank.
    pub(crate) fn is_about(&self, rank: usize) -> bool {
        self.rank == Some(rank) || self.other_ranks.contains(&rank) || self.ranks_with_other_values.contains(&rank)
    }

    /// All world ranks with this finding; empty if it is not about a rank.
    pub fn ranks(&self) -> Vec<usize> {
        let mut ranks: Vec<usize> = self.rank.iter().chain(&self.other_ranks).copied().collect();
        ranks.sort_unstable();
        ranks
    }
}

/// Final values by buffer name, world rank and element; `None` where the rank lacks the buffer or it is still all poison.
pub type OutputRows = Vec<(String, Vec<Option<Vec<serde_json::Value>>>)>;

/// The verdict on a case.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// The case's full name.
    pub case: String,
    /// Pass, fail or skip.
    pub status: Status,
    /// The way the program ended; `None` for a skip.
    pub outcome: Option<Outcome>,
    /// The reason for a skip or failure, in one line: the first if there are several findings.
    pub reason: Option<String>,
    /// Total seconds of all runs, each from the end of loading to its end.
    pub seconds: f64,
    /// Seconds from the beginning of the case's planning to its verdict; 0 if no runner was involved.
    pub wall_seconds: f64,
    /// Lanes that apply to the case.
    pub lanes: Vec<LaneResult>,
    /// Findings by priority, 16 at most.
    pub findings: Vec<Finding>,
    /// Families that explain every result which distinguishes families.
    pub fingerprint: Option<crate::oracle::Fingerprint>,
    /// The order of ranks in which the elements of rounded results were summed; only if the case passes.
    pub order_maps: Vec<crate::oracle::ResultOrder>,
    /// Final values of the written buffers; `None` above 4,096 elements or if no run ended well.
    pub outputs: Option<OutputRows>,
    /// Text of the snapshot, if the case has one.
    pub snapshot: Option<String>,
    /// The contents of the buffers before and after, if they are to be shown.
    pub buffers: Option<BufferContents>,
    /// The last run's results, if they are to be recorded and the case ran.
    pub observed: Option<Box<super::ObservedResults>>,
    /// Results that could not be checked, although they are defined.
    pub not_looked_at: Option<crate::oracle::NotLookedAt>,
    /// The operations that the program used; empty if it did not run.
    pub used: Vec<super::UsedOperation>,
    /// True if a fault of the library was asked for and changed something; `None` if a run ended so that the worker could not say.
    pub fault_struck: Option<bool>,
    /// Notes that do not change the verdict.
    pub notes: Vec<String>,
}
