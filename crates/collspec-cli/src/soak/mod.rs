//! Runs random valid programs over the steps of the language for as long as the user asks. On a sound library every accepted
//! program passes, in any order of the library's tasks, and memory and descriptors do not grow with the number of programs.
mod algorithms;
mod changes;
mod deaths;
mod graphs;
mod history;
mod kinds;
mod made_later;
mod one_sided;
mod processes;
mod program;
mod rng;
mod steps;
mod values;

pub use processes::{Course, Held};
pub use program::Program;
pub use rng::Rng;

use crate::corpus::known_bugs;
use crate::minimize::{self, Reduced, minimize};
use collspec_core::judge::{Outcome, Status, Verdict};
use collspec_core::plan;
use collspec_core::scenario::forms::FORMS;
use collspec_core::scenario::{self, AllowEnv, Case, SourceFile};
use collspec_run::signals;
use collspec_suite::suite::{Runner, parallel};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The programs to try, and the time for them.
#[derive(Clone, Debug)]
pub struct Request {
    /// The seed of the first program; every further program has the next one.
    pub first: u64,
    /// The number of programs, if that is limited.
    pub programs: Option<u64>,
    /// The time, if that is limited; programs that have begun are finished.
    pub time: Option<Duration>,
    /// Programs that run at the same time.
    pub jobs: usize,
    /// The time for making one failing program smaller.
    pub budget: Duration,
    /// The version code of the library if it is NVIDIA's, by which known bugs are told.
    pub version: Option<i32>,
}

/// The reason no further programs were tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The number of programs was reached, or the time was over.
    Complete,
    /// Enough programs have failed.
    Failures,
    /// SIGINT was received.
    Interrupted,
}

/// A program that an accepted file holds and that failed.
#[derive(Debug)]
pub struct Failed {
    /// The program's seed.
    pub seed: u64,
    /// The name of its case, with the form in which it ran.
    pub case: String,
    /// The reason it failed.
    pub reason: String,
    /// The bug of this release of NCCL that it may show, if one is known.
    pub known_bug: Option<String>,
    /// What `check` warns of in the program, which may be the reason.
    pub warnings: Vec<String>,
    /// The text of its file.
    pub text: String,
    /// The program made smaller, or the reason that this failed.
    pub reduced: Result<Box<Reduced>, String>,
}

/// Programs that could not be run.
#[derive(Debug, Default)]
pub struct NotRun {
    /// Their number.
    pub programs: u64,
    /// The reason for the first of them.
    pub first_reason: Option<String>,
}

/// The result of a soak.
#[derive(Debug)]
pub struct Report {
    /// Number of generated programs.
    pub programs: u64,
    /// Those that a file must not hold.
    pub refused: u64,
    /// Their number by the first words of the reason, in which every number is a `#`.
    pub refusals: BTreeMap<String, u64>,
    /// Number of programs that need something the machine or the library lacks.
    pub skipped: u64,
    /// Programs that could not be run.
    pub not_run: NotRun,
    /// Number of programs that passed.
    pub passed: u64,
    /// Number of programs that failed.
    pub failed: u64,
    /// The first of them.
    pub failures: Vec<Failed>,
    /// Descriptions of what grew with the number of programs.
    pub grown: Vec<String>,
    /// Resources of this process in the second quarter of the time and in the last one, if the soak was long enough.
    pub held: Option<(Held, Held)>,
    /// The same of the worker that was seen most often.
    pub worker_held: Option<(Held, Held)>,
    /// Number of programs that passed, by their features: steps by name, and more.
    pub kinds: BTreeMap<&'static str, u64>,
    /// The reason it ended.
    pub ended: Ended,
    /// Duration of the soak.
    pub time: Duration,
}

/// Largest number of programs that run before memory and time are checked again.
const BATCH: u64 = 200;
/// Number of programs in the first batch.
const FIRST_BATCH: u64 = 8;
/// A batch that takes longer is followed by a smaller one.
const BATCH_TIME: Duration = Duration::from_secs(2);
/// Failing programs after which no more are tried.
const MOST_FAILED: usize = 10;

/// The result of one program.
enum Tried {
    Refused(String),
    Skipped,
    NotRun(String),
    Passed(BTreeSet<&'static str>),
    Failed(Box<(u64, Arc<Case>, Verdict)>),
}

/// Runs programs until the request's number or time is reached. `fresh` is a runner that starts a process for every run, to
/// make failing programs smaller; `progress` receives the report after every batch.
///
/// # Errors
///
/// The first error of `progress`, which ends the soak.
pub fn soak<E>(
    request: &Request,
    runner: &Runner,
    fresh: &Runner,
    progress: &mut dyn FnMut(&Report) -> Result<(), E>,
) -> Result<Report, E> {
    let begun = Instant::now();
    let mut report = Report {
        programs: 0,
        refused: 0,
        refusals: BTreeMap::new(),
        skipped: 0,
        not_run: NotRun::default(),
        passed: 0,
        failed: 0,
        failures: Vec::new(),
        grown: Vec::new(),
        held: None,
        worker_held: None,
        kinds: BTreeMap::new(),
        ended: Ended::Complete,
        time: Duration::ZERO,
    };
    let (mut own, mut workers) = (Course::default(), BTreeMap::<u32, Course>::new());
    let (mut batch, mut unmeasured) = (FIRST_BATCH, 0);
    loop {
        let left = request.programs.map_or(batch, |all| all.saturating_sub(report.programs).min(batch));
        let batch_begun = Instant::now();
        if left == 0 || request.time.is_some_and(|time| begun.elapsed() >= time) {
            break;
        }
        let from = request.first.wrapping_add(report.programs);
        let seeds: Vec<u64> = (0..left).map(|at| from.wrapping_add(at)).collect();
        for tried in parallel::map(&seeds, request.jobs, |seed| try_program(*seed, runner)) {
            match tried {
                Tried::Refused(why) => {
                    report.refused += 1;
                    *report.refusals.entry(why).or_default() += 1;
                }
                Tried::Skipped => report.skipped += 1,
                Tried::NotRun(why) => {
                    report.not_run.programs += 1;
                    report.not_run.first_reason.get_or_insert(why);
                }
                Tried::Passed(kinds) => {
                    report.passed += 1;
                    kinds.into_iter().for_each(|kind| *report.kinds.entry(kind).or_default() += 1);
                }
                Tried::Failed(failed) => {
                    report.failed += 1;
                    if report.failures.len() < MOST_FAILED {
                        report.failures.push(describe(&failed, request, fresh));
                    }
                }
            }
        }
        report.programs += left;
        // On a real library a program may take a second, and the time and SIGINT are checked between batches.
        batch = if batch_begun.elapsed() < BATCH_TIME { (batch * 2).min(BATCH) } else { (batch / 2).max(1) };
        crate::free_memory::give_back();
        unmeasured += left;
        if unmeasured >= BATCH {
            unmeasured = 0;
            own.add(Held::by(std::process::id()).unwrap_or_default());
            for worker in runner.idle_workers() {
                if let Some(held) = Held::by(worker) {
                    workers.entry(worker).or_default().add(held);
                }
            }
        }
        report.time = begun.elapsed();
        progress(&report)?;
        if report.failures.len() >= MOST_FAILED {
            report.ended = Ended::Failures;
            break;
        }
        if signals::is_interrupted() {
            report.ended = Ended::Interrupted;
            break;
        }
    }
    report.grown.extend(own.growth().map(|words| format!("this process: {words}")));
    report.grown.extend(workers.iter().filter_map(|(pid, course)| Some(format!("worker {pid}: {}", course.growth()?))));
    report.held = own.halves();
    report.worker_held = workers.values().max_by_key(|course| course.samples()).and_then(Course::halves);
    report.time = begun.elapsed();
    Ok(report)
}

fn try_program(seed: u64, runner: &Runner) -> Tried {
    let file = file_of(&Program::generate(seed));
    let cases = match scenario::parse_with(&file, &stem(seed), &AllowEnv::default()) {
        Ok(cases) => cases,
        Err(rejected) => {
            return Tried::Refused(without_numbers(rejected.diagnostics.first().map_or("", |d| d.message.as_str())));
        }
    };
    let Some(case) = cases.first() else { return Tried::Refused("it has no case".to_owned()) };
    let case = Arc::new(in_a_form(case, seed));
    let verdict = parallel::run_catching_panics(runner, &case);
    match (verdict.status, verdict.outcome) {
        (Status::Fail, Some(Outcome::Refused)) => {
            Tried::Refused(without_numbers(verdict.reason.as_deref().unwrap_or("")))
        }
        (Status::Fail, _) => Tried::Failed(Box::new((seed, case, verdict))),
        (Status::Skip, _) => Tried::Skipped,
        (Status::Error, _) => Tried::NotRun(verdict.reason.unwrap_or_default()),
        (Status::Pass, _) => Tried::Passed(kinds::kinds(&case)),
    }
}

/// The first words of a refusal with `#` for every number, so that equal reasons count as one.
fn without_numbers(reason: &str) -> String {
    const MOST: usize = 100;
    let mut words = String::new();
    for c in reason.chars().take(MOST) {
        match c {
            c if !c.is_ascii_digit() => words.push(c),
            _ if words.ends_with('#') => {}
            _ => words.push('#'),
        }
    }
    words
}

/// The case, or every other time one of its forms, if it can take that one.
fn in_a_form(case: &Case, seed: u64) -> Case {
    let mut rng = Rng::new(seed ^ 0xf0);
    if rng.percent(50) {
        return case.clone();
    }
    rng.pick(FORMS).apply(case).unwrap_or_else(|_| case.clone())
}

fn stem(seed: u64) -> String {
    format!("soak_{seed}")
}

fn file_of(program: &Program) -> Arc<SourceFile> {
    Arc::new(SourceFile { path: format!("{}.toml", stem(program.seed)), text: program.to_string().into() })
}

fn describe((seed, case, verdict): &(u64, Arc<Case>, Verdict), request: &Request, fresh: &Runner) -> Failed {
    let file = file_of(&Program::generate(*seed));
    let text = file.text.to_string();
    let smaller = minimize::Request {
        file,
        stem: stem(*seed),
        case: Some(verdict.case.clone()),
        allow_env: AllowEnv::default(),
        budget: request.budget,
        repeats: 20,
    };
    let reduced = minimize(&smaller, fresh, &mut |_, _| Ok(())).map(Box::new).map_err(|error| error.to_string());
    let reason = verdict.reason.clone().unwrap_or_else(|| "it failed".to_owned());
    let known_bug = request.version.and_then(|version| known_bugs::note(case, verdict, version));
    let warnings = plan::plan(case, fresh.limits()).map_or_else(|_| Vec::new(), |plan| plan.warnings);
    let warnings = warnings.into_iter().map(|warning| warning.message).collect();
    Failed { known_bug, warnings, seed: *seed, case: verdict.case.clone(), reason, text, reduced }
}
