//! Each deliberate fault of the software library as the candidate: what fails is worse, and nothing else has changed.
use crate::support::Home;
use collspec::Workers;
use collspec::internals::compare::{Change, Meaning, Observer, Repetition, Side, SideRequest, compare};
use collspec::internals::report::Event;
use collspec::internals::suite::{CaseSet, RunOptions};
use soft_nccl::fault::TABLE;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

struct Quiet;

impl Observer for Quiet {
    fn part(&mut self, _: &str) {}
    fn event(&mut self, _: &Event) {}
}

#[test]
fn what_a_fault_breaks_is_worse_and_nothing_else_has_changed() {
    let home = Home::new();
    let documented = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("scenarios/documented");
    let recorded = home.run(&["run", "--backend", "soft", "--record", "base.jsonl", documented.to_str().unwrap()]);
    assert_eq!(recorded.code, 0, "{recorded}");
    let options = RunOptions {
        workers: Workers::Command(env!("CARGO_BIN_EXE_collspec").into()),
        timeout: Some(5.0),
        ..RunOptions::default()
    };
    let side = |text: &str| SideRequest::parse(text).unwrap().resolve(&options, true).unwrap();
    let base = side(home.path("base.jsonl").to_str().unwrap());
    assert!(matches!(base, Side::Recorded(_)));
    let cases = CaseSet::open(&[documented]).unwrap();
    let once = Repetition { runs: 1, repeats: 0, starts: 0, time: Duration::ZERO };
    let classes: BTreeSet<&str> = TABLE.iter().map(|fault| fault.id.split('-').next().unwrap()).collect();
    let (mut noticed, mut unexpected) = (0, Vec::new());
    for class in &classes {
        let id = TABLE.iter().map(|fault| fault.id).find(|id| id.split('-').next() == Some(class)).unwrap();
        let text = format!("soft fault={id}");
        let (comparison, _) = compare(("base", &base), (&text, &side(&text)), &cases, &once, &mut Quiet).unwrap();
        for row in &comparison.rows {
            let failed = row.candidate.failed > 0;
            let told = match row.change.meaning() {
                Meaning::Worse => failed,
                Meaning::Same => !failed,
                // A fault may let a communicator that is not destroyed well be noticed by nothing but another error.
                Meaning::Changed => matches!(row.change, Change::OtherErrorCode | Change::OtherErrorText),
                _ => row.change == Change::Skipped,
            };
            if !told {
                unexpected.push(format!("{id}: {}: {} ({})", row.case, row.change, row.detail));
            }
        }
        let worse = comparison.rows.iter().filter(|row| row.change.meaning() == Meaning::Worse).count();
        noticed += usize::from(worse > 0);
    }
    assert_eq!(unexpected, Vec::<String>::new());
    // The documented scenarios alone do not notice every fault; the whole corpus does (`collspec audit`).
    assert!(noticed * 2 > classes.len(), "{noticed} of {} classes", classes.len());
}
