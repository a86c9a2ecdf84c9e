//! `collspec run`.
use super::args::{Format, Run, Selection};
use super::exit::Exit;
use super::output;
use super::progress::Progress;
use super::terminal;
use crate::child::Workers;
use crate::printable::{Guarded, one_line, printable_lines};
use crate::report::Event;
use crate::report::{Human, Inherited, JsonLines, Reporter, Rerun, Styles};
use crate::run::RanksPerGpu;
use crate::suite::Options;
use crate::suite::{BackendChoice, Error, Filter, Suite, Wish, passed_over};
use std::io::{self, BufWriter, Write};
use std::num::NonZeroUsize;
use std::thread::available_parallelism;

pub fn run(args: &Run) -> anyhow::Result<Exit> {
    let wish = Wish {
        backend: args.backend,
        require: args.require,
        nccl: args.place.nccl.clone(),
        driver: args.place.driver.clone(),
    };
    let chosen = match wish.resolve(&Workers::CurrentExe) {
        Ok(chosen) => chosen,
        Err(missing) => {
            writeln!(terminal::err(), "collspec: {}", printable_lines(&missing.to_string()))?;
            return Ok(Exit::BACKEND_MISSING);
        }
    };
    if args.fault.is_some() && chosen.machine.is_some() && args.place.driver.is_none() {
        anyhow::bail!("--fault makes the software library wrong, and this run is on a real one: add --backend soft");
    }
    let cores = available_parallelism().map_or(1, NonZeroUsize::get);
    // cases on GPUs take turns anyway
    let jobs = args.jobs.map_or(if chosen.machine.is_some() { 1 } else { cores }, NonZeroUsize::get);
    let mut suite = open(&args.selection)?;
    output::spare_scenarios(args.output.as_deref(), &args.selection)?;
    if suite.faults.is_empty() {
        select(&mut suite, &args.selection)?;
        suite.plan(cores);
    }
    if !suite.faults.is_empty() {
        show_faults(&suite)?;
        return Err(Error::Faults(suite.faults.len()).into());
    }

    writeln!(terminal::err(), "{}", one_line(&chosen.banner(&Inherited::here())))?;
    let mut reporter = Reports { report: report(args, chosen.backend.name())?, progress: Progress::new() };
    let options = Options {
        backend: chosen.backend,
        machine: chosen.machine,
        ranks_per_gpu: args.ranks_per_gpu,
        jobs,
        timeout: args.timeout,
        opening: args.opening_timeout,
        seed: args.seed,
        eager: args.eager,
        connect: args.connect,
        fault: args.fault.unwrap_or_default(),
        worker: Workers::CurrentExe,
        placement: args.placement,
        limits: suite.limits,
    };
    let tally = suite.run(options, &mut reporter).map_err(plain_io)?;
    Ok(match (tally.refused, tally.fail) {
        (0, 0) => Exit::ALL_PASSED,
        (0, _) => Exit::SOME_FAILED,
        _ => Exit::WRONG_INPUT,
    })
}

/// Reads the files, and reports entries that were passed over.
pub fn open(selection: &Selection) -> anyhow::Result<Suite> {
    let suite = selection.open()?;
    for line in passed_over(&suite.passed_over) {
        writeln!(terminal::err(), "collspec: {line}")?;
    }
    Ok(suite)
}

/// Keeps what the filter admits; a filter that admits nothing is a mistake, not a green run.
pub fn select(suite: &mut Suite, selection: &Selection) -> anyhow::Result<()> {
    keep(suite, selection, &selection.filter())
}

/// As [`select`], with a filter that may differ from that of the command line.
pub fn keep(suite: &mut Suite, selection: &Selection, filter: &Filter) -> anyhow::Result<()> {
    let before = suite.cases.len();
    suite.select(filter);
    let shown: Vec<_> = selection.paths.iter().map(|path| path.display().to_string()).collect();
    anyhow::ensure!(before > 0, "no scenario in {}", shown.join(", "));
    if let (true, Some(text)) = (suite.cases.is_empty(), &filter.text) {
        let relation = if filter.exact { "is called" } else { "has in its name, or as a tag," };
        anyhow::bail!("none of the {before} cases in {} {relation} '{text}'", shown.join(", "));
    }
    let after = suite.cases.len();
    if filter.text.is_none() && after < before {
        let left = before - after;
        anyhow::ensure!(
            after > 0,
            "all {before} cases in {} are tagged `long`: `--filter long` runs them",
            shown.join(", ")
        );
        let words = if left == 1 { "1 case is" } else { &format!("{left} cases are") };
        writeln!(terminal::err(), "collspec: {words} tagged `long` and left out: `--filter long` runs them")?;
    }
    Ok(())
}

/// Everything that is wrong with the files, on the standard error.
pub fn show_faults(suite: &Suite) -> io::Result<()> {
    let mut to = terminal::err();
    for faulty in &suite.faults {
        writeln!(to, "{}\n", faulty.render(true).trim_end())?;
    }
    to.flush()
}

/// A closed pipe must stay recognisable under the suite's own error.
fn plain_io(error: Error) -> anyhow::Error {
    match error {
        Error::Report(error) if error.kind() == io::ErrorKind::BrokenPipe => error.into(),
        error => error.into(),
    }
}

fn report(args: &Run, backend: &str) -> anyhow::Result<Box<dyn Reporter>> {
    let rerun = Rerun::command_line(options_to_repeat(args), Inherited::here());
    let human = |to: Box<dyn Write>, styles| Box::new(Human::new(to, styles, rerun, args.verbose));
    Ok(match (&args.output, args.format) {
        (None, Format::Human) => human(Box::new(terminal::out()), Styles::coloured()),
        (None, Format::Jsonl) => Box::new(JsonLines::new(BufWriter::new(io::stdout()), backend)),
        (Some(path), format) => {
            let file = BufWriter::new(output::create(path)?);
            match format {
                Format::Human => human(Box::new(Guarded::new(file, false)), Styles::plain()),
                Format::Jsonl => Box::new(JsonLines::new(file, backend)),
            }
        }
    })
}

/// The options that bear on a case's result, as they were typed.
fn options_to_repeat(args: &Run) -> Vec<String> {
    let mut words = Vec::new();
    let mut option = |name: &str, value: Option<String>| {
        words.extend(value.map(|value| [name.to_owned(), value]).into_iter().flatten());
    };
    let backend = (args.backend != BackendChoice::Auto).then(|| args.backend.name().to_owned());
    option("--backend", backend);
    option("--nccl", args.place.nccl.clone());
    option("--driver", args.place.driver.as_ref().map(|folder| folder.display().to_string()));
    let sharing = (args.ranks_per_gpu != RanksPerGpu::One).then(|| args.ranks_per_gpu.to_string());
    option("--ranks-per-gpu", sharing);
    option("--timeout", args.timeout.map(|value| value.to_string()));
    option("--opening-timeout", args.opening_timeout.map(|value| value.to_string()));
    option("--seed", args.seed.map(|value| value.to_string()));
    option("--eager", args.eager.map(|value| value.to_string()));
    option("--connect", args.connect.map(|when| when.name().to_owned()));
    option("--fault", args.fault.map(|fault| fault.to_string()));
    let bounds = &args.selection.bounds;
    option("--max-memory", bounds.max_memory.map(|value| value.to_string()));
    option("--max-work", bounds.max_work.map(|value| value.to_string()));
    option("--max-file-work", bounds.max_file_work.map(|value| value.to_string()));
    option("--max-file", bounds.max_file.map(|value| value.to_string()));
    option("--placement", args.placement.map(|placement| placement.name().to_owned()));
    for name in &args.selection.allow_env {
        option("--allow-env", Some(name.clone()));
    }
    words
}

/// The report, and the bar that steps aside for it.
struct Reports {
    report: Box<dyn Reporter>,
    progress: Progress,
}

impl Reporter for Reports {
    fn event(&mut self, event: &Event) -> io::Result<()> {
        self.progress.event(event);
        let Self { report, progress } = self;
        progress.suspend(|| report.event(event))
    }
}
