//! Each deliberate fault of a library as the candidate: what it breaks is worse, and nothing else has changed.
use crate::support::Home;
use collspec::Workers;
use collspec_cli::audit::{FaultOrFlaw, examples::scenario_for};
use collspec_cli::compare::{Change, Meaning, Observer, Repetition, Side, SideRequest, compare};
use collspec_cli::record::{Header, RecordingWriter};
use collspec_core::judge::Details;
use collspec_suite::report::Event;
use collspec_suite::suite::{BackendChoice, BackendRequest, CaseSet, RunOptions};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::Path;
use std::time::Duration;

/// Scenarios of other faults that are compared with each fault.
const OTHERS: usize = 8;

struct Quiet;

impl Observer for Quiet {
    fn part(&mut self, _: &str) {}
    fn event(&mut self, _: &Event) {}
}

/// For each class of faults its first fault, and the scenario that shows it.
fn classes() -> BTreeMap<&'static str, (&'static str, String)> {
    let mut classes = BTreeMap::new();
    for item in FaultOrFlaw::all().filter(|item| matches!(item, FaultOrFlaw::Fault(_))) {
        let id = item.id();
        let class = id.split('-').next().unwrap().trim_end_matches(|c: char| c.is_ascii_lowercase());
        classes.entry(class).or_insert_with(|| (id, scenario_for(item).unwrap()));
    }
    classes
}

/// The class whose scenario a case is of.
fn class_of(case: &str) -> &str {
    case.split('[').next().unwrap()
}

/// Records a run without a fault.
fn record(path: &Path, cases: &CaseSet, options: &RunOptions) {
    let options = RunOptions { keep_results: true, timeout: None, ..options.clone() };
    let chosen = options.backend.resolve(&options.workers).unwrap();
    let mut writer = RecordingWriter::new(File::create(path).unwrap(), &Header::new(&chosen, &options)).unwrap();
    let tally = cases.run(options, chosen, &mut writer).unwrap();
    assert_eq!((tally.fail, tally.pass > 1000), (0, true), "{} pass", tally.pass);
}

#[test]
#[ignore = "slow"]
fn what_a_fault_breaks_is_worse_and_nothing_else_has_changed() {
    let home = Home::new();
    let classes = classes();
    for (class, (_, scenario)) in &classes {
        home.file(&format!("scenarios/{class}.toml"), scenario);
    }
    let cases = CaseSet::open(&[home.path("scenarios")]).unwrap();
    let workers = Workers::Command(env!("CARGO_BIN_EXE_collspec").into());
    // Which order explains other bits is not asked here, and finding out would take most of the time.
    let backend = BackendRequest { backend: BackendChoice::Soft, ..BackendRequest::default() };
    let options = RunOptions { backend, workers, timeout: Some(2.0), details: Details::None, ..RunOptions::default() };
    let side = |text: &str| SideRequest::parse(text).unwrap().resolve(&options).unwrap();
    record(&home.path("base.jsonl"), &cases, &options);
    let base = side(home.path("base.jsonl").to_str().unwrap());
    assert!(matches!(base, Side::Recorded(_)));
    let once = Repetition { runs: 1, repeats: 0, starts: 0, fewer_starts_of_few_cases: false, time: Duration::ZERO };
    let (mut missed, mut unexpected) = (Vec::new(), Vec::new());
    for (class, (id, _)) in &classes {
        // All cases of its own scenario, and one of each of some others.
        let mut files = BTreeSet::new();
        let mut selected = cases.clone();
        selected.cases.retain(|case| {
            let other = files.len() < OTHERS && files.insert(case.file.path.clone());
            other || class_of(&case.name) == *class
        });
        let text = format!("soft fault={id}");
        let (comparison, _) = compare(("base", &base), (&text, &side(&text)), &selected, &once, &mut Quiet).unwrap();
        for row in &comparison.rows {
            let failed = row.candidate.failed > 0;
            let told = match row.change.meaning() {
                Meaning::Worse => failed,
                Meaning::Same => !failed,
                Meaning::Changed => matches!(row.change, Change::OtherErrorCode | Change::OtherErrorText),
                _ => false,
            };
            if !told {
                unexpected.push(format!("{id}: {}: {} ({})", row.case, row.change, row.detail));
            }
        }
        let mut own = comparison.rows.iter().filter(|row| class_of(&row.case) == *class);
        if !own.any(|row| row.change.meaning() == Meaning::Worse) {
            missed.push(*id);
        }
    }
    assert_eq!((missed, unexpected), (Vec::<&str>::new(), Vec::<String>::new()));
}
