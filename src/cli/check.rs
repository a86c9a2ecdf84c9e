//! `collspec check`.
use super::args::CheckArgs;
use super::exit::Exit;
use super::run::{open, select_with, show_diagnostics};
use super::terminal;
use crate::printable::{one_line, printable};
use crate::run::memory::Turns;
use crate::scenario::Case;
use crate::suite::check_case::{CheckResult, check_case};
use crate::suite::options::cores;
use crate::suite::{Filter, files_in_words, invalid_files, parallel};
use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;

pub fn check(args: &CheckArgs) -> anyhow::Result<Exit> {
    let jobs = cores();
    let mut suite = open(&args.selection)?;
    if suite.invalid_files.is_empty() || !suite.cases.is_empty() {
        // Nothing runs here, so cases tagged `long` take no longer than others.
        let filter = Filter { long: true, ..args.selection.filter() };
        select_with(&mut suite, &args.selection, &filter)?;
    }
    suite.plan(jobs);
    let limit = invalid_files::InvalidCaseLimit::default();
    let (limits, turns) = (suite.limits, Turns::new(suite.limits.memory));
    let check = |case: &Arc<Case>| check_case(case, &limits, &turns);
    // Cases of files with diagnostics from the plan get no forecast.
    let planned = |case: &Arc<Case>| suite.invalid_files.iter().all(|faulty| faulty.file.path != case.file.path);
    suite.cases = suite.cases.iter().filter(|case| planned(case)).cloned().collect();
    let results = parallel::map(&suite.cases, jobs, |case| limit.check(case, check));
    let mut files: BTreeMap<&str, Vec<CheckResult>> = BTreeMap::new();
    for (case, result) in suite.cases.iter().zip(results) {
        let file = files.entry(&case.file.path).or_default();
        match result {
            Ok(foreseen) => file.push(foreseen),
            Err(diagnostics) => invalid_files::add(&mut suite.invalid_files, case, diagnostics),
        }
    }
    // A file with diagnostics shows these instead of a summary.
    files.retain(|path, _| suite.invalid_files.iter().all(|faulty| faulty.file.path != *path));

    let mut out = terminal::out();
    for (path, cases) in &files {
        writeln!(out, "{}: {}", printable(path), one_line(&summary_line(cases)))?;
    }
    out.flush()?;
    if suite.invalid_files.is_empty() {
        return Ok(Exit::ALL_PASSED);
    }
    show_diagnostics(&suite)?;
    writeln!(terminal::err(), "collspec: errors in {}", files_in_words(suite.invalid_files.len()))?;
    Ok(Exit::WRONG_INPUT)
}

/// The summary of a file's cases in one line: their number and what is foreseen, with the first reason of every kind.
fn summary_line(cases: &[CheckResult]) -> String {
    let count = |words: &str, number: usize| (number > 0).then(|| format!("{number} {words}"));
    let of = |kind: fn(&CheckResult) -> Option<&str>| {
        let mut words = cases.iter().filter_map(kind);
        let first = words.next();
        (first.map_or(0, |_| 1) + words.count(), first.unwrap_or_default().to_owned())
    };
    let completes = cases.iter().filter(|case| matches!(case, CheckResult::Completes)).count();
    let refused = cases.iter().filter(|case| matches!(case, CheckResult::Refused)).count();
    let (may_block, circle) = of(|case| if let CheckResult::MayBlock(words) = case { Some(words) } else { None });
    let (stuck, end) = of(|case| if let CheckResult::Stuck(words) = case { Some(words) } else { None });
    let (large, why) = of(|case| if let CheckResult::TooLarge(words) = case { Some(words) } else { None });

    let number = if cases.len() == 1 { "1 case".to_owned() } else { format!("{} cases", cases.len()) };
    if cases.len() == 1 || [completes, refused, may_block, stuck, large].iter().filter(|kinds| **kinds > 0).count() == 1
    {
        let words = match cases.first() {
            None => "nothing selected".to_owned(),
            Some(CheckResult::Completes) => "completes".to_owned(),
            Some(CheckResult::Refused) => "refused, as expected".to_owned(),
            Some(CheckResult::MayBlock(words)) => format!("may block: {words}"),
            Some(CheckResult::Stuck(words)) => format!("cannot finish: {words}"),
            Some(CheckResult::TooLarge(words)) => format!("planned without expected results: {words}"),
        };
        return format!("{number}, {words}");
    }
    let parts = [
        count("complete", completes),
        count("refused, as expected", refused),
        count("may block", may_block).map(|words| format!("{words}: {circle}")),
        count("cannot finish", stuck).map(|words| format!("{words}: {end}")),
        count("planned without expected results", large).map(|words| format!("{words}: {why}")),
    ];
    format!("{number}; {}", parts.into_iter().flatten().collect::<Vec<_>>().join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_summed_up_in_a_line() {
        use CheckResult::*;
        let line = |cases: &[CheckResult]| summary_line(cases);
        assert_eq!(line(&[Completes]), "1 case, completes");
        assert_eq!(line(&[Completes, Completes]), "2 cases, completes");
        assert_eq!(line(&[Refused]), "1 case, refused, as expected");
        assert_eq!(line(&[MayBlock("rank 0 waits".into())]), "1 case, may block: rank 0 waits");
        let mixed = [Completes, Stuck("a".into()), Stuck("b".into()), Refused];
        assert_eq!(line(&mixed), "4 cases; 1 complete; 1 refused, as expected; 2 cannot finish: a");
    }
}
