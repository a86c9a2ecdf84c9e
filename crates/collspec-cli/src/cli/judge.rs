//! `collspec judge`.
use super::backend_args::driver_request;
use super::exit::Exit;
use super::judge_args::JudgeArgs;
use super::record::{FOLDER_VARIABLE, PRELOAD, RECORDER, before, cannot_start, in_front, prepared, program, startable};
use super::{gpu, output, terminal};
use crate::fetch::elf;
use crate::judge::{self, Tally};
use anyhow::Context;
use collspec_core::printable::printable_lines;
use collspec_run::library::standin;
use collspec_run::run::Driver;
use collspec_run::signals;
use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};

/// The variable with what is copied, as the recorder reads it.
const SETTINGS_VARIABLE: &str = "COLLSPEC_JUDGE";
/// What a shell adds to the number of a signal that ended a program.
const BY_SIGNAL: i32 = 128;

pub fn judge(args: &JudgeArgs) -> anyhow::Result<Exit> {
    let outputs: Vec<&PathBuf> = [&args.scenario, &args.json].into_iter().flatten().collect();
    output::check("verdict", &outputs, files(&args.paths)?)?;
    if args.program.is_empty() {
        let tally = judge::judge(&files(&args.paths)?)?;
        return report(args, &tally);
    }
    let kept = args.folder.as_deref().map(prepared).transpose()?;
    let temporary = tempfile::Builder::new().prefix("collspec-judge-").tempdir();
    let temporary = temporary.context("cannot make a folder for the copies")?;
    let folder = kept.as_deref().unwrap_or(temporary.path());
    let ended = run(args, folder)?;
    let judged = files(&[folder.to_owned()]).and_then(|files| Ok(judge::judge(&files)?));
    let judged = judged.and_then(|tally| report(args, &tally));
    match judged {
        Err(error) if ended != 0 => {
            writeln!(terminal::err(), "collspec: {}", printable_lines(&format!("{error:#}")))?;
            Ok(Exit::of_code(ended))
        }
        Ok(exit) if ended == 0 => Ok(exit),
        Ok(_) => Ok(Exit::of_code(ended)),
        Err(error) => Err(error),
    }
}

/// Runs the program to its end; its exit code.
fn run(args: &JudgeArgs, folder: &Path) -> anyhow::Result<u8> {
    let word = args.program.first().context("no program is named")?;
    let file = startable(word).with_context(|| cannot_start(word))?;
    if elf::is_static(&file) {
        writeln!(
            terminal::err(),
            "collspec: {} is linked statically, so its own calls cannot be seen",
            file.display()
        )?;
    }
    let JudgeArgs { seed, sample, all, limit_bytes, .. } = args;
    let settings = format!("seed={seed} share={sample} all={} limit={limit_bytes}", u8::from(*all));
    let mut variables = vec![(FOLDER_VARIABLE, folder.into()), (SETTINGS_VARIABLE, settings.into())];
    let mut preload = args.place.library()?.map(|library| before(library, PRELOAD));
    if needs_software_gpus(args, &file)? {
        for (name, value) in gpu::variables(&args.place)? {
            if name == PRELOAD { preload = Some(value) } else { variables.push((name, value)) }
        }
    }
    let recorder = standin::installed(RECORDER)?;
    let preload = match preload {
        Some(others) => in_front(recorder, Some(others)),
        None => before(recorder, PRELOAD),
    };
    variables.push((PRELOAD, preload));
    let mut child = program(&args.program, &variables)?.spawn().with_context(|| cannot_start(word))?;
    signals::pass_on_to(child.id());
    let status = child.wait();
    signals::pass_on_no_more();
    let status = status.context("cannot wait for the program")?;
    let code = status.code().unwrap_or_else(|| BY_SIGNAL + status.signal().unwrap_or(0));
    Ok(u8::try_from(code).unwrap_or(u8::MAX))
}

/// As other commands choose a driver; this program itself chooses when it runs.
fn needs_software_gpus(args: &JudgeArgs, program: &Path) -> anyhow::Result<bool> {
    let own = std::env::current_exe().and_then(|own| own.canonicalize()).ok();
    if args.driver.is_none() && own.is_some() && program.canonicalize().ok() == own {
        return Ok(false);
    }
    let driver = driver_request(args.driver.as_deref()).resolve(false).map_err(anyhow::Error::msg)?;
    Ok(driver == Driver::Software)
}

/// The files of these paths; of a folder those that the recorder has written.
fn files(paths: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in paths {
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let entries = std::fs::read_dir(path).with_context(|| format!("cannot read the folder {}", path.display()))?;
        let of_folder = entries.filter_map(|entry| Some(entry.ok()?.path()));
        let mut of_folder: Vec<PathBuf> =
            of_folder.filter(|file| file.extension() == Some(OsStr::new("log"))).collect();
        of_folder.sort();
        files.extend(of_folder);
    }
    Ok(files)
}

/// Tells the verdict.
fn report(args: &JudgeArgs, tally: &Tally) -> anyhow::Result<Exit> {
    if let Some(path) = &args.json {
        let text = format!("{:#}\n", tally.json());
        match output::file(&args.json) {
            Some(_) => output::replace(path, text.as_bytes())?,
            None => terminal::out().write_all(text.as_bytes())?,
        }
    }
    // The standard output is the program's.
    let mut to: Box<dyn Write> = if args.program.is_empty() && args.json.is_none() {
        Box::new(terminal::out())
    } else {
        Box::new(terminal::err())
    };
    for line in tally.lines() {
        writeln!(to, "collspec: {line}")?;
    }
    if let (Some(path), Some(text)) = (&args.scenario, &tally.scenario) {
        output::replace(path, text.as_bytes())?;
        writeln!(to, "collspec: {} has the first of them as a scenario", path.display())?;
    }
    Ok(match tally {
        tally if tally.wrong > 0 => Exit::SOME_FAILED,
        tally if tally.elements() < args.at_least => {
            writeln!(to, "collspec: fewer elements were judged than the {} of --at-least", args.at_least)?;
            Exit::BACKEND_MISSING
        }
        _ => Exit::ALL_PASSED,
    })
}
