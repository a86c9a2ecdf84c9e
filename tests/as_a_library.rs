//! collspec as a library, in a program whose `main` does not call `enter_if_asked`: this test harness. These tests count the
//! child processes, so they have their own binary.

#[path = "it/support/mod.rs"]
mod support;

use collspec::internals::report::Event;
use collspec::internals::report::Reporter;
use collspec::internals::run::Backend;
use collspec::internals::suite::Options;
use collspec::{Suite, Workers};
use std::io;
use std::path::Path;
use support::processes::children;
use support::{Home, SUM, WRONG};

/// Counts verdicts.
#[derive(Default)]
struct Count(usize);

impl Reporter for Count {
    fn event(&mut self, event: &Event) -> io::Result<()> {
        self.0 += usize::from(matches!(event, Event::CaseDone { .. }));
        Ok(())
    }
}

fn options(worker: Workers) -> Options {
    Options { backend: Backend::Soft, jobs: 2, worker, ..Options::default() }
}

#[test]
fn a_program_can_be_named_as_worker() {
    let home = Home::new();
    home.file("scenarios/sum.toml", SUM);
    home.file("scenarios/wrong.toml", WRONG);
    let suite = Suite::open(&[home.path("scenarios")]).unwrap();
    let mut count = Count::default();
    let worker = Workers::Command(env!("CARGO_BIN_EXE_collspec").into());
    let tally = suite.run(options(worker), &mut count).unwrap();
    assert_eq!((tally.pass, tally.fail, tally.skip(), count.0), (1, 1, 0, 2));
}

#[test]
fn a_program_that_cannot_be_a_worker_is_not_started_again() {
    let home = Home::new();
    home.file("scenarios/sum.toml", SUM);
    let suite = Suite::open(&[home.path("scenarios")]).unwrap();
    let before = children(std::process::id()).len();
    let error = suite.run(options(Workers::CurrentExe), &mut Count::default()).unwrap_err();
    assert!(collspec::internals::suite::with_causes(&error).contains("enter_if_asked"), "{error}");
    assert!(children(std::process::id()).len() <= before + 1, "at most the other test's worker");
}

#[test]
fn a_missing_folder_and_a_missing_case_are_told_apart() {
    let home = Home::new();
    home.file("scenarios/sum.toml", SUM);
    assert!(Suite::open(&[Path::new("/no/such/folder")]).is_err());
    let root = home.path("scenarios");
    assert_eq!(Suite::open_exact(&root, "sum", &Default::default()).unwrap().cases.len(), 1);
    assert!(Suite::open_exact(&root, "product", &Default::default()).unwrap().cases.is_empty());
}
