//! `collspec check`.
use super::args::{CheckArgs, CheckFormat};
use super::check_report::CheckReport;
use super::exit::Exit;
use super::progress::ProgressDisplay;
use super::run::{NAMES_BY_RUN, open, select_with, show_diagnostics, warn_of_variables};
use super::terminal;
use collspec_core::scenario::Case;
use collspec_run::run::memory::Turns;
use collspec_suite::suite::check_case::check_case;
use collspec_suite::suite::options::cores;
use collspec_suite::suite::{Filter, invalid_files, parallel};
use std::io::{self, BufWriter, Write};
use std::sync::Arc;
use std::time::Instant;

pub fn check(args: &CheckArgs) -> anyhow::Result<Exit> {
    warn_of_variables()?;
    let (begun, jobs) = (Instant::now(), cores());
    let mut suite = open(&args.selection)?;
    if suite.invalid_files.is_empty() || !suite.cases.is_empty() {
        // Nothing runs here, so cases tagged `long` take no longer than others.
        let filter = Filter { long: true, ..args.selection.filter() };
        select_with(&mut suite, &args.selection, &filter, NAMES_BY_RUN)?;
    }
    let foreseen = suite.plan(jobs);
    let limit = invalid_files::InvalidCaseLimit::default();
    let (limits, turns) = (suite.limits, Turns::new(suite.limits.memory));
    let plans = suite.plans().clone();
    let check = |case: &Arc<Case>| check_case(&plans, case, &limits, &turns);
    // Cases of files with diagnostics from the plan get no forecast.
    let planned = |case: &Arc<Case>| suite.invalid_files.iter().all(|faulty| faulty.file.path != case.file.path);
    let (cases, mut checked): (Vec<_>, Vec<_>) =
        std::mem::take(&mut suite.cases).into_iter().zip(foreseen).filter(|(case, _)| planned(case)).unzip();
    if !args.plan_only {
        let progress = ProgressDisplay::new();
        progress.begin(cases.len(), Some("required results"));
        let results = parallel::map(&cases, jobs, |case| {
            let result = limit.check(case, check);
            progress.step(&case.name);
            result
        });
        progress.end();
        let invalid_files = &mut suite.invalid_files;
        let add = |(case, result): (&Arc<Case>, Result<_, _>)| {
            result.map_err(|diagnostics| invalid_files::add(invalid_files, case, diagnostics)).ok()
        };
        checked = cases.iter().zip(results).map(add).collect();
    }
    suite.cases = cases;

    let report = CheckReport::new(&suite, &checked, begun);
    match args.format {
        CheckFormat::Human => {
            report.write_files(&mut terminal::out())?;
            show_diagnostics(&suite)?;
            let mut out = terminal::out();
            writeln!(out, "{}", report.summary())?;
            out.flush()?;
        }
        CheckFormat::Jsonl => report.write_json_lines(&mut BufWriter::new(io::stdout()))?,
    }
    Ok(if suite.invalid_files.is_empty() { Exit::ALL_PASSED } else { Exit::WRONG_INPUT })
}
