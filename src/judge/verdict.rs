//! What is said of a case.
use crate::scenario::Span;
use serde::{Deserialize, Serialize};

/// The result of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)]
pub enum Status {
    Pass,
    Fail,
    Skip,
}

/// How the run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)]
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
#[allow(missing_docs)]
pub enum Lane {
    Exact,
    Admissible,
    Bounded,
    Invariants,
    Expected,
    Snapshot,
}

impl Lane {
    /// The name, as the documents write it.
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

/// What a lane says of a case; lanes that do not apply are absent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaneResult {
    /// The lane.
    pub lane: Lane,
    /// True if nothing it looked at was wrong.
    pub pass: bool,
    /// Elements (or checks) it looked at.
    pub looked_at: u64,
    /// A remark, such as how many elements only the bound could judge.
    pub note: Option<String>,
}

/// Something wrong.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// Which lane found it.
    pub lane: Lane,
    /// World rank.
    pub rank: Option<usize>,
    /// Buffer.
    pub buffer: Option<String>,
    /// First wrong element.
    pub element: Option<u64>,
    /// The step that wrote it, in words.
    pub step: Option<String>,
    /// Where that step, `expect` or `assert` stands.
    #[serde(skip)]
    pub span: Option<Span>,
    /// What was expected: value and bits.
    pub expected: String,
    /// What came: value and bits.
    pub actual: String,
    /// Wrong elements.
    pub wrong: u64,
    /// Of so many.
    pub of: u64,
    /// In what pattern, if one is recognised.
    pub pattern: Option<String>,
    /// One line for people.
    pub text: String,
}

/// By buffer name, by world rank, by element; `None` where the rank has no such buffer or it is still all poison.
pub type Outputs = Vec<(String, Vec<Option<Vec<serde_json::Value>>>)>;

/// The verdict on a case.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// The case's name.
    pub case: String,
    /// Pass, fail or skip.
    pub status: Status,
    /// How it ended; `None` for a skip.
    pub outcome: Option<Outcome>,
    /// Why it was skipped or failed, in one line (several findings: the first).
    pub reason: Option<String>,
    /// From *loaded* to the end.
    pub seconds: f64,
    /// Lanes that applied.
    pub lanes: Vec<LaneResult>,
    /// What is wrong, most telling first; capped.
    pub findings: Vec<Finding>,
    /// Families that explain every telling element.
    pub fingerprint: Option<crate::oracle::Fingerprint>,
    /// By buffer name, by world rank; `None` above 4,096 elements or if nothing came out.
    pub outputs: Option<Outputs>,
    /// Text of the snapshot, where the case has one.
    pub snapshot: Option<String>,
    /// Remarks that change no verdict.
    pub notes: Vec<String>,
}
