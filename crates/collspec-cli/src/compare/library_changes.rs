//! Changes in the library itself, and in the machines of the two sides.
use super::change::{LibraryChange, Meaning};
use super::footprint_changes::footprint_changes;
use super::structures::structure_changes;
use super::tuning_changes::tuning_changes;
use super::words::counted;
use crate::record::{Header, LibraryIdentity};
use std::collections::BTreeSet;

/// The changes from one header to another.
pub fn library_changes(base: &Header, candidate: &Header) -> Vec<LibraryChange> {
    let mut changes = functions(&base.library, &candidate.library);
    changes.extend(structure_changes(&base.library.version, &candidate.library.version));
    if let (Some(base), Some(candidate)) = (&base.footprint, &candidate.footprint) {
        changes.extend(footprint_changes(base, candidate));
    }
    if let (Some(Ok(base)), Some(Ok(candidate))) = (&base.tuning, &candidate.tuning) {
        tuning_changes(base, candidate, &mut changes);
    }
    let mut differs = |subject: &str, ours: String, theirs: String| {
        if ours != theirs {
            let text = format!("{subject}: {ours} -> {theirs}");
            changes.push(LibraryChange {
                subject: subject.to_owned(),
                text,
                names: Vec::new(),
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
    let options = |header: &Header| {
        let pairs = header.options.chunks(2).filter(|pair| {
            !matches!(pair.first().map(String::as_str), Some("--backend" | "--nccl" | "--driver" | "--seed"))
        });
        let words: Vec<String> = pairs.map(|pair| pair.join(" ")).collect();
        if words.is_empty() { "none".to_owned() } else { words.join(" ") }
    };
    differs("options", options(base), options(candidate));
    let seed = |header: &Header| header.seed.to_string();
    differs("seed", seed(base), seed(candidate));
    changes
}

/// Functions that were added or removed. A function that the base has and the candidate lacks is worse: programs that call it no
/// longer start. Where both sides have a file, everything that they export under a name of NCCL's is compared, otherwise the
/// functions that this program knows.
fn functions(base: &LibraryIdentity, candidate: &LibraryIdentity) -> Vec<LibraryChange> {
    let files = !base.exports.is_empty() && !candidate.exports.is_empty();
    let set = |library: &LibraryIdentity| -> BTreeSet<String> {
        if files { &library.exports } else { &library.functions }.iter().cloned().collect()
    };
    let (ours, theirs) = (set(base), set(candidate));
    if ours.is_empty() || theirs.is_empty() {
        return Vec::new();
    }
    let gone = |name: &str| LibraryChange {
        subject: format!("function {name}"),
        text: format!("the candidate lacks the function {name}"),
        names: Vec::new(),
        meaning: Meaning::Worse,
        accepted: None,
    };
    let new: Vec<&str> = only_in(&theirs, &ours).collect();
    only_in(&ours, &theirs).map(gone).chain(new_functions(&new)).collect()
}

/// Number of new functions that are named where the text is short.
const NAMED: usize = 3;

/// All new functions as one change: none of them can be worse.
fn new_functions(new: &[&str]) -> Option<LibraryChange> {
    let first = new.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ");
    let more = match new.len() {
        0 => return None,
        all if all > NAMED => format!(" and {} more", all - NAMED),
        _ => String::new(),
    };
    Some(LibraryChange {
        subject: "new functions".to_owned(),
        text: format!("the candidate has {}: {first}{more}", counted(new.len(), "new function", "new functions")),
        names: if more.is_empty() { Vec::new() } else { new.iter().map(|name| (*name).to_owned()).collect() },
        meaning: Meaning::Changed,
        accepted: None,
    })
}

/// The functions that only one has, without the twin for profilers (`pncclInit` of `ncclInit`) of another one of them.
fn only_in<'a>(one: &'a BTreeSet<String>, other: &'a BTreeSet<String>) -> impl Iterator<Item = &'a str> {
    let is_only = |name: &str| one.contains(name) && !other.contains(name);
    let is_twin = move |name: &str| name.strip_prefix('p').is_some_and(is_only);
    one.difference(other).map(String::as_str).filter(move |name| !is_twin(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn library(exports: &[&str], functions: &[&str]) -> LibraryIdentity {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        LibraryIdentity { exports: owned(exports), functions: owned(functions), ..LibraryIdentity::default() }
    }

    #[test]
    fn new_functions_are_one_change_that_names_the_first() {
        let change = new_functions(&["ncclA", "ncclB", "ncclC", "ncclD", "ncclE"]).unwrap();
        assert_eq!(change.text, "the candidate has 5 new functions: ncclA, ncclB, ncclC and 2 more");
        assert_eq!(change.names.len(), 5);
        assert_eq!(new_functions(&["ncclA"]).unwrap().text, "the candidate has 1 new function: ncclA");
        assert_eq!(new_functions(&[]), None);
    }

    #[test]
    fn exports_of_files_come_before_known_functions_and_twins_are_not_named() {
        let old = library(&["ncclA", "ncclOld", "pncclA", "pncclOld", "pncclLone"], &["ncclA"]);
        let new = library(&["ncclA", "ncclNew", "pncclA", "pncclNew"], &[]);
        let of = |base: &LibraryIdentity, candidate: &LibraryIdentity| -> Vec<(String, Meaning)> {
            functions(base, candidate).into_iter().map(|change| (change.subject, change.meaning)).collect()
        };
        let wanted = [
            ("function ncclOld", Meaning::Worse),
            ("function pncclLone", Meaning::Worse),
            ("new functions", Meaning::Changed),
        ];
        assert_eq!(of(&old, &new), wanted.map(|(subject, meaning)| (subject.to_owned(), meaning)));
        assert_eq!(of(&old, &old), []);
        // A recording without exports, and the software library, which has no file.
        let known = library(&[], &["ncclA", "ncclB"]);
        assert_eq!(of(&known, &old), [("function ncclB".to_owned(), Meaning::Worse)]);
        assert_eq!(of(&known, &new), []);
    }
}
