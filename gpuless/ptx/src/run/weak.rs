//! What a block may see of memory other than its contents: its own stores are seen late, and its loads are early.

use super::delay::Delayed;
use super::early::Early;

/// Bytes of a line.
pub const LINE: u64 = 128;

/// The state of a block whose accesses need not happen in the order of the program.
#[derive(Debug)]
pub struct WeakMemory {
    /// Its stores that others do not see yet, if a seed delays them.
    pub delayed: Option<Delayed>,
    /// The moments of its loads, if a seed decides them.
    pub early: Option<Early>,
}

impl WeakMemory {
    /// True if all see every store.
    pub fn is_shown(&self) -> bool {
        self.delayed.as_ref().is_none_or(Delayed::is_empty)
    }

    /// Lets all see every store.
    pub fn show_all(&mut self) {
        if let Some(delayed) = &mut self.delayed {
            delayed.show_all();
        }
    }

    /// Time passes: all may come to see some of the stores. True if they do.
    pub fn pass(&mut self) -> bool {
        self.delayed.as_mut().is_some_and(Delayed::pass)
    }

    /// A fence for more than the block.
    pub fn fence(&mut self) {
        self.show_all();
        if let Some(early) = &mut self.early {
            early.acquire();
        }
    }
}
