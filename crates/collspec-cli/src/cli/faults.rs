//! `collspec faults`.
use super::exit::Exit;
use super::faults_args::FaultsArgs;
use super::{backend, output, own_json, run, terminal};
use crate::compare::words::cases;
use crate::faults::{KindChange, Outcome, Request, Results, RunChange, VERSION, changes, try_case, words};
use collspec_core::job::FaultKind;
use collspec_core::printable::{one_line, thousands};
use collspec_core::scenario::Case;
use collspec_run::signals;
use collspec_suite::report::{InheritedVariables, RerunCommand};
use collspec_suite::suite::options::cores;
use collspec_suite::suite::{RunOptions, files_in_words};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The time between two lines of progress.
const PROGRESS: Duration = Duration::from_secs(10);
/// Limit on the changed runs that are listed.
const MOST_CHANGES: usize = 20;

pub fn try_faults(args: &FaultsArgs) -> anyhow::Result<Exit> {
    run::warn_of_variables()?;
    let inputs = output::of_selection(&args.selection).chain(args.against.clone());
    output::check("JSON", &Vec::from_iter(output::file(&args.json)), inputs)?;
    let against = args.against.as_deref().map(read).transpose()?;
    let options = args.options();
    let chosen = match backend::resolve(&options)? {
        Ok(chosen) => chosen,
        Err(exit) => return Ok(exit),
    };
    backend::check_software_gpus(&options, &chosen)?;
    anyhow::ensure!(
        chosen.backend.has_software_gpus(),
        "only the memory and the connections of software GPUs can be made to fail: faults needs a library (--nccl) and --driver software"
    );
    let mut suite = run::open(&args.selection)?;
    if suite.invalid_files.is_empty() {
        run::select(&mut suite, &args.selection, run::NAMES_BY_RUN)?;
        run::keep_quick(&mut suite, &args.quick, &args.selection, true)?;
        suite.plan(cores());
    }
    run::show_diagnostics(&suite)?;
    let invalid = suite.invalid_files.len();
    anyhow::ensure!(invalid == 0, "errors in {}", files_in_words(invalid));
    let banner = chosen.banner(&InheritedVariables::here());
    writeln!(terminal::err(), "{}", one_line(&banner))?;

    let kinds = if args.kinds.is_empty() { FaultKind::all().collect() } else { args.kinds.clone() };
    let request = Request { kinds, first: args.seed, runs: args.runs.get() };
    let mut results = Results {
        collspec_faults: VERSION,
        library: chosen.describe(),
        seed: request.first,
        runs: request.runs,
        cases: Vec::new(),
        skipped: Vec::new(),
    };
    let repeats = options.clone();
    let runner = suite.runner(options, chosen)?;
    signals::catch_interrupt();
    let mut told = Instant::now();
    for (number, case) in suite.cases.iter().enumerate() {
        if signals::is_interrupted() {
            break;
        }
        let tried = try_case(case, &request, &runner, &signals::is_interrupted, &mut results.skipped)?;
        results.cases.extend(tried);
        if told.elapsed() >= PROGRESS {
            told = Instant::now();
            writeln!(terminal::err(), "collspec: {} of {} cases", number + 1, suite.cases.len())?;
        }
    }
    let mut out = terminal::out();
    let shown = own_json::write(&mut out, &args.json, &results)?;
    if shown {
        table(&mut out, &results)?;
        examples(&mut out, &results, &suite.cases, &repeats)?;
        skips(&mut out, &results)?;
    }
    let mut worse = false;
    if let Some(before) = &against {
        let (kinds, runs) = changes(before, &results);
        let failing = now_failing(before, &results);
        if shown {
            compare(&mut out, before, (&kinds, &runs, &failing))?;
        }
        out.flush()?;
        anyhow::ensure!(
            signals::is_interrupted() || !kinds.is_empty() || !failing.is_empty(),
            "no run has the same case, kind and seed as one of the file: nothing was compared"
        );
        worse = !failing.is_empty() || kinds.iter().any(|kind| kind.is_worse);
    }
    out.flush()?;
    anyhow::ensure!(signals::is_interrupted() || worse || !results.cases.is_empty(), "no case could be tried");
    Ok(if worse {
        Exit::SOME_FAILED
    } else if signals::is_interrupted() {
        Exit::INTERRUPTED
    } else {
        Exit::ALL_PASSED
    })
}

/// Reads what --json wrote.
fn read(path: &Path) -> anyhow::Result<Results> {
    let results: Results = own_json::read(path, "faults")?;
    let version = results.collspec_faults;
    anyhow::ensure!(version == VERSION, "{} has version {version}, and this program reads {VERSION}", path.display());
    Ok(results)
}

fn table(out: &mut impl Write, results: &Results) -> anyhow::Result<()> {
    let sound = || results.cases.iter().flat_map(|case| &case.sound);
    let total = |of: fn(&crate::faults::SoundRun) -> u64| thousands(sound().map(of).sum());
    writeln!(
        out,
        "without a fault: {} in {:.1} s, {} stores of warps, {} bytes by NET/Socket\n",
        cases(results.cases.len()),
        sound().map(|run| run.seconds).sum::<f64>(),
        total(|run| run.counts.stores),
        total(|run| run.counts.received)
    )?;
    write!(out, "{:<19}{:>6}", "fault", "runs")?;
    for outcome in Outcome::ALL {
        write!(out, "{:>7}", outcome.name())?;
    }
    writeln!(out, "{:>12}  errors", "not struck")?;
    for kind in results.kinds() {
        let tally = results.tally(kind);
        write!(out, "{kind:<19}{:>6}", tally.struck() + tally.not_struck)?;
        for count in tally.by_outcome {
            write!(out, "{count:>7}")?;
        }
        let mut codes: BTreeMap<&str, u64> = BTreeMap::new();
        for code in results.of_kind(kind).filter_map(|(_, run)| run.code.as_deref()) {
            *codes.entry(code).or_default() += 1;
        }
        let codes: Vec<String> = codes.into_iter().map(|(code, count)| format!("{} {count}", one_line(code))).collect();
        writeln!(out, "{}", format!("{:>12}  {}", tally.not_struck, codes.join(", ")).trim_end())?;
    }
    Ok(())
}

/// An example of each kind: of the worst outcome that it had.
fn examples(out: &mut impl Write, results: &Results, all: &[Arc<Case>], options: &RunOptions) -> anyhow::Result<()> {
    for kind in results.kinds() {
        let struck = results.of_kind(kind).filter(|(_, run)| !run.fault.is_empty());
        let rank = |outcome: Outcome| Outcome::ALL.iter().position(|known| *known == outcome);
        // Of equally bad ones the first.
        let Some((name, run)) = struck.min_by_key(|(_, run)| std::cmp::Reverse(rank(run.outcome))) else { continue };
        writeln!(out, "\n{kind}: {}; {}", one_line(&run.fault), run.outcome.name())?;
        if !run.reason.is_empty() {
            writeln!(out, "  {}", one_line(&run.reason))?;
        }
        let Some(case) = all.iter().find(|case| case.name == name) else { continue };
        let mut words = options.to_repeat();
        words.extend(["--kind", kind.name(), "--seed", &run.seed.to_string(), "--runs", "1"].map(str::to_owned));
        let rerun = RerunCommand::command_line(words, InheritedVariables::here()).command(case);
        writeln!(out, "  {}", one_line(&rerun.replacen("collspec run ", "collspec faults ", 1)))?;
    }
    Ok(())
}

fn skips(out: &mut impl Write, results: &Results) -> anyhow::Result<()> {
    // By reason and case: the kinds.
    let mut skipped: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
    for skip in &results.skipped {
        skipped.entry((&skip.reason, &skip.case)).or_default().push(skip.kind.name());
    }
    let mut cases: BTreeMap<(&str, Vec<&str>), usize> = BTreeMap::new();
    for ((reason, _), kinds) in skipped {
        *cases.entry((reason, kinds)).or_default() += 1;
    }
    if !cases.is_empty() {
        writeln!(out)?;
    }
    for ((reason, kinds), count) in cases {
        let of =
            if kinds.len() == FaultKind::all().count() { String::new() } else { format!(" with {}", kinds.join(", ")) };
        writeln!(out, "skipped {count}{of}: {}", one_line(reason))?;
    }
    Ok(())
}

/// Cases that were tried before, and now fail without a fault.
fn now_failing<'a>(before: &Results, after: &'a Results) -> BTreeSet<&'a str> {
    let tried = |case: &str| before.cases.iter().any(|known| known.case == case && !known.faulty.is_empty());
    let failing = after.skipped.iter().filter(|skip| skip.fails_without_fault && tried(&skip.case));
    failing.map(|skip| skip.case.as_str()).collect()
}

/// Says what is different.
fn compare(
    out: &mut impl Write,
    before: &Results,
    (kinds, runs, failing): (&[KindChange], &[RunChange<'_>], &BTreeSet<&str>),
) -> anyhow::Result<()> {
    writeln!(out, "\nagainst {}:", one_line(&before.library))?;
    for case in failing {
        writeln!(out, "  {} now fails without a fault (worse)", one_line(case))?;
    }
    for change in kinds {
        let [was, is] = change.tallies.map(|tally| words(&tally));
        let verdict = if change.is_worse { " (worse)" } else { "" };
        if was == is {
            writeln!(out, "  {}: {was}, as before", change.kind)?;
        } else {
            writeln!(out, "  {}: {was} -> {is}{verdict}", change.kind)?;
        }
    }
    for run in runs.iter().take(MOST_CHANGES) {
        let (was, is) = (run.before.outcome.name(), run.after.outcome.name());
        let verdict = if run.is_worse() { " (worse)" } else { "" };
        writeln!(
            out,
            "  {} with {}, seed {}: {was} -> {is}{verdict}",
            one_line(run.case),
            run.after.kind,
            run.after.seed
        )?;
    }
    if runs.len() > MOST_CHANGES {
        writeln!(out, "  and {} more runs", thousands((runs.len() - MOST_CHANGES) as u64))?;
    }
    Ok(())
}
