//! `collspec import`.
use super::exit::Exit;
use super::import_args;
use super::import_args::{FlightRecorderArgs, ImportArgs, ImportOutput, NcclLogArgs};
use super::{nccl_tests_line, output, terminal};
use crate::hang::{Job, diagnose};
use crate::import::flight_recorder::DumpFile;
use crate::import::source::Source;
use crate::import::{Imported, flight_recorder, nccl_log, nccl_tests};
use collspec_core::printable::one_line;
use collspec_suite::report::shell;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::Write;
use std::path::PathBuf;

pub fn import(args: &ImportArgs) -> anyhow::Result<Exit> {
    match &args.from {
        import_args::Source::NcclLog(args) => from_log(args),
        import_args::Source::FlightRecorder(args) => from_dumps(args),
        import_args::Source::NcclTests(args) => {
            check(&args.to, Vec::new())?;
            let line = match args.line.as_slice() {
                [line] => line.clone(),
                words => words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" "),
            };
            write(&nccl_tests::import(&nccl_tests_line::read(&line)?)?, &args.to)
        }
    }
}

/// A word of a line as it must be in one string.
fn quoted(word: &str) -> String {
    let is_special = |c: char| c.is_whitespace() || "'\"\\".contains(c);
    if word.is_empty() || word.contains(is_special) { shell::quote(word) } else { word.to_owned() }
}

fn from_log(args: &NcclLogArgs) -> anyhow::Result<Exit> {
    check(&args.to, args.files.clone())?;
    let form = if args.rounds { nccl_log::Form::Rounds } else { nccl_log::Form::Unique { bench: args.bench } };
    let size = args.files.iter().filter_map(|file| file.metadata().ok()).map(|data| data.len()).sum();
    // Hidden if standard error is not a terminal.
    let bar = ProgressBar::new(size);
    if let Ok(style) = ProgressStyle::with_template("[{bar:30}] {decimal_bytes} of {decimal_total_bytes}, {eta} left") {
        bar.set_style(style.progress_chars("= "));
    }
    let files: Vec<Source> = args.files.iter().cloned().map(Source::File).collect();
    let imported = nccl_log::import(&files, form, &mut |bytes| bar.set_position(bytes));
    bar.finish_and_clear();
    write(&imported?, &args.to)
}

fn from_dumps(args: &FlightRecorderArgs) -> anyhow::Result<Exit> {
    let dumps = flight_recorder::files(&args.folder)?;
    check(&args.to, dumps.iter().map(|dump| dump.path.clone()).collect())?;
    let mut imported = flight_recorder::import(&dumps, args.last, args.hang)?;
    let read = |dump: &DumpFile| flight_recorder::read(dump.rank, &Source::File(dump.path.clone()));
    let dumps = dumps.iter().map(read).collect::<Result<_, _>>()?;
    let diagnosis = diagnose(&Job::of_dumps(dumps)?);
    if !diagnosis.findings.is_empty() {
        imported.tell(diagnosis.verdict.trim_end_matches('.'));
    }
    write(&imported, &args.to)
}

fn check(to: &ImportOutput, inputs: Vec<PathBuf>) -> anyhow::Result<()> {
    output::check("scenario", output::file(&to.output).as_slice(), inputs)
}

/// Writes the scenario, and says what its reader should know.
fn write(imported: &Imported, to: &ImportOutput) -> anyhow::Result<Exit> {
    match output::file(&to.output) {
        Some(path) => output::replace(path, imported.text.as_bytes())?,
        None => {
            let mut out = terminal::out();
            out.write_all(imported.text.as_bytes())?;
            out.flush()?;
        }
    }
    // On standard output they are in sight.
    if output::file(&to.output).is_some() {
        let mut err = terminal::err();
        imported.remarks.iter().try_for_each(|remark| writeln!(err, "collspec: {}", one_line(remark)))?;
    }
    Ok(Exit::ALL_PASSED)
}
