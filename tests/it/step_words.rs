//! Where the ranks of a case are: the words that a worker writes for its parent in the memory that both share.

use crate::support::processes::{Process, children, wait_until};
use collspec_run::job::arena::{Arena, Step};
use std::fs::{self, File};
use std::process::Child;
use std::sync::atomic::Ordering;

/// By rank; `None` if the process is no worker, or not yet, or has ended.
fn steps(pid: i32, ranks: u32) -> Option<Vec<Step>> {
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).ok()?.flatten().map(|entry| entry.path());
    let is_arena = |target: std::path::PathBuf| target.to_string_lossy().starts_with("/memfd:collspec-arena");
    let shared = descriptors.filter(|path| fs::read_link(path).is_ok_and(is_arena)).last()?;
    let arena = Arena::open(File::options().read(true).write(true).open(shared).ok()?.into()).ok()?;
    let step = |rank| Some(Step::of(arena.mapping().word(rank).ok()?.load(Ordering::Acquire)));
    (0..ranks).map(step).collect()
}

/// True if every rank of a case with so many ranks has begun its program and has not come to its end.
pub fn are_in_program(pid: i32, ranks: u32) -> bool {
    steps(pid, ranks).is_some_and(|steps| steps.iter().all(|step| matches!(step, Step::Running(_))))
}

/// Waits until a case with so many ranks, which must not end by itself, runs its program in so many processes of a command.
pub fn wait_for_program(run: &mut Child, ranks: u32, processes: usize) -> Vec<Process> {
    let mut workers = Vec::new();
    wait_until("the ranks are in their program", || {
        assert!(run.try_wait().unwrap().is_none(), "the command has ended");
        workers = children(run.id());
        workers.retain(|pid| are_in_program(*pid, ranks));
        workers.len() == processes
    });
    let found = Process::find_all(&workers);
    assert_eq!(found.len(), processes, "none ends by itself");
    found
}
