//! The report on mutants, as a table and as JSON lines.
use super::outcome::{Fate, Report, Tried};
use collspec_core::job::ChangeKind;
use collspec_core::printable::{one_line, thousands, write_json};
use collspec_suite::report::Styles;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{self, Write};

/// Number of cases that are named for a survivor.
const MAX_NAMED_CASES: usize = 3;
/// Bytes of a function's name that the table shows.
const MAX_NAME: usize = 100;

/// Writes the table, the survivors and a summary.
///
/// # Errors
///
/// Writing fails.
pub fn write_table(to: &mut dyn Write, report: &Report, seconds: f64, styles: &Styles) -> io::Result<()> {
    let Styles { strong, .. } = styles;
    let head =
        format!("{:<12}{:>6}{:>9}{:>10}{:>11}  what is changed", "change", "made", "noticed", "survived", "undecided");
    writeln!(to, "{strong}{head}{strong:#}")?;
    let mut row = |name: &str, counts: [usize; 4], words: &str| {
        let [made, noticed, survived, undecided] = counts;
        let line = format!("{name:<12}{made:>6}{noticed:>9}{survived:>10}{undecided:>11}  {words}");
        writeln!(to, "{}", line.trim_end())
    };
    for kind in ChangeKind::all() {
        row(kind.name(), report.counts_of(kind), kind.describe())?;
    }
    row("all", report.counts(|_| true), "")?;
    let mut by_function: BTreeMap<&str, Vec<&Tried>> = BTreeMap::new();
    for tried in report.mutants.iter().filter(|tried| tried.fate == Fate::Survived) {
        by_function.entry(&tried.instruction.function).or_default().push(tried);
    }
    for (function, mut survivors) in by_function {
        survivors.sort_by_key(|tried| (tried.instruction.line, tried.mutant.change));
        writeln!(to, "\n{strong}survived in {}{strong:#}", shortened(&one_line(function)))?;
        for tried in survivors {
            let (line, text) = (tried.instruction.line, one_line(&tried.instruction.text).into_owned());
            writeln!(to, "  line {line}: {text}  {strong}{}{strong:#}", one_line(&tried.words))?;
            writeln!(to, "    {}: {}", tried.mutant, cases_in_words(tried))?;
        }
    }
    writeln!(to)?;
    for tried in &report.mutants {
        if let Fate::Undecided(why) = &tried.fate {
            let (line, function) = (tried.instruction.line, one_line(&tried.instruction.function).into_owned());
            writeln!(
                to,
                "undecided: line {line} of {}, {}: {}",
                shortened(&function),
                one_line(&tried.words),
                one_line(why)
            )?;
        }
    }
    let mut skipped: BTreeMap<&str, usize> = BTreeMap::new();
    report.skipped.iter().for_each(|(_, reason)| *skipped.entry(reason).or_default() += 1);
    for (reason, count) in skipped {
        writeln!(to, "skipped {count}: {}", one_line(reason))?;
    }
    let [made, noticed, ..] = report.counts(|_| true);
    writeln!(
        to,
        "{noticed} of {made} mutants noticed, {} {} and {} runs with mutants, at most {} cases with each, in {seconds:.0} s; {} executed instructions \
         allow {} changes",
        report.cases,
        if report.cases == 1 { "case" } else { "cases" },
        thousands(report.runs as u64),
        report.most_cases,
        thousands(report.instructions as u64),
        thousands(report.candidates as u64),
    )?;
    to.flush()
}

fn shortened(name: &str) -> String {
    if name.chars().count() <= MAX_NAME {
        name.to_owned()
    } else {
        format!("{}...", name.chars().take(MAX_NAME).collect::<String>())
    }
}

/// The cases that passed with a mutant.
fn cases_in_words(tried: &Tried) -> String {
    let names: Vec<_> = tried.ran.iter().take(MAX_NAMED_CASES).map(|case| one_line(&case.name)).collect();
    let more = tried.ran.len().saturating_sub(names.len());
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let not_run = tried.executed_by - tried.ran.len();
    let not_run = if not_run > 0 { format!("; {not_run} that execute it were not run") } else { String::new() };
    format!("passed {}{more}{not_run}", names.join(", "))
}

/// Writes an object for each mutant, and one for the summary.
///
/// # Errors
///
/// Writing fails.
pub fn write_json_lines(to: &mut dyn Write, report: &Report, seconds: f64) -> io::Result<()> {
    let mut line = |value: Value| -> io::Result<()> {
        write_json(&mut *to, &value)?;
        to.write_all(b"\n")
    };
    for tried in &report.mutants {
        line(mutant_json(tried))?;
    }
    let by_kind = |kind: ChangeKind| {
        let [made, noticed, survived, undecided] = report.counts_of(kind);
        let counts = json!({"made": made, "noticed": noticed, "survived": survived, "undecided": undecided});
        (kind.name().to_owned(), counts)
    };
    let [made, noticed, survived, undecided] = report.counts(|_| true);
    line(json!({
        "kind": "summary", "cases": report.cases, "skipped": report.skipped.len(), "runs": report.runs, "seconds": seconds,
        "most_cases": report.most_cases, "instructions": report.instructions, "candidates": report.candidates,
        "made": made, "noticed": noticed, "survived": survived, "undecided": undecided,
        "changes": ChangeKind::all().map(by_kind).collect::<serde_json::Map<_, _>>(),
    }))?;
    to.flush()
}

fn mutant_json(tried: &Tried) -> Value {
    let (fate, outcome, reason) = match &tried.fate {
        Fate::Noticed { outcome, reason } => ("noticed", Some(*outcome), Some(reason)),
        Fate::Survived => ("survived", None, None),
        Fate::Undecided(why) => ("undecided", None, Some(why)),
    };
    let instruction = &tried.instruction;
    json!({
        "kind": "mutant", "id": tried.mutant.to_string(), "change": tried.mutant.change.name(), "words": tried.words, "fate": fate, "outcome": outcome,
        "reason": reason, "function": &*instruction.function, "unit": &*instruction.unit, "line": instruction.line,
        "text": instruction.text, "executed_by": tried.executed_by,
        "ran": tried.ran.iter().map(|case| case.name.as_str()).collect::<Vec<_>>(),
    })
}
