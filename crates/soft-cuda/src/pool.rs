//! Threads for host functions that may block: as many as are inside one at a time, kept for the next.
use crate::device::{call_hook, lock};
use crate::stream::Done;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

type Job = (Box<dyn FnOnce() + Send>, Done);

#[derive(Default)]
struct Pool {
    jobs: VecDeque<Job>,
    /// Threads that wait for a job.
    idle: usize,
}

static POOL: Mutex<Option<Pool>> = Mutex::new(None);
static WORK: Condvar = Condvar::new();
/// A thread without a job for so long ends.
const PATIENCE: Duration = Duration::from_secs(5);

fn pool() -> MutexGuard<'static, Option<Pool>> {
    POOL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs `f` on a thread where it may block, then finishes `done`. To the census it executes until it returns.
pub(crate) fn run(f: Box<dyn FnOnce() + Send>, done: Done) {
    lock().executing += 1;
    let mut guard = pool();
    let pool = guard.get_or_insert_default();
    pool.jobs.push_back((f, done));
    let enough = pool.idle >= pool.jobs.len();
    drop(guard);
    if enough {
        WORK.notify_one();
    } else if std::thread::Builder::new().name("soft-cuda host function".to_owned()).spawn(work).is_err() {
        // without a thread of its own it has to take the executor's, so that the stream goes on
        take_one();
    }
}

fn take_one() {
    let job = pool().as_mut().and_then(|pool| pool.jobs.pop_front());
    if let Some(job) = job {
        perform(job);
    }
}

fn perform((f, done): Job) {
    // a panic has been reported by the panic hook; the thread, and the stream, must go on
    let _ = catch_unwind(AssertUnwindSafe(f));
    done.finish();
    let mut core = lock();
    core.executing -= 1;
    core.epoch += 1;
    let idle = !core.busy();
    drop(core);
    if idle {
        call_hook();
    }
}

fn work() {
    loop {
        let mut guard = pool();
        while guard.get_or_insert_default().jobs.is_empty() {
            guard.get_or_insert_default().idle += 1;
            let (woken, timeout) = WORK.wait_timeout(guard, PATIENCE).unwrap_or_else(PoisonError::into_inner);
            guard = woken;
            let pool = guard.get_or_insert_default();
            pool.idle -= 1;
            if timeout.timed_out() && pool.jobs.is_empty() {
                return;
            }
        }
        let job = guard.get_or_insert_default().jobs.pop_front();
        drop(guard);
        if let Some(job) = job {
            perform(job);
        }
    }
}
