//! The result of a comparison.
use super::change::{Change, LibraryChange, Meaning};
use super::classify::compare_rates;
use super::provenance::Provenance;
use super::seen::Seen;
use super::speed::{FailedRow, Speed};
use super::work::Counts;
use crate::corpus::known_bugs;
use crate::formats::html::page::TypedCall;
use crate::formats::html::typed_calls;
use crate::record::Header;
use collspec_core::judge::{UsedOperation, Verdict, operation_of};
use collspec_core::num::DType;
use collspec_core::ops::find;
use collspec_core::scenario::Case;
use collspec_core::stats::rates::Interval;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Two libraries compared over a corpus.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// The time and the place of the comparison.
    #[serde(default)]
    pub provenance: Provenance,
    /// The library in use.
    pub base: SideSummary,
    /// The library to move to.
    pub candidate: SideSummary,
    /// Changes in the library itself.
    pub library: Vec<LibraryChange>,
    /// Known bugs that one of the libraries has, with the cases that may show them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub known_bugs: Vec<known_bugs::Difference>,
    /// The descriptions of the compared files that were imported: what the log or dump had.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub imported: Vec<String>,
    /// Failure rates of starts, if starts were tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub starts: Option<StartRates>,
    /// The cases by name.
    pub rows: Vec<Row>,
    /// Speed of the candidate relative to the base, if it was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speed: Option<Speed>,
    /// Work of both libraries, if it was counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work: Option<Counts>,
    /// True if the user stopped the comparison before its results were complete.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interrupted: bool,
    /// True if the user stopped it while speed or work was measured.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub speed_interrupted: bool,
    /// The reason the comparison did not begin, if it did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_begun: Option<String>,
    /// The process of the job that was lost during the comparison, and the reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<String>,
    /// The accepted changes that did not happen, with the places of their entries.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stale: Vec<String>,
}

/// A description of one side.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SideSummary {
    /// The side as the user named it.
    pub name: String,
    /// The library, and the machine on which it ran.
    pub header: Header,
    /// True if the side is an earlier recording.
    pub recorded: bool,
    /// Number of runs of the corpus.
    pub corpus_runs: usize,
    /// True if the side is an incomplete recording.
    #[serde(default)]
    pub cut_short: bool,
}

impl SideSummary {
    /// The version code of NVIDIA's NCCL, if the side is one.
    pub fn nccl_release(&self) -> Option<i32> {
        let library = &self.header.library;
        nccl_sys::release(&library.version).filter(|_| library.backend == "nccl")
    }
}

/// A case of a comparison.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The case's name.
    pub case: String,
    /// The file that contains the case.
    pub file: String,
    /// The words of its operations.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub operations: Vec<String>,
    /// The element types of its calls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub types: Vec<String>,
    /// Its operations with their types, sizes and ranks, if it ran.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub used: Vec<UsedOperation>,
    pub change: Change,
    /// A description of the change in one line.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
    /// The results whose order of summation, or rounding, changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changed_results: Vec<ChangedResult>,
    /// Outcomes on the base.
    pub base: Seen,
    /// Outcomes on the candidate.
    pub candidate: Seen,
    /// Median of the seconds of the base's runs that passed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_seconds: Option<f64>,
    /// Median of the seconds of the candidate's runs that passed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub candidate_seconds: Option<f64>,
    /// The reason the change is accepted, if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepted: Option<String>,
}

/// A result that both sides computed rightly in different ways.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangedResult {
    /// Label of the step, for instance `step 2 (all_reduce)`.
    pub step: String,
    /// The buffer that received the result.
    pub buffer: String,
    /// The order of summation on the base and on the candidate.
    pub change: String,
}

impl ChangedResult {
    /// The place: `` `y` of step 2 (all_reduce) ``.
    pub fn place(&self) -> String {
        format!("`{}` of {}", self.buffer, self.step)
    }

    /// The operation of the step.
    pub fn operation(&self) -> Option<&str> {
        operation_of(&self.step)
    }
}

impl Row {
    /// Its operations with their types; of a recording that lacks them, each combination.
    pub fn calls(&self) -> Vec<TypedCall> {
        let types = self.types.iter().filter_map(|word| Some(DType::parse(word)?.name())).collect();
        typed_calls(&self.used, self.operations.iter().filter_map(|word| Some(find(word)?.name)), &types)
    }

    /// The operations to which the change applies, where that is known.
    pub fn changed_operations(&self) -> Vec<&str> {
        self.changed_results.iter().filter_map(ChangedResult::operation).collect()
    }
}

/// A failed run of each case in full, where cases were run.
#[derive(Clone, Debug, Default)]
pub struct FirstFailures {
    /// The base's failures, by case name.
    pub base: BTreeMap<String, FailedRun>,
    /// The candidate's failures, by case name.
    pub candidate: BTreeMap<String, FailedRun>,
}

pub type FailedRun = (Arc<Case>, Box<Verdict>);

impl FirstFailures {
    /// The candidate's failure of a case, or else the base's.
    pub fn of_either(&self, case: &str) -> Option<&FailedRun> {
        self.candidate.get(case).or_else(|| self.base.get(case))
    }
}

/// Counts of starts in which a library failed with its first case.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartRates {
    /// The base's starts.
    pub base: Starts,
    /// The candidate's starts.
    pub candidate: Starts,
    /// The reason no starts were tried, if none were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_tried: Option<String>,
    /// The reason the failures are accepted, if they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepted: Option<String>,
}

/// The starts of one library.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Starts {
    /// Number of starts that were tried.
    pub starts: u64,
    /// Number of starts that failed.
    pub failed: u64,
    /// Reasons of some of the failures.
    pub reasons: Vec<String>,
}

impl StartRates {
    /// The change that follows from the two rates.
    pub fn change(&self) -> Change {
        let Self { base, candidate, .. } = self;
        if base.failed == 0 && candidate.failed == 0 {
            return Change::SameBehaviour;
        }
        compare_rates((base.failed, base.starts), (candidate.failed, candidate.starts))
    }

    /// A text with both rates.
    pub fn words(&self) -> String {
        if let Some(reason) = &self.not_tried {
            return format!("not tried: {reason}");
        }
        let rate = |of: &Starts| Interval::of(of.failed, of.starts);
        let (base, candidate) = (rate(&self.base), rate(&self.candidate));
        format!("base {base}; candidate {candidate}")
    }
}

impl Comparison {
    /// The rows of `--bench` for which the speed is worse: slower, failed, or below their limit.
    pub fn worse_rows(&self) -> Vec<String> {
        let speed = self.speed.iter().flat_map(Speed::counted_in_words);
        let work = self.work.iter().flat_map(|work| work.failed.iter().map(FailedRow::to_string));
        speed.chain(work).collect()
    }

    pub(super) fn new(
        base: SideSummary,
        candidate: SideSummary,
        rows: Vec<Row>,
        starts: Option<StartRates>,
        library: Vec<LibraryChange>,
    ) -> Self {
        Self {
            provenance: Provenance::default(),
            base,
            candidate,
            library,
            known_bugs: Vec::new(),
            imported: Vec::new(),
            starts,
            rows,
            speed: None,
            work: None,
            interrupted: false,
            speed_interrupted: false,
            not_begun: None,
            lost: None,
            stale: Vec::new(),
        }
    }

    /// A comparison that did not begin, for the reason given.
    pub fn not_begun(base: &str, candidate: &str, reason: String) -> Self {
        let side = |name: &str| SideSummary { name: name.to_owned(), ..SideSummary::default() };
        let none = Self::new(side(base), side(candidate), Vec::new(), None, Vec::new());
        Self { provenance: Provenance::here(), not_begun: Some(reason), ..none }
    }

    /// Number of cases with each change, in the order of reports.
    pub fn counts(&self) -> Vec<(Change, usize)> {
        let mut counts: BTreeMap<Change, usize> = BTreeMap::new();
        self.rows.iter().for_each(|row| *counts.entry(row.change).or_default() += 1);
        counts.into_iter().collect()
    }

    /// Parts other than cases that could not be compared, with the reasons: a recording has only what was recorded.
    pub fn missing_parts(&self) -> Vec<String> {
        let mut parts = Vec::new();
        let sides = [("base", &self.base), ("candidate", &self.candidate)];
        for (name, side) in sides.iter().filter(|(_, side)| side.recorded) {
            if side.header.footprint.is_none() {
                parts.push(format!(
                    "what the library costs a process: the {name}'s recording has no footprint (it was made with --no-footprint)"
                ));
            }
        }
        let measured = sides.map(|(name, side)| (name, side.header.footprint.as_ref()));
        for (name, footprint) in measured {
            if footprint.is_some_and(|footprint| !footprint.is_missing() && footprint.growth_of_calls.is_empty()) {
                parts.push(format!(
                    "what calls leave behind: the {name} has no such measurement (an older recording, or there was no time for it)"
                ));
            }
        }
        let tells = sides.map(|(name, side)| (name, side.header.tuning.as_ref()));
        for (name, tuning) in tells {
            match tuning {
                Some(Err(why)) => parts.push(format!("what the library decides on the machine: the {name} does not say ({why})")),
                None if tells.iter().any(|(_, other)| other.is_some()) => parts.push(format!(
                    "what the library decides on the machine: the {name} was not asked, which needs --machine, NCCL 2.23 or later, and at most 64 ranks"
                )),
                _ => {}
            }
        }
        let recorded: Vec<&str> = sides.iter().filter(|(_, side)| side.recorded).map(|(name, _)| *name).collect();
        match recorded.as_slice() {
            [] => {}
            [name] => parts.push(format!("what fails in some starts only: the {name} is a recorded run")),
            _ => parts.push("what fails in some starts only: both sides are recorded runs".to_owned()),
        }
        parts
    }

    /// Number of cases that ran on both sides.
    pub fn compared(&self) -> usize {
        self.rows.iter().filter(|row| row.change.was_compared()).count()
    }

    /// Number of accepted changes of results that would otherwise count as worse, or leave the verdict open.
    pub fn accepted_for_worse(&self, bits: bool) -> usize {
        let rows = self.rows.iter().map(|row| (row.change.meaning(), &row.accepted));
        let library = self.library.iter().map(|change| (change.meaning, &change.accepted));
        let starts = self.starts.iter().map(|starts| (starts.change().meaning(), &starts.accepted));
        let all = rows.chain(library).chain(starts);
        all.filter(|(meaning, accepted)| accepted.is_some() && meaning.counts(bits)).count()
    }

    /// Number of changes with this meaning that are not accepted.
    pub fn count_of(&self, meaning: Meaning) -> usize {
        let rows = self.rows.iter().filter(|row| row.accepted.is_none() && row.change.meaning() == meaning).count();
        let library =
            self.library.iter().filter(|change| change.accepted.is_none() && change.meaning == meaning).count();
        let starts = self.starts.iter().filter(|starts| starts.accepted.is_none());
        let starts = starts.filter(|starts| starts.change().meaning() == meaning).count();
        // Starts without a failure do not count as a row that stayed the same.
        rows + library + if matches!(meaning, Meaning::Same) { 0 } else { starts }
    }
}
