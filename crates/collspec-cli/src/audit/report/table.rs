//! The report of an audit as a table and as JSON lines.
use super::advice;
use crate::audit::{AuditReport, FaultOrFlaw, FileRow, ItemRow};
use collspec_core::printable::{one_line, printable, write_json as json_text};
use collspec_suite::report::Styles;
use collspec_suite::report::human::duration;
use serde_json::{Map, Value, json};
use std::io::{self, Write};

/// Number of ids that a line lists; the others are counted.
const MAX_LISTED_IDS: usize = 12;
/// Number of runs without a verdict that are listed.
const MAX_LISTED_UNDECIDED: usize = 5;

/// Widths of the columns that depend on their content.
#[derive(Clone, Copy)]
struct Widths {
    id: usize,
    first: usize,
}

/// Writes the table and a summary; with `scenarios` also the faults that each file catches.
///
/// # Errors
///
/// Writing fails.
pub fn write_table(
    to: &mut dyn Write,
    report: &AuditReport,
    seconds: f64,
    scenarios: bool,
    styles: &Styles,
) -> io::Result<()> {
    let Styles { strong, .. } = styles;
    let long = |row: &ItemRow| if row.missed() && !row.is_never_met() { row.item.id().len() + 1 } else { 0 };
    let id = report.items.iter().map(long).max().unwrap_or(0).max(6);
    let first = report.items.iter().map(|row| first_text(row).len() + 2).max().unwrap_or(0).max(12);
    let widths = Widths { id, first };
    let head = format!(
        "{:<id$}{:>7}{:>9}{:>7}  {:<first$}{}",
        "fault", "caught", "reached", "files", "first", "what is wrong"
    );
    writeln!(to, "{strong}{head}{strong:#}")?;
    let met: Vec<&ItemRow> = report.items.iter().filter(|row| !row.is_never_met()).collect();
    for rows in met.chunk_by(|a, b| a.item.family().is_some() && a.item.family() == b.item.family()) {
        write_family(to, rows, widths, styles)?;
    }
    advice::write_never_met(to, report, styles)?;
    if scenarios {
        writeln!(to)?;
        write_files(to, report, styles)?;
    }
    writeln!(to)?;
    advice::write_scenarios(to, report, styles)?;
    write_summary(to, report, seconds, styles)?;
    to.flush()
}

/// Writes a line for a family that is caught, with the figures of the member that the fewest cases catch, and one for each
/// member that is missed.
fn write_family(to: &mut dyn Write, rows: &[&ItemRow], widths: Widths, styles: &Styles) -> io::Result<()> {
    let caught: Vec<&&ItemRow> = rows.iter().filter(|row| !row.missed()).collect();
    let least = caught.iter().min_by_key(|row| row.caught);
    match (least.and_then(|least| Some((least, least.item.family()?))), rows) {
        (Some((least, (id, text))), [_, _, ..]) => {
            let (members, all, member) = (caught.len(), rows.len(), least.item.id());
            let text = format!("{text} ({members} of {all} kinds are caught; figures of {member})");
            write_line(to, least, id, widths, &text)?;
            rows.iter().filter(|row| row.missed()).try_for_each(|row| write_item(to, row, widths, styles))
        }
        _ => rows.iter().try_for_each(|row| write_item(to, row, widths, styles)),
    }
}

fn write_line(to: &mut dyn Write, row: &ItemRow, id: &str, widths: Widths, text: &str) -> io::Result<()> {
    let Widths { id: wide, first: space } = widths;
    let (caught, first) = (caught_text(row), first_text(row));
    writeln!(to, "{id:<wide$}{caught:>7}{:>9}{:>7}  {first:<space$}{text}", row.reached, row.caught_files)
}

fn write_item(to: &mut dyn Write, row: &ItemRow, widths: Widths, styles: &Styles) -> io::Result<()> {
    let Styles { fail, faint, .. } = styles;
    let (id, text) = (row.item.id(), row.item.text());
    let reached = row.reached;
    if !row.missed() {
        return write_line(to, row, id, widths, text);
    }
    let Widths { id: wide, first: space } = widths;
    writeln!(to, "{id:<wide$}{fail} MISSED{fail:#}{reached:>9}{:>7}  {:<space$}{text}", "-", "-")?;
    let why = match row.item {
        FaultOrFlaw::Fault(_) => "every case that meets it passes",
        FaultOrFlaw::Flaw(_) if row.reached == 0 => "no case catches anything that it could hide",
        FaultOrFlaw::Flaw(_) => "it hides nothing that a case catches",
    };
    let indent = wide + 25 + space;
    writeln!(to, "{:indent$}{faint}{why}; what would show it:{faint:#} {}", "", row.item.shown_by())
}

fn caught_text(row: &ItemRow) -> String {
    format!("{}{}", row.caught, if row.at_least { "+" } else { "" })
}

/// The means that detects a fault first in most cases; for a flaw, the fault that it hides most often.
fn first_text(row: &ItemRow) -> String {
    match row.item {
        FaultOrFlaw::Fault(_) => row.most_often_detected_by().map_or("-", |sight| sight.name()).to_owned(),
        FaultOrFlaw::Flaw(_) => {
            let most = row.hides.iter().max_by_key(|(fault, cases)| (**cases, std::cmp::Reverse(**fault)));
            most.map_or("-".to_owned(), |(fault, _)| format!("hides {}", fault.entry().id))
        }
    }
}

fn write_files(to: &mut dyn Write, report: &AuditReport, styles: &Styles) -> io::Result<()> {
    let Styles { strong, .. } = styles;
    let width = report.files.iter().map(|file| file.name.chars().count()).max().unwrap_or(0).max(8);
    let head = format!("{:<width$}{:>7}{:>9}  {}", "scenario", "cases", "catches", "alone");
    writeln!(to, "{strong}{head}{strong:#}")?;
    for file in &report.files {
        let alone = if file.is_redundant() { "redundant".to_owned() } else { id_list(file.unique.iter().copied()) };
        writeln!(to, "{:<width$}{:>7}{:>9}  {alone}", printable(&file.name), file.cases, file.catches.len())?;
    }
    Ok(())
}

fn id_list(items: impl Iterator<Item = FaultOrFlaw>) -> String {
    let all: Vec<&str> = items.map(FaultOrFlaw::id).collect();
    let more = all.len().saturating_sub(MAX_LISTED_IDS);
    let shown = all[..all.len() - more].join(", ");
    if more > 0 { format!("{shown} and {more} more") } else { shown }
}

fn plural(count: usize, word: &str) -> String {
    if count == 1 { format!("1 {word}") } else { format!("{count} {word}s") }
}

/// Writes which cases could not be judged with which faults, the first few of them.
pub(super) fn write_undecided(to: &mut dyn Write, report: &AuditReport, styles: &Styles) -> io::Result<()> {
    let Styles { fail, .. } = styles;
    for (case, fault, why) in report.undecided.iter().take(MAX_LISTED_UNDECIDED) {
        let (case, why) = (printable(case), one_line(why));
        writeln!(to, "{fail}cannot say{fail:#} whether `{case}` notices {}: {why}", fault.entry().id)?;
    }
    if let Some(more) = report.undecided.len().checked_sub(MAX_LISTED_UNDECIDED).filter(|more| *more > 0) {
        writeln!(to, "and so {more} more")?;
    }
    Ok(())
}

fn write_summary(to: &mut dyn Write, report: &AuditReport, seconds: f64, styles: &Styles) -> io::Result<()> {
    let Styles { pass, fail, skip, strong, .. } = styles;
    for (reason, count) in &report.skipped {
        writeln!(to, "{skip}skipped{skip:#} {count}: {}", one_line(reason))?;
    }
    write_undecided(to, report, styles)?;
    let (faults, flaws) = (report.classes(false), report.classes(true));
    let caught = report.items.iter().filter(|row| matches!(row.item, FaultOrFlaw::Fault(_)) && !row.missed()).count();
    let all = report.items.iter().filter(|row| matches!(row.item, FaultOrFlaw::Fault(_))).count();
    for lane in report.lanes.iter().filter(|lane| !lane.lost.is_empty()) {
        let lost = id_list(lane.lost.iter().map(|fault| FaultOrFlaw::Fault(*fault)));
        writeln!(
            to,
            "without lane {}: {} of {} faults, lost {lost}",
            lane.lane.name(),
            lane.faults,
            lane.faults + lane.lost.len()
        )?;
    }
    for folder in report.folders.iter().filter(|folder| !folder.lost.is_empty()) {
        let lost = id_list(folder.lost.iter().copied());
        let all = folder.items + folder.lost.len();
        writeln!(
            to,
            "without {}/ ({}): {} of {all}, lost {lost}",
            printable(&folder.folder),
            plural(folder.files, "file"),
            folder.items
        )?;
    }
    let few: Vec<&str> =
        report.minimal_files.iter().filter_map(|at| report.files.get(*at)).map(|file| file.name.as_str()).collect();
    let redundant = report.files.iter().filter(|file| file.is_redundant()).count();
    if !few.is_empty() {
        writeln!(
            to,
            "{} of {} {} all that is caught: {}",
            few.len(),
            plural(report.files.len(), "file"),
            if few.len() == 1 { "catches" } else { "catch" },
            printable(&few.join(" "))
        )?;
        writeln!(
            to,
            "{} alone something that no other does; {redundant} redundant",
            match report.files.len() - redundant {
                1 => "1 file catches".to_owned(),
                more => format!("{more} files catch"),
            }
        )?;
    }
    let mut words = Vec::new();
    if faults.all > 0 {
        words.push(format!("{} of {} fault classes caught ({caught} of {all} faults)", faults.caught, faults.all));
    }
    if flaws.all > 0 {
        words.push(format!("{} of {} of the judge's", flaws.caught, flaws.all));
    }
    let style = if report.has_misses() { fail } else { pass };
    writeln!(
        to,
        "{style}{}{style:#} by {} in {}; {} with faults in {}",
        words.join(", "),
        plural(report.cases, "case"),
        plural(report.files.len(), "file"),
        plural(report.runs, "run"),
        duration(seconds)
    )?;
    let _ = strong;
    Ok(())
}

/// Writes one object per line: the faults and flaws, then scenarios, lanes, folders, and last a summary. The fields are part
/// of the interface.
///
/// # Errors
///
/// Writing fails.
pub fn write_json_lines(to: &mut dyn Write, report: &AuditReport, seconds: f64) -> io::Result<()> {
    let mut line = |value: Value| -> io::Result<()> {
        json_text(&mut *to, &value)?;
        to.write_all(b"\n")
    };
    for row in &report.items {
        line(item_json(row))?;
    }
    for (at, file) in report.files.iter().enumerate() {
        line(file_json(file, report.minimal_files.contains(&at)))?;
    }
    for lane in &report.lanes {
        let lost: Vec<&str> = lane.lost.iter().map(|fault| fault.entry().id).collect();
        line(json!({"kind": "lane", "without": lane.lane.name(), "caught": lane.faults, "lost": lost}))?;
    }
    for folder in &report.folders {
        let lost: Vec<&str> = folder.lost.iter().map(|item| item.id()).collect();
        line(
            json!({"kind": "folder", "without": folder.folder, "files": folder.files, "caught": folder.items, "lost": lost}),
        )?;
    }
    for (case, fault, why) in &report.undecided {
        line(json!({"kind": "trouble", "case": case, "fault": fault.entry().id, "why": why}))?;
    }
    let (faults, flaws) = (report.classes(false), report.classes(true));
    let few: Vec<&str> =
        report.minimal_files.iter().filter_map(|at| report.files.get(*at)).map(|file| file.name.as_str()).collect();
    line(json!({
        "kind": "summary", "cases": report.cases, "files": report.files.len(),
        "skipped": report.skipped.values().sum::<usize>(), "runs": report.runs, "seconds": seconds,
        "fault_classes": {"caught": faults.caught, "of": faults.all},
        "judge_classes": {"caught": flaws.caught, "of": flaws.all},
        "missed": report.items.iter().filter(|row| row.missed()).map(|row| row.item.id()).collect::<Vec<_>>(),
        "few": few,
    }))?;
    to.flush()
}

fn item_json(row: &ItemRow) -> Value {
    let mut value = json!({
        "kind": "fault", "id": row.item.id(), "class": row.item.class(), "text": row.item.text(),
        "caught": row.caught, "caught_files": row.caught_files,
        "reached": row.reached, "reached_files": row.reached_files,
        "at_least": row.at_least, "missed": row.missed(),
    });
    let more = match row.item {
        FaultOrFlaw::Fault(_) => {
            ("first", row.detected_by.iter().map(|(sight, cases)| (sight.name().to_owned(), json!(cases))).collect())
        }
        FaultOrFlaw::Flaw(_) => {
            ("hides", row.hides.iter().map(|(fault, cases)| (fault.entry().id.to_owned(), json!(cases))).collect())
        }
    };
    if let Value::Object(fields) = &mut value {
        let counts: Map<String, Value> = more.1;
        fields.insert(
            "kind".to_owned(),
            json!(if matches!(row.item, FaultOrFlaw::Fault(_)) { "fault" } else { "judge" }),
        );
        fields.insert(more.0.to_owned(), Value::Object(counts));
        if row.missed() {
            fields.insert("shown_by".to_owned(), json!(row.item.shown_by()));
            fields.insert("scenario".to_owned(), json!(advice::scenario_of(row)));
        }
    }
    value
}

fn file_json(file: &FileRow, few: bool) -> Value {
    let ids = |items: &std::collections::BTreeSet<FaultOrFlaw>| items.iter().map(|item| item.id()).collect::<Vec<_>>();
    json!({
        "kind": "scenario", "name": file.name, "path": file.path, "cases": file.cases,
        "catches": ids(&file.catches), "alone": ids(&file.unique), "redundant": file.is_redundant(), "few": few,
    })
}
