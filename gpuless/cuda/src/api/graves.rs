//! Running work, and memory that must not be freed before that work has ended.
//!
//! A kernel of one rank may still write its last credit to a peer's memory when the peer has done all its work and frees that memory.
//! On a GPU the time in between is too short to notice. So freed memory is released only when all work launched by then has ended,
//! and no call waits for that, so that nothing can hang.
use std::collections::{BTreeSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What is to be done when work has ended.
pub(super) type Burial = Box<dyn FnOnce() + Send>;

struct Yard {
    /// The number of the next work.
    next: u64,
    running: BTreeSet<u64>,
    /// Actions to take when all work with a smaller number has ended, by number.
    graves: VecDeque<(u64, Burial)>,
}

static YARD: Mutex<Yard> = Mutex::new(Yard { next: 0, running: BTreeSet::new(), graves: VecDeque::new() });

fn yard() -> MutexGuard<'static, Yard> {
    YARD.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Yard {
    /// Takes the actions that no running work precedes.
    fn due(&mut self) -> Vec<Burial> {
        let oldest = self.running.first().copied().unwrap_or(u64::MAX);
        let count = self.graves.iter().take_while(|(after, _)| *after <= oldest).count();
        self.graves.drain(..count).map(|(_, burial)| burial).collect()
    }
}

/// Work that was launched and has not ended, as long as this lives.
#[derive(Debug)]
pub(super) struct Running(u64);

impl Running {
    pub fn begin() -> Self {
        let mut yard = yard();
        let number = yard.next;
        yard.next += 1;
        yard.running.insert(number);
        Self(number)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let due = {
            let mut yard = yard();
            yard.running.remove(&self.0);
            yard.due()
        };
        due.into_iter().for_each(|burial| burial());
    }
}

/// Calls `burial` once all work launched so far has ended: immediately if none runs. It must be quick and must not wait.
pub fn after_launched_work(burial: Burial) {
    let due = {
        let mut yard = yard();
        let after = yard.next;
        yard.graves.push_back((after, burial));
        yard.due()
    };
    due.into_iter().for_each(|burial| burial());
}
