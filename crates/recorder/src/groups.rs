//! The groups of a thread, and the communicators that exist only when a group has ended.
use std::cell::{Cell, RefCell};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A communicator that was asked for and may not exist yet.
pub struct Asked {
    /// The handle, as far as it is known.
    pub handle: Handle,
    /// The communicator that it is made from, or 0.
    pub parent: usize,
    /// The number that its ranks share.
    pub identity: u64,
    /// What its line says besides handle, rank, ranks and device.
    pub text: String,
}

/// A handle, or the address at which NCCL will write it.
#[derive(Clone, Copy)]
pub enum Handle {
    At(usize),
    Is(usize),
}

thread_local! {
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    static GROUP: Cell<u64> = const { Cell::new(0) };
    /// What was asked for in the group that has not ended.
    static IN_GROUP: RefCell<Vec<Asked>> = const { RefCell::new(Vec::new()) };
}

/// What was asked for outside of groups, or in groups that have ended. Non-blocking communicators come into being later, and may be
/// used by another thread than the one that asked for them.
static ASKED: Mutex<Vec<Asked>> = Mutex::new(Vec::new());

fn all_asked() -> MutexGuard<'static, Vec<Asked>> {
    ASKED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A group has begun.
pub fn start() {
    DEPTH.set(DEPTH.get() + 1);
    if DEPTH.get() == 1 {
        GROUP.set(GROUP.get() + 1);
    }
}

/// A group has ended; true if it was the outermost. What was asked for in one that failed will not exist.
pub fn end(has_failed: bool) -> bool {
    DEPTH.set(DEPTH.get().saturating_sub(1));
    let is_outermost = DEPTH.get() == 0;
    if is_outermost {
        // A thread that is ending has none any more.
        let asked = IN_GROUP.try_with(RefCell::take).unwrap_or_default();
        if !has_failed {
            all_asked().extend(asked);
        }
    }
    is_outermost
}

/// The number of the outermost group that this thread is in.
pub fn current() -> Option<u64> {
    (DEPTH.get() > 0).then(|| GROUP.get())
}

/// Remembers a communicator that may not exist yet.
pub fn ask(asked: Asked) {
    match current() {
        Some(_) => _ = IN_GROUP.try_with(|all| all.borrow_mut().push(asked)),
        None => all_asked().push(asked),
    }
}

/// Forgets what is made from this communicator, or is it: it ends.
pub fn forget(comm: usize) {
    if comm == 0 {
        return;
    }
    all_asked().retain(|asked| asked.parent != comm && !matches!(asked.handle, Handle::Is(own) if own == comm));
}

/// Gives each communicator that was asked for to `look`, and those of which it says true back; the others stay.
pub fn take_those(look: impl FnMut(&mut Asked) -> bool) -> Vec<Asked> {
    all_asked().extract_if(.., look).collect()
}
