//! `collspec audit`.
use super::args::{Audit, Format};
use super::exit::Exit;
use super::progress::Progress;
use super::run::{select, show_faults};
use anstream::AutoStream;
use anyhow::Context;
use collspec::audit::{self, Error, Ours, Report, Settings, SoundFailure, Step};
use collspec::report::{Inherited, Rerun, Styles, audit as table, failure};
use collspec::run::{Options, Workers};
use collspec::suite::{self, faults};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::num::NonZeroUsize;
use std::thread::available_parallelism;
use std::time::Instant;

/// Failures without a fault that are shown.
const SHOWN: usize = 5;

pub fn audit(args: &Audit) -> anyhow::Result<Exit> {
    let mut suite = args.selection.open()?;
    if !suite.faults.is_empty() {
        show_faults(&suite)?;
        return Err(suite::Error::Faults(suite.faults.len()).into());
    }
    select(&mut suite, &args.selection)?;
    let jobs = args.jobs.map_or_else(|| available_parallelism().map_or(1, NonZeroUsize::get), NonZeroUsize::get);
    let settings = Settings { selection: args.fault.clone().unwrap_or_default(), quick: args.quick, jobs };
    let options = Options { timeout: args.timeout, worker: Workers::CurrentExe, ..Options::default() };
    let begun = Instant::now();
    let progress = Progress::new();
    let tell = |step: &Step| {
        match step {
            Step::Runs { runs, faulty } => {
                progress.begin(*runs, if *faulty { "with faults" } else { "without faults" })
            }
            Step::Done { case, fault } => {
                let fault = fault.map(|fault| format!("{} ", fault.entry().id)).unwrap_or_default();
                progress.step(format!("{fault}{}", case.name));
            }
            Step::Finished => progress.end(),
        }
        Ok(())
    };
    let report = match audit::audit(&suite, &Ours, options, &settings, tell) {
        Ok(report) => report,
        Err(Error::Unsound(failures)) => {
            progress.end();
            return unsound(&failures);
        }
        Err(error) => return Err(error.into()),
    };
    write(args, &report, begun.elapsed().as_secs_f64())?;
    Ok(if report.misses() { Exit::SOME_FAILED } else { Exit::ALL_PASSED })
}

/// Shows what fails without a fault.
fn unsound(failures: &[SoundFailure]) -> anyhow::Result<Exit> {
    let mut to = anstream::stderr();
    let rerun = Rerun::command_line(vec!["--backend".to_owned(), "soft".to_owned()], Inherited::here());
    for failed in failures.iter().take(SHOWN) {
        match faults::refusal(&failed.case).filter(|_| failed.refused()) {
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
    writeln!(to, "collspec: {}", Error::Unsound(failures.to_vec()))?;
    Ok(if failures.iter().any(SoundFailure::refused) { Exit::WRONG_INPUT } else { Exit::SOME_FAILED })
}

fn write(args: &Audit, report: &Report, seconds: f64) -> anyhow::Result<()> {
    let (mut to, styles): (Box<dyn Write>, Styles) = match &args.output {
        None => (Box::new(BufWriter::new(AutoStream::auto(io::stdout()))), Styles::coloured()),
        Some(path) => {
            let file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
            (Box::new(BufWriter::new(file)), Styles::plain())
        }
    };
    match args.format {
        Format::Human => table::human(&mut to, report, seconds, args.scenarios, &styles)?,
        Format::Jsonl => table::json_lines(&mut to, report, seconds)?,
    }
    Ok(())
}
