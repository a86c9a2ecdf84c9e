//! Prepares small cases in a row before they run: code that works on one case after the other stays in the caches, while the calls
//! of a run would evict it.
use super::parallel::Executor;
use super::runner::{Prepared, Runner, is_small};
use collspec_core::judge::Verdict;
use collspec_core::plan::Plan;
use collspec_core::scenario::Case;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Number of cases that are prepared in a row.
const IN_A_ROW: usize = 16;
/// The next row is prepared when only this many prepared cases are left, so that no thread has to wait for them.
const LEFT: usize = 4;

/// The work done ahead of a case's run, and the time it took.
pub(super) struct Early {
    pub work: EarlyWork,
    pub took: Duration,
}

/// The work done ahead of a case's run.
pub(super) enum EarlyWork {
    /// The case is prepared completely, or does not need to run.
    Prepared(Prepared),
    /// The case is planned; because it is not small, its forecast waits for its turn.
    Planned(Box<Plan>),
}

/// Runs cases, and prepares those that come next.
pub(super) struct Ahead<'a> {
    runner: &'a Runner,
    cases: &'a [Arc<Case>],
    waiting: usize,
    state: Mutex<State>,
}

/// Progress through the cases that share the job threads (all but the waiting ones).
#[derive(Default)]
struct State {
    /// Prepared cases by number, until they begin.
    ready: BTreeMap<usize, Early>,
    /// All cases before this one are prepared, are being prepared or have begun.
    next: usize,
    /// One past the last case that has begun; nothing needs to be prepared before it.
    begun: usize,
    /// True while a thread is preparing cases.
    preparing: bool,
}

impl<'a> Ahead<'a> {
    /// Expects the cases in roughly this order. The first `waiting` ones run separately and are not prepared.
    pub fn new(runner: &'a Runner, cases: &'a [Arc<Case>], waiting: usize) -> Self {
        let state = Mutex::new(State { next: waiting, begun: waiting, ..State::default() });
        Self { runner, cases, waiting, state }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the work done for a case, which begins now. Prepares the next ones if few are left.
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
            // A panic belongs to this case: it is raised again when the case runs.
            let Ok(Some(early)) = catch_unwind(AssertUnwindSafe(|| self.runner.prepare_early(case))) else {
                continue;
            };
            let is_large = matches!(early.work, EarlyWork::Planned(_));
            let mut state = self.state();
            if number >= state.begun {
                state.ready.insert(number, early);
            }
            // Large plans are not accumulated: each takes a lot of memory.
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

    fn run_numbered(&self, number: usize, case: &Arc<Case>) -> Verdict {
        let early = if number < self.waiting { None } else { self.take(number) };
        match early {
            Some(early) => self.runner.run_early(case, early),
            None => self.runner.run_case(case),
        }
    }
}

impl Runner {
    /// Plans a case, and works out its forecast if the case is small. `None` if that is not possible yet.
    fn prepare_early(&self, case: &Arc<Case>) -> Option<Early> {
        // The library's version is known only once a worker runs.
        if !case.requires.nccl.is_empty() {
            return None;
        }
        let begun = Instant::now();
        let work = match self.planned(case).ok()? {
            Err(settled) => EarlyWork::Prepared(Prepared::Settled(settled)),
            Ok(plan) if is_small(&plan) && plan.cost.memory <= self.memory() => {
                EarlyWork::Prepared(self.with_forecast(plan))
            }
            Ok(plan) => EarlyWork::Planned(Box::new(plan)),
        };
        Some(Early { work, took: begun.elapsed() })
    }
}
