//! The libraries' counted work as text: first the differences, then the amount counted.
use crate::bench::COUNTS_NOTE;
use crate::bench::comparison::counts::REPORTED;
use crate::compare::work::Counts;
use collspec_core::printable::{one_line, thousands};
use collspec_suite::report::Styles;
use std::io::{self, Write};

/// Number of differences, and of rows that fail, that are shown.
const SHOWN: usize = 40;

/// Writes the counted work.
///
/// # Errors
///
/// Writing fails.
pub fn write_work(to: &mut dyn Write, work: &Counts, styles: Styles) -> io::Result<()> {
    let strong = styles.strong;
    writeln!(to, "\n{strong}Work: {}{strong:#}", verdict(work))?;
    writeln!(to, "  {COUNTS_NOTE}")?;
    for change in work.changes().take(SHOWN) {
        writeln!(to, "  {}", one_line(change))?;
    }
    if let Some(more) = work.changes().count().checked_sub(SHOWN).filter(|more| *more > 0) {
        writeln!(to, "  and {} more differences", thousands(more as u64))?;
    }
    if let Some(reason) = &work.accepted {
        writeln!(to, "  rows that fail are accepted: {}", one_line(reason))?;
    }
    for failed in work.failed.iter().take(SHOWN) {
        writeln!(to, "  fails on the candidate alone: {}", one_line(failed))?;
    }
    Ok(())
}

/// A description of how much differs.
pub(super) fn verdict(work: &Counts) -> String {
    let (all, from) = (thousands(work.rows.len() as u64), REPORTED * 100.0);
    let counted = match work.rows.iter().filter(|row| !row.changes.is_empty()).count() {
        _ if work.rows.is_empty() => "no row was counted on both sides".to_owned(),
        0 => format!("no number of the {all} rows differs by {from:.0} % or more"),
        differing => format!("{} of {all} rows differ by {from:.0} % or more", thousands(differing as u64)),
    };
    match work.not_counted {
        0 => counted,
        not_counted => format!("{counted}; {} rows could not be counted on both sides", thousands(not_counted as u64)),
    }
}
