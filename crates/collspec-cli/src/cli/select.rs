//! `collspec select`.
use super::exit::Exit;
use super::progress::ProgressDisplay;
use super::select_args::SelectArgs;
use super::{backend, output, run, terminal};
use crate::select::{choose, measure, write_coverage, write_table};
use collspec_core::judge::Details;
use collspec_core::printable::one_line;
use collspec_run::child::Workers;
use collspec_run::signals;
use collspec_suite::report::InheritedVariables;
use collspec_suite::suite::options::cores;
use collspec_suite::suite::{BackendRequest, ChosenBackend, DriverRequest, RunOptions, files_in_words};
use std::io::Write;

pub fn select(args: &SelectArgs) -> anyhow::Result<Exit> {
    run::warn_of_variables()?;
    let file = output::file(&args.output);
    output::check("table", file.as_slice(), output::of_selection(&args.selection))?;
    let mut libraries: Vec<(String, RunOptions, ChosenBackend)> = Vec::new();
    for name in &args.nccl {
        let options = options(args, name);
        let chosen = match backend::resolve(&options)? {
            Ok(chosen) => chosen,
            Err(exit) => return Ok(exit),
        };
        let release = chosen.machine.as_ref().map_or_else(|| name.clone(), |machine| machine.probed.version_text());
        let release = format!("NCCL {release}");
        let is_new = libraries.iter().all(|(known, ..)| *known != release);
        anyhow::ensure!(is_new, "--nccl: {release} is named twice");
        libraries.push((release, options, chosen));
    }
    let mut suite = run::open(&args.selection)?;
    let invalid = suite.invalid_files.len();
    if invalid == 0 {
        run::select(&mut suite, &args.selection, run::NAMES_BY_RUN)?;
        suite.keep_covering();
        suite.plan(cores());
    }
    run::show_diagnostics(&suite)?;
    anyhow::ensure!(suite.invalid_files.is_empty(), "errors in {}", files_in_words(suite.invalid_files.len()));
    signals::catch_interrupt();
    let mut measured = Vec::new();
    for (library, options, chosen) in libraries {
        writeln!(terminal::err(), "{}", one_line(&chosen.banner(&InheritedVariables::here())))?;
        let jobs = options.jobs_on(&chosen);
        let runner = suite.runner(options, chosen)?;
        let progress = ProgressDisplay::new();
        progress.begin(suite.cases.len(), None);
        let runs = measure(&suite.cases, jobs, &runner, &signals::is_interrupted, |name| progress.step(name));
        progress.end();
        if signals::is_interrupted() {
            return Ok(Exit::INTERRUPTED);
        }
        measured.push((library, runs?));
    }
    let (names, runs): (Vec<&str>, Vec<&[_]>) = measured.iter().map(|(name, runs)| (&**name, &**runs)).unzip();
    let selection = choose(&suite.call_factors(), &runs, cores());
    write_coverage(&mut terminal::err(), &suite.cases, &selection, &measured)?;
    let mut table = Vec::new();
    write_table(&mut table, &suite.cases, &selection, &names)?;
    match file {
        Some(file) => output::replace(file, &table)?,
        None => terminal::out().write_all(&table)?,
    }
    Ok(Exit::ALL_PASSED)
}

fn options(args: &SelectArgs, library: &str) -> RunOptions {
    RunOptions {
        backend: BackendRequest {
            nccl: Some(library.to_owned()),
            driver: DriverRequest::parse("software"),
            ..BackendRequest::default()
        },
        reading: args.selection.reading(),
        details: Details::None,
        workers: Workers::CurrentExe,
        jobs: args.jobs,
        ..RunOptions::default()
    }
}
