//! Hostile files: `check` ends within bounds of memory and processor time and never panics, and what it accepts runs without
//! a verdict against the sound library.
use super::mutate::mutate;
use super::{amount, first_seed};
use crate::answered::{assert_places, blames_a_sound_library};
use crate::support::Home;
use collspec_cli::soak::{Program, Rng};
use collspec_core::plan::Limits;
use collspec_run::child::Workers;
use collspec_suite::suite::{CaseSet, Reading, parallel};
use collspec_suite::suite::{RunOptions, Runner};
use std::num::NonZeroUsize;
use std::path::Path;
use std::process::Command;

/// Files that are checked by one process.
const BATCH: u64 = 100;
/// Options that limit what a case may cost.
const COST: [&str; 4] = ["--max-memory", "256MiB", "--max-work", "100000000"];
/// KiB of address space for a process that checks a batch: for the cases that run at the same time, the program and its threads.
const MEMORY: &str = "1572864";
/// Seconds of processor time for a batch, enough for a slow machine: it only ends a process that hangs.
const PROCESSOR: &str = "300";
const JOBS: usize = 2;

/// Texts to start from: the language's own examples and mistakes.
fn texts() -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folders = ["tests/valid", "tests/invalid", "scenarios/language", "scenarios/negative", "scenarios/documented"];
    let files = folders.iter().flat_map(|folder| {
        // One folder at a time, because files of two folders may have the same name.
        collspec_core::scenario::discover(&[root.join(folder)]).expect("the folders are there")
    });
    let texts: Vec<String> = files.filter_map(|file| std::fs::read_to_string(&file.path).ok()).collect();
    assert!(texts.len() > 100);
    texts
}

/// The command under limits of memory and processor time.
fn limited(home: &Home, args: &[&str]) -> Command {
    let mut command = Command::new("sh");
    command
        .args(["-c", "ulimit -v \"$0\" -t \"$1\" && shift && exec \"$@\"", MEMORY, PROCESSOR])
        .arg(env!("CARGO_BIN_EXE_collspec"))
        .args(args)
        .current_dir(home.path("."));
    command
}

fn keep_files(home: &Home, batch: u64) -> String {
    let to = std::env::temp_dir().join(format!("collspec-hostile-{batch}"));
    _ = std::fs::remove_dir_all(&to);
    _ = Command::new("cp").arg("-r").arg(home.path("f")).arg(&to).status();
    to.display().to_string()
}

#[test]
fn mutated_files_are_refused_at_a_place_or_run() {
    let texts = texts();
    let worker = Workers::Command(env!("CARGO_BIN_EXE_collspec").into());
    let (memory, work) = (Limits::bytes(COST[1]).expect("bytes"), Limits::operations(COST[3]).expect("a number"));
    let limits = Limits { memory, work, ..Limits::default() };
    let reading = Reading { limits, ..Reading::default() };
    let jobs = NonZeroUsize::new(JOBS);
    let runner =
        Runner::soft(RunOptions { jobs, workers: worker, timeout: Some(5.0), reading, ..RunOptions::default() })
            .expect("a runner");
    let (mut files, mut accepted, mut runs) = (0, 0, 0);
    let last = first_seed() + amount(300);
    let mut from = first_seed();
    while from < last {
        let home = Home::new();
        for seed in from..(from + BATCH).min(last) {
            let mut rng = Rng::new(seed ^ 0xf11e);
            let base = if rng.percent(50) { Program::generate(seed).to_string() } else { rng.pick(&texts).clone() };
            std::fs::create_dir_all(home.path("f")).expect("a folder");
            std::fs::write(home.path(&format!("f/{seed}.toml")), mutate(&mut rng, &base)).expect("a file");
            files += 1;
        }
        let output = limited(&home, &[&["check", "f"][..], &COST].concat()).output().expect("a process");
        let printed = String::from_utf8_lossy(&output.stderr);
        let sound = matches!(output.status.code(), Some(0..=2)) && !printed.contains("panicked");
        assert!(sound, "check of {}: {}\n{printed}", keep_files(&home, from), output.status);
        let mut suite =
            CaseSet::open_with(&[home.path("f")], &Reading { limits, ..Reading::default() }).expect("readable");
        suite.plan(JOBS);
        suite.invalid_files.iter().for_each(|faulty| assert_places(&faulty.file, &faulty.diagnostics));
        let refused: Vec<&str> = suite.invalid_files.iter().map(|faulty| faulty.file.path.as_str()).collect();
        suite.cases.retain(|case| !refused.contains(&case.file.path.as_str()));
        let mut names: Vec<&str> = suite.cases.iter().map(|case| case.file.path.as_str()).collect();
        names.dedup();
        accepted += names.len();
        for (case, verdict) in suite.cases.iter().zip(parallel::map(&suite.cases, JOBS, |case| runner.run_case(case))) {
            runs += 1;
            assert!(
                !blames_a_sound_library(&verdict),
                "{} in {}: {}",
                case.name,
                keep_files(&home, from),
                verdict.reason.as_deref().unwrap_or_default()
            );
        }
        from += BATCH;
    }
    println!("{files} files, {accepted} accepted, {runs} cases run");
    assert!(accepted * 50 > files, "hardly a file is accepted: the changes are too coarse");
}
