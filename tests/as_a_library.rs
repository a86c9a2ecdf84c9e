//! collspec as a library, in a program whose `main` does not call `enter_if_asked`: this test harness. These tests count the
//! child processes, so they have their own binary. They use nothing but the interface.

#[path = "it/support/mod.rs"]
mod support;

use collspec::{CaseReport, Error, Options, Status, Suite, Workers};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use support::processes::children;
use support::{Home, SUM, WRONG};

fn soft(workers: Workers) -> Options {
    Options::new().with("backend", "soft").unwrap().with("jobs", "2").unwrap().workers(workers)
}

/// Held by every test that starts workers, because one of them counts all workers of this process.
fn one_at_a_time() -> MutexGuard<'static, ()> {
    static RUNNING: Mutex<()> = Mutex::new(());
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn a_program_can_be_named_as_worker() {
    let _running = one_at_a_time();
    let home = Home::new();
    home.file("scenarios/sum.toml", SUM);
    home.file("scenarios/wrong.toml", WRONG);
    let worker = Workers::Command(env!("CARGO_BIN_EXE_collspec").into());
    let mut suite = Suite::open(&[home.path("scenarios")], soft(worker)).unwrap();
    let mut reports: Vec<CaseReport> = Vec::new();
    let counts = suite.run(|report| reports.push(report.clone())).unwrap();
    assert_eq!((counts.pass, counts.fail, counts.skip), (1, 1, 0));
    reports.sort_by(|a, b| a.case.cmp(&b.case));
    let verdicts: Vec<_> = reports.iter().map(|report| (report.case.as_str(), report.status)).collect();
    assert_eq!(verdicts, [("sum", Status::Pass), ("wrong", Status::Fail)]);
    assert!(reports[1].reason.as_ref().is_some_and(|reason| reason.contains("rank 1")), "{reports:?}");

    suite.filter("sum").unwrap();
    assert_eq!(suite.names().collect::<Vec<_>>(), ["sum"]);
}

#[test]
fn a_program_that_cannot_be_a_worker_is_not_started_again() {
    let _running = one_at_a_time();
    let home = Home::new();
    home.file("scenarios/sum.toml", SUM);
    let suite = Suite::open(&[home.path("scenarios")], soft(Workers::CurrentExe)).unwrap();
    let before = children(std::process::id());
    let error = suite.run(|_| ()).unwrap_err();
    assert!(error.to_string().contains("enter_if_asked"), "{error}");
    assert_eq!(children(std::process::id()), before);
}

#[test]
fn a_missing_folder_and_a_faulty_file_are_told_apart() {
    assert!(matches!(Suite::open(&[Path::new("/no/such/folder")], Options::new()), Err(Error::Run(_))));
    let home = Home::new();
    home.file("scenarios/typo.toml", &SUM.replace("all_reduce", "all_redcue"));
    let error = Suite::open(&[home.path("scenarios")], Options::new()).unwrap_err();
    assert!(matches!(error, Error::Files(_)) && error.to_string().contains("typo.toml:2:"), "{error}");
    home.file("scenarios/typo.toml", &SUM.replace("[3, 4]", "[3]"));
    let error = Suite::open(&[home.path("scenarios")], Options::new()).unwrap_err();
    assert!(matches!(error, Error::Files(_)) && error.to_string().contains("typo.toml:"), "{error}");
}

#[test]
fn long_cases_run_if_the_filter_names_them() {
    let _running = one_at_a_time();
    let home = Home::new();
    home.file("scenarios/sum.toml", SUM);
    home.file("scenarios/slow.toml", &format!("tags = [\"long\"]\n{SUM}"));
    let worker = Workers::Command(env!("CARGO_BIN_EXE_collspec").into());
    let mut suite = Suite::open(&[home.path("scenarios")], soft(worker)).unwrap();
    assert_eq!(suite.names().collect::<Vec<_>>(), ["sum"]);
    suite.filter("long").unwrap();
    assert_eq!(suite.names().collect::<Vec<_>>(), ["slow"]);
    assert_eq!(suite.run(|_| ()).unwrap().pass, 1);
}

#[test]
fn a_limit_is_raised_by_the_option_that_the_message_names() {
    let home = Home::new();
    home.file("sum.toml", SUM);
    let options = Options::new().with("max-memory", "1KiB").unwrap();
    let error = Suite::open(&[home.path("sum.toml")], options).unwrap_err().to_string();
    assert!(error.contains("Options::with(\"max-memory\", "), "{error}");
}
