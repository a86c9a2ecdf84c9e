//! The state of a process, as reported by the kernel.
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;

/// The resources of a process at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessState {
    /// Its threads: the number with each name.
    pub threads: BTreeMap<String, u64>,
    /// Its open descriptors: the number for each file or kind.
    pub descriptors: BTreeMap<String, u64>,
    /// Bytes of memory that it uses on the host and that no file backs.
    pub host_bytes: Option<u64>,
    /// Bytes of memory in use on the devices of its ranks.
    pub device_bytes: Option<u64>,
}

impl ProcessState {
    /// The state of this process, with the bytes in use on its devices.
    pub fn now(device_bytes: Option<u64>) -> Self {
        Self { threads: threads(), descriptors: descriptors(), host_bytes: host_bytes(), device_bytes }
    }
}

fn counted(names: impl Iterator<Item = String>) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    names.for_each(|name| *counts.entry(name).or_default() += 1);
    counts
}

fn threads() -> BTreeMap<String, u64> {
    let entries = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    // A thread that ends in the meantime does not have a name any more.
    counted(entries.filter_map(|entry| {
        let name = fs::read(entry.path().join("comm")).ok()?;
        Some(String::from_utf8_lossy(&name).trim_end().to_owned())
    }))
}

fn descriptors() -> BTreeMap<String, u64> {
    let entries = fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let targets = entries.filter_map(|entry| fs::read_link(entry.path()).ok());
    counted(targets.map(|target| kind(&target.to_string_lossy())).filter(|kind| !is_own_listing(kind)))
}

/// The folder that is being listed is open while it is.
fn is_own_listing(kind: &str) -> bool {
    let parts: Vec<&str> = kind.split('/').collect();
    matches!(parts.as_slice(), ["", "proc", _, "fd"])
}

/// The kind of a descriptor: a file's path, or the type of an object without one, without its number.
fn kind(target: &str) -> String {
    match target.split_once(":[") {
        Some((kind, _)) if !target.starts_with('/') && kind != "anon_inode" => kind.to_owned(),
        _ => target.to_owned(),
    }
}

/// The sum over all mappings is exact; the counters of `status` may lag behind by megabytes on machines with many processors.
fn host_bytes() -> Option<u64> {
    let exact = fs::read_to_string("/proc/self/smaps_rollup").ok().and_then(|text| field(&text, "Anonymous:"));
    exact.or_else(|| field(&fs::read_to_string("/proc/self/status").ok()?, "RssAnon:"))
}

/// A field in kB, as bytes.
fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Processors in words, such as `0-3, 8`.
pub fn processors_in_words(processors: &[usize]) -> String {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for number in processors {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == *number => *last = *number,
            _ => ranges.push((*number, *number)),
        }
    }
    let words =
        ranges.iter().map(|(first, last)| if first == last { first.to_string() } else { format!("{first}-{last}") });
    words.collect::<Vec<_>>().join(", ")
}

/// A variable of the environment whose value changed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct VariableChange {
    /// The variable's name.
    pub name: String,
    /// Its value before, if it was set.
    pub before: Option<String>,
    /// Its value afterwards, if it is set.
    pub after: Option<String>,
}

/// The environment of this process.
pub fn variables() -> BTreeMap<OsString, OsString> {
    std::env::vars_os().collect()
}

/// The variables whose values differ.
pub fn changed_variables(
    before: &BTreeMap<OsString, OsString>,
    after: &BTreeMap<OsString, OsString>,
) -> Vec<VariableChange> {
    let names: std::collections::BTreeSet<_> = before.keys().chain(after.keys()).collect();
    let text = |value: Option<&OsString>| value.map(|value| value.to_string_lossy().into_owned());
    let changed = names.into_iter().filter(|name| before.get(*name) != after.get(*name));
    changed
        .map(|name| VariableChange {
            name: name.to_string_lossy().into_owned(),
            before: text(before.get(name)),
            after: text(after.get(name)),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn descriptors_are_called_by_what_they_are() {
        assert_eq!(kind("socket:[123]"), "socket");
        assert_eq!(kind("pipe:[9]"), "pipe");
        assert_eq!(kind("anon_inode:[eventfd]"), "anon_inode:[eventfd]");
        assert_eq!(kind("/dev/null"), "/dev/null");
        assert_eq!(kind("/a:[b]"), "/a:[b]");
    }

    #[test]
    fn what_is_open_and_what_is_used_is_seen() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("open").canonicalize().unwrap_or(folder.path().join("open"));
        let _open = [File::create(&path).unwrap(), File::open(&path).unwrap()];
        let state = ProcessState::now(Some(3));
        let opened = state.descriptors.iter().find(|(name, _)| name.ends_with("/open"));
        assert_eq!(opened.map(|(_, count)| *count), Some(2), "{state:?}");
        assert!(!state.descriptors.keys().any(|name| name.ends_with("/fd")), "{state:?}");
        assert!(state.threads.values().sum::<u64>() > 0 && state.device_bytes == Some(3), "{state:?}");
        // Tests that run beside this one give memory back.
        let is_seen = |_| {
            let before = ProcessState::now(None).host_bytes.unwrap();
            let used = std::hint::black_box(vec![1u8; 64 << 20]);
            let more = ProcessState::now(None).host_bytes.unwrap() >= before + (48 << 20);
            drop(used);
            more
        };
        assert!((0..20).any(is_seen));
    }

    #[test]
    fn fields_of_the_kernel_are_read() {
        assert_eq!(field("Rss:  4 kB\nAnonymous:     12 kB\n", "Anonymous:"), Some(12 << 10));
        assert_eq!(field("Anonymous: many kB\n", "Anonymous:"), None);
        assert_eq!(field("", "Anonymous:"), None);
    }

    #[test]
    fn processors_are_ranges() {
        assert_eq!(processors_in_words(&[0, 1, 2, 5, 7, 8]), "0-2, 5, 7-8");
        assert_eq!(processors_in_words(&[]), "");
    }

    #[test]
    fn a_change_of_a_variable_has_both_values() {
        let of = |pairs: &[(&str, &str)]| pairs.iter().map(|(name, value)| (name.into(), value.into())).collect();
        let changed =
            changed_variables(&of(&[("A", "1"), ("B", "1"), ("C", "1")]), &of(&[("A", "1"), ("B", "2"), ("D", "")]));
        let seen: Vec<_> = changed.iter().map(|c| (c.name.as_str(), c.before.as_deref(), c.after.as_deref())).collect();
        assert_eq!(seen, [("B", Some("1"), Some("2")), ("C", Some("1"), None), ("D", None, Some(""))]);
    }
}
