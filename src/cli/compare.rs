//! `collspec compare`.
use super::args::{Args, Command};
use super::bench::{SOFT_RANKS, plan};
use super::compare_args::CompareArgs;
use super::exit::Exit;
use super::progress::ProgressDisplay;
use super::{output, reports, run, terminal};
use crate::bench::{Plan, Row};
use crate::compare::accepted::{Accepted, AcceptedError, to_accept};
use crate::compare::report::{Context as ReportedComparison, write};
use crate::compare::speed::measure;
use crate::compare::{
    Comparison, FirstFailures, GateVerdict, Observer, Repetition, Side, SideError, compare, measure_footprints,
};
use crate::printable::{one_line, printable_lines};
use crate::report::{Event, GithubPlaces};
use crate::suite::options::cores;
use crate::suite::{CaseSet, ChosenBackend, Error};
use anyhow::Context;
use clap::Parser;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

pub fn compare_libraries(args: &CompareArgs) -> anyhow::Result<Exit> {
    run::warn_of_variables()?;
    // A mistake in this file is told before anything runs.
    let accepted = args.allow.as_deref().map(Accepted::read).transpose()?;
    if let Some(path) = args.write_allow.as_deref().filter(|path| path.exists()) {
        anyhow::bail!("--write-allow starts a new file, and {} exists", path.display());
    }
    output::refuse_same_file(&reports::files(&args.report.0))?;
    let options = args.options();
    let debug_builds = args.allow_debug_build;
    let sides = (args.base.resolve(&options, debug_builds), args.candidate.resolve(&options, debug_builds));
    let (mut base, mut candidate) = match sides {
        (Ok(base), Ok(candidate)) => (base, candidate),
        (Err(error), _) | (_, Err(error)) => return missing_side(error),
    };
    let bench = args.bench.as_deref().map(|text| timed(text, &base, &candidate)).transpose()?;
    let cases = cases(args, &base, &candidate)?;
    let mut progress = Progress(ProgressDisplay::new());
    if !args.no_footprint {
        let measured = measure_footprints(&mut base, &mut candidate, &mut progress);
        measured.inspect_err(|_| progress.0.end())?;
    }
    let repetition = Repetition {
        runs: args.runs.get(),
        repeats: args.repeats,
        starts: args.starts,
        time: Duration::from_secs_f64(args.repeat_seconds),
    };
    let (mut comparison, failures) =
        compare((&args.base.text, &base), (&args.candidate.text, &candidate), &cases, &repetition, &mut progress)?;
    if let Some((plan, rows)) = &bench {
        progress.part(&format!("speed: {} rows, {} samples of each side and of the control", rows.len(), plan.samples));
        progress.0.begin(rows.len().saturating_mul(plan.samples).saturating_mul(3), None);
        comparison.speed = measure(&base, &candidate, plan, rows, &mut |row| progress.0.step(&row.to_string()))?;
    }
    progress.0.end();
    let stale = accepted.and_then(|accepted| accepted.apply(&mut comparison).err());
    let verdict = comparison.verdict(args.at_least.get(), args.bits);
    report(args, &comparison, &failures, &verdict)?;
    if let Some(path) = &args.write_allow {
        write_new(path, &to_accept(&comparison))?;
    }
    if let Some(AcceptedError::Entries(stale)) = stale {
        anyhow::bail!("{}", stale.join("\n"));
    }
    Ok(match verdict {
        GateVerdict::NothingWorse => Exit::ALL_PASSED,
        GateVerdict::Worse { .. } => Exit::SOME_FAILED,
        GateVerdict::NoVerdict { .. } => Exit::NO_VERDICT,
    })
}

/// Samples of each side if `--bench` does not say how many.
const SAMPLES: u32 = 10;

/// What `--bench` asks for.
fn timed(text: &str, base: &Side, candidate: &Side) -> anyhow::Result<(Plan, Vec<Row>)> {
    let words = shlex::split(text).context("--bench: a quote is not closed")?;
    let words = ["collspec", "bench"].map(str::to_owned).into_iter().chain(words);
    let parsed = Args::try_parse_from(words).map_err(|error| anyhow::anyhow!("--bench: {}", error.render()))?;
    let Command::Bench(mut bench) = parsed.command else {
        anyhow::bail!("--bench: expected what `collspec bench` takes")
    };
    let (Side::Live { chosen: ours, .. }, Side::Live { chosen: theirs, .. }) = (base, candidate) else {
        anyhow::bail!("--bench needs two libraries: a recorded run cannot be timed again")
    };
    let elsewhere = bench.library.nccl.is_some() || bench.library.driver.is_some() || bench.output.is_some();
    anyhow::ensure!(
        !elsewhere && bench.plot.is_none() && bench.json.is_none(),
        "--bench says what is measured; libraries and reports are those of `collspec compare`"
    );
    bench.samples.get_or_insert(SAMPLES);
    let devices =
        |chosen: &ChosenBackend| chosen.machine.as_ref().map_or(SOFT_RANKS, |machine| machine.gpus.devices.len());
    let asked = bench.request()?;
    plan(&bench, asked, devices(ours).min(devices(theirs)))
}

fn missing_side(error: SideError) -> anyhow::Result<Exit> {
    let SideError::Missing(missing) = &error else { return Err(error.into()) };
    writeln!(terminal::err(), "collspec: {}", printable_lines(&missing.to_string()))?;
    Ok(Exit::BACKEND_MISSING)
}

/// The cases to run. Two recordings need none.
fn cases(args: &CompareArgs, base: &Side, candidate: &Side) -> anyhow::Result<CaseSet> {
    if !base.is_live() && !candidate.is_live() {
        return Ok(CaseSet::default());
    }
    let mut suite = run::open(&args.selection)?;
    let outputs = reports::files(&args.report.0);
    outputs.iter().try_for_each(|path| output::refuse_scenario_as_output(Some(path), &args.selection))?;
    if suite.invalid_files.is_empty() {
        run::select(&mut suite, &args.selection)?;
        suite.plan(cores());
    }
    run::show_diagnostics(&suite)?;
    if !suite.invalid_files.is_empty() {
        return Err(Error::InvalidFiles(suite.invalid_files.len()).into());
    }
    Ok(suite)
}

fn report(
    args: &CompareArgs,
    comparison: &Comparison,
    failures: &FirstFailures,
    verdict: &GateVerdict,
) -> anyhow::Result<()> {
    let github = GithubPlaces::here();
    let context = ReportedComparison { comparison, verdict, failures, every_row: args.verbose, github };
    for request in reports::requests(&args.report) {
        let (mut to, styles) = reports::open(&request)?;
        write(request.format, &mut to, styles, &context)?;
    }
    Ok(())
}

fn write_new(path: &Path, text: &str) -> anyhow::Result<()> {
    let written = OpenOptions::new().write(true).create_new(true).open(path);
    let written = written.and_then(|mut file| file.write_all(text.as_bytes()));
    written.with_context(|| format!("cannot write {}", path.display()))
}

/// The progress line, and the parts of the comparison above it.
struct Progress(ProgressDisplay);

impl Observer for Progress {
    fn part(&mut self, words: &str) {
        self.0.suspend(|| {
            // Without it the comparison goes on all the same.
            let _ = writeln!(terminal::err(), "collspec: {}", one_line(words));
        });
    }

    fn event(&mut self, event: &Event) {
        // The line is removed at the end of the whole comparison.
        if !matches!(event, Event::Finished { .. }) {
            self.0.event(event);
        }
    }
}
