//! The report on single files: what of the operations that they use they would notice.
use super::advice::ids_by_family;
use crate::audit::examples::scenario_for;
use crate::audit::{AuditReport, FaultOrFlaw, ItemRow};
use collspec_core::ops::Kind;
use collspec_core::printable::one_line;
use collspec_core::scenario::{self, Case, SourceFile, all_steps};
use collspec_suite::report::Styles;
use collspec_suite::report::human::duration;
use std::collections::BTreeSet;
use std::io::{self, Write};
use std::sync::Arc;

/// Number of unnoticed faults that are described.
const MAX_DESCRIBED: usize = 10;

/// Writes what the files notice, and what they do not although a scenario with the same operations would.
///
/// # Errors
///
/// Writing fails.
pub fn write_own(
    to: &mut dyn Write,
    report: &AuditReport,
    cases: &[Arc<Case>],
    seconds: f64,
    styles: &Styles,
) -> io::Result<()> {
    let Styles { pass, fail, strong, faint, .. } = styles;
    let used: BTreeSet<&str> = cases.iter().flat_map(|case| operations(case)).collect();
    let faults: Vec<&ItemRow> = report.items.iter().filter(|row| matches!(row.item, FaultOrFlaw::Fault(_))).collect();
    let noticed: Vec<&ItemRow> = faults.iter().copied().filter(|row| !row.missed()).collect();
    let missed: Vec<&ItemRow> = faults
        .iter()
        .copied()
        .filter(|row| row.missed() && (row.reached > 0 || can_be_made_with(row.item, &used)))
        .collect();
    let operations = used.iter().copied().collect::<Vec<_>>().join(", ");
    let all = noticed.len() + missed.len();
    let style = if missed.is_empty() { pass } else { strong };
    writeln!(
        to,
        "{style}{} of {all} faults that a library can have in {} are noticed{style:#} ({} runs in {})",
        noticed.len(),
        one_line(&operations),
        report.runs,
        duration(seconds)
    )?;
    let shown = |rows: &[&ItemRow]| rows.iter().map(|row| row.item).collect::<Vec<_>>();
    if !noticed.is_empty() {
        writeln!(to, "noticed: {}", ids_by_family(&shown(&noticed)))?;
    }
    for (reason, count) in &report.skipped {
        writeln!(to, "{faint}skipped{faint:#} {count}: {}", one_line(reason))?;
    }
    let met: Vec<&ItemRow> = missed.iter().copied().filter(|row| row.reached > 0).collect();
    if !met.is_empty() {
        writeln!(to, "\n{fail}They pass although their calls meet these faults:{fail:#}")?;
        describe(to, &met, styles)?;
    }
    let others: Vec<&ItemRow> = missed.iter().copied().filter(|row| row.reached == 0).collect();
    if !others.is_empty() {
        writeln!(to, "\nOther sizes, types, values or ranks of the same operations would meet these:")?;
        describe(to, &others, styles)?;
    }
    if !missed.is_empty() {
        writeln!(
            to,
            "\n{faint}`--fault ID` shows a scenario for one, and `--scenarios` what each file catches{faint:#}"
        )?;
    }
    to.flush()
}

/// A line for each of the first kinds of faults, and what would show it.
fn describe(to: &mut dyn Write, rows: &[&ItemRow], styles: &Styles) -> io::Result<()> {
    let Styles { faint, .. } = styles;
    let families: Vec<&[&ItemRow]> =
        rows.chunk_by(|a, b| a.item.family().is_some() && a.item.family() == b.item.family()).collect();
    for family in families.iter().take(MAX_DESCRIBED) {
        let Some(first) = family.first() else { continue };
        let (id, text) = first.item.family().unwrap_or((first.item.id(), first.item.text()));
        writeln!(to, "  {id:<5} {text}; {faint}what would show it:{faint:#} {}", first.item.shown_by())?;
    }
    if let Some(more) = families.len().checked_sub(MAX_DESCRIBED).filter(|more| *more > 0) {
        writeln!(to, "  and {more} more kinds")?;
    }
    Ok(())
}

/// True if the scenario that catches the fault has no operations but these.
fn can_be_made_with(item: FaultOrFlaw, used: &BTreeSet<&str>) -> bool {
    let Some(text) = scenario_for(item) else { return false };
    let file = Arc::new(SourceFile { path: "example.toml".into(), text: text.into() });
    let Ok(cases) = scenario::parse(&file, "example") else { return false };
    cases.iter().flat_map(operations).all(|operation| used.contains(operation))
}

/// The words of all its steps but those that only hold or compute others.
fn operations(case: &Case) -> Vec<&'static str> {
    let is_of_library = |kind: &Kind| !matches!(kind, Kind::Group | Kind::Loop | Kind::Map | Kind::Host(_));
    all_steps(&case.steps).map(|step| step.op).filter(|op| is_of_library(&op.kind)).map(|op| op.name).collect()
}
