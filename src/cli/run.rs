//! `collspec run`.
use super::args::{Format, Run, Selection};
use super::exit::Exit;
use super::output;
use super::progress::Progress;
use super::terminal;
use crate::printable::{Guarded, one_line, printable_lines};
use crate::report::Event;
use crate::report::{Human, Inherited, JsonLines, Reporter, Rerun, Styles};
use crate::suite::options::cores;
use crate::suite::{Error, Filter, RunOptions, Suite, passed_over};
use std::io::{self, BufWriter, Write};

pub fn run(args: &Run) -> anyhow::Result<Exit> {
    let options = args.options();
    let chosen = match options.backend.resolve(&options.workers) {
        Ok(chosen) => chosen,
        Err(missing) => {
            writeln!(terminal::err(), "collspec: {}", printable_lines(&missing.to_string()))?;
            return Ok(Exit::BACKEND_MISSING);
        }
    };
    if args.fault.is_some() && chosen.machine.is_some() && args.place.driver.is_none() {
        anyhow::bail!("--fault makes the software library wrong, and this run is on a real one: add --backend soft");
    }
    let mut suite = open(&args.selection)?;
    output::spare_scenarios(args.output.as_deref(), &args.selection)?;
    if suite.invalid_files.is_empty() {
        select(&mut suite, &args.selection)?;
        suite.plan(cores());
    }
    if !suite.invalid_files.is_empty() {
        show_diagnostics(&suite)?;
        return Err(Error::InvalidFiles(suite.invalid_files.len()).into());
    }

    writeln!(terminal::err(), "{}", one_line(&chosen.banner(&Inherited::here())))?;
    let mut reporter = Reports { report: report(args, &options, chosen.backend.name())?, progress: Progress::new() };
    let tally = suite.run(options, chosen, &mut reporter).map_err(plain_io)?;
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
pub fn show_diagnostics(suite: &Suite) -> io::Result<()> {
    let mut to = terminal::err();
    for faulty in &suite.invalid_files {
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

fn report(args: &Run, options: &RunOptions, backend: &str) -> anyhow::Result<Box<dyn Reporter>> {
    let rerun = Rerun::command_line(options.to_repeat(), Inherited::here());
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
