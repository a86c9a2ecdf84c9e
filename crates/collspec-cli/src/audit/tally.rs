//! The report of an audit, by fault and by file.
use super::detected_by::{DetectedBy, LANES};
use super::run::{CaseOutcome, Catch};
use super::select::FaultOrFlaw;
use super::{AuditSettings, cover};
use collspec_core::judge::Lane;
use std::collections::{BTreeMap, BTreeSet};
use wrong_nccl::Fault;

#[derive(Clone, Debug)]
pub struct AuditReport {
    /// Number of cases that took part.
    pub cases: usize,
    /// Number of cases that were left out, by reason.
    pub skipped: BTreeMap<String, usize>,
    /// Number of runs with faults.
    pub runs: usize,
    /// One row for each fault, then one for each flaw of the judge.
    pub items: Vec<ItemRow>,
    /// One row for each file, by name.
    pub files: Vec<FileRow>,
    /// A small set of files that catch everything that is caught, as indices of `files`.
    pub minimal_files: Vec<usize>,
    /// For each lane, the result without it.
    pub lanes: Vec<WithoutLane>,
    /// For each folder, the result without it.
    pub folders: Vec<WithoutFolder>,
    /// Runs without a verdict: name of the case, fault, reason.
    pub undecided: Vec<(String, Fault, String)>,
}

/// The counts of a fault, or of a flaw of the judge.
#[derive(Clone, Debug)]
pub struct ItemRow {
    pub item: FaultOrFlaw,
    /// Number of cases that reach it; for a flaw, of cases that caught any fault.
    pub reached: usize,
    /// Number of files of these cases.
    pub reached_files: usize,
    /// Number of cases that catch it; for a flaw, of cases that caught a fault which a judge with the flaw passes.
    pub caught: usize,
    /// Number of files of these cases.
    pub caught_files: usize,
    /// True if more cases may catch it, because not all were run.
    pub at_least: bool,
    /// Number of cases by the check that detected the fault first.
    pub detected_by: BTreeMap<DetectedBy, usize>,
    /// For a flaw, number of cases by fault that it hides.
    pub hides: BTreeMap<Fault, usize>,
}

impl ItemRow {
    /// True if it is a fault of the library that no case meets.
    pub fn is_never_met(&self) -> bool {
        self.reached == 0 && matches!(self.item, FaultOrFlaw::Fault(_))
    }

    /// True if no case catches it.
    pub fn missed(&self) -> bool {
        self.caught == 0
    }

    /// The check that detected the fault first in most cases.
    pub fn most_often_detected_by(&self) -> Option<DetectedBy> {
        let most = self.detected_by.iter().max_by_key(|(sight, cases)| (**cases, std::cmp::Reverse(**sight)));
        most.map(|(sight, _)| *sight)
    }
}

/// The counts of a scenario file.
#[derive(Clone, Debug)]
pub struct FileRow {
    /// The name of its cases, without a point.
    pub name: String,
    /// The file's path.
    pub path: String,
    /// Number of its cases that took part.
    pub cases: usize,
    /// The faults and flaws that they catch.
    pub catches: BTreeSet<FaultOrFlaw>,
    /// Those that no other file catches.
    pub unique: BTreeSet<FaultOrFlaw>,
}

impl FileRow {
    /// True if other files catch everything that it catches.
    pub fn is_redundant(&self) -> bool {
        self.unique.is_empty()
    }
}

/// The result of an audit without one lane.
#[derive(Clone, Debug)]
pub struct WithoutLane {
    /// The lane left out.
    pub lane: Lane,
    /// Number of faults that would still be caught.
    pub faults: usize,
    /// The faults that would not be caught.
    pub lost: Vec<Fault>,
}

/// The result of an audit without the files of one folder.
#[derive(Clone, Debug)]
pub struct WithoutFolder {
    /// The first part of its cases' names.
    pub folder: String,
    /// Number of its files.
    pub files: usize,
    /// Number of faults and flaws that would still be caught.
    pub items: usize,
    /// Those that would not be caught.
    pub lost: Vec<FaultOrFlaw>,
}

/// Number of classes, such as F23 for F23 and F23b, and of those that are caught in every variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassCounts {
    /// Classes that are caught in every variant.
    pub caught: usize,
    /// All classes of the selection.
    pub all: usize,
}

impl AuditReport {
    /// True if a fault or flaw was missed, or a run had no verdict.
    pub fn has_misses(&self) -> bool {
        self.items.iter().any(ItemRow::missed) || !self.undecided.is_empty()
    }

    /// Number of the library's faults that are caught, and of all that were tried.
    pub fn faults(&self) -> (usize, usize) {
        let faults = || self.items.iter().filter(|row| matches!(row.item, FaultOrFlaw::Fault(_)));
        (faults().filter(|row| !row.missed()).count(), faults().count())
    }

    /// The classes of faults, or with `flaws` those of the judge's flaws.
    pub fn classes(&self, flaws: bool) -> ClassCounts {
        let mut classes: BTreeMap<&str, bool> = BTreeMap::new();
        for row in self.items.iter().filter(|row| matches!(row.item, FaultOrFlaw::Flaw(_)) == flaws) {
            *classes.entry(row.item.class()).or_insert(true) &= !row.missed();
        }
        ClassCounts { caught: classes.values().filter(|caught| **caught).count(), all: classes.len() }
    }
}

/// The report on the results of all cases.
pub(super) fn build_report(settings: &AuditSettings, outcomes: Vec<CaseOutcome>) -> AuditReport {
    let mut skipped = BTreeMap::new();
    for reason in outcomes.iter().filter_map(|outcome| outcome.skipped.clone()) {
        *skipped.entry(reason).or_default() += 1;
    }
    let part: Vec<&CaseOutcome> = outcomes.iter().filter(|outcome| outcome.skipped.is_none()).collect();
    let files = file_rows(&part, settings);
    let sets: Vec<BTreeSet<FaultOrFlaw>> = files.iter().map(|file| file.catches.clone()).collect();
    let costs: Vec<usize> = files.iter().map(|file| file.cases).collect();
    let troubles = |outcome: &&CaseOutcome| -> Vec<_> {
        outcome.undecided.iter().map(|(fault, text)| (outcome.case.name.clone(), *fault, text.clone())).collect()
    };
    AuditReport {
        cases: part.len(),
        skipped,
        runs: part.iter().map(|outcome| outcome.runs).sum(),
        items: settings.selection.items().map(|item| item_row(item, &part)).collect(),
        minimal_files: cover::minimal_cover(&sets, &costs),
        lanes: LANES.into_iter().map(|lane| without_lane(lane, &part)).collect(),
        folders: folder_rows(&files),
        files,
        undecided: part.iter().flat_map(troubles).collect(),
    }
}

/// The name of a case without its point.
fn file_name_of(name: &str) -> &str {
    name.split('[').next().unwrap_or(name)
}

fn item_row(item: FaultOrFlaw, part: &[&CaseOutcome]) -> ItemRow {
    let mut row = ItemRow {
        item,
        reached: 0,
        reached_files: 0,
        caught: 0,
        caught_files: 0,
        at_least: false,
        detected_by: BTreeMap::new(),
        hides: BTreeMap::new(),
    };
    let (mut reached, mut caught) = (BTreeSet::new(), BTreeSet::new());
    for outcome in part {
        let meets = match item {
            FaultOrFlaw::Fault(fault) => outcome.reached.contains(&fault),
            FaultOrFlaw::Flaw(_) => !outcome.caught.is_empty(),
        };
        let file = outcome.case.file.path.as_str();
        if meets {
            row.reached += 1;
            reached.insert(file);
        }
        let holds = |found: &&Catch| match item {
            FaultOrFlaw::Fault(fault) => found.fault == fault,
            FaultOrFlaw::Flaw(flaw) => found.hidden_by.contains(&flaw),
        };
        let mut found = outcome.caught.iter().filter(holds).peekable();
        if found.peek().is_some() {
            row.caught += 1;
            caught.insert(file);
        }
        for found in found {
            match item {
                FaultOrFlaw::Fault(_) => *row.detected_by.entry(found.detected_by).or_default() += 1,
                FaultOrFlaw::Flaw(_) => *row.hides.entry(found.fault).or_default() += 1,
            }
        }
    }
    row.reached_files = reached.len();
    row.caught_files = caught.len();
    row.at_least = part.iter().any(|outcome| match item {
        FaultOrFlaw::Fault(fault) => outcome.not_run.contains(&fault),
        FaultOrFlaw::Flaw(_) => !outcome.not_run.is_empty(),
    });
    row
}

fn file_rows(part: &[&CaseOutcome], settings: &AuditSettings) -> Vec<FileRow> {
    let shown: BTreeSet<FaultOrFlaw> = settings.selection.items().collect();
    let mut files: BTreeMap<(&str, &str), FileRow> = BTreeMap::new();
    for outcome in part {
        let (name, path) = (file_name_of(&outcome.case.name), outcome.case.file.path.as_str());
        let file = files.entry((name, path)).or_insert_with(|| FileRow {
            name: name.to_owned(),
            path: path.to_owned(),
            cases: 0,
            catches: BTreeSet::new(),
            unique: BTreeSet::new(),
        });
        file.cases += 1;
        for found in &outcome.caught {
            let flaws = found.hidden_by.iter().map(|flaw| FaultOrFlaw::Flaw(*flaw));
            file.catches.extend(flaws.chain([FaultOrFlaw::Fault(found.fault)]).filter(|item| shown.contains(item)));
        }
    }
    let mut files: Vec<FileRow> = files.into_values().collect();
    let sets: Vec<BTreeSet<FaultOrFlaw>> = files.iter().map(|file| file.catches.clone()).collect();
    for (file, alone) in files.iter_mut().zip(cover::unique_elements(&sets)) {
        file.unique = alone;
    }
    files
}

fn without_lane(lane: Lane, part: &[&CaseOutcome]) -> WithoutLane {
    let caught = || part.iter().flat_map(|outcome| &outcome.caught);
    let all: BTreeSet<Fault> = caught().map(|found| found.fault).collect();
    let still: BTreeSet<Fault> =
        caught().filter(|found| found.lanes.has_other_than(lane)).map(|found| found.fault).collect();
    WithoutLane { lane, faults: still.len(), lost: all.difference(&still).copied().collect() }
}

fn folder_rows(files: &[FileRow]) -> Vec<WithoutFolder> {
    let folder = |file: &FileRow| file.name.split_once('/').map(|(folder, _)| folder.to_owned());
    let names: BTreeSet<String> = files.iter().filter_map(folder).collect();
    let all: BTreeSet<FaultOrFlaw> = files.iter().flat_map(|file| file.catches.iter().copied()).collect();
    let without = |name: String| {
        let inside = |file: &&FileRow| folder(file).as_ref() == Some(&name);
        let count = files.iter().filter(inside).count();
        let others = files.iter().filter(|file| !inside(file));
        let still: BTreeSet<FaultOrFlaw> = others.flat_map(|file| file.catches.iter().copied()).collect();
        let lost = all.difference(&still).copied().collect();
        WithoutFolder { folder: name, files: count, items: still.len(), lost }
    };
    // A single folder would repeat the table.
    let without: Vec<WithoutFolder> = names.into_iter().map(without).collect();
    if without.len() > 1 { without } else { Vec::new() }
}
