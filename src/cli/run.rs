//! `collspec run`.
use super::args::{RunArgs, SelectionArgs};
use super::exit::Exit;
use super::output;
use super::progress::ProgressDisplay;
use super::terminal;
use crate::printable::{PrintableWriter, one_line, printable_lines};
use crate::report::Event;
use crate::report::{InheritedVariables, ReportContext, Reporter, RerunCommand, Styles};
use crate::suite::options::cores;
use crate::suite::{CaseSet, Error, Filter, RunOptions, passed_over};
use std::io::{self, BufWriter, Write};

pub fn run(args: &RunArgs) -> anyhow::Result<Exit> {
    let options = args.options();
    let chosen = match options.backend.resolve(&options.workers) {
        Ok(chosen) => chosen,
        Err(missing) => {
            writeln!(terminal::err(), "collspec: {}", printable_lines(&missing.to_string()))?;
            return Ok(Exit::BACKEND_MISSING);
        }
    };
    if args.fault.is_some() && chosen.machine.is_some() && args.place.driver.is_none() {
        anyhow::bail!("--fault changes the software library, but this run uses a real one: add --backend soft");
    }
    let mut suite = open(&args.selection)?;
    output::refuse_scenario_as_output(args.output.as_deref(), &args.selection)?;
    if suite.invalid_files.is_empty() {
        select(&mut suite, &args.selection)?;
        suite.plan(cores());
    }
    if !suite.invalid_files.is_empty() {
        show_diagnostics(&suite)?;
        return Err(Error::InvalidFiles(suite.invalid_files.len()).into());
    }

    writeln!(terminal::err(), "{}", one_line(&chosen.banner(&InheritedVariables::here())))?;
    let mut reporter = ReportAndProgress {
        report: make_reporter(args, &options, chosen.backend.name())?,
        progress: ProgressDisplay::new(),
    };
    let tally = suite.run(options, chosen, &mut reporter).map_err(expose_broken_pipe)?;
    Ok(match (tally.refused, tally.fail) {
        (0, 0) => Exit::ALL_PASSED,
        (0, _) => Exit::SOME_FAILED,
        _ => Exit::WRONG_INPUT,
    })
}

/// Reads the files, and reports entries that were passed over.
///
/// # Errors
///
/// A path that cannot be read or is no scenario file.
pub fn open(selection: &SelectionArgs) -> anyhow::Result<CaseSet> {
    let suite = selection.open()?;
    for line in passed_over(&suite.passed_over) {
        writeln!(terminal::err(), "collspec: {line}")?;
    }
    Ok(suite)
}

/// Keeps the cases that the filter admits.
///
/// # Errors
///
/// The filter admits no case.
pub fn select(suite: &mut CaseSet, selection: &SelectionArgs) -> anyhow::Result<()> {
    select_with(suite, selection, &selection.filter())
}

/// As [`select`], with another filter than that of the command line.
///
/// # Errors
///
/// The filter admits no case.
pub fn select_with(suite: &mut CaseSet, selection: &SelectionArgs, filter: &Filter) -> anyhow::Result<()> {
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

/// Writes all diagnostics to the standard error.
///
/// # Errors
///
/// Writing fails.
pub fn show_diagnostics(suite: &CaseSet) -> io::Result<()> {
    let mut to = terminal::err();
    for faulty in &suite.invalid_files {
        writeln!(to, "{}\n", faulty.render(true).trim_end())?;
    }
    to.flush()
}

/// Unwraps the error of a closed pipe, so that the caller recognises it.
fn expose_broken_pipe(error: Error) -> anyhow::Error {
    match error {
        Error::Report(error) if error.kind() == io::ErrorKind::BrokenPipe => error.into(),
        error => error.into(),
    }
}

fn make_reporter(args: &RunArgs, options: &RunOptions, backend: &str) -> anyhow::Result<Box<dyn Reporter>> {
    let text = args.format.is_text();
    let (to, styles): (Box<dyn Write>, Styles) = match &args.output {
        None if text => (Box::new(terminal::out()), Styles::coloured()),
        None => (Box::new(BufWriter::new(io::stdout())), Styles::plain()),
        Some(path) => {
            let file = BufWriter::new(output::create_file(path)?);
            (if text { Box::new(PrintableWriter::new(file, false)) } else { Box::new(file) }, Styles::plain())
        }
    };
    let rerun = RerunCommand::command_line(options.to_repeat(), InheritedVariables::here());
    let context = ReportContext { styles, rerun, verbose: args.verbose, backend: backend.to_owned() };
    Ok(args.format.reporter(to, context))
}

/// The report, and the progress bar that is hidden while it writes.
struct ReportAndProgress {
    report: Box<dyn Reporter>,
    progress: ProgressDisplay,
}

impl Reporter for ReportAndProgress {
    fn event(&mut self, event: &Event) -> io::Result<()> {
        self.progress.event(event);
        let Self { report, progress } = self;
        progress.suspend(|| report.event(event))
    }
}
