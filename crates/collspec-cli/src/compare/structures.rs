//! Structures of NCCL's interface by version, as far as they are in this program's own table.
use super::change::Meaning;
use super::library_changes::LibraryChange;
use nccl_sys::{
    NCCL_LAYOUT_VERSION, ncclCollConfig_t, ncclCommProperties_t, ncclConfig_t, ncclEncryptionConfig_t, ncclSimInfo_t,
    ncclWaitSignalDesc_t, release,
};

/// Structures that did not grow in the known versions, with the release that introduced each, and their bytes.
const FIXED: [(&str, &str, usize); 3] = [
    ("ncclSimInfo_t", "2.22", size_of::<ncclSimInfo_t>()),
    ("ncclWaitSignalDesc_t", "2.29", size_of::<ncclWaitSignalDesc_t>()),
    ("ncclEncryptionConfig_t", "2.32", size_of::<ncclEncryptionConfig_t>()),
];
/// The size of a structure in a release, given its version code, in bytes.
type SizeIn = fn(u32) -> usize;
/// Structures that grew and whose fields are not listed, in the same form, with their bytes by release.
const GROWING: [(&str, &str, SizeIn); 2] = [
    ("ncclCommProperties_t", "2.29", ncclCommProperties_t::size_in),
    ("ncclCollConfig_t", "2.31", ncclCollConfig_t::size_in),
];
/// The release that introduced the configuration of a communicator.
const CONFIG: (&str, &str) = ("ncclConfig_t", "2.14");

/// The changes in structures from one version, given as text, to another.
pub fn structure_changes(base: &str, candidate: &str) -> Vec<LibraryChange> {
    let (Some(old), Some(new)) = (release(base), release(candidate)) else { return Vec::new() };
    let mut changes = Vec::new();
    let has = |version: i32, since: &str| release(since).is_some_and(|since| version >= since);
    let size = |version: i32, since: &str, bytes: usize| {
        // Structures may have grown since the releases that this program knows.
        let newer = u32::try_from(version).unwrap_or(0) / 100 > NCCL_LAYOUT_VERSION / 100;
        match has(version, since) {
            true if newer => format!("at least {bytes} bytes"),
            true => format!("{bytes} bytes"),
            false => "not there".to_owned(),
        }
    };
    let mut add = |name: &str, before: String, after: String, more: String| {
        if before != after || !more.is_empty() {
            changes.push(LibraryChange {
                subject: format!("structure {name}"),
                text: format!("structure {name}: {before} -> {after}{more}"),
                names: Vec::new(),
                meaning: Meaning::Changed,
                accepted: None,
            });
        }
    };
    let bytes = |version: i32| ncclConfig_t::size_in(u32::try_from(version).unwrap_or(0));
    let fields = |one: i32, other: i32| -> Vec<&str> {
        let only = |field: &&nccl_sys::ConfigField| has(one, field.since) && !has(other, field.since);
        ncclConfig_t::FIELDS.iter().filter(only).map(|field| field.name).collect()
    };
    let named = |words: &str, names: Vec<&str>| {
        if names.is_empty() { String::new() } else { format!("; {words}: {}", names.join(", ")) }
    };
    let more = named("new fields", fields(new, old)) + &named("gone fields", fields(old, new));
    let (name, since) = CONFIG;
    add(name, size(old, since, bytes(old)), size(new, since, bytes(new)), more);
    for (name, since, size_in) in GROWING {
        let bytes = |version: i32| size_in(u32::try_from(version).unwrap_or(0));
        add(name, size(old, since, bytes(old)), size(new, since, bytes(new)), String::new());
    }
    for (name, since, bytes) in FIXED {
        add(name, size(old, since, bytes), size(new, since, bytes), String::new());
    }
    changes
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
                "structure ncclConfig_t: 80 bytes -> 88 bytes; new fields: graphUsageMode, numRmaCtx",
                "structure ncclCommProperties_t: not there -> 56 bytes",
                "structure ncclWaitSignalDesc_t: not there -> 16 bytes",
            ]
        );
        let back = texts("2.18.3", "2.17.1");
        assert!(back[0].ends_with("; gone fields: splitShare"), "{back:?}");
        assert!(texts("2.13.4", "2.14.3")[0].starts_with("structure ncclConfig_t: not there -> "));
        assert_eq!(
            texts("2.31.2", "2.32.3"),
            [
                "structure ncclConfig_t: 112 bytes -> 120 bytes; new fields: nvlsHostMode",
                "structure ncclCollConfig_t: 64 bytes -> 72 bytes",
                "structure ncclEncryptionConfig_t: not there -> 32 bytes",
            ]
        );
        assert_eq!(texts("2.32.3", "2.33.1")[0], "structure ncclConfig_t: 120 bytes -> at least 120 bytes");
        assert_eq!(texts("unknown", "2.14.3"), [""; 0]);
    }
}
