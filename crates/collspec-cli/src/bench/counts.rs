//! The table of work counted on software GPUs, where times are meaningless.
use super::operation::Operation;
use super::result::RowResult;
use super::row::Row;
use super::table::{Table, write_parts, write_troubles};
use collspec_core::printable::one_line;
use std::io::{self, Write};

/// Explains what the numbers mean.
pub const NOTE: &str = "counts of software GPUs, of all ranks in one iteration: no time, and nothing of a GPU's speed";

/// Widths of the columns of a place, with their names and units.
const COLUMNS: [(usize, &str, &str); 6] = [
    (14, "instructions", "(threads)"),
    (12, "loaded", "(B)"),
    (12, "stored", "(B)"),
    (8, "launches", ""),
    (6, "blocks", ""),
    (6, "#wrong", ""),
];

/// Writes the results: a table for each operation, then the problems.
///
/// # Errors
///
/// Writing fails.
pub fn write(to: &mut dyn Write, table: &Table<'_>, results: &[RowResult]) -> io::Result<()> {
    writeln!(to, "# {}\n# {NOTE}", one_line(table.library))?;
    let checked = if table.timing.verify { "verified" } else { "not verified" };
    writeln!(to, "# instructions by which threads wait for others, and what these load, are left out; {checked}")?;
    for operation in Operation::ALL {
        let own: Vec<RowResult> = results.iter().filter(|result| result.row.operation == operation).cloned().collect();
        write_parts(to, &own, write_head, write_cells)?;
    }
    writeln!(to, "#")?;
    for result in results.iter().filter(|result| result.varies) {
        writeln!(to, "# the samples' counts differ: {}", result.row)?;
    }
    write_troubles(to, results)
}

fn write_head(to: &mut dyn Write) -> io::Result<()> {
    let place = |of: fn(&(usize, &'static str, &'static str)) -> &'static str| -> String {
        COLUMNS.iter().map(|column| format!("  {:>width$}", of(column), width = column.0)).collect()
    };
    let width = place(|column| column.1).len();
    writeln!(to, "#{:55}{:^width$}{:^width$}", "", "out-of-place", "in-place")?;
    let row = |[size, count, dtype, redop, root]: [&str; 5], of: String| {
        format!("# {size:>10}  {count:>12}  {dtype:>8}  {redop:>6}  {root:>6}{of}{of}").trim_end().to_owned()
    };
    writeln!(to, "{}", row(["size", "count", "type", "redop", "root"], place(|column| column.1)))?;
    writeln!(to, "{}", row(["(B)", "(elements)", "", "", ""], place(|column| column.2)))
}

fn write_cells(to: &mut dyn Write, _: &Row, result: Option<&RowResult>) -> io::Result<()> {
    let work = result.and_then(|result| result.work);
    let counts = work.map(|work| [work.instructions, work.loaded, work.stored, work.launches, work.blocks]);
    let counts = counts.map_or([None; 5], |counts| counts.map(Some));
    let wrong = result.and_then(|result| result.wrong).filter(|_| work.is_some());
    for ((width, ..), number) in COLUMNS.iter().zip(counts.into_iter().chain([wrong])) {
        let text = number.map_or_else(|| "N/A".to_owned(), |number| number.to_string());
        write!(to, "  {text:>width$}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::row::fixture::sum;
    use crate::bench::sample::{OverRanks, RowOutcome, RowSample};
    use crate::bench::sampler::Timing;
    use collspec_run::job::Work;

    #[test]
    fn counts_stand_where_times_would() {
        let work = |instructions| Work { instructions, loaded: 20, stored: 30, launches: 2, blocks: 4 };
        let counted = |row: Row, instructions| RowSample {
            row,
            outcome: RowOutcome::Counted { work: work(instructions), wrong: Some(0), finding: None },
        };
        let rows = [sum(2, 8, false), sum(2, 8, true), sum(2, 16, false)];
        let failed = RowSample { row: sum(2, 16, false), outcome: RowOutcome::Failed { reason: "hang".into() } };
        let samples = [
            vec![counted(sum(2, 8, false), 10), counted(sum(2, 8, true), 11), failed],
            vec![counted(sum(2, 8, true), 12)],
        ];
        let timing = Timing { warm_up: 1, iterations: 1, over_ranks: OverRanks::Mean, verify: true };
        let table = Table { library: "NCCL 2.27.5", timing, clock: "", samples: 2 };
        let mut text = Vec::new();
        write(&mut text, &table, &RowResult::of(&rows, &samples)).unwrap();
        let text = String::from_utf8(text).unwrap();
        let lines: Vec<String> = text
            .lines()
            .filter(|line| !line.starts_with('#'))
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        let none = "N/A N/A N/A N/A N/A N/A";
        assert_eq!(
            lines,
            ["8 2 float sum -1 10 20 30 2 4 0 11 20 30 2 4 0".to_owned(), format!("16 4 float sum -1 {none} {none}")]
        );
        assert!(text.contains(NOTE) && !text.contains("GB/s") && !text.contains("(us)"), "{text}");
        assert!(
            text.contains("# the samples' counts differ: all_reduce, sum, float, 2 ranks, in place, 8 bytes"),
            "{text}"
        );
        assert!(text.contains("# FAILED all_reduce, sum, float, 2 ranks, out of place, 16 bytes: hang"), "{text}");
    }
}
