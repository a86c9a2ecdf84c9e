//! A folder of one's own, and the command run in it.
#![allow(dead_code)] // Each test target uses its share.

pub mod words;

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Passes.
pub const SUM: &str = "world_size = 2\nop = \"all_reduce\"\ninputs = [[1, 2], [3, 4]]\n";
/// Expects what a sum is not, on rank 1.
pub const WRONG: &str = "world_size = 2\nop = \"all_reduce\"\ninputs = [[1, 2], [3, 4]]\nexpect = [[4, 6], [4, 7]]\n";

/// A temporary folder.
pub struct Home(TempDir);

impl Home {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    /// Writes a file, and the folders above it.
    pub fn file(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// The command, in this folder and without this process's own settings.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_collspec"));
        command.args(args).current_dir(self.0.path());
        for name in ["COLLSPEC_BACKEND", "COLLSPEC_REQUIRE", "COLLSPEC_FILTER", "COLLSPEC_WORKER"] {
            command.env_remove(name);
        }
        for (name, _) in std::env::vars_os() {
            if name.as_encoded_bytes().starts_with(b"NCCL_") || name.as_encoded_bytes().starts_with(b"COLLSPEC_SOFT_") {
                command.env_remove(name);
            }
        }
        command
    }

    pub fn run(&self, args: &[&str]) -> Run {
        Run::of(&mut self.command(args))
    }
}

/// What came of a command.
pub struct Run {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Run {
    pub fn of(command: &mut Command) -> Self {
        let output = command.output().unwrap();
        Self {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "exit code {}, output:\n{}\nstandard error:\n{}", self.code, self.out, self.err)
    }
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

/// Is it still at work? An orphan that has ended may stay listed until the system's first process looks at it.
pub fn runs(pid: i32) -> bool {
    let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
}

/// A limit that only ends a test that would hang; nothing takes as long, even on a busy machine.
const LIMIT: Duration = Duration::from_secs(120);

/// Waits until `holds` is true, or fails with `what`.
pub fn within(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < LIMIT, "within {LIMIT:?}: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn threads(pid: i32) -> Vec<PathBuf> {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    tasks.flatten().map(|task| task.path()).collect()
}

fn is_of_a_rank(thread: &Path, rank: &str) -> bool {
    fs::read_to_string(thread.join("comm")).is_ok_and(|name| name.trim_end().starts_with(&format!("rank {rank}")))
}

/// True if the process has run this rank in a case. A rank's thread is kept after the case.
pub fn has_rank(pid: i32, rank: u32) -> bool {
    threads(pid).iter().any(|thread| is_of_a_rank(thread, &rank.to_string()))
}

/// True if the process has run any rank in a case.
pub fn has_ranks(pid: i32) -> bool {
    threads(pid).iter().any(|thread| is_of_a_rank(thread, ""))
}

/// How often each of these threads has been taken from the processor or has given it up: never while it is blocked.
fn switches(threads: &[PathBuf]) -> Vec<(PathBuf, u64)> {
    let count = |thread: &PathBuf| {
        let status = fs::read_to_string(thread.join("status")).unwrap_or_default();
        let lines = status.lines().filter(|line| line.contains("ctxt_switches:"));
        lines.filter_map(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok()).sum()
    };
    threads.iter().map(|thread| (thread.clone(), count(thread))).collect()
}

/// A number that grows when a rank of the process gets something to do.
pub fn turns_of_ranks(pid: i32) -> u64 {
    let ranks: Vec<PathBuf> = threads(pid).into_iter().filter(|thread| is_of_a_rank(thread, "")).collect();
    switches(&ranks).into_iter().map(|(_, count)| count).sum()
}

/// True if there was a moment at which no thread of these processes ran: all are asleep, and none has fallen asleep since
/// the first count.
pub fn stand_still(pids: &[i32]) -> bool {
    let counts = || pids.iter().map(|pid| switches(&threads(*pid))).collect::<Vec<_>>();
    let asleep = |thread: PathBuf| {
        let stat = fs::read_to_string(thread.join("stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('S'))
    };
    let before = counts();
    pids.iter().flat_map(|pid| threads(*pid)).all(asleep) && counts() == before
}
