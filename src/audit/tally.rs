//! What came of an audit, fault by fault and file by file.
use super::run::{CaseOutcome, Catch};
use super::select::Item;
use super::sight::{LANES, Sight};
use super::{Settings, Way, cover};
use crate::judge::Lane;
use soft_nccl::fault::Fault;
use std::collections::{BTreeMap, BTreeSet};

/// What came of an audit.
#[derive(Clone, Debug)]
pub struct Report {
    /// The way of checking.
    pub way: &'static str,
    /// Cases that took part.
    pub cases: usize,
    /// Cases that did not, by reason.
    pub skipped: BTreeMap<String, usize>,
    /// Runs under faults.
    pub runs: usize,
    /// By fault, then by flaw of the judge.
    pub items: Vec<ItemRow>,
    /// By file, in the order of their names.
    pub files: Vec<FileRow>,
    /// Files that together catch all that is caught, as indices of `files`; the most telling first.
    pub few: Vec<usize>,
    /// What would be left without each lane.
    pub lanes: Vec<WithoutLane>,
    /// What would be left without each folder.
    pub folders: Vec<WithoutFolder>,
    /// Runs of which nothing can be said: case, fault, why.
    pub troubles: Vec<(String, Fault, String)>,
}

/// A fault, or a flaw of the judge.
#[derive(Clone, Debug)]
pub struct ItemRow {
    /// Which.
    pub item: Item,
    /// Cases that meet it. For a flaw: cases that caught some fault.
    pub reached: usize,
    /// The files of these.
    pub reached_files: usize,
    /// Cases that catch it. For a flaw: cases that caught a fault which the flawed judge does not see.
    pub caught: usize,
    /// The files of these.
    pub caught_files: usize,
    /// True if there may be more, because not all cases were run.
    pub at_least: bool,
    /// By what it was noticed first, and in how many cases.
    pub first: BTreeMap<Sight, usize>,
    /// For a flaw: the faults that it hides, and in how many cases.
    pub hides: BTreeMap<Fault, usize>,
}

impl ItemRow {
    /// True if no case catches it.
    pub fn missed(&self) -> bool {
        self.caught == 0
    }

    /// By what it was mostly noticed first.
    pub fn mostly(&self) -> Option<Sight> {
        let most = self.first.iter().max_by_key(|(sight, cases)| (**cases, std::cmp::Reverse(**sight)));
        most.map(|(sight, _)| *sight)
    }
}

/// A scenario file.
#[derive(Clone, Debug)]
pub struct FileRow {
    /// What its cases' names begin with.
    pub name: String,
    /// Its path.
    pub path: String,
    /// Its cases that took part.
    pub cases: usize,
    /// What they catch.
    pub catches: BTreeSet<Item>,
    /// What no other file catches.
    pub alone: BTreeSet<Item>,
}

impl FileRow {
    /// True if other files catch all that it catches.
    pub fn redundant(&self) -> bool {
        self.alone.is_empty()
    }
}

/// What would be caught without a lane.
#[derive(Clone, Debug)]
pub struct WithoutLane {
    /// The lane.
    pub lane: Lane,
    /// Faults that would still be caught.
    pub faults: usize,
    /// Those that would not.
    pub lost: Vec<Fault>,
}

/// What would be caught without a folder's files.
#[derive(Clone, Debug)]
pub struct WithoutFolder {
    /// The first part of its cases' names.
    pub folder: String,
    /// Its files.
    pub files: usize,
    /// What would still be caught.
    pub items: usize,
    /// What would not.
    pub lost: Vec<Item>,
}

/// Classes, such as F23 for F23 and F23b, and how many are caught in every variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Classes {
    /// Caught.
    pub caught: usize,
    /// Looked for.
    pub all: usize,
}

impl Report {
    /// True if something went unnoticed, or could not be looked at.
    pub fn misses(&self) -> bool {
        self.items.iter().any(ItemRow::missed) || !self.troubles.is_empty()
    }

    /// The classes of faults, or those of the judge's flaws.
    pub fn classes(&self, flaws: bool) -> Classes {
        let mut classes: BTreeMap<&str, bool> = BTreeMap::new();
        for row in self.items.iter().filter(|row| matches!(row.item, Item::Flaw(_)) == flaws) {
            *classes.entry(row.item.class()).or_insert(true) &= !row.missed();
        }
        Classes { caught: classes.values().filter(|caught| **caught).count(), all: classes.len() }
    }
}

/// The report on what was found.
pub(super) fn report(way: &dyn Way, settings: &Settings, outcomes: Vec<CaseOutcome>) -> Report {
    let mut skipped = BTreeMap::new();
    for reason in outcomes.iter().filter_map(|outcome| outcome.skipped.clone()) {
        *skipped.entry(reason).or_default() += 1;
    }
    let part: Vec<&CaseOutcome> = outcomes.iter().filter(|outcome| outcome.skipped.is_none()).collect();
    let files = files(&part, settings);
    let sets: Vec<BTreeSet<Item>> = files.iter().map(|file| file.catches.clone()).collect();
    let costs: Vec<usize> = files.iter().map(|file| file.cases).collect();
    let troubles = |outcome: &&CaseOutcome| -> Vec<_> {
        outcome.troubles.iter().map(|(fault, text)| (outcome.case.name.clone(), *fault, text.clone())).collect()
    };
    Report {
        way: way.name(),
        cases: part.len(),
        skipped,
        runs: part.iter().map(|outcome| outcome.runs).sum(),
        items: settings.selection.items().map(|item| row(item, &part)).collect(),
        few: cover::few(&sets, &costs),
        lanes: LANES.into_iter().map(|lane| without_lane(lane, &part)).collect(),
        folders: folders(&files),
        files,
        troubles: part.iter().flat_map(troubles).collect(),
    }
}

/// What a case's name has in front of its file's own points.
fn file_of(name: &str) -> &str {
    name.split('[').next().unwrap_or(name)
}

fn row(item: Item, part: &[&CaseOutcome]) -> ItemRow {
    let mut row = ItemRow {
        item,
        reached: 0,
        reached_files: 0,
        caught: 0,
        caught_files: 0,
        at_least: false,
        first: BTreeMap::new(),
        hides: BTreeMap::new(),
    };
    let (mut reached, mut caught) = (BTreeSet::new(), BTreeSet::new());
    for outcome in part {
        let meets = match item {
            Item::Fault(fault) => outcome.reached.contains(&fault),
            Item::Flaw(_) => !outcome.caught.is_empty(),
        };
        let file = outcome.case.file.path.as_str();
        if meets {
            row.reached += 1;
            reached.insert(file);
        }
        let holds = |found: &&Catch| match item {
            Item::Fault(fault) => found.fault == fault,
            Item::Flaw(flaw) => found.hidden.contains(&flaw),
        };
        let mut found = outcome.caught.iter().filter(holds).peekable();
        if found.peek().is_some() {
            row.caught += 1;
            caught.insert(file);
        }
        for found in found {
            match item {
                Item::Fault(_) => *row.first.entry(found.sight).or_default() += 1,
                Item::Flaw(_) => *row.hides.entry(found.fault).or_default() += 1,
            }
        }
    }
    row.reached_files = reached.len();
    row.caught_files = caught.len();
    row.at_least = part.iter().any(|outcome| match item {
        Item::Fault(fault) => outcome.left.contains(&fault),
        Item::Flaw(_) => !outcome.left.is_empty(),
    });
    row
}

fn files(part: &[&CaseOutcome], settings: &Settings) -> Vec<FileRow> {
    let shown: BTreeSet<Item> = settings.selection.items().collect();
    let mut files: BTreeMap<(&str, &str), FileRow> = BTreeMap::new();
    for outcome in part {
        let (name, path) = (file_of(&outcome.case.name), outcome.case.file.path.as_str());
        let file = files.entry((name, path)).or_insert_with(|| FileRow {
            name: name.to_owned(),
            path: path.to_owned(),
            cases: 0,
            catches: BTreeSet::new(),
            alone: BTreeSet::new(),
        });
        file.cases += 1;
        for found in &outcome.caught {
            let flaws = found.hidden.iter().map(|flaw| Item::Flaw(*flaw));
            file.catches.extend(flaws.chain([Item::Fault(found.fault)]).filter(|item| shown.contains(item)));
        }
    }
    let mut files: Vec<FileRow> = files.into_values().collect();
    let sets: Vec<BTreeSet<Item>> = files.iter().map(|file| file.catches.clone()).collect();
    for (file, alone) in files.iter_mut().zip(cover::alone(&sets)) {
        file.alone = alone;
    }
    files
}

fn without_lane(lane: Lane, part: &[&CaseOutcome]) -> WithoutLane {
    let caught = || part.iter().flat_map(|outcome| &outcome.caught);
    let all: BTreeSet<Fault> = caught().map(|found| found.fault).collect();
    let still: BTreeSet<Fault> = caught().filter(|found| found.lanes.any_but(lane)).map(|found| found.fault).collect();
    WithoutLane { lane, faults: still.len(), lost: all.difference(&still).copied().collect() }
}

fn folders(files: &[FileRow]) -> Vec<WithoutFolder> {
    let folder = |file: &FileRow| file.name.split_once('/').map(|(folder, _)| folder.to_owned());
    let names: BTreeSet<String> = files.iter().filter_map(folder).collect();
    let all: BTreeSet<Item> = files.iter().flat_map(|file| file.catches.iter().copied()).collect();
    let without = |name: String| {
        let inside = |file: &&FileRow| folder(file).as_ref() == Some(&name);
        let count = files.iter().filter(inside).count();
        let others = files.iter().filter(|file| !inside(file));
        let still: BTreeSet<Item> = others.flat_map(|file| file.catches.iter().copied()).collect();
        let lost = all.difference(&still).copied().collect();
        WithoutFolder { folder: name, files: count, items: still.len(), lost }
    };
    // one folder alone says nothing that the table does not
    let without: Vec<WithoutFolder> = names.into_iter().map(without).collect();
    if without.len() > 1 { without } else { Vec::new() }
}
