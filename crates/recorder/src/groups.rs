//! The groups of a thread, and the communicators that exist only when a group has ended.
use std::cell::{Cell, RefCell};

/// A communicator that was asked for: where its handle will be, and what to say about it.
pub struct Asked {
    /// The address of the handle.
    pub handle: usize,
    /// What its line says besides handle, rank, ranks and device.
    pub text: String,
}

thread_local! {
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    static GROUP: Cell<u64> = const { Cell::new(0) };
    static ASKED: RefCell<Vec<Asked>> = const { RefCell::new(Vec::new()) };
}

/// A group has begun.
pub fn start() {
    DEPTH.set(DEPTH.get() + 1);
    if DEPTH.get() == 1 {
        GROUP.set(GROUP.get() + 1);
    }
}

/// A group has ended; true if it was the outermost.
pub fn end() -> bool {
    DEPTH.set(DEPTH.get().saturating_sub(1));
    DEPTH.get() == 0
}

/// The number of the outermost group that this thread is in.
pub fn current() -> Option<u64> {
    (DEPTH.get() > 0).then(|| GROUP.get())
}

/// Remembers a communicator that may not exist yet.
pub fn ask(asked: Asked) {
    ASKED.with_borrow_mut(|all| all.push(asked));
}

/// The communicators that were asked for and that `exists` now says exist; the others stay.
pub fn take_those(exists: impl Fn(&Asked) -> bool) -> Vec<Asked> {
    ASKED.with_borrow_mut(|all| {
        let (made, left) = std::mem::take(all).into_iter().partition(|asked| exists(asked));
        *all = left;
        made
    })
}
