//! `collspec audit --nccl`: the kernels of a real library.
use super::args::{AuditArgs, AuditFormat};
use super::backend_args::driver_request;
use super::exit::Exit;
use super::progress::ProgressDisplay;
use super::{backend, output, run, terminal};
use crate::audit::mutants::{Event, Report, Request, audit_mutants, write_json_lines, write_table};
use collspec_core::judge::Details;
use collspec_core::printable::{PrintableWriter, one_line};
use collspec_run::child::Workers;
use collspec_run::signals;
use collspec_suite::report::{InheritedVariables, RerunCommand, Styles, failure};
use collspec_suite::suite::options::cores;
use collspec_suite::suite::{BackendRequest, RunOptions, Variation, files_in_words};
use std::collections::HashSet;
use std::io::{BufWriter, Write};
use std::num::NonZeroUsize;
use std::time::Instant;

/// Number of failures without a change that are shown.
const MAX_FAILURES: usize = 5;

pub fn audit(args: &AuditArgs) -> anyhow::Result<Exit> {
    refuse_foreign_options(args)?;
    run::warn_of_variables()?;
    let file = output::file(&args.output);
    output::check("report", file.as_slice(), output::of_selection(&args.selection))?;
    let options = options(args);
    let chosen = match backend::resolve(&options)? {
        Ok(chosen) => chosen,
        Err(exit) => return Ok(exit),
    };
    anyhow::ensure!(
        chosen.backend.has_software_gpus(),
        "only the kernels of software GPUs can be changed, because a GPU executes machine code that is not PTX: audit --nccl needs --driver software"
    );
    let mut suite = run::open(&args.selection)?;
    if suite.invalid_files.is_empty() {
        run::select(&mut suite, &args.selection, run::NAMES_BY_RUN)?;
        suite.plan(cores());
    }
    run::show_diagnostics(&suite)?;
    let invalid = suite.invalid_files.len();
    anyhow::ensure!(invalid == 0, "errors in {}", files_in_words(invalid));
    writeln!(terminal::err(), "{}", one_line(&chosen.banner(&InheritedVariables::here())))?;
    // An audit takes long, so the output file is created before it.
    let file = file.map(output::create_file).transpose()?;

    let (begun, jobs) = (Instant::now(), options.jobs_on(&chosen));
    let mut seen = HashSet::new();
    let only = args.kernels.only.iter().copied().filter(|mutant| seen.insert(*mutant)).collect();
    let request = Request {
        only,
        mutants: args.kernels.mutants.get(),
        seed: args.kernels.seed,
        most_cases: args.kernels.most_cases.get(),
        jobs,
    };
    let repeats = options.clone();
    let runner = suite.runner(options, chosen)?;
    signals::catch_interrupt();
    let progress = ProgressDisplay::new();
    let mut tell = |event: Event<'_>| {
        match event {
            Event::Begun { runs, mutants } => {
                progress.begin(runs, Some(if mutants { "mutants" } else { "without a change" }));
            }
            Event::Done(name) => progress.step(name),
        }
        Ok(())
    };
    let report = audit_mutants(&suite.cases, &request, &runner, &signals::is_interrupted, &mut tell);
    progress.end();
    let report = report?;
    if !report.failed.is_empty() {
        return show_failures(&report, &repeats);
    }
    anyhow::ensure!(
        signals::is_interrupted() || report.candidates > 0,
        "no case executes an instruction that can be changed"
    );
    let seconds = begun.elapsed().as_secs_f64();
    let (mut to, styles): (Box<dyn Write>, Styles) = match file {
        None => (Box::new(BufWriter::new(terminal::out())), Styles::coloured()),
        Some(file) => (Box::new(BufWriter::new(PrintableWriter::new(file, false))), Styles::plain()),
    };
    match args.format {
        AuditFormat::Human => write_table(&mut to, &report, seconds, &styles)?,
        AuditFormat::Jsonl => write_json_lines(&mut to, &report, seconds)?,
    }
    if signals::is_interrupted() {
        return Ok(Exit::INTERRUPTED);
    }
    let [made, noticed, ..] = report.counts(|_| true);
    if let Some(least) = args.at_least.filter(|least| !least.admits(noticed, made)) {
        writeln!(
            terminal::err(),
            "collspec: {noticed} of {made} mutants are noticed, which is less than `--at-least {least}`"
        )?;
        return Ok(Exit::SOME_FAILED);
    }
    Ok(Exit::ALL_PASSED)
}

fn options(args: &AuditArgs) -> RunOptions {
    let kernels = &args.kernels;
    RunOptions {
        backend: BackendRequest {
            nccl: args.library.nccl.clone(),
            driver: driver_request(args.library.driver.as_deref()),
            ..BackendRequest::default()
        },
        reading: args.selection.reading(),
        details: Details::None,
        workers: Workers::CurrentExe,
        timeout: args.timeout,
        jobs: Some(args.jobs.or_else(|| NonZeroUsize::new(cores())).unwrap_or(NonZeroUsize::MIN)),
        variation: Variation {
            delay_stores: kernels.delay_stores,
            early_loads: kernels.early_loads,
            ..Variation::default()
        }
        .with_seed_if_needed(),
        ..RunOptions::default()
    }
}

/// Refuses the options that are for the audit of faults and flaws.
fn refuse_foreign_options(args: &AuditArgs) -> anyhow::Result<()> {
    let given = [
        ("--fault", args.fault.is_some()),
        ("--list-faults", args.list_faults),
        ("--every-case", args.every_case),
        ("--quick", args.quick),
        ("--scenarios", args.scenarios),
        ("--baseline", args.baseline.is_some()),
        ("--write-baseline", args.write_baseline.is_some()),
    ];
    match given.iter().find(|(_, given)| *given) {
        Some((name, _)) => {
            anyhow::bail!(
                "{name} is for the audit of faults, and --nccl audits the kernels of a real library: leave one of the two out"
            )
        }
        None => Ok(()),
    }
}

/// Shows the cases that fail as the library is.
fn show_failures(report: &Report, options: &RunOptions) -> anyhow::Result<Exit> {
    let mut to = terminal::err();
    let rerun = RerunCommand::command_line(options.to_repeat(), InheritedVariables::here());
    for (case, verdict) in report.failed.iter().take(MAX_FAILURES) {
        let again = rerun.command(case);
        writeln!(to, "{}\n", failure::failure_text(case, verdict, &again, &Styles::coloured(), false))?;
    }
    if let Some(more) = report.failed.len().checked_sub(MAX_FAILURES).filter(|more| *more > 0) {
        writeln!(to, "and {more} more\n")?;
    }
    writeln!(
        to,
        "collspec: {} without a change, so the audit cannot tell what they notice; correct them first",
        match report.failed.len() {
            1 => "a case fails".to_owned(),
            more => format!("{more} cases fail"),
        }
    )?;
    Ok(Exit::SOME_FAILED)
}
