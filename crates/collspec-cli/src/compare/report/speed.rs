//! The speed of both libraries as text: every row, and all samples of those that differ.
use super::table::Table;
use crate::bench::comparison::{Change, RowComparison, Side};
use crate::compare::speed::Speed;
use collspec_core::printable::{one_line, thousands};
use std::io::{self, Write};

/// Number of rows whose samples are shown for each change.
const SHOWN: usize = 20;

/// Writes the timing results.
///
/// # Errors
///
/// Writing fails.
pub fn write_speed(to: &mut dyn Write, speed: &Speed) -> io::Result<()> {
    if let Some(reason) = &speed.accepted {
        writeln!(to, "  accepted: {}", one_line(reason))?;
    }
    for below in &speed.below {
        writeln!(to, "  below its limit: {}", one_line(&below.words()))?;
    }
    for failed in &speed.failed {
        writeln!(to, "  fails on the candidate alone: {}", one_line(&failed.to_string()))?;
    }
    to.write_all(Table::of_speed(speed).text().as_bytes())?;
    for (change, title) in [(Change::Slower, "slower"), (Change::Faster, "faster")] {
        let rows: Vec<&RowComparison> = speed.timed.rows.iter().filter(|row| row.change == change).collect();
        for row in rows.iter().take(SHOWN) {
            write_samples(to, row, title)?;
        }
        if let Some(more) = rows.len().checked_sub(SHOWN).filter(|more| *more > 0) {
            writeln!(to, "  and the samples of {} more rows that are {title}", thousands(more as u64))?;
        }
    }
    let count = |of: fn(&Change) -> bool| thousands(speed.timed.count(of) as u64);
    writeln!(
        to,
        "  {} rows: {} slower, {} faster, {} ~, {} inconclusive",
        thousands(speed.timed.rows.len() as u64),
        count(|change| *change == Change::Slower),
        count(|change| *change == Change::Faster),
        count(|change| *change == Change::Same),
        count(|change| matches!(change, Change::Inconclusive(_)))
    )?;
    for threshold in &speed.timed.thresholds {
        let noise = threshold.measured * 100.0;
        writeln!(to, "  the control differs from itself by {noise:.1} % at {}", threshold.tier.describe())?;
    }
    if let Some(ratio) = speed.mean_ratio() {
        writeln!(to, "  geometric mean of the candidate's times divided by the base's: {ratio:.3}")?;
    }
    Ok(())
}

fn write_samples(to: &mut dyn Write, row: &RowComparison, title: &str) -> io::Result<()> {
    let threshold = row.threshold.map_or(String::new(), |share| format!(" (threshold {:.1} %)", share * 100.0));
    writeln!(to, "  {title}: {}{threshold}", row.row)?;
    writeln!(to, "    base      {}", samples(&row.base))?;
    writeln!(to, "    candidate {}", samples(&row.candidate))
}

/// All samples in ascending order, and their variation.
fn samples(side: &Side) -> String {
    let samples: Vec<String> = side.sorted.iter().map(|seconds| format!("{:.2}", seconds * 1e6)).collect();
    let variation = side.summary.map_or(String::new(), |summary| {
        let bimodal = if summary.bimodal { ", bimodal" } else { "" };
        format!(" (coefficient of variation {:.1} %{bimodal})", summary.variation() * 100.0)
    });
    format!("{} us{variation}", samples.join(" "))
}
