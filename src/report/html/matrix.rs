//! The table of marks by operation and element type.
use super::page::{PageCase, Tone, html_text};
use crate::printable::thousands;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// The cases of one operation and type.
#[derive(Default)]
struct Cell {
    /// The first of the worst cases, by its number.
    first: usize,
    worst: Option<Tone>,
    /// Cases by mark.
    counts: BTreeMap<&'static str, usize>,
    /// Cases that are wrong or different.
    odd: usize,
    all: usize,
}

/// The table, with a link in each cell: with scripts it filters, without it leads to a case. A case of several operations or
/// types counts in each of their cells.
pub fn matrix(cases: &[PageCase]) -> String {
    let mut cells: BTreeMap<(&str, &str), Cell> = BTreeMap::new();
    for (at, case) in cases.iter().enumerate() {
        for (operation, dtype) in case.operations.iter().flat_map(|op| case.types.iter().map(move |ty| (*op, *ty))) {
            let cell = cells.entry((operation, dtype)).or_default();
            if cell.worst.is_none_or(|worst| case.mark.tone > worst) {
                (cell.worst, cell.first) = (Some(case.mark.tone), at);
            }
            cell.all += 1;
            cell.odd += usize::from(case.mark.tone >= Tone::Changed);
            *cell.counts.entry(case.mark.word).or_default() += 1;
        }
    }
    if cells.is_empty() {
        return String::new();
    }
    let operations: BTreeSet<&str> = cells.keys().map(|(operation, _)| *operation).collect();
    let types: BTreeSet<&str> = cells.keys().map(|(_, dtype)| *dtype).collect();
    let mut out = String::from(
        "<section><h2>By operation and type</h2><p class=faint>The number of cases; where some fail or differ, their number \
         of all. A case with several operations or types counts in each.</p><div class=wide><table class=matrix><tr><th>",
    );
    // Writing to a `String` cannot fail.
    types.iter().for_each(|dtype| _ = write!(out, "<th>{}", html_text(dtype)));
    for operation in operations {
        let _ = write!(out, "\n<tr><th>{}", html_text(operation));
        for dtype in &types {
            let Some(cell) = cells.get(&(operation, *dtype)) else {
                out.push_str("<td>");
                continue;
            };
            let counts: Vec<String> =
                cell.counts.iter().map(|(word, count)| format!("{word} {}", thousands(*count as u64))).collect();
            let all = thousands(cell.all as u64);
            let text = if cell.odd > 0 { format!("{}/{all}", thousands(cell.odd as u64)) } else { all };
            // Only cases that are wrong or different have a section to lead to.
            let to = if cell.odd > 0 { format!("c{}", cell.first) } else { "cases".to_owned() };
            let _ = write!(
                out,
                "<td class={}><a href=#{to} data-o={operation} data-t={dtype} title=\"{operation}, {dtype}: {}\">{text}</a>",
                cell.worst.map_or("g", Tone::class),
                html_text(&counts.join(", ")),
            );
        }
    }
    out + "</table></div></section>"
}
