//! `collspec run`.
use super::args::{DEFAULT_FOLDER, RunArgs, SelectionArgs};
use super::backend::{self, Resolved};
use super::exit::Exit;
use super::failed_cases::FailedCases;
use super::launched::on_all_processes;
use super::progress::ProgressDisplay;
use super::quick_args::QuickArgs;
use super::reports::{self, Reports};
use super::terminal;
use super::{output, places};
use crate::corpus::known_bugs;
use crate::record::{Header, RecordingWriter};
use collspec_core::judge::Status;
use collspec_core::printable::{one_line, printable, printable_lines, thousands};
use collspec_run::child::guard::end_all;
use collspec_run::cluster::{Cluster, Counted};
use collspec_run::run::Backend;
use collspec_run::signals;
use collspec_suite::report::{Event, InheritedVariables, Reporter, Tally, fault_warning};
use collspec_suite::suite::Quick;
use collspec_suite::suite::options::cores;
use collspec_suite::suite::{
    CaseSet, Error, Filter, FilterTerm, InvalidFile, RunOptions, files_in_words, passed_over, variables, with_causes,
};
use std::fs::OpenOptions;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub fn run(args: &RunArgs) -> anyhow::Result<Exit> {
    if args.list {
        warn_of_variables()?;
        return list(args);
    }
    let options = args.options();
    let resolved = Resolved::of(&options);
    on_all_processes(
        &args.launch,
        || (resolved.equipment(), resolved.allowed(), ()),
        |job| {
            let cluster = job.map(|(cluster, ())| cluster);
            let exit = run_here(args, &options, &resolved, cluster.clone())?;
            if let Some(cluster) = cluster.filter(|_| args.verbose) {
                writeln!(terminal::err(), "collspec: {}", in_words(cluster.traffic()))?;
            }
            Ok(exit)
        },
    )
}

/// Describes the traffic between the processes of a job.
fn in_words(counted: Counted) -> String {
    let Counted { sent, writes, come, questions } = counted;
    let [sent, writes, come, questions] = [sent, writes, come, questions].map(thousands);
    format!(
        "the other processes got {sent} bytes in {writes} writes and sent {come} bytes; {questions} answers were waited for"
    )
}

/// Reads, runs, judges and reports, on the processes of a job if there are others.
fn run_here(
    args: &RunArgs,
    options: &RunOptions,
    resolved: &Resolved<'_>,
    cluster: Option<Arc<Cluster>>,
) -> anyhow::Result<Exit> {
    warn_of_variables()?;
    let reports = reports::files(&args.report.0);
    let outputs: Vec<PathBuf> = reports.iter().cloned().chain(args.record.clone()).collect();
    let inputs = output::of_selection(&args.selection).chain(output::of_backend(&options.backend));
    output::check("report", &outputs, inputs)?;
    let earlier = EarlierReports(reports);
    let mut chosen = match resolved.backend()? {
        Ok(chosen) => chosen,
        Err(exit) => return Ok(exit),
    };
    chosen.cluster = cluster;
    backend::check_software_gpus(options, &chosen)?;
    if args.settings.software.has("fault") && chosen.machine.is_some() && !chosen.backend.has_software_gpus() {
        anyhow::bail!(
            "--fault works with --backend soft, and with --driver software: it exchanges data in memory that the host can reach"
        );
    }
    let mut failed = FailedCases::of_working_folder();
    let mut suite = open_with_failed(args, &failed)?;
    if can_go_on(args, &suite) {
        select_cases(&mut suite, args, &failed, chosen.backend.has_software_gpus())?;
        suite.plan(cores());
    }
    show_diagnostics(&suite)?;
    let invalid_files = suite.invalid_files.clone();
    let invalid = invalid_files.len();
    if invalid > 0 && !(args.keep_going && can_run_some(&mut suite)) {
        earlier.are_replaced();
        report_that_nothing_ran(Reports::open(args, options, &chosen, false)?, &invalid_files)?;
        return Err(Error::InvalidFiles(invalid).into());
    }
    if let (true, Some(shard)) = (suite.cases.is_empty(), args.shard) {
        writeln!(terminal::err(), "collspec: none of the selected cases is in the share {shard}")?;
        return Ok(Exit::ALL_PASSED);
    }

    earlier.are_replaced();
    signals::at_interrupt(end_all)?;
    writeln!(terminal::err(), "{}", one_line(&chosen.banner(&InheritedVariables::here())))?;
    let fault = &options.variation.fault;
    if let Some(warning) = fault_warning(fault) {
        writeln!(terminal::err(), "collspec: {}", one_line(&warning))?;
    }
    let record = match &args.record {
        Some(path) => {
            let file = BufWriter::new(output::create_file(path)?);
            let mut header = Header::new(&chosen, options);
            if !args.no_footprint {
                header.footprint = Some(Box::new(crate::record::measure(&chosen, options)));
                header.tuning = crate::record::tuning(&chosen, options);
            }
            Some(RecordingWriter::new(file, &header)?)
        }
        None => None,
    };
    let mut reporter = RunReporter {
        record,
        report: Reports::open(args, options, &chosen, true)?,
        invalid_files: &invalid_files,
        warnings: &suite.warnings,
        progress: ProgressDisplay::new(),
        done: 0,
        version: chosen.nvidia_version(),
        // What failed because of a fault has not failed.
        failed: failed.as_mut().ok().filter(|_| fault.is_empty()),
    };
    let tally = suite.run(options.clone(), chosen, &mut reporter).map_err(expose_broken_pipe)?;
    if let Some(struck) = fault_in_words(fault, &tally) {
        writeln!(terminal::err(), "collspec: {}", one_line(&struck))?;
    }
    let left = suite.cases.len() - reporter.done;
    let interrupted = signals::is_interrupted();
    if left > 0 {
        let words = if left == 1 { "1 case was" } else { &format!("{left} cases were") };
        let why = if interrupted { "because of the interrupt" } else { "after the first failure (--fail-fast)" };
        writeln!(terminal::err(), "collspec: {words} not run {why}")?;
    }
    let written = failed.and_then(|failed| Ok(failed.write()?));
    if let (Err(error), true) = (written, tally.fail + tally.errors > 0) {
        let why = printable_lines(&with_causes(&*error)).into_owned();
        writeln!(terminal::err(), "collspec: `--failed` will not know the cases that failed: {why}")?;
    }
    if tally.fail > 0 && !interrupted && std::io::stderr().is_terminal() {
        writeln!(terminal::err(), "collspec: `--failed` runs them again, and `--show` has the buffers of each rank")?;
    }
    if invalid > 0 {
        let (files, their) = (files_in_words(invalid), if invalid == 1 { "its" } else { "their" });
        writeln!(terminal::err(), "collspec: errors in {files}; {their} cases were not run")?;
    }
    if interrupted {
        return Ok(Exit::INTERRUPTED);
    }
    let unmet = unmet(options, &tally, suite.cases.len());
    if let Some(unmet) = &unmet {
        writeln!(terminal::err(), "collspec: {unmet}")?;
    }
    Ok(match (tally.refused + invalid + tally.errors, tally.fail) {
        (0, 0) if unmet.is_some() => Exit::BACKEND_MISSING,
        (0, 0) => Exit::ALL_PASSED,
        (0, _) => Exit::SOME_FAILED,
        _ => Exit::WRONG_INPUT,
    })
}

/// The files of this run's reports. If the run does not begin, they are emptied, so that a program that reads them does not take the reports
/// of an earlier run for those of this one. A recording is left as it is, because it is kept to be compared with.
struct EarlierReports(Vec<PathBuf>);

impl EarlierReports {
    /// Reports begin to be written.
    fn are_replaced(mut self) {
        self.0.clear();
    }
}

impl Drop for EarlierReports {
    fn drop(&mut self) {
        for path in self.0.iter().filter(|path| path.is_file()) {
            // If this fails, the error that is reported is still the one that kept the run from beginning.
            let _ = OpenOptions::new().write(true).truncate(true).open(path);
        }
    }
}

/// The number of cases that a deliberate fault has changed. That the others passed says nothing about the fault.
fn fault_in_words(fault: &str, tally: &Tally) -> Option<String> {
    if fault.is_empty() {
        return None;
    }
    let unknown = match tally.fault_unknown {
        0 => String::new(),
        cases => format!("; of {cases} that ended early it is not known"),
    };
    let (struck, ran) = (tally.fault_struck, tally.ran());
    Some(match fault_warning(fault) {
        Some(_) => format!("the fault {fault} changed something in {struck} of {ran} cases{unknown}"),
        None => format!("there are faults that would change something in {struck} of {ran} cases{unknown}"),
    })
}

/// What was required of the number of cases, and is not met.
fn unmet(options: &RunOptions, tally: &Tally, selected: usize) -> Option<String> {
    let unmet = reports::required(options)?.unmet(tally.ran(), selected)?;
    let most_frequent = tally.skips.iter().max_by_key(|(_, cases)| **cases);
    Some(match most_frequent {
        Some((reason, cases)) => format!("{unmet}; the most frequent reason, in {cases} of the others: {reason}"),
        None => unmet,
    })
}

/// The reports for programs, of a run that did not begin because of these files.
fn report_that_nothing_ran(mut reports: Reports, invalid_files: &[InvalidFile]) -> anyhow::Result<()> {
    reports.event(&Event::Started { cases: 0 })?;
    invalid_files.iter().try_for_each(|invalid| reports.event(&invalid_event(invalid)))?;
    Ok(reports.event(&Event::Finished { seconds: 0.0 })?)
}

/// `--list`: the names of the cases that would run.
fn list(args: &RunArgs) -> anyhow::Result<Exit> {
    let failed = FailedCases::of_working_folder();
    let mut suite = open_with_failed(args, &failed)?;
    if can_go_on(args, &suite) {
        // The library matters only for the default selection. One that is missing does not keep cases from being listed.
        let options = &args.options();
        let on_software_gpus = args.selection.is_default()
            && Resolved::of(options).allowed().backends.iter().any(Backend::has_software_gpus);
        select_cases(&mut suite, args, &failed, on_software_gpus)?;
    }
    show_diagnostics(&suite)?;
    let invalid = suite.invalid_files.len();
    if invalid > 0 && !args.keep_going {
        anyhow::bail!("errors in {}", files_in_words(invalid));
    }
    let mut names: Vec<&str> = suite.cases.iter().map(|case| case.name.as_str()).collect();
    names.sort_unstable();
    let mut out = io::BufWriter::new(terminal::out());
    for name in names {
        writeln!(out, "{}", printable(name))?;
    }
    out.flush()?;
    Ok(if invalid > 0 { Exit::WRONG_INPUT } else { Exit::ALL_PASSED })
}

/// Warns of variables that look like this program's own and mean nothing.
///
/// # Errors
///
/// Writing fails.
pub fn warn_of_variables() -> io::Result<()> {
    variables::warnings(Some("collspec run")).iter().try_for_each(|line| writeln!(terminal::err(), "collspec: {line}"))
}

/// True if the files have no errors so far, or their errors do not stop the others.
fn can_go_on(args: &RunArgs, suite: &CaseSet) -> bool {
    suite.invalid_files.is_empty() || (args.keep_going && !suite.cases.is_empty())
}

/// Reads the selected files. If nothing says where they are, the cases that failed know theirs.
fn open_with_failed(args: &RunArgs, failed: &anyhow::Result<FailedCases>) -> anyhow::Result<CaseSet> {
    let selection = &args.selection;
    let has_no_place = selection.paths.is_empty() && selection.corpus.is_none() && !Path::new(DEFAULT_FOLDER).exists();
    match failed {
        Ok(failed) if args.failed && has_no_place => {
            open(&SelectionArgs { paths: failed.files(), ..selection.clone() })
        }
        _ => open(selection),
    }
}

/// Takes the invalid files out; true if there are cases in others.
fn can_run_some(suite: &mut CaseSet) -> bool {
    suite.set_invalid_aside();
    !suite.cases.is_empty()
}

/// Keeps the cases of the filter, those that failed if only they are wanted, and of these a share.
fn select_cases(
    suite: &mut CaseSet,
    args: &RunArgs,
    failed: &anyhow::Result<FailedCases>,
    on_software_gpus: bool,
) -> anyhow::Result<()> {
    select(suite, &args.selection, NAMES)?;
    if !args.failed || args.quick.selection().is_some() {
        keep_quick(suite, &args.quick, &args.selection, on_software_gpus)?;
    }
    if args.failed {
        let failed = failed.as_ref().map_err(|error| anyhow::anyhow!("--failed: {}", with_causes(&**error)))?;
        failed.select(&mut suite.cases);
        anyhow::ensure!(!suite.cases.is_empty(), "no selected case failed when it last ran from this folder");
    }
    if let Some(shard) = args.shard {
        shard.keep(&mut suite.cases);
    }
    Ok(())
}

/// Reads the files, and reports entries that were passed over.
///
/// # Errors
///
/// A path cannot be read or is not a scenario file.
pub fn open(selection: &SelectionArgs) -> anyhow::Result<CaseSet> {
    places::no_folder(selection)?;
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
pub fn select(suite: &mut CaseSet, selection: &SelectionArgs, names: &str) -> anyhow::Result<()> {
    select_with(suite, selection, &selection.filter(), names)
}

/// Hint on how to list case names.
const NAMES: &str = "`--list` without a filter names the cases";
pub const NAMES_BY_RUN: &str = "`collspec run --list` with these paths and without a filter names the cases";

/// Like [`select`], with a filter other than that of the command line. The error message includes the hint `names`.
///
/// # Errors
///
/// The filter admits no case.
pub fn select_with(suite: &mut CaseSet, selection: &SelectionArgs, filter: &Filter, names: &str) -> anyhow::Result<()> {
    let before = suite.cases.len();
    let with_long = Filter { long: true, ..filter.clone() };
    let too_long = suite.cases.iter().filter(|case| with_long.admits(case) && !filter.admits(case)).count();
    suite.select(filter);
    let shown: Vec<_> = selection.searched().iter().map(|path| path.display().to_string()).collect();
    let shown = shown.join(", ");
    anyhow::ensure!(before > 0, "no scenario in {shown}");
    if suite.cases.is_empty() && too_long == 0 {
        let which = match filter.terms.as_slice() {
            [FilterTerm::Named(name)] => format!("is called `{name}`"),
            [FilterTerm::Has(text)] => format!("has `{text}` in its name or as a tag"),
            terms => {
                let terms: Vec<_> = terms.iter().map(ToString::to_string).collect();
                format!("is selected by the filters {}", terms.join(", "))
            }
        };
        anyhow::bail!("no case in {shown} {which}; {names}");
    }
    if too_long > 0 {
        anyhow::ensure!(
            !suite.cases.is_empty(),
            "all {too_long} cases that are selected in {shown} are tagged `long`: `--filter long` runs them"
        );
        let words = if too_long == 1 { "1 case is" } else { &format!("{too_long} cases are") };
        writeln!(terminal::err(), "collspec: {words} tagged `long` and left out: `--filter long` runs them")?;
    }
    Ok(())
}

/// Keeps the selection of `--quick` or `--smoke` if one was given. On software GPUs, where cases take long, the quick one is also the default if
/// nothing else selects cases.
///
/// # Errors
///
/// None of the cases is in the selection, or writing fails.
pub fn keep_quick(
    suite: &mut CaseSet,
    quick: &QuickArgs,
    selection: &SelectionArgs,
    on_software_gpus: bool,
) -> anyhow::Result<()> {
    let before = suite.cases.len();
    let by_default = on_software_gpus && selection.is_default();
    let Some(wanted) = quick.selection().or(by_default.then_some(Quick::Quick)) else { return Ok(()) };
    if selection.forms.is_some() {
        // Nobody has measured the cases in these forms.
        suite.keep_covering();
    } else {
        suite.keep_quick(wanted);
    }
    let kept = suite.cases.len();
    match quick.given() {
        Some(given) => anyhow::ensure!(
            kept > 0 || before == 0,
            "{before} cases are selected, and none of them is in the selection of {given}: leave it out"
        ),
        None => writeln!(
            terminal::err(),
            "collspec: {kept} of {before} cases are selected, as with --quick; with a PATH, such as {DEFAULT_FOLDER}, all of them run"
        )?,
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
    for faulty in suite.warnings.iter().chain(&suite.invalid_files) {
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

/// The event of a file that has warnings.
fn warned_event(warned: &InvalidFile) -> Event {
    let InvalidFile { name, file, diagnostics } = warned.clone();
    Event::FileWarned { file, name, warnings: diagnostics }
}

/// The event of a file that has errors.
fn invalid_event(invalid: &InvalidFile) -> Event {
    let InvalidFile { name, file, diagnostics } = invalid.clone();
    Event::FileInvalid { file, name, diagnostics }
}

/// The report, the progress bar that is hidden while it writes, and the cases that have failed.
struct RunReporter<'a> {
    report: Reports,
    invalid_files: &'a [InvalidFile],
    warnings: &'a [InvalidFile],
    progress: ProgressDisplay,
    done: usize,
    /// The version of NVIDIA's library, if it is one.
    version: Option<i32>,
    failed: Option<&'a mut FailedCases>,
    record: Option<RecordingWriter<BufWriter<output::NamedFile>>>,
}

impl Reporter for RunReporter<'_> {
    fn event(&mut self, event: &Event) -> io::Result<()> {
        let mut noted = None;
        if let (Event::CaseDone { case, verdict }, Some(version)) = (event, self.version)
            && let Some(note) = known_bugs::note(case, verdict, version)
        {
            let mut verdict = verdict.clone();
            verdict.notes.insert(0, note);
            noted = Some(Event::CaseDone { case: case.clone(), verdict });
        }
        let event = noted.as_ref().unwrap_or(event);
        self.progress.event(event);
        if let Some(record) = &mut self.record {
            record.event(event)?;
        }
        if let Event::CaseDone { case, verdict } = event {
            self.done += 1;
            if let (Some(failed), Status::Pass | Status::Fail | Status::Error) = (self.failed.as_mut(), verdict.status)
            {
                failed.note(case, verdict.status.is_bad());
            }
        }
        let Self { report, progress, .. } = self;
        match event {
            Event::Started { .. } => progress.suspend(|| {
                report.event(event)?;
                self.invalid_files.iter().try_for_each(|invalid| report.event(&invalid_event(invalid)))?;
                self.warnings.iter().try_for_each(|warned| report.event(&warned_event(warned)))
            }),
            // Nothing is written, so the line can stay.
            Event::CaseStarted { .. } => report.event(event),
            Event::FileInvalid { .. } | Event::FileWarned { .. } | Event::CaseDone { .. } | Event::Finished { .. } => {
                progress.suspend(|| report.event(event))
            }
        }
    }
}
