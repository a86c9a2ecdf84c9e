//! `collspec explore` of a program.
use super::exit::Exit;
use super::explore_args::ExploreArgs;
use super::judged::{JudgedRun, SCHEDULE, Series};
use super::{run, terminal};
use crate::compare::schedule;
use crate::programs::{Calls, Changes, changes};
use collspec_core::printable::{one_line, thousands};
use collspec_run::signals;
use collspec_suite::report::shell::quote_if_needed;
use collspec_suite::suite::{BackendChoice, Variation};
use std::io::Write;
use std::num::NonZeroU64;
use std::time::Instant;

/// The number of schedules if neither it nor the time is given: a program takes longer than a case.
const USUAL: u64 = 10;

/// Runs the program on one schedule after the other, and judges each run.
pub fn explore_program(args: &ExploreArgs) -> anyhow::Result<Exit> {
    run::warn_of_variables()?;
    let options = args.options();
    anyhow::ensure!(
        args.backend.backend != BackendChoice::Soft
            && args.backend.library.driver.as_deref().is_none_or(|driver| driver == "software"),
        "a program runs on software GPUs: explore takes it with `--driver software` alone"
    );
    let mut series = Series::new(&args.program, Some("software"), options.backend.machine.as_deref(), options.timeout)?;
    let nccl = args.backend.library.nccl.as_deref();
    let mut run_on = |schedule: Option<&str>| {
        series.run(nccl, |_| schedule.map(|text| (SCHEDULE.to_owned(), text.into())).into_iter().collect())
    };
    writeln!(terminal::err(), "collspec: the program as it is")?;
    let usual = run_on(None)?;
    if signals::is_interrupted() {
        return Ok(Exit::INTERRUPTED);
    }
    let mut out = terminal::out();
    if let Some(wrong) = wrong(&usual, None) {
        tell(&mut out, "without a schedule", &wrong, &usual)?;
        writeln!(out, "no schedule was tried: the program fails without one")?;
        return Ok(Exit::SOME_FAILED);
    }
    anyhow::ensure!(usual.tally.judged > 0, "no call was judged: {}", usual.tally.lines().join("; "));
    let begun = Instant::now();
    let first = options.variation.seed.unwrap_or_default();
    let most = args.schedules.map(NonZeroU64::get).unwrap_or(if args.seconds.is_some() { u64::MAX } else { USUAL });
    let (mut tried, mut failed) = (0, 0);
    for seed in (first..=u64::MAX).take(usize::try_from(most).unwrap_or(usize::MAX)) {
        let is_late = tried > 0 && args.seconds.is_some_and(|seconds| begun.elapsed().as_secs_f64() >= seconds);
        if is_late || signals::is_interrupted() {
            break;
        }
        writeln!(terminal::err(), "collspec: schedule {seed}")?;
        let text = schedule(seed, &options.variation);
        let found = run_on(Some(&text))?;
        if signals::is_interrupted() {
            break;
        }
        tried += 1;
        let Some(wrong) = self::wrong(&found, Some(&usual.calls)) else { continue };
        failed += 1;
        tell(&mut out, &format!("on schedule {seed}"), &wrong, &found)?;
        let mut again = 0;
        let mut runs = 0;
        while runs < args.confirmations {
            let confirmation = run_on(Some(&text))?;
            if signals::is_interrupted() {
                break;
            }
            runs += 1;
            again += u32::from(self::wrong(&confirmation, Some(&usual.calls)).is_some());
        }
        writeln!(out, "  {again} of {runs} more runs on this schedule failed")?;
        writeln!(out, "  run it again: {}", one_line(&again_with(args, seed, &options.variation)))?;
        out.flush()?;
    }
    writeln!(
        out,
        "{} schedules, {} calls judged on the first run: {failed} failed",
        thousands(tried),
        thousands(usual.tally.judged)
    )?;
    out.flush()?;
    Ok(match failed {
        0 if signals::is_interrupted() => Exit::INTERRUPTED,
        0 => Exit::ALL_PASSED,
        _ => Exit::SOME_FAILED,
    })
}

/// The command that tries this schedule alone.
fn again_with(args: &ExploreArgs, seed: u64, variation: &Variation) -> String {
    let mut words = vec!["collspec explore --schedules 1 --seed".to_owned(), seed.to_string()];
    words.extend(variation.delay_stores.map(|unit| format!("--delay-stores {}", unit.name())));
    words.extend(variation.early_loads.map(|loads| format!("--early-loads {}", loads.name())));
    words.extend(args.backend.library.nccl.as_ref().map(|nccl| format!("--nccl {}", quote_if_needed(nccl))));
    words.push("--".to_owned());
    words.extend(args.program.iter().map(|word| quote_if_needed(&word.to_string_lossy())));
    words.join(" ")
}

/// What is wrong with a run, beside the one without a schedule.
fn wrong(run: &JudgedRun, usual: Option<&Calls>) -> Option<String> {
    let JudgedRun { ended, tally, calls, .. } = run;
    if !ended.is_good() {
        return Some(ended.to_string());
    }
    if tally.wrong > 0 {
        return Some(format!("{} elements are wrong", thousands(tally.wrong)));
    }
    let usual = usual?;
    if let (None, Some(open)) = (usual.first_open(), calls.first_open()) {
        return Some(format!("a call had not ended when the program did: {open}"));
    }
    let Changes { only: [missing, _], other_bits, .. } = changes([usual, calls]);
    if let Some(first) = missing.first {
        return Some(format!("{} calls less than without a schedule, the first: {first}", thousands(missing.calls)));
    }
    Some(format!("other bits than without a schedule, in {} calls, the first: {}", other_bits.calls, other_bits.first?))
}

fn tell(out: &mut impl Write, when: &str, wrong: &str, run: &JudgedRun) -> anyhow::Result<()> {
    writeln!(out, "FAIL {when}: {}", one_line(wrong))?;
    if let Some(open) = run.calls.first_open() {
        writeln!(out, "  the first call that had not ended: {}", one_line(&open))?;
    }
    for line in run.tally.lines() {
        writeln!(out, "  {line}")?;
    }
    Ok(())
}
