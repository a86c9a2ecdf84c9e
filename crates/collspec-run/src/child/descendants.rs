//! The processes that a program has started, directly or by others.
use super::patience::Patience;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, getpid, kill_process, pidfd_open, set_child_subreaper, wait,
};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::Duration;

/// How long processes that a program has started may outlive it: some launchers end before what they have started.
pub const AFTER: Duration = Duration::from_secs(10);
/// How long a process that is killed may take to end.
const DYING: Duration = Duration::from_secs(2);

/// From now on processes of which the parent ends become children of this one, so that they are found.
///
/// # Errors
///
/// The system refuses it.
pub fn adopt() -> io::Result<()> {
    Ok(set_child_subreaper(Some(getpid()))?)
}

/// Waits until all processes that this one has started, directly or by others, have ended, for `limit` at most. Returns how many still run.
pub fn end_within(limit: Duration) -> usize {
    let _ = Patience::new(limit).wait(|slice| {
        let found = descendants();
        wait_for_one(&found, slice);
        found.is_empty().then_some(())
    });
    // Those that were adopted and have ended are forgotten.
    while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {}
    descendants().len()
}

/// Kills all processes below this one, until there are none or those that are left cannot be killed.
pub fn kill_all() {
    let mut before = BTreeSet::new();
    // A process that starts others meanwhile is met again.
    loop {
        let found = descendants();
        let numbers: BTreeSet<i32> = found.iter().map(|pid| pid.as_raw_pid()).collect();
        if numbers.is_subset(&before) {
            return;
        }
        for pid in &found {
            let _ = kill_process(*pid, Signal::KILL);
        }
        end_within(DYING);
        before = numbers;
    }
}

/// Waits until one of these has ended, for `limit` at most.
fn wait_for_one(pids: &[Pid], limit: Duration) {
    let open: Vec<_> = pids.iter().filter_map(|pid| pidfd_open(*pid, PidfdFlags::empty()).ok()).collect();
    let mut polled: Vec<PollFd<'_>> = open.iter().map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
    if !polled.is_empty() {
        let _ = poll(&mut polled, Timespec::try_from(limit).ok().as_ref());
    } else if !pids.is_empty() {
        std::thread::sleep(limit);
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
