//! `collspec compare` of a program.
use super::compare_args::CompareArgs;
use super::errors::tell;
use super::exit::Exit;
use super::gpu::PlaceArgs;
use super::judged::{JudgedRun, SCHEDULE, Series, has_software_gpus};
use super::{output, reports, run, terminal};
use crate::compare::{OfProgram, SOFTWARE_GPUS, SideRequest};
use crate::formats::ReportFormat;
use crate::programs::{ProgramComparison, ProgramRun, ProgramSide, ProgramVerdict, changes, orders};
use collspec_core::printable::one_line;
use collspec_run::job::Work;
use collspec_run::signals;
use std::io::Write;
use std::path::{Path, PathBuf};

/// The variable with the folder in which software GPUs write down their work.
const WORK: &str = "COLLSPEC_SOFTWARE_WORK";

/// Runs the program on both libraries in turn, and says what changed.
pub fn compare_program(args: &CompareArgs) -> anyhow::Result<Exit> {
    run::warn_of_variables()?;
    let formats = args.report.0.iter().map(|request| request.format);
    let odd =
        formats.filter(|format| !matches!(format, ReportFormat::Human | ReportFormat::Jsonl | ReportFormat::Markdown));
    anyhow::ensure!(
        odd.count() == 0,
        "the comparison of a program is written as human, markdown or jsonl: the others list cases, and it has none"
    );
    let sides = [&args.base, &args.candidate];
    output::check("report", &reports::files(&args.report.0), sides.into_iter().map(SideRequest::file))?;
    let requests = [args.base.of_program()?, args.candidate.of_program()?];
    let mut files = Vec::new();
    for side in &requests {
        match (PlaceArgs { nccl: Some(side.library.to_owned()), ..PlaceArgs::default() }).library() {
            Ok(file) => files.push(file.map_or(String::new(), |file| file.display().to_string())),
            Err(error) => {
                tell(&error);
                return Ok(Exit::BACKEND_MISSING);
            }
        }
    }
    let is_software = has_software_gpus(&args.program, args.driver.as_deref())?;
    anyhow::ensure!(
        is_software || requests.iter().all(|side| side.schedule.is_none()),
        "seed, delay-stores and early-loads are settings of software GPUs, and the program would run on this machine's"
    );
    let runs = args.runs.get();
    let mut series =
        Series::new(&args.program, args.driver.as_deref(), args.common.machine.as_deref(), args.common.timeout)?;
    let mut made: [Vec<(ProgramRun, Vec<PathBuf>)>; 2] = [Vec::new(), Vec::new()];
    for number in 0..runs {
        for (at, (name, side)) in ["base", "candidate"].into_iter().zip(&requests).enumerate() {
            let part = 2 * number + at + 1;
            writeln!(terminal::err(), "collspec: run {part} of {}: the {name}, {}", 2 * runs, one_line(side.library))?;
            let run = run_on(&mut series, side)?;
            if signals::is_interrupted() {
                writeln!(terminal::err(), "collspec: interrupted; nothing is said of runs that are not whole")?;
                return Ok(Exit::INTERRUPTED);
            }
            made[at].push(run);
        }
    }
    let [base, candidate] = made;
    let between = changes([&base[0].0.calls, &candidate[0].0.calls]);
    let own = base.get(1).map(|second| changes([&base[0].0.calls, &second.0.calls]));
    let orders =
        between.first_other_bits.and_then(|[ours, theirs]| orders([(&base[0].1, ours), (&candidate[0].1, theirs)]));
    let side = |name, request: &SideRequest, file: &String, runs: Vec<(ProgramRun, Vec<PathBuf>)>| {
        let runs = runs.into_iter().map(|(run, _)| run).collect();
        ProgramSide { name, text: request.text.clone(), file: file.clone(), runs }
    };
    let comparison = ProgramComparison {
        ran_on: is_software.then(|| SOFTWARE_GPUS.to_owned()),
        sides: [side("base", &args.base, &files[0], base), side("candidate", &args.candidate, &files[1], candidate)],
        changes: between,
        own,
        orders,
        is_strict: args.bits,
    };
    report(args, &comparison)?;
    Ok(match comparison.verdict() {
        ProgramVerdict::NothingWorse => Exit::ALL_PASSED,
        ProgramVerdict::Worse(_) => Exit::SOME_FAILED,
        ProgramVerdict::None(_) => Exit::NO_VERDICT,
    })
}

/// A run on this side, and its files.
fn run_on(series: &mut Series<'_>, side: &OfProgram<'_>) -> anyhow::Result<(ProgramRun, Vec<PathBuf>)> {
    let mut counted = PathBuf::new();
    let run = series.run(Some(side.library), |folder| {
        counted = folder.to_owned();
        let own = [(WORK.to_owned(), folder.into())];
        let schedule = side.schedule.iter().map(|schedule| (SCHEDULE.to_owned(), schedule.into()));
        let variables = side.variables.iter().map(|(name, value)| (name.clone(), value.into()));
        own.into_iter().chain(variables).chain(schedule).collect()
    })?;
    let JudgedRun { ended, tally, calls, files } = run;
    let run = ProgramRun { ended: ended.to_string(), is_good: ended.is_good(), tally, calls, work: work(&counted) };
    Ok((run, files))
}

/// The work that the software GPUs of all processes have written down in a folder.
fn work(folder: &Path) -> Option<Work> {
    let entries = std::fs::read_dir(folder).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    let mut all: Option<Work> = None;
    for file in entries.filter(|file| file.extension().is_some_and(|end| end == "work")) {
        let text = std::fs::read_to_string(file).ok()?;
        let numbers = text.split_ascii_whitespace().map(|word| word.parse().ok()).collect::<Option<Vec<u64>>>()?;
        let [launches, blocks, instructions, loaded, stored] = numbers.try_into().ok()?;
        let before = all.unwrap_or_default();
        all = Some(Work {
            launches: before.launches + launches,
            blocks: before.blocks + blocks,
            instructions: before.instructions + instructions,
            loaded: before.loaded + loaded,
            stored: before.stored + stored,
        });
    }
    all
}

fn report(args: &CompareArgs, comparison: &ProgramComparison) -> anyhow::Result<()> {
    let text = comparison.lines().join("\n") + "\n";
    if args.report.text_on_standard_output() {
        terminal::out().write_all(text.as_bytes())?;
    }
    for request in &args.report.0 {
        let text = match request.format {
            ReportFormat::Jsonl => format!("{}\n", comparison.json()),
            ReportFormat::Markdown => format!("```text\n{text}```\n"),
            _ => text.clone(),
        };
        match (&request.output, request.format) {
            (Some(path), _) => output::replace(path, text.as_bytes())?,
            (None, ReportFormat::Human) => {}
            (None, _) => terminal::out().write_all(text.as_bytes())?,
        }
    }
    Ok(())
}
