//! `collspec minimize`.
use super::exit::Exit;
use super::minimize_args::MinimizeArgs;
use super::{backend, output, run, terminal};
use crate::minimize::{Error, Reduced, Request, in_runs, minimize, nearest_command};
use anyhow::Context;
use collspec_core::files;
use collspec_core::printable::{one_line, printable_lines};
use collspec_core::scenario::{AllowEnv, SourceFile};
use collspec_run::run::PoolLimits;
use collspec_suite::report::{InheritedVariables, RerunCommand};
use collspec_suite::suite::Runner;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

pub fn reduce(args: &MinimizeArgs) -> anyhow::Result<Exit> {
    run::warn_of_variables()?;
    let options = args.options();
    let chosen = match backend::resolve(&options)? {
        Ok(chosen) => chosen,
        Err(exit) => return Ok(exit),
    };
    backend::check_software_gpus(&options, &chosen)?;
    let inputs = [args.file.clone()].into_iter().chain(output::of_backend(&options.backend));
    output::check("scenario", output::file(&args.output).as_slice(), inputs)?;
    let request = Request {
        file: read(&args.file, options.reading.limits.file)?,
        stem: args.file.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
        case: args.case.clone(),
        allow_env: AllowEnv::from_names(&args.allow_env),
        budget: Duration::from_secs_f64(args.budget),
        repeats: args.repeats.get(),
    };
    writeln!(terminal::err(), "{}", one_line(&chosen.banner(&InheritedVariables::here())))?;
    let rerun = RerunCommand::command_line(options.to_repeat(), InheritedVariables::here());
    // A new process for every run: whether some failures happen is decided when a process starts.
    let runner = Runner::new(options, chosen)?.with_pool_limits(PoolLimits::of(0));
    let mut progress = |size, runs| writeln!(terminal::err(), "collspec: {size} after {}", in_runs(runs));
    let reduced = match minimize(&request, &runner, &mut progress) {
        Ok(reduced) => reduced,
        Err(Error::Invalid(text)) => {
            writeln!(terminal::err(), "{}\n", text.trim_end())?;
            anyhow::bail!("{} has errors", args.file.display());
        }
        Err(error @ Error::DoesNotFail { .. }) => {
            writeln!(terminal::err(), "collspec: {}", printable_lines(&error.to_string()))?;
            return Ok(Exit::SOME_FAILED);
        }
        Err(error) => return Err(error.into()),
    };
    match output::file(&args.output) {
        Some(path) => output::replace(path, reduced.text.as_bytes())?,
        None => {
            let mut out = terminal::out();
            out.write_all(reduced.text.as_bytes())?;
            out.flush()?;
        }
    }
    summary(&reduced, output::file(&args.output), &rerun)?;
    Ok(Exit::ALL_PASSED)
}

/// Prints the result, and how to reproduce it.
fn summary(reduced: &Reduced, output: Option<&Path>, rerun: &RerunCommand) -> std::io::Result<()> {
    let mut to = terminal::err();
    let (before, after) = reduced.size;
    let (runs, seconds) = (in_runs(reduced.runs), reduced.seconds);
    writeln!(to, "collspec: {before} became {after} in {runs}, {seconds:.1} s: {}", reduced.failure)?;
    if let Some((failed, all)) = reduced.flaky {
        writeln!(to, "collspec: the case fails now and then: {failed} of {all} runs as it was given")?;
    }
    if reduced.out_of_time {
        writeln!(to, "collspec: the time is over (--budget), and perhaps less would do")?;
    }
    reduced.kept.iter().try_for_each(|sentence| writeln!(to, "collspec: {sentence}"))?;
    if let Some(path) = output {
        let old = Path::new(&reduced.case.file.path).file_stem().unwrap_or_default().to_string_lossy();
        let new = path.file_stem().unwrap_or_default().to_string_lossy();
        let name = reduced.case.name.strip_prefix(&*old).map(|point| format!("{new}{point}"));
        let name = name.unwrap_or_else(|| reduced.case.name.clone());
        let mut case = (*reduced.case).clone();
        (case.name, case.file) = (name, at(path, &reduced.case.file));
        writeln!(to, "run it: {}", one_line(&rerun.command(&case)))?;
    }
    match nearest_command(&reduced.case) {
        Some(command) => writeln!(to, "nearest in nccl-tests, with other data: {}", one_line(&command)),
        None => writeln!(to, "nccl-tests has no program for this operation"),
    }
}

fn at(path: &Path, file: &SourceFile) -> Arc<SourceFile> {
    Arc::new(SourceFile { path: path.display().to_string(), text: file.text.clone() })
}

/// Reads the scenario file.
fn read(path: &Path, most: u64) -> anyhow::Result<Arc<SourceFile>> {
    let shown = path.display().to_string();
    let text = files::read_text(path, most).with_context(|| format!("cannot read {shown}"))?;
    Ok(Arc::new(SourceFile { path: shown, text: text.into() }))
}
