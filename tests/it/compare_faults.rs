//! Each deliberate fault of the software library as the candidate: what it breaks is worse, and nothing else has changed.
use crate::support::Home;
use collspec::Workers;
use collspec::internals::audit::{FaultOrFlaw, examples::scenario_for};
use collspec::internals::compare::{Change, Meaning, Observer, Repetition, Side, SideRequest, compare};
use collspec::internals::report::Event;
use collspec::internals::suite::{CaseSet, RunOptions};
use std::collections::BTreeMap;
use std::time::Duration;

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

#[test]
fn what_a_fault_breaks_is_worse_and_nothing_else_has_changed() {
    let home = Home::new();
    let classes = classes();
    for (class, (_, scenario)) in &classes {
        home.file(&format!("scenarios/{class}.toml"), scenario);
    }
    let recorded = home.run(&["run", "--backend", "soft", "--record", "base.jsonl", "--no-footprint", "-k", "F"]);
    assert_eq!(recorded.code, 0, "{recorded}");
    let workers = Workers::Command(env!("CARGO_BIN_EXE_collspec").into());
    let options = RunOptions { workers, timeout: Some(2.0), ..RunOptions::default() };
    let side = |text: &str| SideRequest::parse(text).unwrap().resolve(&options, true).unwrap();
    let base = side(home.path("base.jsonl").to_str().unwrap());
    assert!(matches!(base, Side::Recorded(_)));
    let cases = CaseSet::open(&[home.path("scenarios")]).unwrap();
    let once = Repetition { runs: 1, repeats: 0, starts: 0, time: Duration::ZERO };
    let (mut missed, mut unexpected) = (Vec::new(), Vec::new());
    for (class, (id, _)) in &classes {
        let text = format!("soft fault={id}");
        let (comparison, _) = compare(("base", &base), (&text, &side(&text)), &cases, &once, &mut Quiet).unwrap();
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
        let own = comparison.rows.iter().filter(|row| row.case.split('[').next() == Some(class));
        if !own.into_iter().any(|row| row.change.meaning() == Meaning::Worse) {
            missed.push(*id);
        }
    }
    assert_eq!((missed, unexpected), (Vec::<&str>::new(), Vec::<String>::new()));
}
