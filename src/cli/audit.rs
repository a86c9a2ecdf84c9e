//! `collspec audit`.
use super::args::{Audit, Format, WayName};
use super::exit::Exit;
use super::output;
use super::progress::Progress;
use super::run::{open, select, show_diagnostics};
use super::terminal;
use crate::audit::peers::PeerChecker;
use crate::audit::report::{comparison as side_by_side, table};
use crate::audit::{self, AuditEvent, Checker, Collspec, Depth, Error, Report, Settings, SoundFailure};
use crate::plan::Limits;
use crate::printable::{Guarded, printable_lines};
use crate::report::{Inherited, Rerun, Styles, failure};
use crate::suite::options::cores;
use crate::suite::{self, Reading, RunOptions, Suite, diagnostics};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::num::NonZeroUsize;
use std::time::Instant;

/// Failures without a fault that are shown.
const SHOWN: usize = 5;

pub fn audit(args: &Audit) -> anyhow::Result<Exit> {
    let mut suite = open(&args.selection)?;
    output::spare_scenarios(args.output.as_deref(), &args.selection)?;
    let cores = cores();
    if suite.invalid_files.is_empty() {
        select(&mut suite, &args.selection)?;
        suite.plan(cores);
    }
    if !suite.invalid_files.is_empty() {
        show_diagnostics(&suite)?;
        return Err(suite::Error::InvalidFiles(suite.invalid_files.len()).into());
    }
    let jobs = args.jobs.map_or(cores, NonZeroUsize::get);
    let depth = match (args.every_case, args.quick) {
        (true, _) => Depth::Cases,
        (false, true) => Depth::Quick,
        (false, false) => Depth::Files,
    };
    let settings = Settings { selection: args.fault.clone().unwrap_or_default(), depth, jobs };
    let begun = Instant::now();
    let mut ways: Vec<WayName> = Vec::new();
    for way in &args.ways {
        if !ways.contains(way) {
            ways.push(*way);
        }
    }
    if ways.is_empty() {
        ways.push(WayName::Collspec);
    }
    let suites = ways.iter().any(|way| *way != WayName::Collspec);
    if suites && settings.selection.items().all(|item| matches!(item, audit::FaultOrFlaw::Flaw(_))) {
        anyhow::bail!(
            "J01 to J10 are flaws of this program's judge, which the suites do not use: name a fault of the library"
        );
    }
    // An audit takes long: a report that cannot be written is to be known before.
    let output = args.output.as_deref().map(output::create).transpose()?;
    let mut reports = Vec::new();
    for name in &ways {
        let way: Box<dyn Checker> = match name {
            WayName::Collspec => Box::new(Collspec),
            WayName::Peer(peer) => Box::new(PeerChecker::new(*peer)?),
        };
        match one(args, &suite, &*way, &settings)? {
            Ok(report) => reports.push(report),
            Err(exit) => return Ok(exit),
        }
    }
    let seconds = begun.elapsed().as_secs_f64();
    let own = ways.iter().position(|name| *name == WayName::Collspec);
    match (reports.as_slice(), own) {
        ([report], Some(_)) => write(output, &|to, styles| match args.format {
            Format::Human => table::write_table(to, report, seconds, args.scenarios, styles),
            Format::Jsonl => table::write_json_lines(to, report, seconds),
        })?,
        _ => write(output, &|to, styles| match args.format {
            Format::Human => side_by_side::write_comparison(to, &reports, seconds, styles),
            Format::Jsonl => side_by_side::write_json_lines(to, &reports, seconds),
        })?,
    }
    // where others are compared with it, its own result is what counts
    let counts = own.and_then(|own| reports.get(own)).map_or(reports.as_slice(), std::slice::from_ref);
    Ok(if counts.iter().any(Report::has_misses) { Exit::SOME_FAILED } else { Exit::ALL_PASSED })
}

/// One way's audit; or the exit code, where it has been said what is wrong.
fn one(args: &Audit, suite: &Suite, way: &dyn Checker, settings: &Settings) -> anyhow::Result<Result<Report, Exit>> {
    let reading = Reading { limits: suite.limits, ..Reading::default() };
    let options = RunOptions { timeout: args.timeout, reading, ..RunOptions::default() };
    let progress = Progress::new();
    let tell = |step: &AuditEvent| {
        match step {
            AuditEvent::Planned { runs, faulty } => {
                progress.begin(*runs, if *faulty { "with faults" } else { "without faults" })
            }
            AuditEvent::RunDone { case, fault } => {
                let fault = fault.map(|fault| format!("{} ", fault.entry().id)).unwrap_or_default();
                progress.step(format!("{fault}{}", case.name));
            }
            AuditEvent::Finished => progress.end(),
        }
        Ok(())
    };
    match audit::audit(suite, way, options, settings, tell) {
        Ok(report) => Ok(Ok(report)),
        Err(Error::FailsWithoutFault(failures)) => {
            progress.end();
            unsound(&failures, &suite.limits).map(Err)
        }
        Err(error) => Err(error.into()),
    }
}

/// Shows what fails without a fault.
fn unsound(failures: &[SoundFailure], limits: &Limits) -> anyhow::Result<Exit> {
    let mut to = terminal::err();
    let rerun = Rerun::command_line(vec!["--backend".to_owned(), "soft".to_owned()], Inherited::here());
    for failed in failures.iter().take(SHOWN) {
        match diagnostics::refusal(&failed.case, limits).filter(|_| failed.refused()) {
            Some(text) => writeln!(to, "{}\n", text.trim_end())?,
            None => {
                let again = rerun.command(&failed.case);
                writeln!(to, "{}\n", failure::text(&failed.case, &failed.verdict, &again, &Styles::coloured()))?;
            }
        }
    }
    if let Some(more) = failures.len().checked_sub(SHOWN).filter(|more| *more > 0) {
        writeln!(to, "and {more} more\n")?;
    }
    writeln!(to, "collspec: {}", printable_lines(&Error::FailsWithoutFault(failures.to_vec()).to_string()))?;
    Ok(if failures.iter().any(SoundFailure::refused) { Exit::WRONG_INPUT } else { Exit::SOME_FAILED })
}

/// Writes a report in these styles.
type Told<'a> = dyn Fn(&mut dyn Write, &Styles) -> io::Result<()> + 'a;

fn write(output: Option<File>, report: &Told<'_>) -> anyhow::Result<()> {
    let (mut to, styles): (Box<dyn Write>, Styles) = match output {
        None => (Box::new(BufWriter::new(terminal::out())), Styles::coloured()),
        Some(file) => (Box::new(BufWriter::new(Guarded::new(file, false))), Styles::plain()),
    };
    Ok(report(&mut to, &styles)?)
}
