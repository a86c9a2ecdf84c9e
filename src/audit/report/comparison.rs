//! Several checkers side by side: the faults that each catches, as a table and as JSON lines.
use crate::audit::{AuditReport, FaultOrFlaw, ItemRow};
use crate::printable::{one_line, write_json as json_text};
use crate::report::Styles;
use crate::report::human::duration;
use serde_json::{Map, Value, json};
use std::io::{self, Write};

/// Width of a checker's column.
const COLUMN: usize = 12;

/// Writes one line per fault with a column for each checker, then the sums.
///
/// # Errors
///
/// Writing fails.
pub fn write_comparison(to: &mut dyn Write, reports: &[AuditReport], seconds: f64, styles: &Styles) -> io::Result<()> {
    let Styles { strong, fail, faint, .. } = styles;
    let names: String = reports.iter().map(|report| format!("{:>COLUMN$}", report.checker)).collect();
    writeln!(to, "{strong}{:<6}{names}  what is wrong{strong:#}", "fault")?;
    for item in faults(reports) {
        write!(to, "{:<6}", item.id())?;
        for row in reports.iter().map(|report| item_row(report, item)) {
            match row {
                Some(row) if !row.missed() => {
                    write!(to, "{:>COLUMN$}", format!("{}{}", row.caught, if row.at_least { "+" } else { "" }))?;
                }
                // "missed" if cases reach the fault, else "not met".
                Some(row) if row.reached > 0 => write!(to, "{fail}{:>COLUMN$}{fail:#}", "missed")?,
                _ => write!(to, "{faint}{:>COLUMN$}{faint:#}", "not met")?,
            }
        }
        writeln!(to, "  {}", item.text())?;
    }
    let mut line = |label: &str, of: &dyn Fn(&AuditReport) -> String| -> io::Result<()> {
        let cells: String = reports.iter().map(|report| format!("{:>COLUMN$}", of(report))).collect();
        writeln!(to, "{strong}{label:<6}{cells}{strong:#}")
    };
    line("", &|_| String::new())?;
    line("class", &|report| {
        let classes = report.classes(false);
        format!("{} of {}", classes.caught, classes.all)
    })?;
    line("cases", &|report| report.cases.to_string())?;
    line("runs", &|report| report.runs.to_string())?;
    writeln!(to)?;
    for report in reports {
        for (reason, count) in &report.skipped {
            writeln!(to, "{} leaves out {count}: {}", report.checker, one_line(reason))?;
        }
        if !report.undecided.is_empty() {
            let count = report.undecided.len();
            writeln!(to, "{fail}{}{fail:#}: nothing can be said of {count} runs", report.checker)?;
        }
    }
    writeln!(to, "in {}", duration(seconds))?;
    to.flush()
}

/// Writes one object per fault, then one per checker. The fields are part of the interface.
///
/// # Errors
///
/// Writing fails.
pub fn write_json_lines(to: &mut dyn Write, reports: &[AuditReport], seconds: f64) -> io::Result<()> {
    let mut line = |value: Value| -> io::Result<()> {
        json_text(&mut *to, &value)?;
        to.write_all(b"\n")
    };
    for item in faults(reports) {
        let cell = |report: &AuditReport| {
            let row = item_row(report, item)?;
            let counts = json!({"caught": row.caught, "reached": row.reached, "at_least": row.at_least});
            Some((report.checker.to_owned(), counts))
        };
        let ways: Map<String, Value> = reports.iter().filter_map(cell).collect();
        line(json!({"kind": "fault", "id": item.id(), "class": item.class(), "text": item.text(), "ways": ways}))?;
    }
    for report in reports {
        let classes = report.classes(false);
        line(json!({
            "kind": "way", "way": report.checker, "cases": report.cases, "runs": report.runs,
            "fault_classes": {"caught": classes.caught, "of": classes.all},
            "skipped": report.skipped, "troubles": report.undecided.len(), "seconds": seconds,
        }))?;
    }
    to.flush()
}

/// The library's faults; flaws of this project's judge say nothing of other checkers.
fn faults(reports: &[AuditReport]) -> impl Iterator<Item = FaultOrFlaw> {
    let rows = reports.first().map(|report| report.items.as_slice()).unwrap_or_default();
    rows.iter().map(|row| row.item).filter(|item| matches!(item, FaultOrFlaw::Fault(_)))
}

fn item_row(report: &AuditReport, item: FaultOrFlaw) -> Option<&ItemRow> {
    report.items.iter().find(|row| row.item == item)
}
