//! A barrier that can be broken: a rank that fails must not leave the others waiting.
use rustix::thread::futex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The point at which the ranks of a run meet.
pub struct Barrier {
    ranks: usize,
    state: Mutex<State>,
    /// Releases and breaks so far, on which ranks sleep. It changes under the lock and wakes when the lock is free again: ranks that
    /// are woken under it would sleep again at the lock.
    changes: AtomicU32,
}

#[derive(Default)]
struct State {
    arrived: usize,
    generation: u64,
    broken: Option<u32>,
    /// Arrivals, releases and breaks so far.
    moves: u64,
}

/// The barrier will never open, because this rank failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken(pub u32);

impl Barrier {
    /// A barrier for this many ranks.
    pub fn new(ranks: usize) -> Self {
        Self { ranks, state: Mutex::default(), changes: AtomicU32::new(0) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for all ranks; the last one runs `last` before the others continue. `arrived` is called if the thread is about to
    /// wait.
    ///
    /// # Errors
    ///
    /// The barrier is broken.
    pub fn wait(&self, last: impl FnOnce(), arrived: impl FnOnce()) -> Result<(), Broken> {
        let mut state = self.state();
        if let Some(rank) = state.broken {
            return Err(Broken(rank));
        }
        state.arrived += 1;
        state.moves += 1;
        if state.arrived == self.ranks {
            last();
            state.arrived = 0;
            state.generation += 1;
            self.change(state);
            return Ok(());
        }
        let generation = state.generation;
        drop(state);
        arrived();
        loop {
            let state = self.state();
            if state.generation != generation {
                return Ok(());
            }
            if let Some(rank) = state.broken {
                return Err(Broken(rank));
            }
            // Read under the lock: a change from now on makes the number another one, and the kernel does not let the thread sleep.
            let changes = self.changes.load(Ordering::Relaxed);
            drop(state);
            // Whatever ended the sleep, the thread checks again.
            let _ = futex::wait(&self.changes, futex::Flags::PRIVATE, changes, None);
        }
    }

    /// Wakes every rank that sleeps here, all at once.
    fn change(&self, state: MutexGuard<'_, State>) {
        self.changes.fetch_add(1, Ordering::Relaxed);
        drop(state);
        // It fails only for a word that is not mapped.
        let _ = futex::wake(&self.changes, futex::Flags::PRIVATE, u32::MAX >> 1);
    }

    /// Breaks the barrier: every wait fails, those that have begun and those that come.
    pub fn break_by(&self, rank: u32) {
        let mut state = self.state();
        state.broken.get_or_insert(rank);
        state.moves += 1;
        self.change(state);
    }

    /// Ranks that wait here with nothing to wake them yet, and a number that grows whenever that changes.
    pub fn waiting(&self) -> (usize, u64) {
        let state = self.state();
        (if state.broken.is_some() { 0 } else { state.arrived }, state.moves)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn all_pass_together_round_after_round_and_one_is_the_last() {
        let (barrier, lasts, inside) =
            (Arc::new(Barrier::new(8)), Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let threads: Vec<_> = (0..8)
            .map(|_| {
                let (barrier, lasts, inside) = (barrier.clone(), lasts.clone(), inside.clone());
                std::thread::spawn(move || {
                    for round in 0..200 {
                        inside.fetch_add(1, Ordering::SeqCst);
                        barrier.wait(|| _ = lasts.fetch_add(1, Ordering::SeqCst), || ()).unwrap();
                        assert!(inside.load(Ordering::SeqCst) >= 8 * (round + 1));
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|t| t.join().unwrap());
        assert_eq!(lasts.load(Ordering::SeqCst), 200);
        assert_eq!(barrier.waiting().0, 0);
    }

    #[test]
    fn breaking_releases_who_waits_and_who_comes_later() {
        let barrier = Arc::new(Barrier::new(3));
        let b = barrier.clone();
        let (tell, told) = std::sync::mpsc::channel();
        let waiter = std::thread::spawn(move || b.wait(|| (), || tell.send(()).unwrap()));
        told.recv().unwrap();
        assert_eq!(barrier.waiting().0, 1);
        barrier.break_by(2);
        assert_eq!(waiter.join().unwrap(), Err(Broken(2)));
        assert_eq!(barrier.wait(|| (), || ()), Err(Broken(2)));
        assert_eq!(barrier.waiting().0, 0);
    }
}
