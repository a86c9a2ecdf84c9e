//! What is said of a job that stands still.
use super::departure::How;
use crate::import::flight_recorder::{Stack, State};
use serde::Serialize;

/// A call, or calls that were launched together.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Called {
    /// `all_reduce of 4096 bf16`.
    pub what: String,
    pub communicator: String,
    /// World ranks.
    pub members: Vec<usize>,
    /// The number that the job gave it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub number: Option<String>,
    /// How far it came, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<State>,
    /// The innermost line first; empty if it is not known.
    pub stack: Stack,
}

/// What went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// A call that others made was left out.
    LeftOut,
    /// A call was made that others did not make.
    Added,
    /// Another call was made than others made.
    Instead,
    /// No more calls were made, although the rank waits for nothing.
    Stopped,
    /// The two ends of a message do not fit together.
    MessagesDiffer,
    /// A message that a rank waits for was not sent, or not received, by a rank that stands in another call.
    NoMessage,
    /// Ranks wait for each other in calls that were made in different orders.
    Order,
    /// Nothing is known of ranks that the others wait for.
    Unknown,
}

impl From<How> for Cause {
    fn from(how: How) -> Self {
        match how {
            How::LeftOut => Self::LeftOut,
            How::Added => Self::Added,
            How::Instead => Self::Instead,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub cause: Cause,
    /// The ranks that left the others; of those that wait for each other, the fewer.
    pub ranks: Vec<usize>,
    /// The ranks that did what `call` says.
    pub others: Vec<usize>,
    /// What the others called.
    pub call: Called,
    /// What the ranks called in its place, or last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instead: Option<Called>,
    /// Calls that were left out, added or replaced, one after the other.
    pub calls: usize,
    /// True if there are not more ranks on one side than on the other, so that each may be wrong.
    pub is_undecided: bool,
    /// Other communicators in which ranks left others in the same way.
    pub alike: usize,
}

impl Finding {
    pub fn new(cause: Cause, ranks: Vec<usize>, others: Vec<usize>, call: Called, instead: Option<Called>) -> Self {
        let calls = usize::from(matches!(cause, Cause::LeftOut | Cause::Added | Cause::Instead));
        let is_undecided = matches!(cause, Cause::MessagesDiffer | Cause::Unknown);
        Self { cause, ranks, others, call, instead, calls, is_undecided, alike: 0 }
    }
}

/// Ranks that wait in the same call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Waiting {
    pub ranks: Vec<usize>,
    /// Where they wait; `None` if nothing is known of these ranks, or they wait in no call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call: Option<Called>,
    /// Of ranks that wait in no call: their last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last: Option<Called>,
    /// True if nothing is known of these ranks.
    pub is_unknown: bool,
}

/// Why a job stands still.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Diagnosis {
    /// In one sentence.
    pub verdict: String,
    /// The most likely first.
    pub findings: Vec<Finding>,
    pub waiting: Vec<Waiting>,
    /// The last collective before the first finding that all members of its communicator completed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_common: Option<Called>,
    /// What was guessed, left out or could not be read.
    pub remarks: Vec<String>,
}

impl Diagnosis {
    /// True if nothing but a guess is known.
    pub fn is_guess(&self) -> bool {
        self.findings.iter().all(|finding| finding.cause == Cause::Unknown)
    }
}
