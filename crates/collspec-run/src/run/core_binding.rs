//! Binds threads that run small cases, and the workers that they start, to one core each. Such a thread, its worker and the ranks wake
//! each other several times in a case, and waking a thread on another core takes longer than everything the case computes.
use collspec_core::cores::{cores, own_processors};
use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};
use std::cell::Cell;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The core that a thread is bound to, and the cores on which it could run before.
#[derive(Clone, Copy)]
struct Bound {
    core: usize,
    before: CpuSet,
}

thread_local! {
    /// True on threads that do nothing but run cases.
    static MAY_BE_BOUND: Cell<bool> = const { Cell::new(false) };
    static BOUND: Cell<Option<Bound>> = const { Cell::new(None) };
}

/// Declares that the calling thread only runs cases, so that it may be bound to a core.
pub fn allow_here() {
    MAY_BE_BOUND.set(true);
}

/// Unbinds the calling thread: it may run on its earlier cores again, and so may the threads and processes that it starts.
pub fn leave() {
    if let Some(bound) = BOUND.get()
        && sched_setaffinity(None, &bound.before).is_ok()
    {
        BOUND.set(None);
    }
}

/// The cores that this process may use, each for one case at a time.
#[derive(Debug)]
pub struct Cores {
    numbers: Vec<usize>,
    claimed: Mutex<Vec<usize>>,
}

/// A core claimed by a case until this is dropped. The thread stays bound to it afterwards, since the next case is likely to be small too.
#[derive(Debug)]
pub struct Claim<'a> {
    cores: &'a Cores,
    /// The core's number.
    pub core: usize,
}

impl Cores {
    /// `None` unless this many jobs at a time occupy all cores that this process may use. With fewer jobs, or with a share of cores
    /// that are not named (a quota of a control group), the operating system knows better which of them are free.
    pub fn of(jobs: usize) -> Option<Self> {
        let numbers = own_processors();
        let all = numbers.len() >= 2 && numbers.len() == cores() && jobs >= numbers.len();
        all.then(|| Self { numbers, claimed: Mutex::default() })
    }

    fn claimed(&self) -> MutexGuard<'_, Vec<usize>> {
        self.claimed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Binds the calling thread to a core that no other case has claimed, preferably to the one that it is bound to or runs on. `None`
    /// if the thread may not be bound or no core is free; the thread is then not bound.
    pub fn claim(&self) -> Option<Claim<'_>> {
        let claim = if MAY_BE_BOUND.get() { self.free_core() } else { None };
        let claim = claim.map(|core| Claim { cores: self, core }).filter(|claim| bind(claim.core));
        if claim.is_none() {
            leave();
        }
        claim
    }

    fn free_core(&self) -> Option<usize> {
        let mut claimed = self.claimed();
        // A bound thread stays on its core; of several processes running at the same time, each begins where it happens to be.
        let here = self.numbers.iter().position(|core| *core == sched_getcpu()).unwrap_or(0);
        let (before, from) = self.numbers.split_at(here);
        let core = from.iter().chain(before).copied().find(|core| !claimed.contains(core))?;
        claimed.push(core);
        Some(core)
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.cores.claimed().retain(|core| *core != self.core);
    }
}

/// Binds the calling thread to a core; false if the operating system refuses.
fn bind(core: usize) -> bool {
    let earlier = BOUND.get();
    if earlier.is_some_and(|bound| bound.core == core) {
        return true;
    }
    let before = earlier.map_or_else(|| sched_getaffinity(None).ok(), |bound| Some(bound.before));
    let Some(before) = before.filter(|_| core < CpuSet::MAX_CPU) else { return false };
    let mut set = CpuSet::new();
    set.set(core);
    let is_bound = sched_setaffinity(None, &set).is_ok();
    if is_bound {
        BOUND.set(Some(Bound { core, before }));
    }
    is_bound
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on_own_thread(test: impl FnOnce() + Send) {
        std::thread::scope(|scope| scope.spawn(test).join().unwrap());
    }

    #[test]
    fn each_claim_has_a_core_that_no_other_has() {
        let numbers = own_processors();
        if numbers.len() < 2 {
            return; // There is nothing to choose.
        }
        let cores = Cores { numbers: numbers.clone(), claimed: Mutex::default() };
        let all = sched_getaffinity(None).unwrap();
        on_own_thread(|| {
            assert!(cores.claim().is_none(), "it was not allowed");
            allow_here();
            let first = cores.claim().unwrap();
            assert_eq!(own_processors(), [first.core]);
            on_own_thread(|| {
                // A new thread starts with the binding of the thread that started it.
                sched_setaffinity(None, &all).unwrap();
                allow_here();
                let claims: Vec<_> = std::iter::from_fn(|| cores.claim()).collect();
                let mut taken: Vec<_> = claims.iter().map(|claim| claim.core).chain([first.core]).collect();
                taken.sort_unstable();
                assert_eq!(taken, numbers, "a claim for each core");
                // The claim that did not find a core left the thread unbound.
                assert_eq!(own_processors().len(), numbers.len());
            });
            let core = first.core;
            drop(first);
            assert_eq!(own_processors(), [core], "the thread stays where it is");
            assert_eq!(cores.claim().unwrap().core, core, "and takes the same core again");
            leave();
            assert_eq!(own_processors(), numbers);
        });
    }

    #[test]
    fn cores_are_claimed_only_where_jobs_occupy_all_of_them() {
        let all = own_processors().len();
        assert!(Cores::of(all - 1).is_none());
        assert_eq!(Cores::of(all).is_some(), all >= 2 && all == cores());
        assert_eq!(Cores::of(all + 1).is_some(), all >= 2 && all == cores());
    }
}
