//! Structures of NCCL's interface by version, as far as they are in this program's own table.
use super::change::{LibraryChange, Meaning};
use nccl_sys::{
    NCCL_LAYOUT_VERSION, ncclCollConfig_t, ncclCommProperties_t, ncclConfig_t, ncclEncryptionConfig_t, ncclSimInfo_t,
    ncclWaitSignalDesc_t, release,
};

/// The size of a structure in a release, given its version code, in bytes.
type SizeIn = fn(u32) -> usize;
/// The structures, with the release that introduced each. Of the first one, the fields are listed.
const STRUCTURES: [(&str, &str, SizeIn); 6] = [
    (CONFIG, "2.14", ncclConfig_t::size_in),
    ("ncclCommProperties_t", "2.29", ncclCommProperties_t::size_in),
    ("ncclCollConfig_t", "2.31", ncclCollConfig_t::size_in),
    ("ncclSimInfo_t", "2.22", |_| size_of::<ncclSimInfo_t>()),
    ("ncclWaitSignalDesc_t", "2.29", |_| size_of::<ncclWaitSignalDesc_t>()),
    ("ncclEncryptionConfig_t", "2.32", |_| size_of::<ncclEncryptionConfig_t>()),
];
const CONFIG: &str = "ncclConfig_t";

/// New fields that are named.
const MAX_NAMED: usize = 3;

/// The changes in structures from one version, given as text, to another. A program passes the size that it was compiled with, so growth
/// is harmless, and sizes are told only of what shrank.
pub fn structure_changes(base: &str, candidate: &str) -> Vec<LibraryChange> {
    let (Some(old), Some(new)) = (release(base), release(candidate)) else { return Vec::new() };
    // What a structure has in releases after the newest known one is not known.
    let size = |version: i32, since: &str, bytes: SizeIn| {
        let version = u32::try_from(version).unwrap_or(0);
        let is_there = release(since).and_then(|since| u32::try_from(since).ok()).is_some_and(|since| version >= since);
        is_there.then(|| bytes(version.min(NCCL_LAYOUT_VERSION)))
    };
    let mut texts: Vec<(String, String)> = Vec::new();
    let mut added = Vec::new();
    for (name, since, bytes) in STRUCTURES {
        let words = match (size(old, since, bytes), size(new, since, bytes)) {
            (None, Some(_)) => {
                added.push(name);
                continue;
            }
            (Some(_), None) => "is gone".to_owned(),
            (Some(before), Some(after)) if after < before => {
                format!("shrank from {before} to {after} bytes{}", gone(name, new, old))
            }
            (Some(before), Some(after)) if after > before => match fields(name, old, new).as_slice() {
                [] => "grew".to_owned(),
                [one] => format!("has a new field, {one}"),
                some if some.len() <= MAX_NAMED => format!("has new fields: {}", some.join(", ")),
                many => format!("has {} new fields, such as {}", many.len(), many[..MAX_NAMED].join(", ")),
            },
            _ => continue,
        };
        texts.push((format!("structure {name}"), format!("structure {name} {words}")));
    }
    if !added.is_empty() {
        texts.push(("new structures".to_owned(), format!("new structures: {}", added.join(", "))));
    }
    let change =
        |(subject, text)| LibraryChange { subject, text, names: Vec::new(), meaning: Meaning::Changed, accepted: None };
    texts.into_iter().map(change).collect()
}

/// The fields of a structure that the second release has and the first one has not, as far as they are listed.
fn fields(name: &str, without: i32, with: i32) -> Vec<&'static str> {
    let has = |version: i32, since: &str| release(since).is_some_and(|since| version >= since);
    let listed = ncclConfig_t::FIELDS.iter().filter(|_| name == CONFIG);
    listed.filter(|field| has(with, field.since) && !has(without, field.since)).map(|field| field.name).collect()
}

fn gone(name: &str, without: i32, with: i32) -> String {
    let names = fields(name, without, with);
    if names.is_empty() { String::new() } else { format!("; gone: {}", names.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_and_sizes_that_came_are_listed() {
        let texts = |base: &str, candidate: &str| -> Vec<String> {
            structure_changes(base, candidate).into_iter().map(|change| change.text).collect()
        };
        assert_eq!(texts("2.30.3", "2.30.7"), [""; 0]);
        assert_eq!(
            texts("2.28.9", "2.29.7"),
            [
                "structure ncclConfig_t has new fields: graphUsageMode, numRmaCtx",
                "new structures: ncclCommProperties_t, ncclWaitSignalDesc_t",
            ]
        );
        let back = texts("2.18.3", "2.17.1");
        assert!(back[0].contains(" shrank from ") && back[0].ends_with("; gone: splitShare"), "{back:?}");
        assert_eq!(texts("2.13.4", "2.14.3"), ["new structures: ncclConfig_t"]);
        assert_eq!(
            texts("2.31.2", "2.32.3"),
            [
                "structure ncclConfig_t has a new field, nvlsHostMode",
                "structure ncclCollConfig_t grew",
                "new structures: ncclEncryptionConfig_t",
            ]
        );
        assert_eq!(texts("2.32.3", "2.33.1"), [""; 0]);
        assert_eq!(texts("unknown", "2.14.3"), [""; 0]);
    }
}
