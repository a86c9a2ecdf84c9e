//! Comparisons made up for tests.
use super::comparison::{Comparison, Row};
use serde_json::json;

fn row(change: &str) -> Row {
    let seen = json!({ "passed": 2, "failed": 0, "skipped": 0, "endings": [] });
    let row = json!({ "case": change, "file": "a.toml", "change": change, "base": seen, "candidate": seen });
    serde_json::from_value(row).unwrap()
}

/// A comparison of cases with these changes.
pub fn comparison(changes: &[&str]) -> Comparison {
    Comparison { not_begun: None, rows: changes.iter().map(|change| row(change)).collect(), ..none() }
}

/// A comparison that did not begin.
pub fn none() -> Comparison {
    Comparison::not_begun("2.28.9", "2.30.7", "the library is missing".to_owned())
}
