//! Runs work on several threads and collects the results on the calling thread.
use crate::report::Event;
use collspec_core::judge::{self, Status, Verdict};
use collspec_core::scenario::Case;
use collspec_run::run::core_binding;
use collspec_run::run::memory::threads;
use collspec_run::signals::is_interrupted;
use std::any::Any;
use std::convert::Infallible;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Instant;

/// Runs cases and judges them.
pub trait Executor: Sync {
    /// Returns the verdict on the case; called from several threads at once.
    fn run_case(&self, case: &Arc<Case>) -> Verdict;
}

/// The threads that process items.
#[derive(Clone, Copy, Debug)]
pub struct Lanes {
    /// Threads for items that compute.
    pub jobs: usize,
    /// Number of items at the front that spend most of their time waiting.
    pub waiting: usize,
    /// Additional threads for the waiting items.
    pub waiting_threads: usize,
}

impl Lanes {
    /// This many threads for all items.
    pub fn of(jobs: usize) -> Self {
        Self { jobs, waiting: 0, waiting_threads: 0 }
    }
}

/// Runs all `cases`. Events are delivered on the calling thread; if `sink` fails, the cases that are
/// running finish, no other is started, and its error is returned. With `fail_fast` no case starts after a failure, and none after an
/// interrupt that is caught.
///
/// # Errors
///
/// The first error of `sink`.
pub fn run_all<E>(
    cases: &[Arc<Case>],
    executor: &dyn Executor,
    lanes: Lanes,
    fail_fast: bool,
    mut sink: impl FnMut(&Event) -> Result<(), E>,
) -> Result<(), E> {
    let begun = Instant::now();
    let ended = AtomicBool::new(false);
    sink(&Event::Started { cases: cases.len() })?;
    stream_with_waiting(
        cases,
        lanes,
        |_, case, send| {
            if ended.load(Ordering::Relaxed) || is_interrupted() {
                return;
            }
            send(Event::CaseStarted { case: case.clone() });
            let verdict = Box::new(catching_panics(case, || executor.run_case(case)));
            // An interrupt ends the workers, which looks like a crash of the case. Such a verdict is not reported.
            if is_interrupted() {
                return;
            }
            if fail_fast && verdict.status.is_bad() {
                ended.store(true, Ordering::Relaxed);
            }
            send(Event::CaseDone { case: case.clone(), verdict });
        },
        |event| sink(&event),
    )?;
    sink(&Event::Finished { seconds: begun.elapsed().as_secs_f64() })
}

/// Applies `work` to every item on `jobs` threads and returns the results in the items' order.
pub fn map<T: Sync, R: Send>(items: &[T], jobs: usize, work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let mut results: Vec<(usize, R)> = Vec::with_capacity(items.len());
    let done: Result<(), Infallible> = stream(
        items,
        jobs,
        |index, item, send| send((index, work(item))),
        |result| {
            results.push(result);
            Ok(())
        },
    );
    match done {
        Ok(()) => {}
        Err(never) => match never {},
    }
    results.sort_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}

/// Applies `work` to every item on `jobs` threads; `sink` receives its messages on the calling thread.
///
/// # Errors
///
/// The first error of `sink`.
pub fn stream<T: Sync, M: Send, E>(
    items: &[T],
    jobs: usize,
    work: impl Fn(usize, &T, &mut dyn FnMut(M)) + Sync,
    sink: impl FnMut(M) -> Result<(), E>,
) -> Result<(), E> {
    stream_with_waiting(items, Lanes::of(jobs), work, sink)
}

/// Like [`stream`], with additional threads for the items that mostly wait, so that the threads of the jobs are left for
/// items that compute.
///
/// # Errors
///
/// The first error of `sink`.
pub fn stream_with_waiting<T: Sync, M: Send, E>(
    items: &[T],
    lanes: Lanes,
    work: impl Fn(usize, &T, &mut dyn FnMut(M)) + Sync,
    sink: impl FnMut(M) -> Result<(), E>,
) -> Result<(), E> {
    let waiting = lanes.waiting.min(items.len());
    let next = [AtomicUsize::new(waiting), AtomicUsize::new(0)];
    let (next, work) = (&next, &work);
    let most =
        [threads(lanes.jobs).clamp(1, items.len().max(1)), lanes.waiting_threads.min(threads(waiting)).min(waiting)];
    thread::scope(|scope| {
        let (sender, messages) = mpsc::channel();
        let mut started = 0;
        // The jobs come first, and also take waiting items once their own are done: if the other threads cannot be started, the
        // jobs do all the work.
        for lane in [0, 1].into_iter().flat_map(|lane| std::iter::repeat_n(lane, most[lane])) {
            let sender = sender.clone();
            let body = move || {
                // Waiting items do not need a core.
                if lane == 0 {
                    core_binding::allow_here();
                }
                let mut receiver_is_there = true;
                let take = || {
                    let own = |lane: usize, end: usize| {
                        let index = next[lane].fetch_add(1, Ordering::Relaxed);
                        (index < end).then_some(index)
                    };
                    if lane == 0 { own(0, items.len()).or_else(|| own(1, waiting)) } else { own(1, waiting) }
                };
                while receiver_is_there {
                    let Some((index, item)) = take().and_then(|index| Some((index, items.get(index)?))) else { break };
                    work(index, item, &mut |message| receiver_is_there &= sender.send(message).is_ok());
                }
            };
            if thread::Builder::new().name("job".into()).spawn_scoped(scope, body).is_err() {
                break; // The threads that were started do all the work.
            }
            started += 1;
        }
        if started == 0 {
            return in_turn(items, work, sink);
        }
        drop(sender);
        // Leaving early drops the receiver, and the threads stop after their current item.
        messages.into_iter().try_for_each(sink)
    })
}

/// Like [`stream`], on the calling thread alone.
fn in_turn<T, M, E>(
    items: &[T],
    work: impl Fn(usize, &T, &mut dyn FnMut(M)),
    mut sink: impl FnMut(M) -> Result<(), E>,
) -> Result<(), E> {
    for (index, item) in items.iter().enumerate() {
        let mut done = Ok(());
        work(index, item, &mut |message| {
            if done.is_ok() {
                done = sink(message);
            }
        });
        done?;
    }
    Ok(())
}

/// Returns the verdict on the case. A panic in planning or judging is an error of this case alone, so that the others keep their verdicts.
pub fn run_catching_panics(executor: &dyn Executor, case: &Arc<Case>) -> Verdict {
    catching_panics(case, || executor.run_case(case))
}

fn catching_panics(case: &Arc<Case>, run: impl FnOnce() -> Verdict) -> Verdict {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        let text = format!("collspec itself failed on this case, please report it: {}", panic_text(&*panic));
        Verdict { status: Status::Error, ..judge::skipped(case, text) }
    })
}

/// The message of a panic.
pub fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| text.to_string());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic without a message".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::fixture::{case, verdict};

    struct Fake;
    impl Executor for Fake {
        fn run_case(&self, case: &Arc<Case>) -> Verdict {
            assert!(!case.name.contains("bad"), "no verdict on {}", case.name);
            verdict(&case.name, Status::Pass)
        }
    }

    #[test]
    fn without_threads_items_are_done_in_turn_until_the_sink_has_enough() {
        let mut sums = Vec::new();
        let work = |index: usize, item: &u32, send: &mut dyn FnMut(u32)| send(index as u32 + item);
        let enough = in_turn(&[10, 20, 30], work, |sum| {
            sums.push(sum);
            if sum == 21 { Err("enough") } else { Ok(()) }
        });
        assert_eq!((enough, sums), (Err("enough"), vec![10, 21]));
    }

    #[test]
    fn every_case_gets_one_verdict_between_start_and_finish() {
        let cases: Vec<_> = (0..20).map(|i| case(&format!("c{i}"))).collect();
        let mut events = Vec::new();
        run_all(&cases, &Fake, Lanes { jobs: 3, waiting: 7, waiting_threads: 2 }, false, |event| {
            events.push(event.clone());
            Ok::<(), ()>(())
        })
        .unwrap();
        assert!(matches!(events.first(), Some(Event::Started { cases: 20 })));
        assert!(matches!(events.last(), Some(Event::Finished { .. })));
        let mut done: Vec<_> = events
            .iter()
            .filter_map(|event| match event {
                Event::CaseDone { case, .. } => Some(case.name.clone()),
                _ => None,
            })
            .collect();
        done.sort();
        let mut want: Vec<_> = cases.iter().map(|case| case.name.clone()).collect();
        want.sort();
        assert_eq!(done, want);
    }

    #[test]
    fn a_panic_costs_one_case() {
        let cases = [case("good"), case("bad"), case("fine")];
        let mut seen = Vec::new();
        run_all(&cases, &Fake, Lanes::of(1), false, |event| {
            if let Event::CaseDone { verdict, .. } = event {
                seen.push((verdict.status, verdict.reason.clone()));
            }
            Ok::<(), ()>(())
        })
        .unwrap();
        let statuses: Vec<_> = seen.iter().map(|(status, _)| *status).collect();
        assert_eq!(statuses, [Status::Pass, Status::Error, Status::Pass]);
        assert!(seen[1].1.as_ref().is_some_and(|reason| reason.ends_with("no verdict on bad")));
    }

    #[test]
    fn after_a_failure_no_case_is_started_if_that_is_wanted() {
        let cases: Vec<_> = ["a", "bad", "c", "d"].into_iter().map(case).collect();
        let names = |fail_fast| {
            let mut done = Vec::new();
            let mut finished = false;
            run_all(&cases, &Fake, Lanes::of(1), fail_fast, |event| {
                match event {
                    Event::CaseDone { case, .. } => done.push(case.name.clone()),
                    Event::Finished { .. } => finished = true,
                    Event::Started { .. }
                    | Event::FileInvalid { .. }
                    | Event::FileWarned { .. }
                    | Event::CaseStarted { .. } => {}
                }
                Ok::<(), ()>(())
            })
            .unwrap();
            assert!(finished);
            done
        };
        assert_eq!(names(true), ["a", "bad"]);
        assert_eq!(names(false), ["a", "bad", "c", "d"]);
    }

    #[test]
    fn a_failing_sink_ends_the_run() {
        let cases: Vec<_> = (0..1000).map(|i| case(&format!("c{i}"))).collect();
        let mut done = 0;
        let result = run_all(&cases, &Fake, Lanes::of(2), false, |event| {
            done += usize::from(matches!(event, Event::CaseDone { .. }));
            if done == 3 { Err("closed") } else { Ok(()) }
        });
        assert_eq!(result, Err("closed"));
    }

    #[test]
    fn every_item_is_done_once_however_many_wait() {
        let items: Vec<u32> = (0..50).collect();
        for (jobs, waiting) in [(1, 0), (1, 3), (2, 50), (3, 49), (2, 80)] {
            let mut done = Vec::new();
            let all = stream_with_waiting(
                &items,
                Lanes { jobs, waiting, waiting_threads: 4 * jobs },
                |_, item, send| send(*item),
                |item| {
                    done.push(item);
                    Ok::<(), ()>(())
                },
            );
            done.sort_unstable();
            assert_eq!((all, &done), (Ok(()), &items), "{jobs} jobs, {waiting} waiting");
        }
        // A job continues while all the others wait for it: waiting items do not occupy its thread.
        let (open, gate) = mpsc::channel::<()>();
        let gate = std::sync::Mutex::new(gate);
        let done = stream_with_waiting(
            &[0, 1],
            Lanes { jobs: 1, waiting: 1, waiting_threads: 1 },
            |index, _, send: &mut dyn FnMut(usize)| {
                if index == 0 {
                    gate.lock().unwrap().recv().unwrap();
                } else {
                    open.send(()).unwrap();
                }
                send(index);
            },
            |_| Ok::<(), ()>(()),
        );
        assert_eq!(done, Ok(()));
    }

    #[test]
    fn map_keeps_the_order() {
        let items: Vec<u32> = (0..100).collect();
        assert_eq!(map(&items, 4, |x| x * 2), items.iter().map(|x| x * 2).collect::<Vec<_>>());
    }
}
