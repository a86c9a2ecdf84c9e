//! `collspec audit`.
use super::args::{AuditArgs, AuditFormat};
use super::audit_requirements::Requirements;
use super::exit::Exit;
use super::output;
use super::progress::ProgressDisplay;
use super::run::{NAMES_BY_RUN, open, select, show_diagnostics, warn_of_variables};
use super::terminal;
use crate::audit::report::own::OwnReport;
use crate::audit::report::table;
use crate::audit::{self, AuditError, AuditEvent, AuditReport, AuditSettings, Depth, Selection, SoundFailure};
use collspec_core::plan::Limits;
use collspec_core::printable::{PrintableWriter, printable_lines};
use collspec_suite::report::{InheritedVariables, RerunCommand, Styles, failure};
use collspec_suite::suite::options::cores;
use collspec_suite::suite::{self, CaseSet, Reading, RunOptions, invalid_files};
use std::io::{self, BufWriter, Write};
use std::num::NonZeroUsize;
use std::time::Instant;

/// Number of failures without a fault that are shown.
const MAX_FAILURES: usize = 5;

/// True if files are named, and not folders: then the question is what they notice, not what a corpus lacks.
fn is_of_single_files(args: &AuditArgs) -> bool {
    let paths = &args.selection.paths;
    !paths.is_empty() && paths.iter().all(|path| path.is_file()) && args.fault.is_none() && !args.scenarios
}

pub fn audit(args: &AuditArgs) -> anyhow::Result<Exit> {
    if args.list_faults {
        return list_faults(&args.fault.clone().unwrap_or_default());
    }
    warn_of_variables()?;
    let mut suite = open(&args.selection)?;
    let outputs = [output::file(&args.output), args.write_baseline.as_deref()];
    let outputs: Vec<_> = outputs.into_iter().flatten().collect();
    output::check("report", &outputs, output::of_selection(&args.selection))?;
    output::check("report", output::file(&args.output).as_slice(), args.baseline.clone())?;
    let cores = cores();
    if suite.invalid_files.is_empty() {
        select(&mut suite, &args.selection, NAMES_BY_RUN)?;
        suite.plan(cores);
    }
    if !suite.invalid_files.is_empty() {
        show_diagnostics(&suite)?;
        return Err(suite::Error::InvalidFiles(suite.invalid_files.len()).into());
    }
    // Ranks that wait under a fault leave a core idle now and then: one more job than there are cores keeps all of them at work.
    let jobs = args.jobs.map_or(cores + 1, NonZeroUsize::get);
    let depth = match (args.every_case, args.quick) {
        (true, _) => Depth::Cases,
        (false, true) => Depth::Quick,
        (false, false) => Depth::Files,
    };
    let settings = AuditSettings { selection: args.fault.clone().unwrap_or_default(), depth, jobs };
    let begun = Instant::now();
    let requirements = Requirements::read(args)?;
    // An audit takes long, so the output file is created before it.
    let output = output::file(&args.output).map(output::create_file).transpose()?;
    let report = match run_audit(args, &suite, &settings)? {
        Ok(report) => report,
        Err(exit) => return Ok(exit),
    };
    let seconds = begun.elapsed().as_secs_f64();
    let own = if is_of_single_files(args) { OwnReport::of(&report, &suite.cases) } else { None };
    write(output, &|to, styles| match args.format {
        AuditFormat::Human => match &own {
            Some(own) => own.write(to, seconds, styles),
            None => table::write_table(to, &report, seconds, args.scenarios, styles),
        },
        AuditFormat::Jsonl => table::write_json_lines(to, &report, seconds),
    })?;
    if args.has_requirements() {
        return requirements.check(&report);
    }
    let has_misses = own.map_or_else(|| report.has_misses(), |own| own.has_misses());
    Ok(if has_misses { Exit::SOME_FAILED } else { Exit::ALL_PASSED })
}

/// Faults and flaws in lines, with the kind of scenario that shows each.
fn list_faults(selection: &Selection) -> anyhow::Result<Exit> {
    let mut out = BufWriter::new(terminal::out());
    let width = selection.items().map(|item| item.id().len()).max().unwrap_or(0);
    for item in selection.items() {
        writeln!(out, "{:width$}  {}; shown by {}", item.id(), item.text(), item.shown_by())?;
    }
    out.flush()?;
    Ok(Exit::ALL_PASSED)
}

/// The audit; the exit code if cases fail without a fault, which has been reported then.
fn run_audit(args: &AuditArgs, suite: &CaseSet, settings: &AuditSettings) -> anyhow::Result<Result<AuditReport, Exit>> {
    let reading = Reading { limits: suite.limits, ..Reading::default() };
    let options = RunOptions { timeout: args.timeout, reading, ..RunOptions::default() };
    let progress = ProgressDisplay::new();
    let tell = |step: &AuditEvent| {
        match step {
            AuditEvent::Planned { runs, faulty } => {
                progress.begin(*runs, Some(if *faulty { "with faults" } else { "without faults" }))
            }
            AuditEvent::RunDone { case, fault } => {
                let fault = fault.map(|fault| format!("{} ", fault.entry().id)).unwrap_or_default();
                progress.step(&format!("{fault}{}", case.name));
            }
            AuditEvent::Finished => progress.end(),
        }
        Ok(())
    };
    match audit::audit(suite, options, settings, tell) {
        Ok(report) => Ok(Ok(report)),
        Err(AuditError::FailsWithoutFault(failures)) => {
            progress.end();
            show_failures(&failures, &suite.limits).map(Err)
        }
        Err(error) => Err(error.into()),
    }
}

/// Shows the cases that fail without a fault.
fn show_failures(failures: &[SoundFailure], limits: &Limits) -> anyhow::Result<Exit> {
    let mut to = terminal::err();
    let rerun = RerunCommand::command_line(vec!["--backend".to_owned(), "soft".to_owned()], InheritedVariables::here());
    for failed in failures.iter().take(MAX_FAILURES) {
        match invalid_files::refusal(&failed.case, limits).filter(|_| failed.refused()) {
            Some(text) => writeln!(to, "{}\n", text.trim_end())?,
            None => {
                let again = rerun.command(&failed.case);
                writeln!(
                    to,
                    "{}\n",
                    failure::failure_text(&failed.case, &failed.verdict, &again, &Styles::coloured(), false)
                )?;
            }
        }
    }
    if let Some(more) = failures.len().checked_sub(MAX_FAILURES).filter(|more| *more > 0) {
        writeln!(to, "and {more} more\n")?;
    }
    writeln!(to, "collspec: {}", printable_lines(&AuditError::FailsWithoutFault(failures.to_vec()).to_string()))?;
    Ok(if failures.iter().any(SoundFailure::refused) { Exit::WRONG_INPUT } else { Exit::SOME_FAILED })
}

/// A function that writes a report in these styles.
type WriteReport<'a> = dyn Fn(&mut dyn Write, &Styles) -> io::Result<()> + 'a;

fn write(output: Option<output::NamedFile>, report: &WriteReport<'_>) -> anyhow::Result<()> {
    let (mut to, styles): (Box<dyn Write>, Styles) = match output {
        None => (Box::new(BufWriter::new(terminal::out())), Styles::coloured()),
        Some(file) => (Box::new(BufWriter::new(PrintableWriter::new(file, false))), Styles::plain()),
    };
    Ok(report(&mut to, &styles)?)
}
