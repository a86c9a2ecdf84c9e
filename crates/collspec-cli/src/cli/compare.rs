//! `collspec compare`.
use super::args::{Args, Command};
use super::bench::{plan, usual, usual_ranks};
use super::compare_args::CompareArgs;
use super::errors::plain;
use super::exit::Exit;
use super::launched::on_all_processes;
use super::progress::ProgressDisplay;
use super::{backend, output, reports, run, terminal};
use crate::bench::{Plan, Row};
use crate::compare::accepted::{Accepted, to_accept};
use crate::compare::limits::Limits;
use crate::compare::report::{Context as ReportedComparison, write};
use crate::compare::speed::measure;
use crate::compare::work::count;
use crate::compare::{
    Comparison, Decision, FirstFailures, GateVerdict, Observer, Provenance, Repetition, Side, SideError, SideRequest,
    USUAL_STARTS, compare, measure_footprints,
};
use crate::formats::GithubPlaces;
use anyhow::Context;
use clap::Parser;
use clap::error::ContextKind;
use collspec_core::printable::one_line;
use collspec_run::cluster::{Cluster, Equipment};
use collspec_run::run::{Allowed, Backend};
use collspec_run::signals;
use collspec_suite::report::Event;
use collspec_suite::report::human::duration;
use collspec_suite::suite::options::cores;
use collspec_suite::suite::{AtLeast, CaseSet, Error};
use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::Write;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Both sides, or the errors of those that are unavailable.
type Sides = (Result<Side, SideError>, Result<Side, SideError>);

pub fn compare_libraries(args: &CompareArgs) -> anyhow::Result<Exit> {
    let resolve = || {
        let options = args.options();
        (args.base.resolve(&options), args.candidate.resolve(&options))
    };
    // In a job, this is resolved before the processes meet, which need to know the result.
    on_all_processes(
        &args.launch,
        || {
            let sides = resolve();
            (equipment(args, &sides), allowed(args, &sides), sides)
        },
        |job| match job {
            Some(_) if args.common.machine.is_some() || args.common.nodes.is_some() => {
                Err(anyhow::Error::msg(backend::NODES_IN_A_JOB))
            }
            Some((cluster, sides)) => compare_here(args, || sides, Some(&cluster)),
            None => compare_here(args, resolve, None),
        },
    )
}

/// The equipment of this process for both sides.
fn equipment(args: &CompareArgs, (base, candidate): &Sides) -> Equipment {
    let side = |request: &SideRequest, side: &Result<Side, SideError>| match side {
        Ok(Side::Live { chosen, .. }) => chosen.equipment(),
        Ok(Side::Recorded(_)) => Equipment { libraries: vec![Ok(None)], gpus: Vec::new() },
        Err(error) => Equipment { libraries: vec![Err(request.lacks(error))], gpus: Vec::new() },
    };
    let (base, candidate) = (side(&args.base, base), side(&args.candidate, candidate));
    let gpus = if base.gpus.is_empty() { candidate.gpus } else { base.gpus };
    Equipment { libraries: [base.libraries, candidate.libraries].concat(), gpus }
}

/// The backends and variables that the leading process may have this one use.
fn allowed(args: &CompareArgs, (base, candidate): &Sides) -> Allowed {
    let backend = |side: &Result<Side, SideError>| side.as_ref().ok().and_then(Side::backend).cloned();
    let backends = [base, candidate].into_iter().filter_map(backend).collect();
    Allowed { backends, env: args.options().reading.allow_env }
}

/// Compares and reports, on the processes of a job if there are others. `sides` were resolved before if there are.
fn compare_here(
    args: &CompareArgs,
    sides: impl FnOnce() -> Sides,
    cluster: Option<&Arc<Cluster>>,
) -> anyhow::Result<Exit> {
    run::warn_of_variables()?;
    // A mistake in this file is reported before anything runs.
    let accepted = args.allow.as_deref().map(Accepted::read).transpose()?;
    let limits = args.min_busbw.as_deref().map(Limits::read).transpose()?;
    let provenance = Provenance::here();
    if let Some(path) = args.write_allow.as_deref().filter(|path| path.exists()) {
        anyhow::bail!("--write-allow starts a new file, and {} exists", path.display());
    }
    let outputs: Vec<PathBuf> = reports::files(&args.report.0).into_iter().chain(args.write_allow.clone()).collect();
    let sides_and_files = [&args.base, &args.candidate].into_iter().map(SideRequest::file);
    let sides_and_files = sides_and_files.chain(args.allow.clone()).chain(args.min_busbw.clone());
    let inputs = sides_and_files.chain(output::of_selection(&args.selection));
    output::check("report", &outputs, inputs.chain(output::of_backend(&args.options().backend)))?;
    let (base, candidate) = sides();
    let shipped = |side: Side| if args.allow_debug_build { Ok(side) } else { side.refuse_debug_build() };
    let (mut base, mut candidate) = match (base.and_then(shipped), candidate.and_then(shipped)) {
        (Ok(base), Ok(candidate)) => (base, candidate),
        (Err(error), _) | (_, Err(error)) => return missing_side(error),
    };
    if let Some(cluster) = cluster {
        refuse_other_drivers(&base, &candidate)?;
        for side in [&mut base, &mut candidate] {
            side.use_job(cluster);
        }
    }
    tell_settings_without_effect(args, &base, &candidate)?;
    let bench = args.bench.as_deref().map(|text| timed(text, &base, &candidate)).transpose()?;
    let counted = base.counts_work();
    anyhow::ensure!(
        limits.is_none() || !counted,
        "--min-busbw: on software GPUs work is counted, and there are no times to hold against a limit"
    );
    let rows = bench.as_ref().map_or(&[][..], |(_, rows)| rows.as_slice());
    let limits = limits.map(|limits| limits.of_rows(rows)).transpose()?.unwrap_or_default();
    let cases = cases(args, &base, &candidate)?;
    signals::catch_interrupt();
    let live = [&base, &candidate].into_iter().filter(|side| side.is_live()).count();
    let has_starts = live == 2 && args.starts != Some(0);
    let has_footprints = live > 0 && !args.no_footprint;
    let parts = usize::from(has_footprints) + live * args.runs.get() + usize::from(has_starts);
    let mut progress = Progress::new(parts + usize::from(bench.is_some()), live * args.runs.get());
    if !args.no_footprint {
        let measured = measure_footprints(&mut base, &mut candidate, &mut progress);
        measured.inspect_err(|_| progress.display.end())?;
    }
    let repetition = Repetition {
        runs: args.runs.get(),
        repeats: args.repeats,
        starts: args.starts.unwrap_or(USUAL_STARTS),
        fewer_starts_of_few_cases: args.starts.is_none(),
        time: Duration::from_secs_f64(args.repeat_seconds),
    };
    let (mut comparison, failures) =
        compare((&args.base.text, &base), (&args.candidate.text, &candidate), &cases, &repetition, &mut progress)?;
    if let Some((plan, rows)) = bench.as_ref().filter(|_| !comparison.interrupted) {
        let (part, steps) = if counted {
            (format!("work: {} rows on each side", rows.len()), 2)
        } else {
            let part = format!("speed: {} rows, {} samples of each side and of the control", rows.len(), plan.samples);
            (part, plan.samples.saturating_mul(3))
        };
        progress.part(&part);
        progress.display.begin(rows.len().saturating_mul(steps), None);
        let mut each = |row: &Row| {
            progress.display.step(&row.to_string());
            if signals::is_interrupted() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        if counted {
            comparison.work = count(&base, &candidate, plan, rows, &mut each)?;
        } else {
            comparison.speed = measure(&base, &candidate, plan, rows, &limits, &mut each)?;
        }
        comparison.speed_interrupted = signals::is_interrupted();
    }
    comparison.provenance = provenance;
    comparison.lost = cluster.and_then(|job| job.lost_in_words());
    progress.display.end();
    if let Some(accepted) = accepted {
        accepted.apply(&mut comparison);
    }
    let decision = comparison.decision(args.coverage.at_least().unwrap_or(AtLeast::Cases(1)), args.bits);
    report(args, &comparison, &failures, &decision)?;
    if let Some(path) = &args.write_allow {
        write_new(path, &to_accept(&comparison))?;
    }
    if comparison.interrupted || comparison.speed_interrupted {
        writeln!(terminal::err(), "collspec: interrupted; the report has what was compared until then")?;
        return Ok(Exit::INTERRUPTED);
    }
    anyhow::ensure!(comparison.stale.is_empty(), comparison.stale.join("\n"));
    Ok(match decision.overall() {
        GateVerdict::NothingWorse => Exit::ALL_PASSED,
        GateVerdict::Worse { .. } => Exit::SOME_FAILED,
        GateVerdict::NoVerdict { .. } => Exit::NO_VERDICT,
    })
}

/// Samples of each side if `--bench` does not say how many.
const SAMPLES: u32 = 10;

/// The plan and the rows that `--bench` asks for.
fn timed(text: &str, base: &Side, candidate: &Side) -> anyhow::Result<(Plan, Vec<Row>)> {
    let words = shlex::split(text).context("--bench: a quote is not closed")?;
    let words: Vec<OsString> =
        ["collspec", "bench"].map(str::to_owned).into_iter().chain(words).map(Into::into).collect();
    let parsed = Args::try_parse_from(&words).map_err(|error| {
        let hint = "expected what is measured: `collspec bench --help` tells what there is";
        anyhow::anyhow!("--bench: {}", reason(error, hint, words))
    })?;
    let Command::Bench(mut bench) = parsed.command else {
        anyhow::bail!("--bench: expected what `collspec bench` takes")
    };
    let (
        Side::Live { chosen: ours, options: our_options, .. },
        Side::Live { chosen: theirs, options: their_options, .. },
    ) = (base, candidate)
    else {
        anyhow::bail!("--bench needs two libraries: a recorded run cannot be timed again")
    };
    let elsewhere =
        bench.backend.library.nccl.is_some() || bench.backend.library.driver.is_some() || bench.output.is_some();
    anyhow::ensure!(
        !elsewhere && bench.plot.is_none() && bench.json.is_none(),
        "--bench says what is measured; libraries and reports are those of `collspec compare`"
    );
    anyhow::ensure!(
        base.counts_work() == candidate.counts_work(),
        "--bench: one side runs on software GPUs, where work is counted and times say nothing: both must, or neither"
    );
    if base.counts_work() {
        let given = bench.samples.is_some();
        anyhow::ensure!(
            !given,
            "--bench: leave out --samples: on software GPUs each side is counted once, because counts are exact"
        );
    } else {
        bench.samples.get_or_insert(SAMPLES);
    }
    let asked = bench.request()?;
    plan(&bench, asked, &usual(ours), usual_ranks(ours, our_options).min(usual_ranks(theirs, their_options)))
}

/// The mistake in the arguments, without clap's usage text and tip, which are those of another command; `hint` if help was asked for.
pub fn reason(mut error: clap::Error, hint: &str, words: Vec<OsString>) -> String {
    error.remove(ContextKind::Suggested);
    if !error.use_stderr() {
        return hint.to_owned();
    }
    let text = plain(&error, words);
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let end = ["\n\nUsage:", "\n\nFor more information"].iter().filter_map(|words| text.find(words)).min();
    text.get(..end.unwrap_or(text.len())).unwrap_or(text).trim_end().to_owned()
}

/// Lists the settings without an effect, because the thing they apply to is missing.
fn tell_settings_without_effect(args: &CompareArgs, base: &Side, candidate: &Side) -> std::io::Result<()> {
    let sides = [("base", &args.base, base), ("candidate", &args.candidate, candidate)];
    for (name, request, side) in sides {
        for (setting, why) in request.without_effect(side) {
            writeln!(terminal::err(), "collspec: {name}: {} has no effect: {why}", one_line(&setting))?;
        }
    }
    if base.is_live() || candidate.is_live() {
        return Ok(());
    }
    let options = [
        ("--filter", !args.selection.filter.is_empty()),
        (args.quick.given().unwrap_or("--quick"), args.quick.given().is_some()),
        ("--forms", args.selection.forms.is_some()),
        ("--driver", args.driver.is_some()),
        ("--jobs", args.jobs.is_some()),
        ("--timeout", args.common.timeout.is_some()),
        ("--opening-timeout", args.common.opening_timeout.is_some()),
    ];
    let given: Vec<&str> = options.iter().filter(|(_, given)| *given).map(|(name, _)| *name).collect();
    if given.is_empty() {
        return Ok(());
    }
    let (have, them) = if given.len() == 1 { ("has", "it") } else { ("have", "them") };
    let why = "both sides are recorded runs, all of whose cases are compared";
    writeln!(terminal::err(), "collspec: {} {have} no effect: {why}, without {them}", given.join(", "))
}

/// In a job every process has reported the GPUs it sees, for one driver only.
fn refuse_other_drivers(base: &Side, candidate: &Side) -> anyhow::Result<()> {
    let driver = |side: &Side| match side.backend()? {
        Backend::Nccl { driver, .. } => Some(driver.clone()),
        Backend::Soft => None,
    };
    if let (Some(ours), Some(theirs)) = (driver(base), driver(candidate)) {
        anyhow::ensure!(ours == theirs, "processes of a job compare two libraries over one driver, not over two");
    }
    Ok(())
}

fn missing_side(error: SideError) -> anyhow::Result<Exit> {
    let SideError::Missing(missing) = &error else { return Err(error.into()) };
    Ok(backend::missing_backend(missing)?)
}

/// The cases to run. Two recordings do not need any.
fn cases(args: &CompareArgs, base: &Side, candidate: &Side) -> anyhow::Result<CaseSet> {
    if !base.is_live() && !candidate.is_live() {
        return Ok(CaseSet::default());
    }
    let mut suite = run::open(&args.selection)?;
    if suite.invalid_files.is_empty() {
        run::select(&mut suite, &args.selection, run::NAMES_BY_RUN)?;
        let on_software_gpus = [base, candidate].into_iter().filter_map(Side::backend).any(Backend::has_software_gpus);
        run::keep_quick(&mut suite, &args.quick, &args.selection, on_software_gpus)?;
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
    decision: &Decision,
) -> anyhow::Result<()> {
    let github = GithubPlaces::here();
    let context = ReportedComparison { comparison, decision, failures, every_row: args.verbose, github };
    for request in reports::requests(&args.report) {
        reports::write_whole(&request, |mut to, styles| Ok(write(request.format, &mut to, styles, &context)?))?;
    }
    Ok(())
}

fn write_new(path: &Path, text: &str) -> anyhow::Result<()> {
    let written = OpenOptions::new().write(true).create_new(true).open(path);
    let written = written.and_then(|mut file| file.write_all(text.as_bytes()));
    written.with_context(|| format!("cannot write {}", path.display()))
}

/// The progress line, and the parts of the comparison above it, with an estimate of the time that is left.
struct Progress {
    display: ProgressDisplay,
    /// Parts that have begun, and all that are known to come.
    part: usize,
    parts: usize,
    /// When the run of the corpus that is in progress began.
    run: Option<Instant>,
    /// Runs of the corpus that have ended, with the time they took together, and all of them.
    ended: u32,
    took: Duration,
    runs: usize,
}

/// An estimate is shown from this time on.
const ESTIMATED: Duration = Duration::from_secs(10);

impl Progress {
    fn new(parts: usize, runs: usize) -> Self {
        let display = ProgressDisplay::new();
        Self { display, part: 0, parts, run: None, ended: 0, took: Duration::ZERO, runs }
    }

    /// The time that the runs of the corpus that are left will take, if they are like the earlier ones.
    fn left(&mut self) -> String {
        if let Some(begun) = self.run.take() {
            self.took += begun.elapsed();
            self.ended += 1;
        }
        let left = u32::try_from(self.runs).unwrap_or(u32::MAX).saturating_sub(self.ended);
        let Some(time) = self.took.checked_div(self.ended).map(|each| each.saturating_mul(left)) else {
            return String::new();
        };
        if time < ESTIMATED {
            String::new()
        } else {
            format!(" (about {} for the runs that are left)", duration(time.as_secs_f64()))
        }
    }
}

impl Observer for Progress {
    fn part(&mut self, words: &str) {
        let left = self.left();
        self.part += 1;
        let (part, parts) = (self.part, self.parts.max(self.part));
        self.display.suspend(|| {
            // Without it the comparison continues nevertheless.
            let _ = writeln!(terminal::err(), "collspec: part {part} of {parts}: {}{left}", one_line(words));
        });
    }

    fn run(&mut self, words: &str) {
        self.part(words);
        self.run = Some(Instant::now());
    }

    fn further_part(&mut self, words: &str) {
        self.parts += 1;
        self.part(words);
    }

    fn is_interrupted(&self) -> bool {
        signals::is_interrupted()
    }

    fn event(&mut self, event: &Event) {
        // The line is removed at the end of the whole comparison.
        if !matches!(event, Event::Finished { .. }) {
            self.display.event(event);
        }
    }
}
