//! The proof that a run hangs on software GPUs: every rank waits for its GPU, every kernel waits or polls memory that does not change, and
//! no other thread of the process, such as a proxy of NCCL, executes. All of that is seen at ten moments of a second.
//!
//! Since the last move of a kernel every block has polled several times, so that a new value would have been seen. A thread that sleeps for
//! longer than a second and then helps would not be noticed; ranks that sleep as their scenario says do not count as waiting.
use super::session::Run;
use crate::backend::{Backend, Device, software_gpus};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// The time between two looks.
const PAUSE: Duration = Duration::from_millis(100);
/// The number of looks in a row that prove a hang.
const LOOKS: u32 = 10;
/// Threads that only execute kernels or look whether something has changed, by the start of their names.
const LOOKERS: [&str; 4] = ["ptx ", "error checks", "stream waits", NAME];
const NAME: &str = "kernel watch";

#[derive(Default)]
struct Watch {
    run: Mutex<Option<Arc<Run>>>,
    changed: Condvar,
}

static WATCH: OnceLock<Watch> = OnceLock::new();

/// Starts watching if the backend's kernels run on software GPUs. Once per process.
pub fn start(backend: &Backend) -> std::io::Result<()> {
    if matches!(backend.device, Device::Software { .. }) && WATCH.set(Watch::default()).is_ok() {
        std::thread::Builder::new().name(NAME.into()).spawn(watch)?;
    }
    Ok(())
}

/// Sets the run to watch, or `None`.
pub fn set(run: Option<Arc<Run>>) {
    if let Some(watch) = WATCH.get() {
        *watch.run.lock().unwrap_or_else(PoisonError::into_inner) = run;
        watch.changed.notify_one();
    }
}

fn watch() {
    let Some(watch) = WATCH.get() else { return };
    // The turns of kernels at the last look, and the number of looks since.
    let mut seen = (None, 0);
    let mut guard = watch.run.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        while guard.is_none() {
            guard = watch.changed.wait(guard).unwrap_or_else(PoisonError::into_inner);
            seen = (None, 0);
        }
        let (now, waited) = watch.changed.wait_timeout(guard, PAUSE).unwrap_or_else(PoisonError::into_inner);
        guard = now;
        let turns = guard.as_ref().filter(|_| waited.timed_out()).and_then(|run| standstill(run));
        seen = (turns, if turns.is_some() && turns == seen.0 { seen.1 + 1 } else { 0 });
        if seen.1 >= LOOKS
            && let Some(run) = guard.as_ref()
            && let Some(waits) = run.backend.standing_kernels(run.job().ranks.clone())
        {
            run.stuck(waits);
            *guard = None;
        }
    }
}

/// The turns that kernels had, if now nothing moves.
fn standstill(run: &Run) -> Option<u64> {
    let (at_barrier, _) = run.barrier.waiting();
    let live = run.live();
    let (waiting, turns) = software_gpus::standstill()?;
    let all_wait = live > 0 && waiting + at_barrier >= live;
    (all_wait && others_sleep()?).then_some(turns)
}

/// True if all threads but those that only look are asleep; `None` if the kernel does not say.
fn others_sleep() -> Option<bool> {
    for task in std::fs::read_dir("/proc/self/task").ok()? {
        // A thread that has ended meanwhile has no file any more.
        let Ok(stat) = std::fs::read_to_string(task.ok()?.path().join("stat")) else { continue };
        let (_, rest) = stat.split_once('(')?;
        let (name, rest) = rest.rsplit_once(") ")?;
        if !rest.starts_with('S') && !LOOKERS.iter().any(|looker| name.starts_with(looker)) {
            return Some(false);
        }
    }
    Some(true)
}
