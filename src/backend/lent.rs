//! What a library was given in a call and may still reach after the call has returned: handles are stored, and
//! configurations may be read, as late as at the end of the calling thread's outermost group.
use super::config::Config;
use super::library::CommSlot;
use std::cell::RefCell;

/// Something lent to a library.
pub(super) enum Lent {
    /// A handle goes there.
    Slot(#[expect(dead_code, reason = "held, never read")] CommSlot),
    /// A configuration is read from there.
    Config(#[expect(dead_code, reason = "held, never read")] Box<Config>),
}

/// The groups that the calling thread has open, of whatever library.
#[derive(Default)]
struct Groups {
    depth: u32,
    lent: Vec<Lent>,
}

impl Drop for Groups {
    fn drop(&mut self) {
        // a thread that ends inside a group never learns when the library is done
        std::mem::take(&mut self.lent).into_iter().for_each(std::mem::forget);
    }
}

thread_local! {
    static GROUPS: RefCell<Groups> = RefCell::default();
}

/// The calling thread has opened a group.
pub(super) fn opened() {
    GROUPS.with_borrow_mut(|groups| groups.depth += 1);
}

/// The calling thread has closed a group. `unfinished`: the library goes on with it in the background, nobody knows for how
/// long, so what it was lent is never freed.
pub(super) fn closed(unfinished: bool) {
    let lent = GROUPS.with_borrow_mut(|groups| {
        groups.depth = groups.depth.saturating_sub(1);
        if groups.depth == 0 { std::mem::take(&mut groups.lent) } else { Vec::new() }
    });
    if unfinished {
        lent.into_iter().for_each(std::mem::forget);
    }
}

/// A call that was given these has returned. `unfinished`: as for [`closed`].
pub(super) fn lend(things: impl IntoIterator<Item = Lent>, unfinished: bool) {
    GROUPS.with_borrow_mut(|groups| {
        if unfinished {
            things.into_iter().for_each(std::mem::forget);
        } else if groups.depth > 0 {
            groups.lent.extend(things);
        }
    });
}
