//! Decides if a candidate does more work than its base. Both are counted on software GPUs, so a difference needs no statistics.
use crate::bench::row::Row;
use crate::bench::sample::RowSample;
use collspec_core::printable::thousands;
use collspec_run::job::Work;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// The fraction of the base's number from which a difference is reported.
pub const REPORTED: f64 = 0.05;

/// A row that was counted on both sides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowCounts {
    /// The row whose work was counted.
    pub row: Row,
    pub base: Work,
    pub candidate: Work,
    /// Descriptions of the numbers that differ by [`REPORTED`] or more.
    pub changes: Vec<String>,
}

/// The rows that were counted on both sides.
pub fn compare(base: &[RowSample], candidate: &[RowSample]) -> Vec<RowCounts> {
    let theirs: HashMap<&Row, Work> =
        candidate.iter().filter_map(|sample| Some((&sample.row, sample.outcome.work()?))).collect();
    let both = base.iter().filter_map(|sample| {
        let (base, candidate) = (sample.outcome.work()?, *theirs.get(&sample.row)?);
        let changes = changes(base, candidate);
        let changes = changes.into_iter().map(|change| format!("{change} in {}", sample.row)).collect();
        Some(RowCounts { row: sample.row.clone(), base, candidate, changes })
    });
    both.collect()
}

/// Descriptions of the numbers that differ by [`REPORTED`] or more.
pub fn changes(base: Work, candidate: Work) -> Vec<String> {
    let numbers = [
        ("executes", "instructions", base.instructions, candidate.instructions),
        ("loads", "bytes", base.loaded, candidate.loaded),
        ("stores", "bytes", base.stored, candidate.stored),
        ("launches", "kernels", base.launches, candidate.launches),
        ("uses", "blocks", base.blocks, candidate.blocks),
    ];
    let change = |(does, what, base, candidate): (&str, &str, u64, u64)| {
        let difference = base.abs_diff(candidate);
        if difference == 0 || (difference as f64) < REPORTED * base as f64 {
            return None;
        }
        let more = if candidate > base { "more" } else { "fewer" };
        let share = match base {
            0 => String::new(),
            _ => format!("{:.0} % ", difference as f64 / base as f64 * 100.0),
        };
        Some(format!("{does} {share}{more} {what} ({} -> {})", thousands(base), thousands(candidate)))
    };
    numbers.into_iter().filter_map(change).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::row::fixture::sum;
    use crate::bench::sample::RowOutcome;

    fn counted(bytes: u64, work: Work) -> RowSample {
        RowSample { row: sum(2, bytes, false), outcome: RowOutcome::Counted { work, wrong: Some(0), finding: None } }
    }

    #[test]
    fn differences_are_exact_and_reported_from_a_twentieth_on() {
        let work = Work { instructions: 1234, loaded: 100, stored: 1000, launches: 2, blocks: 2 };
        let other = Work { instructions: 1407, loaded: 104, stored: 950, launches: 2, blocks: 4 };
        let missing = RowSample { row: sum(2, 64, false), outcome: RowOutcome::Failed { reason: "hang".into() } };
        let rows = compare(
            &[counted(4096, work), counted(8, work), missing, counted(16, Work::default())],
            &[
                counted(4096, other),
                counted(8, work),
                counted(64, work),
                counted(16, Work { loaded: 3, ..Work::default() }),
            ],
        );
        let of = "in all_reduce, sum, float, 2 ranks, out of place";
        let expected = [
            format!("executes 14 % more instructions (1,234 -> 1,407) {of}, 4,096 bytes"),
            format!("stores 5 % fewer bytes (1,000 -> 950) {of}, 4,096 bytes"),
            format!("uses 100 % more blocks (2 -> 4) {of}, 4,096 bytes"),
        ];
        assert_eq!(rows[0].changes, expected);
        assert_eq!((rows.len(), rows[1].changes.len()), (3, 0), "what failed on a side is not compared");
        assert_eq!(rows[2].changes, [format!("loads more bytes (0 -> 3) {of}, 16 bytes")]);
    }
}
