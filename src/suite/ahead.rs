//! Prepares small cases in a row before they run: code that works on one case after the other stays in the caches, while the calls
//! that a run makes throw it out.
use super::parallel::{Executor, Moment, Queue, catching_panics};
use super::runner::{Prepared, Ready, Runner};
use super::series::{self, Candidate};
use crate::judge::Verdict;
use crate::plan::Plan;
use crate::scenario::Case;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Cases that are prepared in a row.
const IN_A_ROW: usize = 2 * series::LONGEST;
/// When so few are left, the next are prepared, so that no thread has to wait for them.
const LEFT: usize = series::LONGEST;
/// Bytes of a case's memory, in all copies, up to which it is small. A part of so much is taken ahead of its turn.
const SMALL: u64 = 512 << 10;

/// What was done ahead of a case's run, and how long it took.
pub(super) struct Early {
    pub work: EarlyWork,
    pub took: Duration,
}

/// What was done ahead of a case's run.
pub(super) enum EarlyWork {
    /// All of it, or no run is needed.
    Prepared(Prepared),
    /// The forecast of a case that is not small waits for its turn.
    Planned(Box<Plan>),
}

/// Runs cases, and prepares those that come next.
pub(super) struct Ahead<'a> {
    runner: &'a Runner,
    cases: &'a [Arc<Case>],
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// By number; only of cases that have not begun.
    ready: BTreeMap<usize, Early>,
    /// All cases before this one are prepared, are being prepared or have begun.
    next: usize,
    /// One past the last case that has begun; those before it need nothing any more.
    begun: usize,
    /// A thread is preparing cases.
    preparing: bool,
}

impl<'a> Ahead<'a> {
    /// For these cases, which come about in their order.
    pub fn new(runner: &'a Runner, cases: &'a [Arc<Case>]) -> Self {
        Self { runner, cases, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was done for a case, which begins now. Prepares the next ones if few are left.
    fn take(&self, number: usize) -> Option<Early> {
        let (own, prepares) = {
            let mut state = self.state();
            state.begun = state.begun.max(number + 1);
            state.next = state.next.max(number + 1);
            let own = state.ready.remove(&number);
            let prepares = !state.preparing && state.next - state.begun <= LEFT;
            state.preparing |= prepares;
            (own, prepares)
        };
        if prepares {
            self.prepare_next();
            self.state().preparing = false;
        }
        own
    }

    fn prepare_next(&self) {
        for _ in 0..IN_A_ROW {
            let number = {
                let mut state = self.state();
                state.next += 1;
                state.next - 1
            };
            let Some(case) = self.cases.get(number) else { return };
            // A panic is this case's own: it comes again when the case is run.
            let Ok(Some(early)) = catch_unwind(AssertUnwindSafe(|| self.runner.prepare_early(case, SMALL))) else {
                continue;
            };
            let is_large = matches!(early.work, EarlyWork::Planned(_));
            let mut state = self.state();
            if number >= state.begun {
                state.ready.insert(number, early);
            }
            // Large plans are not heaped up.
            if is_large {
                return;
            }
        }
    }
}

impl Executor for Ahead<'_> {
    fn run_case(&self, case: &Arc<Case>) -> Verdict {
        self.runner.run_case(case)
    }

    fn run_from(&self, number: usize, queue: &Queue<'_>, tell: &mut dyn FnMut(usize, Moment)) {
        let Some(case) = queue.case(number) else { return };
        tell(number, Moment::Begins);
        let early = self.take(number);
        let Some(Early { work: EarlyWork::Prepared(Prepared::Ready(first)), took }) = early else {
            let verdict = catching_panics(case, || match early {
                Some(early) => self.runner.run_early(case, early),
                None => self.runner.run_case(case),
            });
            return tell(number, Moment::Done(Box::new(verdict)));
        };
        let (from, others) = self.claim(&first, queue);
        let mut numbers = vec![number];
        numbers.extend(from..from + others.len());
        numbers.iter().skip(1).for_each(|number| tell(*number, Moment::Begins));
        let mut candidates = vec![Candidate { ready: first, took }];
        candidates.extend(others);
        let mut left: Vec<usize> = (0..candidates.len()).collect();
        if candidates.len() > 1 {
            // Cases without a verdict run again, and panic again.
            let _ = catch_unwind(AssertUnwindSafe(|| {
                self.runner.run_series(&candidates, &mut |at, verdict| {
                    left.retain(|other| *other != at);
                    if let Some(number) = numbers.get(at) {
                        tell(*number, Moment::Done(verdict));
                    }
                });
            }));
        }
        for (number, candidate) in left.into_iter().filter_map(|at| numbers.get(at).zip(candidates.get(at))) {
            let Some(case) = queue.case(*number) else { continue };
            let verdict = catching_panics(case, || self.runner.run_candidate(case, candidate));
            tell(*number, Moment::Done(Box::new(verdict)));
        }
    }
}

impl Ahead<'_> {
    /// Takes those of the next cases that are ready and can run in a series behind this one, with the number of the first of them.
    fn claim(&self, first: &Ready, queue: &Queue<'_>) -> (usize, Vec<Candidate>) {
        if !self.runner.may_be_in_series(first) {
            return (0, Vec::new());
        }
        let mut state = self.state();
        let from = queue.next();
        let ready = |number: usize| match &state.ready.get(&number)?.work {
            EarlyWork::Prepared(Prepared::Ready(ready)) => Some(&**ready),
            EarlyWork::Prepared(Prepared::Settled(_)) | EarlyWork::Planned(_) => None,
        };
        let count = self.runner.follow(first, (from..).map(ready));
        if count == 0 || !queue.claim(from, count) {
            return (0, Vec::new());
        }
        state.begun = state.begun.max(from + count);
        state.next = state.next.max(from + count);
        let claimed = (from..from + count).filter_map(|number| match state.ready.remove(&number)? {
            Early { work: EarlyWork::Prepared(Prepared::Ready(ready)), took } => Some(Candidate { ready, took }),
            _ => None,
        });
        (from, claimed.collect())
    }
}

impl Runner {
    /// Plans a case, and works out its forecast if it takes no more than `small` bytes of memory. `None` if that cannot be done yet.
    fn prepare_early(&self, case: &Arc<Case>, small: u64) -> Option<Early> {
        // The library's version is known when a worker runs.
        if !case.requires.nccl.is_empty() {
            return None;
        }
        let begun = Instant::now();
        let work = match self.planned(case).ok()? {
            Err(settled) => EarlyWork::Prepared(Prepared::Settled(settled)),
            Ok(plan) if plan.cost.memory <= small.min(self.memory()) => EarlyWork::Prepared(self.with_forecast(plan)),
            Ok(plan) => EarlyWork::Planned(Box::new(plan)),
        };
        Some(Early { work, took: begun.elapsed() })
    }
}
