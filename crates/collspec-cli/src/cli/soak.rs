//! `collspec soak`.
use super::exit::Exit;
use super::soak_args::SoakArgs;
use super::{backend, output, run, terminal};
use crate::soak::{Ended, Failed, Held, Report, Request, soak};
use anyhow::Context;
use collspec_core::printable::{one_line, thousands};
use collspec_run::run::PoolLimits;
use collspec_run::signals;
use collspec_suite::report::InheritedVariables;
use collspec_suite::suite::Runner;
use std::cmp::Reverse;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Number of programs that are tried if neither it nor the time is given.
const USUAL: u64 = 500;
/// The time for making one failing program smaller.
const BUDGET: Duration = Duration::from_secs(30);
/// Limit on the idle workers that are kept: one for every set of variables that programs need, and job.
const WORKERS: usize = 16;
/// Reasons for refusals that are named.
const MOST_REFUSALS: usize = 5;
/// The time between two lines of progress.
const PROGRESS: Duration = Duration::from_secs(10);

pub fn soak_library(args: &SoakArgs) -> anyhow::Result<Exit> {
    run::warn_of_variables()?;
    let options = args.options();
    let chosen = match backend::resolve(&options)? {
        Ok(chosen) => chosen,
        Err(exit) => return Ok(exit),
    };
    backend::check_software_gpus(&options, &chosen)?;
    let seed = options.variation.seed.unwrap_or_default();
    let usual = if args.seconds.is_none() { Some(USUAL) } else { None };
    let request = Request {
        first: seed,
        programs: args.programs.map(u64::from).or(usual),
        time: args.seconds.map(Duration::from_secs_f64),
        jobs: options.jobs_on(&chosen),
        budget: BUDGET,
        version: chosen.nvidia_version(),
    };
    writeln!(terminal::err(), "{}", one_line(&chosen.banner(&InheritedVariables::here())))?;
    let fresh = Runner::new(options.clone(), chosen.clone())?.with_pool_limits(PoolLimits::of(0));
    let runner = Runner::new(options, chosen)?.with_pool_limits(PoolLimits::of(WORKERS));
    signals::catch_interrupt();
    let mut told = Instant::now();
    let mut described = 0;
    let mut out = terminal::out();
    let report = soak(&request, &runner, &fresh, &mut |report| {
        for failed in &report.failures[described..] {
            describe(&mut out, failed, &args.output)?;
            out.flush()?;
        }
        described = report.failures.len();
        if told.elapsed() >= PROGRESS {
            told = Instant::now();
            writeln!(terminal::err(), "collspec: {}", counts(report))?;
        }
        anyhow::Ok(())
    })?;
    summary(&mut out, &report, seed)?;
    out.flush()?;
    Ok(if report.failed > 0 || !report.grown.is_empty() {
        Exit::SOME_FAILED
    } else if report.ended == Ended::Interrupted {
        Exit::INTERRUPTED
    } else if report.not_run.programs > 0 {
        Exit::WRONG_INPUT
    } else {
        Exit::ALL_PASSED
    })
}

fn counts(report: &Report) -> String {
    let Report { programs, refused, skipped, not_run, passed, failed, time, .. } = report;
    let counted = |count: u64, what| if count > 0 { format!(", {} {what}", thousands(count)) } else { String::new() };
    let (skips, not_run) = (counted(*skipped, "skipped"), counted(not_run.programs, "not run"));
    format!(
        "{} programs in {:.0} s: {} passed, {} refused{skips}{not_run}, {} failed",
        thousands(*programs),
        time.as_secs_f64(),
        thousands(*passed),
        thousands(*refused),
        thousands(*failed)
    )
}

/// A program that failed, and the files that it was written to.
fn describe(to: &mut dyn Write, failed: &Failed, folder: &Path) -> anyhow::Result<()> {
    writeln!(to, "FAIL  seed {}: {}", failed.seed, one_line(&failed.case))?;
    writeln!(to, "      {}", one_line(&failed.reason))?;
    if let Some(bug) = &failed.known_bug {
        writeln!(to, "      {}", one_line(bug))?;
    }
    for warning in &failed.warnings {
        writeln!(to, "      check warns: {}", one_line(warning))?;
    }
    let whole = write(folder, &format!("{}.toml", failed.seed), &failed.text)?;
    writeln!(to, "      the program is in {}", whole.display())?;
    match &failed.reduced {
        Ok(reduced) => {
            let smaller = write(folder, &format!("{}_smaller.toml", failed.seed), &reduced.text)?;
            writeln!(to, "      and with {} in {}", reduced.size.1, smaller.display())?;
        }
        Err(why) => writeln!(to, "      it could not be made smaller: {}", one_line(why))?,
    }
    Ok(())
}

fn write(folder: &Path, name: &str, text: &str) -> anyhow::Result<PathBuf> {
    let path = folder.join(name);
    std::fs::create_dir_all(folder).with_context(|| format!("cannot write {}", path.display()))?;
    // The name is not the user's choice, so it stands for no file elsewhere.
    anyhow::ensure!(!path.is_symlink(), "cannot write {}: it is a link", path.display());
    output::replace(&path, text.as_bytes())?;
    Ok(path)
}

fn summary(to: &mut dyn Write, report: &Report, seed: u64) -> io::Result<()> {
    writeln!(to, "{}", counts(report))?;
    if report.passed > 0 {
        let share =
            |(kind, number): (&&str, &u64)| format!("{kind} {:.1}%", 100.0 * *number as f64 / report.passed as f64);
        let shares: Vec<String> = report.kinds.iter().map(share).collect();
        writeln!(to, "programs that passed had: {}", shares.join(", "))?;
    }
    let mut refusals: Vec<(&String, &u64)> = report.refusals.iter().collect();
    refusals.sort_by_key(|(_, number)| Reverse(**number));
    for (why, number) in refusals.into_iter().take(MOST_REFUSALS) {
        writeln!(to, "refused {}: {}", times(*number), one_line(why))?;
    }
    if let Some(why) = &report.not_run.first_reason {
        writeln!(to, "not run, among others: {}", one_line(why))?;
    }
    let held = [("this process", report.held), ("a worker", report.worker_held)];
    for (who, (before, after)) in held.into_iter().filter_map(|(who, held)| Some((who, held?))) {
        writeln!(to, "{who} held {} in the second quarter and {} in the last", in_words(before), in_words(after))?;
    }
    for grown in &report.grown {
        writeln!(to, "GROWTH  {grown}")?;
    }
    match report.ended {
        Ended::Complete => Ok(()),
        Ended::Failures => writeln!(to, "ended early, because enough programs have failed"),
        Ended::Interrupted => {
            let next = seed.wrapping_add(report.programs);
            writeln!(to, "ended early by SIGINT; `--seed {next}` goes on from here")
        }
    }
}

fn times(number: u64) -> String {
    if number == 1 { "once".to_owned() } else { format!("{} times", thousands(number)) }
}

fn in_words(held: Held) -> String {
    format!("{:.1} MiB of memory and {} descriptors", held.memory as f64 / f64::from(1 << 20), held.descriptors)
}
