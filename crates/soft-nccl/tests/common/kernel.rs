//! The kernel's figures about this library's threads: which are asleep, and how often each has given up the processor.
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Waits for what only the kernel knows, which has no event for it. No time limit: a machine may be slow.
pub fn poll_until(mut holds: impl FnMut() -> bool) {
    while !holds() {
        std::thread::yield_now();
    }
}

/// The threads that the library and its device have started; other ones are those of the test.
fn threads(pid: u32) -> impl Iterator<Item = PathBuf> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/task")).expect("a process that runs");
    let is_own = |path: &Path| std::fs::read_to_string(path.join("comm")).is_ok_and(|name| name.starts_with("soft-"));
    entries.flatten().map(|entry| entry.path()).filter(move |path| is_own(path))
}

/// Context switches of each of the library's threads so far. A thread that is blocked adds none.
pub fn switches(pid: u32) -> BTreeMap<PathBuf, u64> {
    let count = |path: &PathBuf| {
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

/// Waits for a moment at which none of the library's threads in these processes runs.
///
/// A thread that runs between the first count and the reading of its state must have fallen asleep in between, which changes
/// its count. With equal counts and all asleep there was a moment at which no thread of any of them ran.
pub fn fall_asleep(pids: &[u32]) {
    let counts = || pids.iter().map(|pid| switches(*pid)).collect::<Vec<_>>();
    poll_until(|| {
        let before = counts();
        pids.iter().all(|pid| all_asleep(*pid)) && counts() == before
    });
}

/// Bytes of memory that a process has in use.
pub fn resident_bytes(pid: u32) -> usize {
    let text = std::fs::read_to_string(format!("/proc/{pid}/statm")).expect("proc");
    text.split_whitespace().nth(1).and_then(|pages| pages.parse::<usize>().ok()).expect("a number") * 4096
}

/// Sockets of this process.
pub fn sockets() -> usize {
    let entries = std::fs::read_dir("/proc/self/fd").expect("proc");
    let links = entries.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    links.filter(|to| to.to_string_lossy().starts_with("socket:")).count()
}
