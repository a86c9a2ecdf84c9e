//! `collspec judge`.
use super::exit::Exit;
use super::judge_args::JudgeArgs;
use super::judged::{Judged, files_of};
use super::record::prepared;
use super::{output, terminal};
use crate::judge::{self, Tally};
use anyhow::Context;
use collspec_core::printable::printable_lines;
use std::io::Write;
use std::path::PathBuf;

pub fn judge(args: &JudgeArgs) -> anyhow::Result<Exit> {
    let outputs: Vec<&PathBuf> = [&args.scenario, &args.json].into_iter().flatten().collect();
    output::check("verdict", &outputs, files(&args.paths)?)?;
    if args.program.is_empty() {
        let tally = judge::judge(&files(&args.paths)?, None)?;
        return report(args, &tally);
    }
    let kept = args.folder.as_deref().map(prepared).transpose()?;
    let temporary = tempfile::Builder::new().prefix("collspec-judge-").tempdir();
    let temporary = temporary.context("cannot make a folder for the copies")?;
    let folder = kept.as_deref().unwrap_or(temporary.path());
    let JudgeArgs { seed, sample, all, limit_bytes, .. } = args;
    let program = Judged {
        words: &args.program,
        place: args.place.clone(),
        driver: args.driver.as_deref(),
        settings: format!("seed={seed} share={sample} all={} limit={limit_bytes}", u8::from(*all)),
        variables: Vec::new(),
        limit: None,
        is_one_of_several: false,
    };
    let ended = program.run(folder)?.code;
    let judged = files(&[folder.to_owned()]).and_then(|files| Ok(judge::judge(&files, None)?));
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

/// The files of these paths; of a folder those that the recorder has written.
fn files(paths: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in paths {
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        files.extend(files_of(path)?);
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
