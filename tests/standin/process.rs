//! Processes that find the stand-ins: started, watched line by line, and ended.
use crate::processes::{end_of, wait_until};
use collspec_run::library::standin;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// Ends a test that would otherwise hang forever.
const HANG_GUARD: Duration = Duration::from_secs(600);

/// Starts the lines that a child prints, among the test harness's own.
pub const MARK: &str = "> ";

/// A child that runs.
pub struct Running {
    child: Child,
    lines: Receiver<String>,
    pub seen: Vec<String>,
}

impl Drop for Running {
    fn drop(&mut self) {
        // it may have ended by itself
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts `child` in a role, with the stand-in driver in front of the loader's path.
pub fn start(role: &str, library: Option<&Path>, settings: &[(&str, &str)]) -> Running {
    let folder = standin::folder().unwrap();
    start_in(&folder, role, library, settings)
}

/// The same with another folder in front of the loader's path.
pub fn start_in(folder: &Path, role: &str, library: Option<&Path>, settings: &[(&str, &str)]) -> Running {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["child", "--exact", "--ignored", "--nocapture"]);
    command.env("STANDIN_CHILD", role).env("LD_LIBRARY_PATH", folder);
    command.env_remove("COLLSPEC_STANDIN_FAULT").env_remove("NCCL_ALGO");
    let standard = standin::library().unwrap();
    command.env("STANDIN_LIBRARY", library.unwrap_or(&standard)).envs(settings.iter().copied());
    let mut child = command.stdout(Stdio::piped()).stdin(Stdio::null()).spawn().unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    let (send, lines) = channel();
    std::thread::spawn(move || {
        for line in output.lines().map_while(Result::ok) {
            // libtest's "test child ... " may stand before the first
            if let Some((_, line)) = line.split_once(MARK) {
                let _ = send.send(line.to_owned());
            }
        }
    });
    Running { child, lines, seen: Vec::new() }
}

impl Running {
    /// Waits for its next line.
    pub fn line(&mut self) -> String {
        self.lines.recv_timeout(HANG_GUARD).unwrap_or_else(|why| panic!("{why}; it printed {:?}", self.seen))
    }

    /// Waits for its end; all its lines are in `seen` then.
    pub fn end(&mut self) -> ExitStatus {
        let status = end_of(&mut self.child);
        self.seen.extend(self.lines.iter());
        status
    }

    /// Waits for these lines (in any order) and until no thread of the process moves; it has printed no other line then.
    pub fn hangs_after(&mut self, wanted: &[&str]) {
        while !wanted.iter().all(|line| self.seen.iter().any(|seen| seen == line)) {
            let line = self.line();
            self.seen.push(line);
        }
        wait_until("the process stands still", || stands_still(self.child.id()));
        assert!(self.child.try_wait().unwrap().is_none(), "it has ended");
        self.child.kill().unwrap();
        self.end();
        assert_eq!(self.seen.len(), wanted.len(), "{:?}", self.seen);
    }

    /// Its lines in an order that does not depend on threads.
    pub fn sorted(&mut self) -> Vec<&str> {
        self.seen.sort();
        self.seen.iter().map(String::as_str).collect()
    }
}

/// True if there was a moment at which every thread of the process was blocked: each is blocked now, and none has been on
/// a processor since before the first of them was looked at.
fn stands_still(pid: u32) -> bool {
    let threads = || -> Vec<PathBuf> {
        let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        tasks.map(|task| task.path()).collect()
    };
    // A thread is counted whenever it gives up its processor or loses it.
    let switches = || -> Vec<(PathBuf, String)> {
        let count = |thread: PathBuf| {
            let status = fs::read_to_string(thread.join("status")).unwrap_or_default();
            let lines: Vec<&str> = status.lines().filter(|line| line.contains("ctxt_switches:")).collect();
            (thread, lines.join(" "))
        };
        threads().into_iter().map(count).collect()
    };
    let is_blocked = |thread: PathBuf| {
        let stat = fs::read_to_string(thread.join("stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('S'))
    };
    let before = switches();
    threads().into_iter().all(is_blocked) && switches() == before
}

/// Prints a line for the parent.
#[macro_export]
macro_rules! say {
    ($($words:tt)*) => {{
        use std::io::Write;
        // one write per line, newline first: libtest leaves its own line open
        let line = format!("\n{}{}\n", $crate::process::MARK, format_args!($($words)*));
        let mut out = std::io::stdout().lock();
        out.write_all(line.as_bytes()).unwrap();
        out.flush().unwrap();
    }};
}
