//! What differs between the decisions of two libraries.
use super::Tuning;
use crate::footprint::size_in_words;
use std::collections::{BTreeMap, BTreeSet};

/// A run of sizes of an operation that are carried out otherwise, in the same way each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChoiceChange<'a> {
    /// The operation.
    pub operation: &'a str,
    /// The first of the sizes in bytes, and the last.
    pub bytes: (u64, u64),
    /// How they were carried out.
    pub before: &'a str,
    /// How they are now.
    pub after: &'a str,
}

impl ChoiceChange<'_> {
    /// The sizes with how they were and are carried out.
    pub fn in_words(&self) -> String {
        let (first, last) = self.bytes;
        let upto = if first == last { String::new() } else { format!(" to {}", size_in_words(last)) };
        format!("{}{upto} {} -> {}", size_in_words(first), self.before, self.after)
    }
}

/// A fact about the communicator with its value before and now, if it has one.
pub type FactChange<'a> = (&'a str, Option<&'a str>, Option<&'a str>);

/// What differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changes<'a> {
    /// The facts about the communicator that differ.
    pub facts: Vec<FactChange<'a>>,
    /// The choices that differ, of operations and sizes that both have.
    pub choices: Vec<ChoiceChange<'a>>,
    /// The operations that both have in at least one size.
    pub compared: BTreeSet<&'a str>,
}

/// What differs between the decisions of two libraries.
pub fn changes<'a>(before: &'a Tuning, after: &'a Tuning) -> Changes<'a> {
    let value = |of: &'a Tuning, name: &str| {
        of.communicator.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    };
    let new = after.communicator.iter().filter(|(name, _)| value(before, name).is_none());
    let names = before.communicator.iter().chain(new).map(|(name, _)| name.as_str());
    let both = names.map(|name| (name, value(before, name), value(after, name)));
    let facts = both.filter(|(_, before, after)| before != after).collect();

    let known: BTreeMap<_, _> = before
        .choices
        .iter()
        .map(|choice| ((choice.operation.as_deref(), choice.bytes), choice.words.as_str()))
        .collect();
    let mut found: Vec<ChoiceChange<'a>> = Vec::new();
    let mut compared = BTreeSet::new();
    let mut goes_on = false;
    for choice in &after.choices {
        let Some(old) = known.get(&(choice.operation.as_deref(), choice.bytes)) else { continue };
        let (operation, bytes) = (choice.operation.as_deref().unwrap_or("operations"), choice.bytes);
        compared.insert(operation);
        let is_same = are_same(old, &choice.words);
        match found.last_mut().filter(|_| goes_on && !is_same) {
            Some(last) if (last.operation, last.before, last.after) == (operation, *old, choice.words.as_str()) => {
                last.bytes.1 = bytes;
            }
            _ if is_same => {}
            _ => found.push(ChoiceChange { operation, bytes: (bytes, bytes), before: old, after: &choice.words }),
        }
        goes_on = !is_same;
    }
    Changes { facts, choices: found, compared }
}

/// True if nothing that both say differs: NCCL before 2.23 does not tell the channels.
fn are_same(before: &str, after: &str) -> bool {
    let ([before_way, before_channels], [after_way, after_channels]) = (parts(before), parts(after));
    before_way == after_way
        && (before_channels == after_channels || before_channels.is_empty() || after_channels.is_empty())
}

/// Algorithm with protocol, and channels.
fn parts(words: &str) -> [&str; 2] {
    words.split_once(", ").map_or([words, ""], |(way, channels)| [way, channels])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::footprint::Choice;

    fn tuning(channels: &str, choices: &[(&str, u64, &str)]) -> Tuning {
        let choice = |(operation, bytes, words): &(&str, u64, &str)| Choice {
            operation: Some((*operation).to_owned()),
            bytes: *bytes,
            words: (*words).to_owned(),
        };
        Tuning {
            collspec_tuning: 1,
            library: "NCCL".into(),
            ranks: 2,
            dtype: "f32".into(),
            communicator: vec![("channels".into(), channels.into()), ("network".into(), "IB".into())],
            choices: choices.iter().map(choice).collect(),
        }
    }

    #[test]
    fn sizes_with_the_same_change_are_told_together() {
        let before =
            tuning("8", &[("A", 1, "x"), ("A", 2, "x"), ("A", 4, "x"), ("A", 8, "x"), ("B", 1, "x"), ("B", 2, "z")]);
        let after =
            tuning("9", &[("A", 1, "y"), ("A", 2, "y"), ("A", 4, "x"), ("A", 8, "y"), ("B", 1, "y"), ("B", 4, "y")]);
        let Changes { facts, choices, compared } = changes(&before, &after);
        assert_eq!(compared, BTreeSet::from(["A", "B"]));
        assert_eq!(facts, [("channels", Some("8"), Some("9"))]);
        let told: Vec<_> = choices.iter().map(|change| (change.operation, change.bytes)).collect();
        assert_eq!(told, [("A", (1, 2)), ("A", (8, 8)), ("B", (1, 1))]);
        let none = |of: &Changes<'_>| of.facts.is_empty() && of.choices.is_empty();
        assert!(none(&changes(&before, &before)));
        assert!(changes(&before, &tuning("8", &[("C", 1, "x")])).compared.is_empty());
        let silent = tuning("8", &[("A", 1, "x")]);
        let told = tuning("8", &[("A", 1, "x, 2 channels")]);
        assert!(none(&changes(&silent, &told)), "the channels were not told before");
    }
}
