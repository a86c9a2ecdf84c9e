//! The processes that a program has started, directly or by others.
use rustix::process::{Pid, Signal, getpid, kill_process, set_child_subreaper};
use std::collections::BTreeMap;
use std::io;

/// From now on processes of which the parent ends become children of this one, so that they are found.
///
/// # Errors
///
/// The system refuses it.
pub fn adopt() -> io::Result<()> {
    Ok(set_child_subreaper(Some(getpid()))?)
}

/// Kills all processes below this one, until there are none or nothing more can be killed.
pub fn kill_all() {
    let mut before = 0;
    // A process that starts others meanwhile is met again.
    loop {
        let found = descendants();
        for pid in &found {
            let _ = kill_process(*pid, Signal::KILL);
        }
        if found.is_empty() || found.len() == before {
            return;
        }
        before = found.len();
    }
}

/// The living processes below this one. Those that have ended and were not waited for are not among them.
fn descendants() -> Vec<Pid> {
    let mut children: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else { continue };
        let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        // The name before it may have any characters.
        let mut fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields).split_ascii_whitespace();
        let state = fields.next();
        if let Some(parent) = fields.next().and_then(|parent| parent.parse().ok())
            && !matches!(state, Some("Z" | "X"))
        {
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut found = vec![getpid().as_raw_pid()];
    let mut at = 0;
    while let Some(parent) = found.get(at) {
        found.extend(children.remove(parent).unwrap_or_default());
        at += 1;
    }
    found.into_iter().skip(1).filter_map(Pid::from_raw).collect()
}
