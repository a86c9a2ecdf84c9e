//! The rows of `--bench` as a table, which every format shows in its own way.
use crate::bench::comparison::{Change, RowComparison, Side};
use crate::compare::speed::Speed;
use crate::compare::work::Counts;
use collspec_core::printable::{one_line, thousands};
use maud::{Markup, html};
use std::fmt::Write;

/// A table, with the rows that matter most first.
pub struct Table {
    head: &'static [&'static str],
    rows: Vec<TableRow>,
}

struct TableRow {
    /// The class of the page's style for the first cell.
    class: &'static str,
    cells: Vec<String>,
}

const SPEED: &[&str] = &["", "row", "base (us)", "candidate (us)", "ratio of times", "base (GB/s)", "candidate (GB/s)"];
const WORK: &[&str] = &["", "row", "instructions", "bytes loaded", "bytes stored", "launches", "blocks"];

impl Table {
    /// Every row that was timed, slower ones first.
    pub fn of_speed(speed: &Speed) -> Self {
        let mut timed: Vec<&RowComparison> = speed.timed.rows.iter().collect();
        timed.sort_by_key(|row| match (&row.change, is_below(speed, row)) {
            (Change::Slower, _) => 0,
            (_, true) => 1,
            (Change::Faster, _) => 2,
            (Change::Inconclusive(_), _) => 3,
            (Change::Same, _) => 4,
        });
        let median = |side: &Side| side.summary.map_or(String::new(), |summary| format!("{:.2}", summary.median * 1e6));
        let busbw = |row: &RowComparison, side: &Side| {
            side.bus_bandwidth(&row.row).map_or(String::new(), |busbw| format!("{busbw:.2}"))
        };
        let row = |row: &RowComparison| {
            let (class, word) = match &row.change {
                Change::Slower => ("b", "slower"),
                Change::Faster => ("g", "faster"),
                Change::Inconclusive(_) => ("i", "inconclusive"),
                Change::Same => ("", "~"),
            };
            let below = is_below(speed, row);
            let ratio = row.ratio.map_or(String::new(), |ratio| {
                format!("{:.3} ({:.3} to {:.3})", ratio.estimate, ratio.low, ratio.high)
            });
            let cells = vec![
                if below { format!("{word}, below its limit") } else { word.to_owned() },
                row.row.to_string(),
                median(&row.base),
                median(&row.candidate),
                ratio,
                busbw(row, &row.base),
                busbw(row, &row.candidate),
            ];
            TableRow { class: if below { "b" } else { class }, cells }
        };
        Self { head: SPEED, rows: timed.into_iter().map(row).collect() }
    }

    /// Every row that was counted, those that differ first.
    pub fn of_work(work: &Counts) -> Self {
        let mut counted: Vec<_> = work.rows.iter().collect();
        counted.sort_by_key(|row| row.changes.is_empty());
        let both = |base: u64, candidate: u64| {
            if base == candidate { thousands(base) } else { format!("{} -> {}", thousands(base), thousands(candidate)) }
        };
        let rows = counted.into_iter().map(|row| {
            let (base, candidate) = (&row.base, &row.candidate);
            let (class, word) = if row.changes.is_empty() { ("", "~") } else { ("c", "differs") };
            let cells = vec![
                word.to_owned(),
                row.row.to_string(),
                both(base.instructions, candidate.instructions),
                both(base.loaded, candidate.loaded),
                both(base.stored, candidate.stored),
                both(base.launches, candidate.launches),
                both(base.blocks, candidate.blocks),
            ];
            TableRow { class, cells }
        });
        Self { head: WORK, rows: rows.collect() }
    }

    /// The table in columns of text, each line indented; nothing if it has no row.
    pub fn text(&self) -> String {
        let mut text = String::new();
        if self.rows.is_empty() {
            return text;
        }
        let head: Vec<String> = self.head.iter().map(|cell| (*cell).to_owned()).collect();
        let lines: Vec<&Vec<String>> = std::iter::once(&head).chain(self.rows.iter().map(|row| &row.cells)).collect();
        let width = |column: usize| {
            lines.iter().filter_map(|line| line.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.head.len()).map(width).collect();
        for line in lines {
            let cells: Vec<String> = line.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
            // Writing to a `String` cannot fail.
            let _ = writeln!(text, "  {}", one_line(&cells.join("  ")).trim_end());
        }
        text
    }

    /// The table as HTML.
    pub fn html(&self) -> Markup {
        html! {
            @if !self.rows.is_empty() {
                .wide {
                    table.timed {
                        tr { @for cell in self.head { th { (cell) } } }
                        @for row in &self.rows {
                            tr {
                                @for (column, cell) in row.cells.iter().enumerate() {
                                    td class=[(column == 0 && !row.class.is_empty()).then_some(row.class)] { (one_line(cell)) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn is_below(speed: &Speed, row: &RowComparison) -> bool {
    speed.below.iter().any(|below| below.row == row.row)
}
