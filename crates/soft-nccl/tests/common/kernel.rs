//! The kernel's figures about threads: which are asleep, and how often each has given up the processor. None of them depends
//! on how fast the machine is.
use super::parts::within;
use std::collections::BTreeMap;

fn threads(pid: u32) -> impl Iterator<Item = std::path::PathBuf> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/task")).expect("a process that runs");
    entries.flatten().map(|entry| entry.path())
}

/// Context switches of each thread so far. A thread that is blocked adds none.
pub fn switches(pid: u32) -> BTreeMap<std::path::PathBuf, u64> {
    let count = |path: &std::path::Path| {
        let status = std::fs::read_to_string(path.join("status")).ok()?;
        let lines = status.lines().filter(|line| line.contains("ctxt_switches:"));
        Some(lines.filter_map(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok()).sum())
    };
    threads(pid).filter_map(|path| Some((path.clone(), count(&path)?))).collect()
}

fn all_asleep(pid: u32) -> bool {
    threads(pid).all(|path| {
        let stat = std::fs::read_to_string(path.join("stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('S'))
    })
}

/// Waits for a moment at which no thread of these processes runs.
///
/// A thread that runs between the first count and the look at its state must have fallen asleep in between, which changes
/// its count. With equal counts and all asleep there was a moment at which no thread of any of them ran.
pub fn stand_still(pids: &[u32]) {
    let counts = || pids.iter().map(|pid| switches(*pid)).collect::<Vec<_>>();
    within("the processes stand still", || {
        let before = counts();
        pids.iter().all(|pid| all_asleep(*pid)) && counts() == before
    });
}

/// Bytes of memory that a process has in use.
pub fn resident_bytes(pid: u32) -> usize {
    let text = std::fs::read_to_string(format!("/proc/{pid}/statm")).expect("proc");
    text.split_whitespace().nth(1).and_then(|pages| pages.parse::<usize>().ok()).expect("a number") * 4096
}
