//! The result of a comparison, and its verdict.
use super::change::{Change, Meaning};
use super::classify::compare_rates;
use super::library_changes::LibraryChange;
use super::seen::Seen;
use super::speed::Speed;
use super::work::Counts;
use crate::record::Header;
use collspec_core::judge::Verdict;
use collspec_core::scenario::Case;
use collspec_core::stats::rates::Interval;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Two libraries compared over a corpus.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// The library in use.
    pub base: SideSummary,
    /// The library to move to.
    pub candidate: SideSummary,
    /// Changes in the library itself.
    pub library: Vec<LibraryChange>,
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
    /// True if the user stopped the comparison early.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interrupted: bool,
    /// The process of the job that was lost during the comparison, and the reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<String>,
}

/// A description of one side.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
    /// The element types of its inputs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub types: Vec<String>,
    /// The kind of change.
    pub change: Change,
    /// A description of the change in one line.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
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

/// A failed run of each case in full, where cases were run.
#[derive(Clone, Debug, Default)]
pub struct FirstFailures {
    /// The base's failures, by case name.
    pub base: BTreeMap<String, FailedRun>,
    /// The candidate's failures, by case name.
    pub candidate: BTreeMap<String, FailedRun>,
}

/// A case and its verdict.
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

/// The answer to the question of moving to the candidate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "verdict")]
pub enum GateVerdict {
    /// There is no change for the worse.
    NothingWorse,
    /// At least one change is for the worse.
    Worse {
        /// Number of changes for the worse.
        changes: usize,
    },
    /// The comparison is not conclusive.
    NoVerdict {
        /// The reasons, each in one line.
        reasons: Vec<String>,
    },
}

/// If more than this share of the base's cases fail, there is no verdict: nothing could get worse in them.
const MOST_FAILING: f64 = 0.5;

impl Comparison {
    pub(super) fn new(
        base: SideSummary,
        candidate: SideSummary,
        rows: Vec<Row>,
        starts: Option<StartRates>,
        library: Vec<LibraryChange>,
    ) -> Self {
        Self { base, candidate, library, starts, rows, speed: None, work: None, interrupted: false, lost: None }
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

    /// The verdict, which requires that at least `at_least` cases ran on both sides. With `changes_count`, every change
    /// that is not accepted counts as worse.
    pub fn verdict(&self, at_least: usize, changes_count: bool) -> GateVerdict {
        if let Some(lost) = &self.lost {
            let why =
                "the two sides did not run on the same processes, so that what failed may be no change of the library";
            return GateVerdict::NoVerdict { reasons: vec![format!("{lost}: {why}")] };
        }
        let mut worse = self.count_of(Meaning::Worse);
        if changes_count {
            worse += self.count_of(Meaning::Changed);
        }
        worse += self.speed.as_ref().filter(|speed| speed.accepted.is_none()).map_or(0, Speed::worse);
        worse += self.work.as_ref().filter(|work| work.accepted.is_none()).map_or(0, |work| work.failed.len());
        if worse > 0 {
            return GateVerdict::Worse { changes: worse };
        }
        let mut reasons = Vec::new();
        if self.interrupted {
            reasons.push("the comparison was interrupted".to_owned());
        }
        if let Some(work) = self.work.as_ref().filter(|work| work.not_counted > work.rows.len() / 10) {
            let all = work.not_counted + work.rows.len();
            reasons
                .push(format!("{} of the {all} rows of --bench could not be counted on both sides", work.not_counted));
        }
        let (compared, cases) = (self.compared(), self.rows.len());
        if compared < at_least {
            let what = if compared == 1 { "1 case ran" } else { &format!("{compared} cases ran") };
            reasons.push(format!("too little was compared: {what} on both sides of {cases}, {at_least} are needed"));
        }
        let failing = self.rows.iter().filter(|row| row.change.was_compared() && row.base.passed == 0).count();
        if compared > 0 && failing as f64 > compared as f64 * MOST_FAILING {
            reasons.push(format!("the base itself fails {failing} of the {compared} cases that were compared"));
        }
        let mut undecided = self.count_of(Meaning::Undecided);
        let starts = self.starts.as_ref().filter(|starts| starts.accepted.is_none());
        if let Some(starts) = starts.filter(|starts| starts.change().meaning() == Meaning::Undecided) {
            undecided -= 1;
            let words = starts.words();
            let what = format!("some starts fail, too few to say whether more often than before ({words})");
            reasons.push(format!("{what}: more --starts would tell"));
        }
        if undecided > 0 {
            let what =
                if undecided == 1 { "1 result comes and goes" } else { &format!("{undecided} results come and go") };
            reasons
                .push(format!("{what}, too rarely to say whether more often than before: more --repeats would tell"));
        }
        let missing =
            self.rows.iter().filter(|row| row.change == Change::NotComparable && row.candidate.is_empty()).count();
        if missing > 0 && self.candidate.recorded {
            let what = if missing == 1 { "1 case is" } else { &format!("{missing} cases are") };
            reasons.push(format!("{what} not in the candidate's recording"));
        }
        for (name, side) in [("base", &self.base), ("candidate", &self.candidate)] {
            if side.cut_short {
                reasons.push(format!("the recording of the {name} has no end: its run was cut short"));
            }
        }
        if let Some(why) = self.speed.as_ref().and_then(Speed::no_verdict) {
            reasons.push(format!("speed: {why}"));
        }
        if reasons.is_empty() { GateVerdict::NothingWorse } else { GateVerdict::NoVerdict { reasons } }
    }
}
