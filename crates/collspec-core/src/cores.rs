//! Does work on the calling thread and on as many others as can be started. What comes out does not depend on their number.
use rustix::thread::{CpuSet, sched_getaffinity};
use std::num::NonZeroUsize;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::thread::{self, Builder};

/// Number of cores that this process may use.
pub fn cores() -> usize {
    // Asking for the cores reads files, so it is done once.
    static CORES: LazyLock<usize> = LazyLock::new(|| thread::available_parallelism().map_or(1, NonZeroUsize::get));
    *CORES
}

/// The processors that the calling thread may run on.
pub fn own_processors() -> Vec<usize> {
    let Ok(set) = sched_getaffinity(None) else { return Vec::new() };
    (0..CpuSet::MAX_CPU).filter(|number| set.is_set(*number)).collect()
}

/// Units of work that threads take in turn.
pub(crate) struct Units {
    next: AtomicUsize,
    count: usize,
}

impl Units {
    /// The next unit that no thread has taken.
    pub(crate) fn take(&self) -> Option<usize> {
        let unit = self.next.fetch_add(1, Ordering::Relaxed);
        (unit < self.count).then_some(unit)
    }
}

/// Calls `work` on the calling thread and on others, at most `threads` in all. Each takes units until there are none left, so the
/// calling thread does everything if no other can be started.
pub(crate) fn share(units: usize, threads: usize, work: impl Fn(&Units) + Sync) {
    share_on(units, threads, || Builder::new().name("core".into()), work);
}

fn share_on(units: usize, threads: usize, thread: impl Fn() -> Builder, work: impl Fn(&Units) + Sync) {
    let units = Units { next: AtomicUsize::new(0), count: units };
    let (units, work) = (&units, &work);
    thread::scope(|scope| {
        let others = 1..threads.min(units.count);
        let others: Vec<_> = others.map_while(|_| thread().spawn_scoped(scope, move || work(units)).ok()).collect();
        work(units);
        for other in others {
            // The panic keeps its message.
            other.join().unwrap_or_else(|panic| resume_unwind(panic));
        }
    });
}

/// Runs `work` on all tasks, on up to one thread for each task, and gives the results in the order of the tasks.
pub(crate) fn in_parallel<T: Send, R: Send>(tasks: Vec<T>, work: impl Fn(T) -> R + Sync) -> Vec<R> {
    let slots: Vec<Mutex<(Option<T>, Option<R>)>> =
        tasks.into_iter().map(|task| Mutex::new((Some(task), None))).collect();
    let slot = |unit: usize| slots.get(unit).map(|slot| slot.lock().unwrap_or_else(PoisonError::into_inner));
    share(slots.len(), slots.len(), |units| {
        while let Some(unit) = units.take() {
            let task = slot(unit).and_then(|mut slot| slot.0.take());
            let result = task.map(&work);
            if let Some(mut slot) = slot(unit) {
                slot.1 = result;
            }
        }
    });
    slots.into_iter().filter_map(|slot| slot.into_inner().unwrap_or_else(PoisonError::into_inner).1).collect()
}

/// Number of additions or comparisons from which another thread saves time.
const WORTH_A_THREAD: usize = 1 << 18;

/// Number of threads whose start is worthwhile for this many additions.
pub fn threads_for(additions: usize) -> usize {
    (additions / WORTH_A_THREAD).clamp(1, cores())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_the_order_of_the_tasks() {
        assert_eq!(in_parallel((0..9).collect(), |task: u64| task * task), [0, 1, 4, 9, 16, 25, 36, 49, 64]);
        assert_eq!(in_parallel(Vec::new(), |task: u64| task), Vec::<u64>::new());
    }

    #[test]
    fn where_no_thread_can_be_started_the_calling_one_does_all_units() {
        // No machine has room for such a stack.
        let impossible = || Builder::new().stack_size(1 << 60);
        assert!(impossible().spawn(|| ()).is_err());
        let done = Mutex::new(Vec::new());
        share_on(5, 4, impossible, |units| {
            while let Some(unit) = units.take() {
                done.lock().unwrap().push((unit, thread::current().id()));
            }
        });
        let own = thread::current().id();
        assert_eq!(done.into_inner().unwrap(), [0, 1, 2, 3, 4].map(|unit| (unit, own)));
    }

    #[test]
    fn a_panic_of_any_thread_keeps_its_message() {
        let panic = std::panic::catch_unwind(|| in_parallel(vec![0, 1, 2], |task| assert_ne!(task, 2, "the third")));
        let text = panic.unwrap_err().downcast_ref::<String>().cloned().unwrap();
        assert!(text.contains("the third"), "{text}");
    }
}
