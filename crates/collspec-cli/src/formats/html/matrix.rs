//! The table of marks by operation and element type.
use super::page::{Mark, PageCase, Tone};
use collspec_core::printable::thousands;
use maud::{Markup, html};
use std::collections::{BTreeMap, BTreeSet};

/// The mark of an operation of a case in which another operation changed.
const UNCHANGED: Mark = Mark { tone: Tone::Good, word: "unchanged" };

/// The cases of one operation and type.
#[derive(Default)]
struct Cell {
    /// The first of the worst cases, by its number.
    first: usize,
    worst: Option<Tone>,
    /// Numbers of cases by mark.
    counts: BTreeMap<&'static str, usize>,
    /// Cases that are wrong or different.
    odd: usize,
    all: usize,
}

/// The table, with a link in each cell: with scripts it filters, without it leads to a case. A case of several operations or
/// types counts in each of their cells.
pub fn matrix(cases: &[PageCase]) -> Markup {
    let mut cells: BTreeMap<(&str, &str), Cell> = BTreeMap::new();
    for (at, case) in cases.iter().enumerate() {
        for (operation, dtype) in case.calls.iter().copied().filter(|(_, dtype)| !dtype.is_empty()) {
            let cell = cells.entry((operation, dtype)).or_default();
            let marked = case.marked.is_empty() || case.marked.contains(&operation);
            let mark = if marked { case.mark } else { UNCHANGED };
            if cell.worst.is_none_or(|worst| mark.tone > worst) {
                (cell.worst, cell.first) = (Some(mark.tone), at);
            }
            cell.all += 1;
            cell.odd += usize::from(mark.tone >= Tone::Changed);
            *cell.counts.entry(mark.word).or_default() += 1;
        }
    }
    if cells.is_empty() {
        return Markup::default();
    }
    let mut worst: BTreeMap<&str, Option<Tone>> = BTreeMap::new();
    for ((operation, _), cell) in &cells {
        let known = worst.entry(operation).or_default();
        *known = (*known).max(cell.worst);
    }
    let mut operations: Vec<&str> = worst.keys().copied().collect();
    operations.sort_by_key(|operation| std::cmp::Reverse(worst.get(operation)));
    let types: BTreeSet<&str> = cells.keys().map(|(_, dtype)| *dtype).collect();
    html! {
        section {
            h2 { "By operation and type" }
            p.faint {
                "The number of cases; where some fail or differ, how many of how many. A case with several operations or types \
                 counts in each."
            }
            .wide {
                table.matrix {
                    tr { th {} @for dtype in &types { th { (dtype) } } }
                    @for operation in &operations {
                        tr {
                            th { (operation) }
                            @for dtype in &types {
                                @match cells.get(&(operation, *dtype)) {
                                    Some(cell) => (cell.html(operation, dtype)),
                                    None => td {},
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

impl Cell {
    fn html(&self, operation: &str, dtype: &str) -> Markup {
        let counts: Vec<String> =
            self.counts.iter().map(|(word, count)| format!("{word} {}", thousands(*count as u64))).collect();
        let all = thousands(self.all as u64);
        let text = if self.odd > 0 { format!("{}/{all}", thousands(self.odd as u64)) } else { all };
        // Only cases that are wrong or different have a section to lead to.
        let to = if self.odd > 0 { format!("#c{}", self.first) } else { "#cases".to_owned() };
        let title = format!("{operation}, {dtype}: {}", counts.join(", "));
        html! {
            td class=(self.worst.map_or("g", Tone::class)) {
                a href=(to) data-o=(operation) data-t=(dtype) title=(title) { (text) }
            }
        }
    }
}
