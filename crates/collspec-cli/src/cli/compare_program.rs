//! `collspec compare` of a program.
use super::compare_args::CompareArgs;
use super::errors::tell;
use super::exit::Exit;
use super::gpu::PlaceArgs;
use super::judged::{Ended, Judged, JudgedRun, SCHEDULE, limit_after};
use super::{output, reports, run, terminal};
use crate::compare::{OfProgram, SideRequest};
use crate::formats::ReportFormat;
use crate::programs::{ProgramComparison, ProgramRun, ProgramSide, ProgramVerdict, changes, orders};
use anyhow::Context;
use collspec_core::printable::one_line;
use collspec_run::job::Work;
use collspec_run::signals;
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

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
        match place(side).library() {
            Ok(file) => files.push(file.map_or(String::new(), |file| file.display().to_string())),
            Err(error) => {
                tell(&error);
                return Ok(Exit::BACKEND_MISSING);
            }
        }
    }
    let runs = args.runs.get();
    let folder = tempfile::Builder::new().prefix("collspec-compare-").tempdir();
    let folder = folder.context("cannot make a folder for the copies")?;
    let mut runner =
        Runner { args, folder: &folder, limit: args.common.timeout.map(Duration::from_secs_f64), longest: None };
    let mut made: [Vec<(ProgramRun, Vec<PathBuf>)>; 2] = [Vec::new(), Vec::new()];
    let mut software = false;
    for number in 0..runs {
        for (at, (name, side)) in ["base", "candidate"].into_iter().zip(&requests).enumerate() {
            let part = 2 * number + at + 1;
            writeln!(terminal::err(), "collspec: run {part} of {}: the {name}, {}", 2 * runs, one_line(side.library))?;
            let (made_run, files, on_software) = runner.run(side, &format!("{name}-{number}"))?;
            software |= on_software;
            if signals::is_interrupted() {
                writeln!(terminal::err(), "collspec: interrupted; nothing is said of runs that are not whole")?;
                return Ok(Exit::INTERRUPTED);
            }
            made[at].push((made_run, files));
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
        ran_on: software.then(|| "software GPUs (without a GPU's speed and memory ordering)".to_owned()),
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

fn place(side: &OfProgram<'_>) -> PlaceArgs {
    PlaceArgs { nccl: Some(side.library.to_owned()), no_torch: false }
}

/// Runs the program again and again.
struct Runner<'a> {
    args: &'a CompareArgs,
    folder: &'a TempDir,
    limit: Option<Duration>,
    /// The time of the longest run so far.
    longest: Option<Duration>,
}

impl Runner<'_> {
    /// A run, its files, and whether it was on software GPUs.
    fn run(&mut self, side: &OfProgram<'_>, name: &str) -> anyhow::Result<(ProgramRun, Vec<PathBuf>, bool)> {
        let folder = self.folder.path().join(name);
        let mut variables: Vec<(String, OsString)> = vec![(WORK.to_owned(), folder.clone().into())];
        variables.extend(side.variables.iter().map(|(name, value)| (name.clone(), value.into())));
        variables.extend(side.schedule.iter().map(|schedule| (SCHEDULE.to_owned(), schedule.into())));
        let program = Judged {
            words: &self.args.program,
            place: place(side),
            driver: self.args.driver.as_deref(),
            settings: "all=0".to_owned(),
            variables,
            limit: self.limit.or(self.longest.map(limit_after)),
            is_one_of_several: true,
        };
        let on_software = program.has_software_gpus()?;
        anyhow::ensure!(
            on_software || side.schedule.is_none(),
            "seed, delay-stores and early-loads are settings of software GPUs, and the program would run on this machine's"
        );
        let JudgedRun { ended, tally, calls, files, took } = program.judged(&folder)?;
        self.longest = Some(took.max(self.longest.unwrap_or_default()));
        let (is_good, work) = (ended == Ended::Code(0), work(&folder));
        let run = ProgramRun { ended: ended.to_string(), is_good, tally, calls, work };
        Ok((run, files, on_software))
    }
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
