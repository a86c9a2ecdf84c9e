//! The runs: every case as the library is, and then each mutant with the cases that execute its instruction.
use super::candidates::Candidates;
use super::choose::choose;
use super::outcome::{Event, Fate, Report, Request, Tried};
use collspec_core::job::{ExecutedFunction, Kernels, Mutant};
use collspec_core::judge::{Outcome, Status, Verdict, judge_pass_or_fail};
use collspec_core::scenario::{Case, ExpectedOutcome};
use collspec_run::run::Error;
use collspec_suite::suite::parallel::stream;
use collspec_suite::suite::{Experiment, Prepared, Ready, Runner, Variation, with_causes};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

/// The seed of the order of warps, if none was asked for: the same in all runs, so that only the instruction differs.
const SCHEDULE: u64 = 0;
/// A run with a mutant may take this many times as long as the one without,
const MAX_SLOWDOWN: f64 = 20.0;
/// but at least this many seconds.
const MIN_LIMIT_SECONDS: f64 = 3.0;

/// A case that passes as the library is.
struct Sound {
    case: Arc<Case>,
    seconds: f64,
    /// What it is expected to cost. Times would order the cases differently in every audit.
    work: u64,
}

/// A case that passes as the library is, and what it executed.
type Passed = (Sound, Vec<ExecutedFunction>);

/// A case that cannot tell anything about mutants.
enum Useless {
    Skipped(String),
    Failed(Box<Verdict>),
}

/// Runs all cases, and then mutants.
///
/// # Errors
///
/// A worker cannot be started, or `tell` fails.
pub fn audit_mutants(
    cases: &[Arc<Case>],
    request: &Request,
    runner: &Runner,
    interrupted: &(dyn Fn() -> bool + Sync),
    tell: &mut dyn FnMut(Event<'_>) -> io::Result<()>,
) -> anyhow::Result<Report> {
    let mut report = Report {
        cases: 0,
        skipped: Vec::new(),
        failed: Vec::new(),
        instructions: 0,
        candidates: 0,
        mutants: Vec::new(),
        most_cases: request.most_cases,
        runs: 0,
    };
    tell(Event::Begun { runs: cases.len(), mutants: false })?;
    let (sound, candidates) = run_sound(cases, request.jobs, runner, interrupted, &mut report, tell)?;
    (report.instructions, report.candidates) = candidates.counts();
    if !report.failed.is_empty() {
        return Ok(report);
    }
    let mutants = match request.only.as_slice() {
        [] => choose(&candidates, request.mutants, request.seed),
        only => {
            let missing = only.iter().find(|mutant| candidates.find(**mutant).is_none() && !interrupted());
            if let Some(mutant) = missing {
                anyhow::bail!("no case executes the instruction of mutant {mutant}, or it does not allow this change");
            }
            only.to_vec()
        }
    };
    tell(Event::Begun { runs: mutants.len(), mutants: true })?;
    let mut tried: Vec<(usize, Tried)> = Vec::new();
    stream(
        &mutants,
        request.jobs,
        |number, mutant, send| {
            if !interrupted() {
                send((number, try_mutant(*mutant, &candidates, &sound, request.most_cases, runner)));
            }
        },
        |(number, result): (usize, Option<Tried>)| -> anyhow::Result<()> {
            let Some(mutant) = result else { return Ok(()) };
            tell(Event::Done(&mutant.instruction.function))?;
            tried.push((number, mutant));
            Ok(())
        },
    )?;
    tried.sort_by_key(|(number, _)| *number);
    report.mutants = tried.into_iter().map(|(_, tried)| tried).collect();
    report.runs = report.mutants.iter().map(|tried| tried.ran.len()).sum();
    Ok(report)
}

/// Runs every case as the library is. Gives those that pass, and what they executed; the others are in the report.
fn run_sound(
    cases: &[Arc<Case>],
    jobs: usize,
    runner: &Runner,
    interrupted: &(dyn Fn() -> bool + Sync),
    report: &mut Report,
    tell: &mut dyn FnMut(Event<'_>) -> io::Result<()>,
) -> anyhow::Result<(BTreeMap<u32, Sound>, Candidates)> {
    let (mut sound, mut candidates) = (BTreeMap::new(), Candidates::default());
    let mut useless = BTreeMap::new();
    stream(
        cases,
        jobs,
        |number, case, send| {
            if !interrupted() {
                send((number, run_once(case, runner)));
            }
        },
        |(number, run): (usize, Result<_, String>)| -> anyhow::Result<()> {
            let case = cases[number].clone();
            tell(Event::Done(&case.name))?;
            match run.map_err(anyhow::Error::msg)? {
                Ok((passed, executed)) => {
                    candidates.add(number as u32, executed);
                    sound.insert(number as u32, passed);
                }
                Err(why) => {
                    useless.insert(number, (case, why));
                }
            }
            Ok(())
        },
    )?;
    for (case, why) in useless.into_values() {
        match why {
            Useless::Skipped(reason) => report.skipped.push((case, reason)),
            Useless::Failed(verdict) => report.failed.push((case, verdict)),
        }
    }
    report.cases = sound.len();
    Ok((sound, candidates))
}

/// A case that is run once. Those that must fail are left out: a mutant may well make them fail in the way that they expect.
fn prepared(case: &Arc<Case>, runner: &Runner) -> Result<Result<Box<Ready>, Useless>, String> {
    let skipped = |reason: &str| Ok(Err(Useless::Skipped(reason.to_owned())));
    if case.outcome.as_ref().is_some_and(|outcome| outcome.value.iter().any(|end| *end != ExpectedOutcome::Ok)) {
        return skipped("its file expects an error, a hang or a crash");
    }
    let mut once = (**case).clone();
    once.repeat = 1;
    Ok(match runner.prepare(&Arc::new(once)).map_err(|error| with_causes(&error))? {
        Prepared::Ready(ready) => Ok(ready),
        Prepared::Settled(verdict) if verdict.status.is_bad() => Err(Useless::Failed(verdict)),
        Prepared::Settled(verdict) if verdict.status == Status::Pass => return skipped("its verdict needs no run"),
        Prepared::Settled(verdict) => Err(Useless::Skipped(verdict.reason.unwrap_or_default())),
    })
}

fn run_once(case: &Arc<Case>, runner: &Runner) -> Result<Result<Passed, Useless>, String> {
    let ready = match prepared(case, runner)? {
        Ok(ready) => ready,
        Err(useless) => return Ok(Err(useless)),
    };
    // One that fails only after another case would make each mutant seem noticed.
    let (verdict, seen) = match runner.run_twice(&ready, &experiment(Kernels::Noted, None, runner)) {
        Err(error @ Error::TooMuchSeen { .. }) => return Ok(Err(Useless::Skipped(error.to_string()))),
        seen => seen.map_err(|error| with_causes(&error))?,
    };
    Ok(match verdict.status {
        Status::Pass => {
            let ranks = seen.into_iter().flat_map(|run| run.ranks);
            let executed = ranks.filter_map(|rank| rank.machine).flat_map(|machine| machine.executed).collect();
            let work = ready.plan.cost.work;
            Ok((Sound { case: case.clone(), seconds: verdict.seconds, work }, executed))
        }
        Status::Skip => Err(Useless::Skipped(verdict.reason.unwrap_or_default())),
        Status::Fail | Status::Error => Err(Useless::Failed(Box::new(verdict))),
    })
}

fn experiment(kernels: Kernels, limit: Option<f64>, runner: &Runner) -> Experiment<'static> {
    let usual = runner.variation();
    let variation = Variation { seed: usual.seed.or(Some(SCHEDULE)), kernels: Some(kernels), ..usual };
    Experiment { variation, limit, judge: &judge_pass_or_fail }
}

/// Runs the cases that execute the changed instruction, the cheapest first. `None` if no case allows this mutant.
fn try_mutant(
    mutant: Mutant,
    candidates: &Candidates,
    sound: &BTreeMap<u32, Sound>,
    most_cases: usize,
    runner: &Runner,
) -> Option<Tried> {
    let (candidate, words) = candidates.find(mutant)?;
    let mut executing: Vec<(u32, &Sound)> =
        candidate.cases.iter().filter_map(|number| Some((*number, sound.get(number)?))).collect();
    executing.sort_by_key(|(number, sound)| (sound.work, *number));
    let mut tried = Tried {
        mutant,
        instruction: candidate.instruction.clone(),
        words: words.to_owned(),
        ran: Vec::new(),
        executed_by: executing.len(),
        fate: Fate::Survived,
    };
    for (_, sound) in executing.into_iter().take(most_cases) {
        tried.ran.push(sound.case.clone());
        match fate(mutant, sound, runner) {
            Ok(Fate::Survived) => {}
            Ok(noticed) => {
                tried.fate = noticed;
                break;
            }
            Err(why) => tried.fate = Fate::Undecided(why),
        }
    }
    Some(tried)
}

/// What becomes of a mutant in a run of a case; or the reason the case could not be run.
fn fate(mutant: Mutant, sound: &Sound, runner: &Runner) -> Result<Fate, String> {
    let limit = (MAX_SLOWDOWN * sound.seconds).max(MIN_LIMIT_SECONDS);
    let ready = match prepared(&sound.case, runner)? {
        Ok(ready) => ready,
        Err(Useless::Skipped(why)) => return Err(why),
        Err(Useless::Failed(verdict)) => return Err(verdict.reason.unwrap_or_default()),
    };
    let experiment = experiment(Kernels::Mutant(mutant), Some(limit), runner);
    let (verdict, _) = runner.run_once(&ready, &experiment).map_err(|error| with_causes(&error))?;
    let outcome = outcome(&verdict);
    let reason = verdict.reason.unwrap_or_default();
    match verdict.status {
        Status::Pass => Ok(Fate::Survived),
        Status::Fail => Ok(Fate::Noticed { outcome, reason }),
        Status::Skip | Status::Error => Err(reason),
    }
}

fn outcome(verdict: &Verdict) -> &'static str {
    match verdict.outcome {
        Some(Outcome::Error) => "error",
        Some(Outcome::Hang) => "hang",
        Some(Outcome::Crash) => "crash",
        _ => "wrong",
    }
}
