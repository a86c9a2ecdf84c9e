//! Processes that a test watches. The kernel reports their end, whether or not they are its children.
#![allow(dead_code)] // Each test target uses its share.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::fs;
use std::io::PipeReader;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Ends a test that would otherwise hang forever. No test passes or fails by how long something takes below this limit.
const HANG_GUARD: Duration = Duration::from_secs(600);

/// Blocks until the descriptor can be read or its other side is closed.
pub fn wait_until_readable(what: &str, fd: &impl AsFd) {
    let end = Instant::now() + HANG_GUARD;
    loop {
        let left = Timespec::try_from(end.saturating_duration_since(Instant::now())).unwrap();
        match poll(&mut [PollFd::new(fd, PollFlags::IN)], Some(&left)) {
            Ok(0) => panic!("still waiting after {HANG_GUARD:?}: {what}"),
            Ok(_) => return,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => panic!("{what}: {error}"),
        }
    }
}

/// Looks at a state that nothing announces until it holds.
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < HANG_GUARD, "still waiting after {HANG_GUARD:?}: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A process, held by a pidfd: its number may be given to another process after its end, the descriptor cannot.
pub struct Process {
    pub pid: i32,
    fd: OwnedFd,
}

impl Process {
    /// `None` if no process has this number any more.
    pub fn find(pid: i32) -> Option<Self> {
        let fd = pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()?;
        Some(Self { pid, fd })
    }

    /// Those of the processes that are still there.
    pub fn find_all(pids: &[i32]) -> Vec<Self> {
        pids.iter().filter_map(|pid| Self::find(*pid)).collect()
    }

    /// False if it has ended already.
    pub fn signal(&self, signal: Signal) -> bool {
        pidfd_send_signal(&self.fd, signal).is_ok()
    }

    /// Blocks until it has ended.
    pub fn wait_for_end(&self) {
        wait_until_readable("the end of a process", &self.fd);
    }
}

/// Blocks until the child has ended.
pub fn end_of(child: &mut Child) -> ExitStatus {
    if let Some(process) = Process::find(child.id().cast_signed()) {
        process.wait_for_end();
    }
    child.wait().unwrap()
}

/// The processes that `parent` started and that have not ended.
pub fn children(parent: u32) -> Vec<i32> {
    let processes = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(|pid| {
        // `pid (name) state parent ...`; the name may hold anything, brackets too.
        let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
        let Some((_, rest)) = stat.rsplit_once(')') else { return false };
        let mut fields = rest.split_whitespace();
        let (state, ppid) = (fields.next(), fields.next());
        state != Some("Z") && ppid == Some(parent.to_string().as_str())
    })
    .collect()
}

/// A pipe that a command, the processes that it starts, and those that they start hold open until they end.
pub struct Descendants(PipeReader);

impl Descendants {
    /// Starts the command with such a pipe. Its standard input is empty; `configure` sets the rest.
    pub fn of(command: &Command, configure: impl FnOnce(&mut Command)) -> (Child, Self) {
        let (reader, writer) = std::io::pipe().unwrap();
        // Rust's own pipes end at `exec`; a shell's descriptor does not.
        let mut shell = Command::new("sh");
        shell.args(["-c", "exec 9>&0 </dev/null && exec \"$@\"", "sh"]);
        shell.arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => shell.env(name, value),
                None => shell.env_remove(name),
            };
        }
        if let Some(folder) = command.get_current_dir() {
            shell.current_dir(folder);
        }
        shell.stdin(Stdio::from(writer));
        configure(&mut shell);
        (shell.spawn().unwrap(), Self(reader))
    }

    /// Blocks until all of them have ended.
    pub fn wait_for_end(self) {
        wait_until_readable("the end of all processes of a run", &self.0);
    }
}

/// The signals that end a process from outside, except those that this process ignores: its children inherit that, as under
/// `nohup` or in the background of a script.
pub fn ending_signals() -> Vec<Signal> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap().trim();
    let ignored = u64::from_str_radix(ignored, 16).unwrap();
    let all = [Signal::KILL, Signal::INT, Signal::TERM];
    all.into_iter().filter(|signal| ignored >> (signal.as_raw() - 1) & 1 == 0).collect()
}
