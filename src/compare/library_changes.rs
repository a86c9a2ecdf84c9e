//! What changed in the library itself, and in what the two sides ran on.
use super::change::Meaning;
use crate::record::{Header, LibraryIdentity};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// A change that is of no case.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LibraryChange {
    /// What it is about, as a file of accepted changes names it, for instance `function ncclCommShrink`.
    pub subject: String,
    /// What changed, in one line.
    pub text: String,
    /// What it means.
    pub meaning: Meaning,
    /// Why it is accepted, if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepted: Option<String>,
}

/// What changed from one header to another.
pub fn library_changes(base: &Header, candidate: &Header) -> Vec<LibraryChange> {
    let mut changes = functions(&base.library, &candidate.library);
    let mut differs = |subject: &str, ours: String, theirs: String| {
        if ours != theirs {
            let text = format!("{subject}: {ours} -> {theirs}");
            changes.push(LibraryChange {
                subject: subject.to_owned(),
                text,
                meaning: Meaning::Changed,
                accepted: None,
            });
        }
    };
    let device = |header: &Header| {
        let names: Vec<String> =
            header.devices.iter().map(|device| format!("{} (compute {})", device.name, device.compute)).collect();
        if names.is_empty() { "none".to_owned() } else { names.join(", ") }
    };
    differs("devices", device(base), device(candidate));
    let driver = |header: &Header| header.driver.map_or("none".to_owned(), |version| version.to_string());
    differs("driver", driver(base), driver(candidate));
    let names: BTreeSet<&String> = base.environment.keys().chain(candidate.environment.keys()).collect();
    for name in names {
        let value =
            |header: &Header| header.environment.get(name).map_or("not set".to_owned(), |value| format!("`{value}`"));
        differs(&format!("variable {name}"), value(base), value(candidate));
    }
    let seed = |header: &Header| header.seed.to_string();
    differs("seed", seed(base), seed(candidate));
    changes
}

/// Functions that came and went. A function that the base has and the candidate lacks is worse: programs that call it do not
/// start any more.
fn functions(base: &LibraryIdentity, candidate: &LibraryIdentity) -> Vec<LibraryChange> {
    let set = |library: &LibraryIdentity| -> BTreeSet<String> { library.functions.iter().cloned().collect() };
    let (ours, theirs) = (set(base), set(candidate));
    if ours.is_empty() || theirs.is_empty() {
        return Vec::new();
    }
    let gone = ours.difference(&theirs).map(|name| LibraryChange {
        subject: format!("function {name}"),
        text: format!("the candidate lacks the function {name}"),
        meaning: Meaning::Worse,
        accepted: None,
    });
    let new = theirs.difference(&ours).map(|name| LibraryChange {
        subject: format!("function {name}"),
        text: format!("the candidate has a new function, {name}"),
        meaning: Meaning::Changed,
        accepted: None,
    });
    gone.chain(new).collect()
}
