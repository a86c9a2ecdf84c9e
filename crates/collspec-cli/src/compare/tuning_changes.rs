//! Changes in what a library decides on a machine.
use super::change::Meaning;
use super::library_changes::LibraryChange;
use crate::footprint::size_in_words;
use crate::tuning::{ChoiceChange, Tuning, changes};
use std::collections::BTreeMap;

/// How the subject of a change of algorithms begins.
pub const ALGORITHM: &str = "algorithm of ";

/// The changes from one library's decisions to another's.
pub fn tuning_changes(base: &Tuning, candidate: &Tuning) -> Vec<LibraryChange> {
    let (facts, choices) = changes(base, candidate);
    let ranks = candidate.ranks;
    let change = |subject: String, text| LibraryChange {
        subject,
        text,
        names: Vec::new(),
        meaning: Meaning::Changed,
        accepted: None,
    };
    let fact = |(name, before, after): (&str, Option<&str>, Option<&str>)| {
        let word = |value: Option<&str>| value.unwrap_or("not told").to_owned();
        change(format!("tuning {name}"), format!("{name} of {ranks} ranks: {} -> {}", word(before), word(after)))
    };
    let mut by_operation: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for ChoiceChange { operation, bytes: (first, last), before, after } in choices {
        let sizes = if first == last {
            size_in_words(first)
        } else {
            format!("{} to {}", size_in_words(first), size_in_words(last))
        };
        by_operation.entry(operation).or_default().push(format!("{sizes} {before} -> {after}"));
    }
    let algorithm = |(operation, runs): (&str, Vec<String>)| {
        change(format!("{ALGORITHM}{operation}"), format!("{operation} between {ranks} ranks: {}", runs.join("; ")))
    };
    facts.into_iter().map(fact).chain(by_operation.into_iter().map(algorithm)).collect()
}
