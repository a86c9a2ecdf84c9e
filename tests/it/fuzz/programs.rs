//! Programs, run and judged.
use super::{amount, first_seed};
use crate::support::Home;
use collspec_cli::soak::Program;
use collspec_core::judge::{Outcome, Status, Verdict};
use collspec_core::scenario::Case;
use collspec_run::child::Workers;
use collspec_suite::suite::{CaseSet, Forms, parallel};
use collspec_suite::suite::{RunOptions, Runner};
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::sync::Arc;

/// Programs that are read and run together.
const BATCH: u64 = 100;
/// Cases at a time.
const JOBS: usize = 2;

/// Counts of results.
#[derive(Default)]
struct Tally {
    programs: u64,
    refused: u64,
    runs: u64,
    /// Refusals by their first words.
    refusals: BTreeMap<String, u64>,
}

pub fn runner(seed: u64) -> Runner {
    let worker = Workers::Command(env!("CARGO_BIN_EXE_collspec").into());
    Runner::soft(RunOptions {
        jobs: NonZeroUsize::new(JOBS),
        workers: worker,
        variation: collspec_suite::suite::Variation { seed: Some(seed), ..Default::default() },
        ..RunOptions::default()
    })
    .expect("a runner")
}

/// The cases of some programs, and those that are refused.
pub fn open(programs: &[Program], forms: &str) -> CaseSet {
    let home = Home::new();
    for program in programs {
        home.file(&format!("p/{}.toml", program.seed), &program.to_string());
    }
    let mut suite = CaseSet::open_in(&[home.path("p")], &Forms::parse(forms).expect("forms")).expect("readable");
    suite.plan(JOBS);
    let refused: Vec<&str> = suite.invalid_files.iter().map(|faulty| faulty.file.path.as_str()).collect();
    suite.cases.retain(|case| !refused.contains(&case.file.path.as_str()));
    suite
}

/// True if the oracle found only at the run that the case cannot be judged.
fn is_refusal(verdict: &Verdict) -> bool {
    verdict.outcome == Some(Outcome::Refused)
}

fn failed(verdict: &Verdict) -> bool {
    verdict.status == Status::Fail && !is_refusal(verdict)
}

pub fn verdicts(suite: &CaseSet, runner: &Runner) -> Vec<Verdict> {
    parallel::map(&suite.cases, JOBS, |case| runner.run_case(case))
}

/// Removes the steps of a failing program without which it still fails.
fn minimise(mut program: Program, forms: &str, seed: u64) -> Program {
    let fails = |program: &Program| {
        let suite = open(std::slice::from_ref(program), forms);
        (0..5).any(|round| verdicts(&suite, &runner(seed + round)).iter().any(failed))
    };
    let mut at = program.steps.len();
    while at > 0 {
        at -= 1;
        let smaller = program.without(at);
        if !smaller.steps.is_empty() && fails(&smaller) {
            program = smaller;
        }
    }
    program
}

fn report(case: &Arc<Case>, verdict: &Verdict, programs: &[Program], forms: &str, seed: u64) -> String {
    let own = |program: &&Program| case.file.path.ends_with(&format!("/{}.toml", program.seed));
    let text = programs.iter().find(own).map(|program| minimise(program.clone(), forms, seed).to_string());
    format!(
        "{} under seed {seed}: {}\n{}",
        case.name,
        verdict.reason.as_deref().unwrap_or("no reason"),
        text.unwrap_or_default()
    )
}

fn try_programs(seeds: std::ops::Range<u64>, forms: &str, tally: &mut Tally) {
    let mut wrong = Vec::new();
    let mut from = seeds.start;
    while from < seeds.end {
        let programs: Vec<Program> = (from..(from + BATCH).min(seeds.end)).map(Program::generate).collect();
        from += BATCH;
        let suite = open(&programs, forms);
        tally.programs += programs.len() as u64;
        tally.refused += suite.invalid_files.len() as u64;
        for faulty in &suite.invalid_files {
            for diagnostic in &faulty.diagnostics {
                let span = diagnostic.span;
                assert!(span.start <= span.end && span.end <= faulty.file.text.len(), "{}", faulty.render(false));
            }
            let words = faulty.diagnostics.first().map_or("none", |d| d.message.as_str());
            let words: String = words.chars().map(|c| if c.is_ascii_digit() { '#' } else { c }).collect();
            *tally.refusals.entry(words).or_default() += 1;
        }
        let runner = runner(from);
        let mut reported = BTreeSet::new();
        for (case, verdict) in suite.cases.iter().zip(verdicts(&suite, &runner)) {
            tally.runs += u64::from(!is_refusal(&verdict));
            if failed(&verdict) && reported.insert(case.file.path.clone()) {
                wrong.push(report(case, &verdict, &programs, forms, from));
            }
        }
        assert!(wrong.len() < 10, "{} wrong verdicts, the first of them:\n{}", wrong.len(), wrong.join("\n"));
    }
    assert!(wrong.is_empty(), "{} wrong verdicts:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
#[ignore = "slow"]
fn accepted_programs_pass_in_every_form() {
    let mut tally = Tally::default();
    let first = first_seed();
    try_programs(first..first + amount(150), "all", &mut tally);
    println!("{} programs, {} refused, {} runs", tally.programs, tally.refused, tally.runs);
    let mut refusals: Vec<_> = tally.refusals.iter().collect();
    refusals.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    for (words, count) in refusals.iter().take(40) {
        println!("{count:6} {words}");
    }
    assert!(tally.refused * 2 < tally.programs, "most programs are refused: the generator has lost touch");
}
