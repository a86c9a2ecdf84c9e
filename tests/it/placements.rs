//! Every documented scenario with a thread per rank and with a process per rank: equal endings, equal outputs.
use collspec_core::judge::{Status, Verdict};
use collspec_core::scenario::Placement;
use collspec_run::child::Workers;
use collspec_suite::suite::{CaseSet, parallel};
use collspec_suite::suite::{RunOptions, Runner};
use std::num::NonZeroUsize;
use std::path::Path;

fn documented(placement: Option<Placement>) -> (Vec<Verdict>, usize) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios/documented");
    let suite = CaseSet::open(&[root]).unwrap();
    assert!(suite.invalid_files.is_empty());
    let worker = Workers::Command(env!("CARGO_BIN_EXE_collspec").into());
    let runner =
        Runner::soft(RunOptions { jobs: NonZeroUsize::new(2), workers: worker, placement, ..RunOptions::default() })
            .unwrap();
    let verdicts = parallel::map(&suite.cases, 2, |case| runner.run_case(case));
    (verdicts, runner.idle_workers().len())
}

#[test]
#[ignore = "slow"]
fn threads_and_processes_say_the_same() {
    let (threads, few) = documented(None);
    let (processes, many) = documented(Some(Placement::Processes));
    assert!(threads.len() > 60 && threads.len() == processes.len());
    assert!(many > few, "{many} processes are kept for many, {few} for few");
    for (thread, process) in threads.iter().zip(&processes) {
        let name = &thread.case;
        assert_eq!(*name, process.case);
        assert_eq!(thread.status, Status::Pass, "{name} in threads: {:?}", thread.reason);
        assert_eq!(process.status, Status::Pass, "{name} in processes: {:?}", process.reason);
        assert_eq!(thread.outcome, process.outcome, "{name}");
        assert_eq!(thread.outputs, process.outputs, "{name}");
        assert_eq!(thread.snapshot, process.snapshot, "{name}");
    }
}
