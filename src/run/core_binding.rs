//! Binds threads that run small cases, and the workers that they start, to one core each. Such a thread, its worker and the ranks wake
//! each other several times in a case, and waking a thread on another core takes longer than all that the case computes.
use crate::cores::{cores, own_processors};
use rustix::thread::{CpuSet, sched_setaffinity};
use std::cell::Cell;
use std::sync::{Mutex, MutexGuard, PoisonError};

thread_local! {
    /// True on a thread that runs cases and nothing else.
    static MAY_BE_BOUND: Cell<bool> = const { Cell::new(false) };
    /// The core that the calling thread is bound to.
    static BOUND_TO: Cell<Option<usize>> = const { Cell::new(None) };
}

/// The calling thread runs cases and nothing else, so that it may be bound to a core.
pub fn allow_here() {
    MAY_BE_BOUND.set(true);
}

/// The cores of this machine, each for one case at a time.
#[derive(Debug)]
pub struct Cores {
    numbers: Vec<usize>,
    claimed: Mutex<Vec<usize>>,
}

/// A core that is a case's until this is dropped. The thread stays bound to it afterwards, since the next case is likely to be small too.
#[derive(Debug)]
pub struct Claim<'a> {
    cores: &'a Cores,
    /// Its number.
    pub core: usize,
}

impl Cores {
    /// `None` unless so many jobs at a time occupy all cores that this process may use. With fewer, or with a share of cores that are
    /// not named (a quota of a control group), the operating system knows better which of them are free.
    pub fn of(jobs: usize) -> Option<Self> {
        let numbers = own_processors();
        let all = numbers.len() >= 2 && numbers.len() == cores() && jobs >= numbers.len();
        all.then(|| Self { numbers, claimed: Mutex::default() })
    }

    fn claimed(&self) -> MutexGuard<'_, Vec<usize>> {
        self.claimed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Binds the calling thread to a core that no other case has claimed, preferably to the one that it is bound to. `None`, and the
    /// thread is not bound any more, if it may not be bound or there is no such core.
    pub fn claim(&self) -> Option<Claim<'_>> {
        if !MAY_BE_BOUND.get() {
            return None;
        }
        let claim = self.free_core().map(|core| Claim { cores: self, core });
        let claim = claim.filter(|claim| BOUND_TO.get() == Some(claim.core) || bind(&[claim.core]));
        match &claim {
            Some(claim) => BOUND_TO.set(Some(claim.core)),
            None => self.leave(),
        }
        claim
    }

    fn free_core(&self) -> Option<usize> {
        let mut claimed = self.claimed();
        let own = BOUND_TO.get();
        let core = own.into_iter().chain(self.numbers.iter().copied()).find(|core| !claimed.contains(core))?;
        claimed.push(core);
        Some(core)
    }

    /// The calling thread may run on all cores again, and so may the threads that it starts.
    pub fn leave(&self) {
        if BOUND_TO.take().is_some() {
            // A core that has gone meanwhile is not missing: the kernel takes those that are left.
            bind(&self.numbers);
        }
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.cores.claimed().retain(|core| *core != self.core);
    }
}

/// Binds the calling thread to these cores; false if the operating system refuses.
fn bind(cores: &[usize]) -> bool {
    let mut set = CpuSet::new();
    for core in cores.iter().filter(|core| **core < CpuSet::MAX_CPU) {
        set.set(*core);
    }
    sched_setaffinity(None, &set).is_ok()
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
        on_own_thread(|| {
            assert!(cores.claim().is_none(), "it was not allowed");
            allow_here();
            let first = cores.claim().unwrap();
            assert_eq!(own_processors(), [first.core]);
            on_own_thread(|| {
                allow_here();
                let claims: Vec<_> = std::iter::from_fn(|| cores.claim()).collect();
                let mut taken: Vec<_> = claims.iter().map(|claim| claim.core).chain([first.core]).collect();
                taken.sort_unstable();
                assert_eq!(taken, numbers, "a claim for each core");
                // The claim that found no core left the thread unbound.
                assert_eq!(own_processors().len(), numbers.len());
            });
            let core = first.core;
            drop(first);
            assert_eq!(own_processors(), [core], "the thread stays where it is");
            assert_eq!(cores.claim().unwrap().core, core, "and takes the same core again");
            cores.leave();
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
