//! The libraries' counted work as text: the differences, then every row.
use super::table::Table;
use crate::bench::COUNTS_NOTE;
use crate::compare::work::Counts;
use collspec_core::printable::{one_line, thousands};
use std::io::{self, Write};

/// Number of differences that are shown as sentences.
const SHOWN: usize = 40;

/// Writes the counted work.
///
/// # Errors
///
/// Writing fails.
pub fn write_work(to: &mut dyn Write, work: &Counts) -> io::Result<()> {
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
    for failed in &work.failed {
        writeln!(to, "  fails on the candidate alone: {}", one_line(&failed.to_string()))?;
    }
    to.write_all(Table::of_work(work).text().as_bytes())
}
