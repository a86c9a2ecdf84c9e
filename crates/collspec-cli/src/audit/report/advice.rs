//! Advice on faults and flaws that an audit has missed: scenarios to paste.
use crate::audit::examples::scenario_for;
use crate::audit::{AuditReport, FaultOrFlaw, ItemRow};
use collspec_suite::report::Styles;
use std::io::{self, Write};

/// Number of scenarios that are shown.
const MAX_SCENARIOS: usize = 3;

/// The ids separated by commas. A family whose members are all included is given by its own id.
pub fn ids_by_family(items: &[FaultOrFlaw]) -> String {
    let mut ids: Vec<&str> = Vec::new();
    for item in items {
        let family = item.family().map(|(family, _)| family);
        let members =
            |of: &str| FaultOrFlaw::all().filter(|one| one.family().is_some_and(|(one, _)| one == of)).count();
        let among = |of: &str| items.iter().filter(|one| one.family().is_some_and(|(one, _)| one == of)).count();
        let id = family.filter(|family| members(family) == among(family)).unwrap_or(item.id());
        if ids.last() != Some(&id) {
            ids.push(id);
        }
    }
    ids.join(", ")
}

/// Writes the faults that no case meets in one line.
///
/// # Errors
///
/// Writing fails.
pub fn write_never_met(to: &mut dyn Write, report: &AuditReport, styles: &Styles) -> io::Result<()> {
    let Styles { fail, .. } = styles;
    let items: Vec<FaultOrFlaw> = report.items.iter().filter(|row| row.is_never_met()).map(|row| row.item).collect();
    match items.len() {
        0 => Ok(()),
        1 => writeln!(to, "{fail}MISSED{fail:#} 1 fault that no case meets: {}", ids_by_family(&items)),
        count => writeln!(to, "{fail}MISSED{fail:#} {count} faults that no case meets: {}", ids_by_family(&items)),
    }
}

/// Writes scenarios that would catch the missed faults, the first few of them.
///
/// # Errors
///
/// Writing fails.
pub fn write_scenarios(to: &mut dyn Write, report: &AuditReport, styles: &Styles) -> io::Result<()> {
    let Styles { strong, faint, .. } = styles;
    let missed: Vec<FaultOrFlaw> = report.items.iter().filter(|row| row.missed()).map(|row| row.item).collect();
    let mut scenarios: Vec<(String, Vec<FaultOrFlaw>)> = Vec::new();
    for item in missed {
        let Some(text) = scenario_for(item) else { continue };
        match scenarios.iter_mut().find(|(known, _)| *known == text) {
            Some((_, items)) => items.push(item),
            None => scenarios.push((text, vec![item])),
        }
    }
    for (text, items) in scenarios.iter().take(MAX_SCENARIOS) {
        let first = items.first().map_or("", |item| item.text());
        writeln!(to, "{strong}A scenario for {}{strong:#} ({first}):", ids_by_family(items))?;
        writeln!(to)?;
        writeln!(to, "{}", text.trim_end())?;
        writeln!(to)?;
    }
    if let Some(more) = scenarios.len().checked_sub(MAX_SCENARIOS).filter(|more| *more > 0) {
        let words = "`--fault ID` shows that of one fault, `--format jsonl` shows all";
        let are = if more == 1 { "1 more scenario would" } else { &format!("{more} more scenarios would") };
        writeln!(to, "{faint}{are} catch the others: {words}{faint:#}")?;
        writeln!(to)?;
    }
    Ok(())
}

/// The text of the row's scenario, if it was missed.
pub fn scenario_of(row: &ItemRow) -> Option<String> {
    if row.missed() { scenario_for(row.item) } else { None }
}
