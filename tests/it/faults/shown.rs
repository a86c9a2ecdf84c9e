//! Shows that a fault does what its entry says.
use super::ending::example;
use collspec_cli::audit::examples::Example;
use collspec_core::judge::Status;
use collspec_core::oracle::Forecast;
use collspec_core::plan::{self, Limits};
use collspec_core::scenario::{Case, SourceFile, parse};
use collspec_run::child::program::Program;
use collspec_run::child::{FAULTS, Workers};
use collspec_run::run::execute::{Again, Task, execute};
use collspec_run::run::images::ForecastImages;
use collspec_run::run::worker::Worker;
use collspec_run::run::{MemoryPlace, job};
use collspec_suite::suite::{RunOptions, Runner};
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use wrong_nccl::{Fault, FaultMode, Injection};

const PROGRAM: &str = env!("CARGO_BIN_EXE_collspec");
/// A rank that no scenario here has.
const NOBODY: usize = 60;

fn runner(fault: FaultMode) -> Runner {
    let worker = Workers::Command(PROGRAM.into());
    let variation = collspec_suite::suite::Variation { fault: fault.to_string(), ..Default::default() };
    Runner::soft(RunOptions { jobs: NonZeroUsize::new(1), variation, workers: worker, ..RunOptions::default() })
        .unwrap()
}

fn case(id: &str) -> Arc<Case> {
    let file = Arc::new(SourceFile { path: format!("{id}.toml"), text: example(id).into() });
    Arc::new(parse(&file, id).unwrap_or_else(|faults| panic!("{id}: {faults}")).remove(0))
}

/// Which faults a run of the case reached.
fn faults_reached(case: &Arc<Case>, wish: FaultMode) -> Vec<Fault> {
    let env = vec![vec![(FAULTS.to_owned(), "1".to_owned())]];
    let mut worker = Worker::start(&Program::at(Path::new(PROGRAM)), &env, &[]).unwrap();
    let plan = plan::plan(case, &Limits::default()).unwrap();
    let forecast = Forecast::new(&plan, 0).unwrap();
    let (mut job, map) = job(&plan, &forecast, MemoryPlace::Arena);
    job.variation.fault = wish.to_string();
    let limit = Duration::from_secs(60);
    let (images, again) = (&ForecastImages { forecast: &forecast, in_place: false }, Again::Same);
    let task = Task { job, images, map, repeat: 1, again, opening: limit, limit, used_before: false };
    let mut seen = Vec::new();
    execute(&mut worker, task, &mut |run| {
        seen.push(run);
        true
    })
    .unwrap();
    let bits = seen[0].reached.as_ref().unwrap();
    Fault::all().filter(|fault| bits[fault.number() / 64] >> (fault.number() % 64) & 1 == 1).collect()
}

fn assert_is_shown(id: &str, sound: &Runner) {
    let case = case(id);
    let fault = Fault::parse(id).unwrap();
    let status = |rank| {
        let verdict = runner(FaultMode::Inject(Injection { fault, rank })).run_case(&case);
        (verdict.status, verdict.reason)
    };
    let verdict = sound.run_case(&case);
    assert_eq!(verdict.status, Status::Pass, "{id}, sound: {:?}", verdict.reason);
    assert!(faults_reached(&case, FaultMode::Trace).contains(&fault), "{id} is not noted");
    let everywhere = FaultMode::Inject(Injection { fault, rank: None });
    assert!(faults_reached(&case, everywhere) == [fault], "{id} does not strike");

    assert_eq!(status(None).0, Status::Fail, "{id}");
    assert_eq!(status(Some(NOBODY)), (Status::Pass, None), "{id} on a rank that is not there");
    let ranks = 0..case.world_size.value;
    assert!(ranks.into_iter().any(|rank| status(Some(rank)).0 == Status::Fail), "{id} on one rank");
}

/// Each of them passes without its fault, fails with it, and is noted.
pub fn assert_all_are_shown(scenarios: &[Example]) {
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let sound = runner(FaultMode::Sound);
                while let Some((id, _)) = scenarios.get(next.fetch_add(1, Ordering::Relaxed)) {
                    assert_is_shown(id, &sound);
                }
            });
        }
    });
}
