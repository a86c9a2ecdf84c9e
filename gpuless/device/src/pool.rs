//! Threads for host functions that may block: one for each function that runs at a time, kept for the next one.
use crate::device::{call_hook, lock};
use crate::drive;
use crate::stream::Done;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

type Job = (Box<dyn FnOnce() + Send>, Done);

struct Pool {
    jobs: VecDeque<Job>,
    /// Threads that wait for a job.
    idle: usize,
}

static POOL: Mutex<Pool> = Mutex::new(Pool { jobs: VecDeque::new(), idle: 0 });
static WORK: Condvar = Condvar::new();
/// A thread without a job for this long ends.
const PATIENCE: Duration = Duration::from_secs(5);

fn pool() -> MutexGuard<'static, Pool> {
    POOL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs `f` on a thread where it may block, then finishes `done`. [`activity`](crate::activity) counts `f` as executing until it returns.
pub(crate) fn run(f: Box<dyn FnOnce() + Send>, done: Done) {
    lock().executing += 1;
    let mut pool = pool();
    pool.jobs.push_back((f, done));
    let enough = pool.idle >= pool.jobs.len();
    drop(pool);
    if enough {
        WORK.notify_one();
    } else if std::thread::Builder::new().name("gpuless-device host function".to_owned()).spawn(work).is_err() {
        // without its own thread it has to take the executor's, so that the stream continues
        let _pause = drive::Pause::begin();
        take_one();
    }
}

fn take_one() {
    let job = pool().jobs.pop_front();
    if let Some(job) = job {
        perform(job);
    }
}

fn perform((f, done): Job) {
    // a panic has been reported by the panic hook; the thread, and the stream, must continue
    let _ = catch_unwind(AssertUnwindSafe(f));
    done.finish();
    let mut state = lock();
    state.executing -= 1;
    state.epoch += 1;
    let idle = !state.busy();
    drop(state);
    if idle {
        call_hook();
    }
}

fn work() {
    loop {
        let mut pool = pool();
        while pool.jobs.is_empty() {
            pool.idle += 1;
            let timeout;
            (pool, timeout) = WORK.wait_timeout(pool, PATIENCE).unwrap_or_else(PoisonError::into_inner);
            pool.idle -= 1;
            if timeout.timed_out() && pool.jobs.is_empty() {
                return;
            }
        }
        let job = pool.jobs.pop_front();
        drop(pool);
        if let Some(job) = job {
            perform(job);
        }
    }
}
