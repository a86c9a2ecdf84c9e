//! `collspec explore`.
use super::exit::Exit;
use super::explore_args::ExploreArgs;
use super::{backend, run, terminal};
use crate::compare::words::cases;
use crate::explore::{Explored, Found, Request, explore};
use collspec_core::printable::{one_line, thousands};
use collspec_run::run::Backend;
use collspec_run::signals;
use collspec_suite::report::{InheritedVariables, RerunCommand};
use collspec_suite::suite::Variation;
use collspec_suite::suite::options::cores;
use collspec_suite::suite::{RunOptions, files_in_words};
use std::collections::BTreeMap;
use std::io::Write;
use std::num::NonZeroU64;
use std::time::{Duration, Instant};

/// The number of schedules of each case if neither it nor the time is given.
const USUAL: u64 = 100;
/// The time between two lines of progress.
const PROGRESS: Duration = Duration::from_secs(10);

pub fn explore_schedules(args: &ExploreArgs) -> anyhow::Result<Exit> {
    run::warn_of_variables()?;
    let options = args.options();
    let chosen = match backend::resolve(&options)? {
        Ok(chosen) => chosen,
        Err(exit) => return Ok(exit),
    };
    anyhow::ensure!(
        chosen.backend == Backend::Soft || chosen.backend.has_software_gpus(),
        "GPUs decide the order of their warps themselves: explore needs software GPUs (--driver software) or the software library (--backend soft)"
    );
    backend::check_software_gpus(&options, &chosen)?;
    let mut suite = run::open(&args.selection)?;
    if suite.invalid_files.is_empty() {
        run::select(&mut suite, &args.selection, run::NAMES_BY_RUN)?;
        run::keep_quick(&mut suite, &args.quick, &args.selection, chosen.backend.has_software_gpus())?;
        suite.plan(cores());
    }
    run::show_diagnostics(&suite)?;
    let invalid = suite.invalid_files.len();
    anyhow::ensure!(invalid == 0, "errors in {}", files_in_words(invalid));
    writeln!(terminal::err(), "{}", one_line(&chosen.banner(&InheritedVariables::here())))?;

    let usual = if args.seconds.is_none() { Some(USUAL) } else { None };
    let request = Request {
        first: options.variation.seed.unwrap_or_default(),
        schedules: args.schedules.map(NonZeroU64::get).or(usual),
        time: args.seconds.map(Duration::from_secs_f64),
        confirmations: args.confirmations,
    };
    let repeats = options.clone();
    let runner = suite.runner(options, chosen)?;
    signals::catch_interrupt();
    let (mut told, mut failed) = (Instant::now(), 0);
    let mut out = terminal::out();
    let mut found = |found: Found| {
        failed += 1;
        describe(&mut out, &found, &repeats)
    };
    let mut progress = |explored: &Explored| {
        if told.elapsed() >= PROGRESS {
            told = Instant::now();
            writeln!(terminal::err(), "collspec: {} schedules", thousands(explored.schedules))?;
        }
        Ok(())
    };
    let explored = explore(&suite.cases, &request, &runner, &signals::is_interrupted, &mut found, &mut progress)?;
    let mut out = terminal::out();
    let mut skipped: BTreeMap<&str, usize> = BTreeMap::new();
    for verdict in &explored.skipped {
        *skipped.entry(verdict.reason.as_deref().unwrap_or_default()).or_default() += 1;
    }
    for (reason, cases) in &skipped {
        writeln!(out, "skipped {cases}: {}", one_line(reason))?;
    }
    writeln!(
        out,
        "{} schedules of {}, at least {} of each that did not fail: {failed} failed, {} skipped",
        thousands(explored.schedules),
        cases(suite.cases.len() - explored.skipped.len()),
        thousands(explored.of_each),
        explored.skipped.len()
    )?;
    out.flush()?;
    Ok(if failed > 0 {
        Exit::SOME_FAILED
    } else if signals::is_interrupted() {
        Exit::INTERRUPTED
    } else {
        Exit::ALL_PASSED
    })
}

fn describe(out: &mut impl Write, found: &Found, options: &RunOptions) -> anyhow::Result<()> {
    let Found { case, schedules, verdict, again: (failed, runs) } = found;
    let (seed, last) = (schedules.start(), schedules.end());
    let name = one_line(&case.name);
    if seed == last {
        writeln!(out, "FAIL {name} on schedule {seed}")?;
    } else {
        writeln!(out, "FAIL {name}: schedules {seed} to {last} give different bits")?;
    }
    writeln!(out, "  {}", one_line(verdict.reason.as_deref().unwrap_or("failed")))?;
    for note in &verdict.notes {
        note.lines().try_for_each(|line| writeln!(out, "  {}", one_line(line)))?;
    }
    if *runs > 0 {
        writeln!(out, "  {failed} of {runs} more runs on this schedule failed")?;
    }
    let repeats =
        RunOptions { variation: Variation { seed: Some(*seed), ..options.variation.clone() }, ..options.clone() }
            .to_repeat();
    let rerun = RerunCommand::command_line(repeats, InheritedVariables::here());
    writeln!(out, "  run it again: {}\n", one_line(&rerun.command(case)))?;
    Ok(out.flush()?)
}
