//! One finding of a case as JSON.
use super::source_place::line_column;
use collspec_core::judge::{Finding, Lane, Subject};
use collspec_core::printable::bounded_to;
use collspec_core::scenario::Case;
use serde::{Deserialize, Serialize};

/// Bytes of a text after which it is cut.
const MOST: usize = 2 << 10;

/// A place in a scenario file; line and column count from 1, columns in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// Number of the line, from 1.
    pub line: usize,
    /// Number of the column, from 1.
    pub column: usize,
}

/// One thing that is wrong with a case: an element of `findings` in the lines of `collspec run --format jsonl`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct FindingReport {
    /// The lane that found it.
    pub lane: Lane,
    /// The kind of thing that is wrong.
    pub subject: Subject,
    /// World rank, of several the first; `None` if it is not about a rank.
    pub rank: Option<usize>,
    /// All world ranks with the same finding, ascending.
    pub ranks: Vec<usize>,
    /// World ranks on which the same elements are wrong but hold or should hold other values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ranks_with_other_values: Vec<usize>,
    /// Name of the buffer.
    pub buffer: Option<String>,
    /// Index of the first wrong element.
    pub element: Option<u64>,
    /// Label of the step that wrote the element, for instance `step 2 (all_reduce)`.
    pub step: Option<String>,
    /// Place of that step, `expect` or `assert` in the file.
    pub place: Option<Place>,
    /// Expected value and its bits; empty if the finding is about no value.
    pub expected: String,
    /// Actual value and its bits; empty if the finding is about no value.
    pub actual: String,
    /// Number of wrong elements.
    pub wrong: u64,
    /// Number of elements that were compared.
    pub of: u64,
    /// The pattern of the wrong elements, if one is recognised.
    pub pattern: Option<String>,
    /// The finding in one line.
    pub text: String,
    /// The probable culprit, and what to write instead.
    pub advice: Option<String>,
    /// Other things that are wrong because of this, each in one line.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub consequences: Vec<String>,
    /// Number of rounds of a loop in which the step's result is wrong; the finding is about the first. 0 in lines of earlier versions.
    #[serde(default)]
    pub rounds: u64,
}

impl FindingReport {
    pub(super) fn new(case: &Case, finding: &Finding) -> Self {
        let place = |span| {
            let (line, column) = line_column(&case.file, span);
            Place { line, column }
        };
        let text = |text: &String| bounded_to(text, MOST).into_owned();
        Self {
            lane: finding.lane,
            subject: finding.subject,
            rank: finding.rank,
            ranks: finding.ranks(),
            ranks_with_other_values: finding.ranks_with_other_values.clone(),
            buffer: finding.buffer.clone(),
            element: finding.element,
            step: finding.step.clone(),
            place: finding.span.map(place),
            expected: text(&finding.expected),
            actual: text(&finding.actual),
            wrong: finding.wrong,
            of: finding.of,
            pattern: finding.pattern.as_ref().map(text),
            text: text(&finding.text),
            advice: finding.advice.as_ref().map(text),
            consequences: finding.consequences.iter().map(text).collect(),
            rounds: finding.rounds,
        }
    }
}
