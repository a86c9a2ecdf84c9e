//! Changes in what a library decides on a machine.
use super::change::{LibraryChange, Meaning};
use crate::tuning::{Changes, Tuning, changes};
use std::collections::BTreeMap;

/// How the subject of a change of algorithms begins.
pub const ALGORITHM: &str = "algorithm of ";

/// Adds the changes from one library's decisions to another's. For an operation that both tell, they take the place of what the few ranks of a
/// footprint have chosen.
pub fn tuning_changes(base: &Tuning, candidate: &Tuning, known: &mut Vec<LibraryChange>) {
    let Changes { facts, choices, compared } = changes(base, candidate);
    known
        .retain(|change| !change.subject.strip_prefix(ALGORITHM).is_some_and(|operation| compared.contains(operation)));
    let ranks = match (base.ranks, candidate.ranks) {
        (one, other) if one == other => format!("{one} ranks"),
        (one, other) => format!("{one} ranks -> {other} ranks"),
    };
    let change = |subject: String, text| LibraryChange {
        subject,
        text,
        names: Vec::new(),
        meaning: Meaning::Changed,
        accepted: None,
    };
    let fact = |(name, before, after): (&str, Option<&str>, Option<&str>)| {
        let word = |value: Option<&str>| value.unwrap_or("not told").to_owned();
        change(format!("tuning {name}"), format!("{name} ({ranks}): {} -> {}", word(before), word(after)))
    };
    let mut by_operation: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for choice in choices {
        by_operation.entry(choice.operation).or_default().push(choice.in_words());
    }
    let algorithm = |(operation, runs): (&str, Vec<String>)| {
        change(format!("{ALGORITHM}{operation}"), format!("{operation} ({ranks}): {}", runs.join("; ")))
    };
    known.extend(facts.into_iter().map(fact).chain(by_operation.into_iter().map(algorithm)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::footprint::Choice;

    #[test]
    fn what_differs_is_told_by_fact_and_by_operation() {
        let tuning = |channels: &str, words: [&str; 3]| Tuning {
            collspec_tuning: 1,
            library: "NCCL".into(),
            ranks: 16,
            dtype: "f32".into(),
            communicator: vec![("p2p channels".into(), channels.into())],
            choices: std::iter::zip([1024, 2048, 4096], words)
                .map(|(bytes, words)| Choice { operation: Some("AllReduce".into()), bytes, words: words.into() })
                .collect(),
        };
        let told = |before: &Tuning, after: &Tuning, mut known: Vec<LibraryChange>| -> Vec<(String, String)> {
            tuning_changes(before, after, &mut known);
            known.into_iter().map(|change| (change.subject, change.text)).collect()
        };
        let before = tuning("2", ["RING LL", "RING LL", "TREE LL"]);
        let after = tuning("4", ["TREE LL", "TREE LL", "RING LL"]);
        let expected = [
            ("tuning p2p channels", "p2p channels (16 ranks): 2 -> 4"),
            (
                "algorithm of AllReduce",
                "AllReduce (16 ranks): 1 KiB to 2 KiB RING LL -> TREE LL; 4 KiB TREE LL -> RING LL",
            ),
        ];
        let expected = expected.map(|(subject, text)| (subject.to_owned(), text.to_owned()));
        assert_eq!(told(&before, &after, Vec::new()), expected);
        let footprint = |subject: &str| LibraryChange {
            subject: subject.to_owned(),
            text: "of two ranks".to_owned(),
            names: Vec::new(),
            meaning: Meaning::Changed,
            accepted: None,
        };
        let known = ["algorithm of AllReduce", "algorithm of Reduce"].map(footprint).to_vec();
        let left = [("algorithm of Reduce".to_owned(), "of two ranks".to_owned())];
        assert_eq!(told(&before, &before, known), left);
    }
}
