//! Groups the cases that changed, or fail, in the same way.
use crate::compare::{Change, Row};
use crate::formats::html::causes::without_numbers;
use std::collections::BTreeMap;

/// The cases with one change by the way in which they changed, the most frequent first. Reasons of failures count as one if they
/// differ only in numbers.
pub fn by_way<'a>(rows: &[&'a Row]) -> Vec<Vec<&'a Row>> {
    let mut ways: BTreeMap<String, Vec<&Row>> = BTreeMap::new();
    for row in rows {
        let way = if fails_on_both(row) { without_numbers(&row.detail) } else { row.detail.clone() };
        ways.entry(way).or_default().push(row);
    }
    let mut ways: Vec<Vec<&Row>> = ways.into_values().collect();
    ways.sort_by_key(|rows| std::cmp::Reverse(rows.len()));
    ways
}

/// True if the case fails in every run of both sides.
pub fn fails_on_both(row: &Row) -> bool {
    matches!(row.change, Change::StillFails | Change::FailsOtherwise)
}
