//! `collspec bench`.
use super::backend::Resolved;
use super::bench_args::{BenchArgs, BenchFormat, operation};
use super::exit::Exit;
use super::launched::on_all_processes;
use super::progress::ProgressDisplay;
use super::{output, run, terminal};
use crate::bench::{
    COUNTS_NOTE, JsonFrame, Operation, Plan, Request, Row, RowResult, RowSample, Sampler, Table, json, plot,
    write_counts,
};
use collspec_core::printable::{PrintableWriter, one_line, printable};
use collspec_core::suggest::nearest;
use collspec_run::cluster::Cluster;
use collspec_run::signals;
use collspec_suite::report::{InheritedVariables, fault_warning, is_secret};
use collspec_suite::suite::{CaseSet, ChosenBackend, Error, Forms, Reading, RunOptions};
use std::collections::HashSet;
use std::io::{self, BufWriter, Write};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// Ranks in software if no number is given.
const SOFT_RANKS: usize = 4;

/// The number of ranks if none is given: as many as fit into the processes of a job, or a rank for each GPU.
pub fn usual_ranks(chosen: &ChosenBackend, options: &RunOptions) -> usize {
    match (&chosen.cluster, &chosen.machine) {
        (Some(job), _) => job.sites().len().saturating_mul(options.ranks_per_process()),
        (None, Some(machine)) if !chosen.counts_work() => machine.gpus.devices.len(),
        (None, _) => SOFT_RANKS,
    }
}

pub fn bench(args: &BenchArgs) -> anyhow::Result<Exit> {
    let options = args.options();
    let resolved = Resolved::of(&options);
    let equipment = || (resolved.equipment(), resolved.allowed(), ());
    on_all_processes(&args.launch, equipment, |job| {
        measure(args, &options, &resolved, job.map(|(cluster, ())| cluster))
    })
}

/// Measures and reports, on the processes of a job if there are others.
fn measure(
    args: &BenchArgs,
    options: &RunOptions,
    resolved: &Resolved<'_>,
    cluster: Option<Arc<Cluster>>,
) -> anyhow::Result<Exit> {
    run::warn_of_variables()?;
    let asked = args.request()?;
    let outputs = [output::file(&args.output), args.plot.as_deref(), args.json.as_deref()];
    let outputs: Vec<_> = outputs.into_iter().flatten().collect();
    output::check("report", &outputs, output::of_paths(&paths(args)).chain(output::of_backend(&options.backend)))?;
    let mut chosen = match resolved.backend()? {
        Ok(chosen) => chosen,
        Err(exit) => return Ok(exit),
    };
    chosen.cluster = cluster;
    let (plan, rows) = plan(args, asked, &usual(&chosen), usual_ranks(&chosen, options))?;
    let frame = Frame::new(&chosen, options, &rows);
    writeln!(terminal::err(), "{}", one_line(&frame.library))?;
    let sampler = Sampler::new(options.clone(), chosen, plan.timing)?;
    signals::catch_interrupt();
    let begun = seconds_since_1970();
    let (samples, done) = take_samples(&sampler, &rows, plan.samples)?;
    let results = RowResult::of(&rows, &samples);
    let frame = frame.json(plan, sampler.version(), (begun, seconds_since_1970()));
    write_reports(args, &frame, &results)?;
    if !done {
        let (taken, all) = (samples.iter().map(Vec::len).sum::<usize>(), rows.len() * frame.samples);
        writeln!(terminal::err(), "collspec: interrupted after {taken} of {all} measurements; the report has these")?;
        return Ok(Exit::INTERRUPTED);
    }
    Ok(if results.iter().any(RowResult::failed) { Exit::SOME_FAILED } else { Exit::ALL_PASSED })
}

/// The usual number of measurements of a row: counts are the same each time.
pub fn usual(chosen: &ChosenBackend) -> Request {
    if !chosen.counts_work() {
        return Request::default();
    }
    Request { warm_up: Some(1), iterations: Some(1), samples: Some(1), ..Request::default() }
}

/// The words that are not operations.
fn paths(args: &BenchArgs) -> Vec<PathBuf> {
    args.what.iter().filter(|word| operation(word).is_none()).map(PathBuf::from).collect()
}

/// The plan, and its rows: of the named operations, or of the files' tables `[bench]`. `usual` applies if neither the
/// command line nor a file specifies something.
///
/// # Errors
///
/// A word that is neither an operation nor a file, files without such tables, or values that make no rows.
pub fn plan(args: &BenchArgs, asked: Request, usual: &Request, ranks: usize) -> anyhow::Result<(Plan, Vec<Row>)> {
    let paths = paths(args);
    if let Some(unknown) = paths.iter().find(|path| path.symlink_metadata().is_err()) {
        return Err(unknown_word(&unknown.to_string_lossy()));
    }
    if paths.is_empty() {
        let named = args.what.iter().filter_map(|word| operation(word)).collect();
        let plan = Request { operations: Some(named), ..asked }.or(usual.clone()).plan(ranks)?;
        let rows = plan.sweep.rows()?;
        return Ok((plan, rows));
    }
    anyhow::ensure!(paths.len() == args.what.len(), "name operations or files, not both");
    let (mut plans, mut rows): (Vec<Plan>, Vec<Row>) = (Vec::new(), Vec::new());
    for request in requests(args, &paths)? {
        let plan = asked.clone().or(request).or(usual.clone()).plan(ranks)?;
        let how = |plan: &Plan| (plan.timing, plan.samples);
        if plans.iter().any(|other| how(other) != how(&plan)) {
            anyhow::bail!(
                "the files want different numbers of samples or iterations: say --samples, -n and -w, or measure them apart"
            );
        }
        rows.extend(plan.sweep.rows()?);
        plans.push(plan);
    }
    let mut seen = HashSet::new();
    rows.retain(|row| seen.insert(row.clone()));
    let plan = plans.into_iter().next().ok_or_else(|| anyhow::anyhow!("there is nothing to measure"))?;
    Ok((plan, rows))
}

/// The requests in the files' tables.
fn requests(args: &BenchArgs, paths: &[PathBuf]) -> anyhow::Result<Vec<Request>> {
    let reading = Reading { forms: Forms::parse("none").unwrap_or_default(), ..args.options().reading };
    let suite = CaseSet::open_with(paths, &reading)?;
    run::show_diagnostics(&suite)?;
    if !suite.invalid_files.is_empty() {
        return Err(Error::InvalidFiles(suite.invalid_files.len()).into());
    }
    let requests: Vec<Request> =
        suite.cases.iter().filter_map(|case| case.bench.as_deref()).map(Request::from).collect();
    if requests.is_empty() {
        let shown: Vec<_> = paths.iter().map(|path| path.display().to_string()).collect();
        anyhow::bail!(
            "no scenario in {} has a table `[bench]`, which says what is measured; without files, name an operation: \
             collspec bench all_reduce -b 8 -e 128M -f 2",
            shown.join(", ")
        );
    }
    Ok(requests)
}

/// A word that is neither an operation nor a path.
fn unknown_word(word: &str) -> anyhow::Error {
    let known = Operation::ALL.map(Operation::name);
    let near = nearest(word, known).map_or_else(|| known.join(", "), |near| format!("did you mean {near}?"));
    anyhow::anyhow!("there is no operation `{}` to measure, and no such file or folder: {near}", printable(word))
}

/// Takes all samples, one after the other; false if it was interrupted.
fn take_samples(sampler: &Sampler, rows: &[Row], number: usize) -> anyhow::Result<(Vec<Vec<RowSample>>, bool)> {
    let progress = ProgressDisplay::new();
    progress.begin(rows.len().saturating_mul(number), None);
    let mut samples: Vec<Vec<RowSample>> = Vec::with_capacity(number);
    for at in 1..=number {
        let mut each = |sample: &RowSample| {
            progress.step(&format!("sample {at} of {number}: {}", sample.row));
            if signals::is_interrupted() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let taken = sampler.sample(rows, &mut each);
        if taken.is_err() {
            progress.end();
        }
        samples.push(taken?);
        if signals::is_interrupted() {
            break;
        }
    }
    progress.end();
    let taken: usize = samples.iter().map(Vec::len).sum();
    Ok((samples, taken == rows.len() * number))
}

/// The contents of reports other than their rows.
struct Frame {
    library: String,
    clock: Option<&'static str>,
    devices: Vec<String>,
}

impl Frame {
    fn new(chosen: &ChosenBackend, options: &RunOptions, rows: &[Row]) -> Self {
        let banner = chosen.banner(&InheritedVariables::here());
        let library = match fault_warning(&options.variation.fault) {
            Some(warning) => format!("{banner}, {warning}"),
            None => banner,
        };
        let ranks = rows.iter().map(|row| row.ranks).max().unwrap_or(0);
        let (clock, devices) = match &chosen.machine {
            None => (Some("events in software"), vec!["gpuless-device".to_owned(); ranks]),
            Some(machine) => {
                let used = machine.used(ranks);
                let name = |rank: usize| used.get(rank % used.len().max(1)).map(|device| device.name.clone());
                let clock = (!chosen.counts_work()).then_some("CUDA events");
                (clock, (0..ranks).map(|rank| name(rank).unwrap_or_default()).collect())
            }
        };
        Self { library, clock, devices }
    }

    fn json(self, plan: Plan, version: Option<i32>, time: (u64, u64)) -> JsonFrame {
        let own = |name: &str| ["NCCL_", "COLLSPEC_", "CUDA_VISIBLE_DEVICES"].iter().any(|own| name.starts_with(own));
        let bears = |name: &str| own(name) && !is_secret(name);
        let text = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
        let env = std::env::vars_os().map(|(name, value)| (text(name), text(value)));
        let mut env: Vec<String> =
            env.filter(|(name, _)| bears(name)).map(|(name, value)| format!("{name}={value}")).collect();
        env.sort();
        JsonFrame {
            time,
            args: std::env::args_os().map(text).collect(),
            env,
            version: version.unwrap_or(0),
            library: self.library,
            timing: plan.timing,
            clock: self.clock,
            samples: plan.samples,
            devices: self.devices,
        }
    }
}

fn write_reports(args: &BenchArgs, frame: &JsonFrame, results: &[RowResult]) -> anyhow::Result<()> {
    if let Some(path) = &args.json {
        let mut content = Vec::new();
        write_json(&mut content, frame, results)?;
        output::replace(path, &content)?;
    }
    if let Some(path) = &args.plot {
        let (svg, left_out) = plot(&frame.library, results);
        output::replace(path, svg.as_bytes())?;
        if left_out > 0 {
            writeln!(terminal::err(), "collspec: {} has no room for {left_out} curves", path.display())?;
        }
    }
    let write = |to: &mut dyn Write| match args.format {
        BenchFormat::Json => write_json(to, frame, results),
        BenchFormat::Text => {
            let JsonFrame { library, timing, clock, samples, .. } = frame;
            let table = Table { library, timing: *timing, clock: clock.unwrap_or(COUNTS_NOTE), samples: *samples };
            match clock {
                Some(_) => table.write(to, results)?,
                None => write_counts(to, &table, results)?,
            }
            Ok(to.flush()?)
        }
    };
    match (output::file(&args.output), args.format) {
        (None, BenchFormat::Text) => write(&mut terminal::out()),
        (None, BenchFormat::Json) => write(&mut BufWriter::new(io::stdout())),
        (Some(path), format) => {
            let mut content = Vec::new();
            match format {
                BenchFormat::Text => write(&mut PrintableWriter::new(&mut content, false))?,
                BenchFormat::Json => write(&mut content)?,
            }
            output::replace(path, &content)
        }
    }
}

fn write_json(to: &mut dyn Write, frame: &JsonFrame, results: &[RowResult]) -> anyhow::Result<()> {
    collspec_core::printable::write_json(to, &json(frame, results))?;
    writeln!(to)?;
    Ok(to.flush()?)
}

fn seconds_since_1970() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}
