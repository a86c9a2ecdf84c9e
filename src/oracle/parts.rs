//! Splits work on many elements between the cores of the machine. What is computed does not depend on the split.
use std::num::NonZeroUsize;
use std::ops::Range;
use std::panic::resume_unwind;
use std::sync::LazyLock;
use std::thread;

/// Additions or comparisons from which on another thread saves time.
const WORTH_A_THREAD: usize = 1 << 18;

/// Contiguous parts of `0..elements`, one per core, or fewer if the work is small; an element takes about `each` additions.
/// All but the last begin and end at multiples of `step`.
pub(crate) fn parts(elements: usize, each: usize, step: usize) -> Vec<Range<usize>> {
    // Asking for the cores reads files, so it is done once.
    static CORES: LazyLock<usize> = LazyLock::new(|| thread::available_parallelism().map_or(1, NonZeroUsize::get));
    let threads = elements.saturating_mul(each) / WORTH_A_THREAD;
    split(elements, if threads < 2 { 1 } else { threads.min(*CORES) }, step)
}

fn split(elements: usize, parts: usize, step: usize) -> Vec<Range<usize>> {
    let steps = elements.div_ceil(step.max(1));
    let length = steps.div_ceil(parts.max(1)).max(1) * step.max(1);
    (0..elements).step_by(length).map(|from| from..(from + length).min(elements)).collect()
}

/// The results of `work` for all tasks, in their order. Each task has a thread; the first is done by the calling one.
pub(crate) fn in_parallel<T: Send, R: Send>(tasks: Vec<T>, work: impl Fn(T) -> R + Sync) -> Vec<R> {
    let work = &work;
    let mut tasks = tasks.into_iter();
    let Some(first) = tasks.next() else { return Vec::new() };
    thread::scope(|scope| {
        let others: Vec<_> = tasks.map(|task| scope.spawn(move || work(task))).collect();
        let mut results = vec![work(first)];
        results.extend(others.into_iter().map(|other| other.join().unwrap_or_else(|panic| resume_unwind(panic))));
        results
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_all_elements_once() {
        for (elements, parts, step) in [(0, 2, 4), (1, 3, 4), (17, 3, 4), (1000, 7, 256), (1024, 2, 256), (5, 0, 1)] {
            let all = split(elements, parts, step);
            assert!(all.len() <= parts.max(1), "{all:?}");
            assert!(all.iter().all(|part| part.start.is_multiple_of(step) && !part.is_empty()), "{all:?}");
            assert_eq!(all.into_iter().flatten().collect::<Vec<_>>(), (0..elements).collect::<Vec<_>>());
        }
    }

    #[test]
    fn results_come_in_the_order_of_the_tasks() {
        assert_eq!(in_parallel((0..9).collect(), |task: u64| task * task), [0, 1, 4, 9, 16, 25, 36, 49, 64]);
        assert_eq!(in_parallel(Vec::new(), |task: u64| task), Vec::<u64>::new());
    }
}
