//! Memory that a library may use after the call that passed it has returned. Inside a group, a library may store handles and
//! read configurations as late as at the end of the calling thread's outermost group; the memory is kept until then.
use super::call::{CommSlot, RegistrationSlot};
use super::call_config::CallConfig;
use super::config::CommConfig;
use std::cell::RefCell;

/// Memory that a library may still use.
pub(super) enum LentMemory {
    /// The library stores a handle in it.
    Slot(#[expect(dead_code, reason = "held, never read")] CommSlot),
    /// The library stores the handle of a registration in it.
    Registration(#[expect(dead_code, reason = "held, never read")] RegistrationSlot),
    /// The library reads a configuration from it.
    Config(#[expect(dead_code, reason = "held, never read")] Box<CommConfig>),
    /// The library reads ranks from it.
    Ranks(#[expect(dead_code, reason = "held, never read")] Vec<i32>),
    /// The library reads unique ids from it.
    Ids(#[expect(dead_code, reason = "held, never read")] Vec<nccl_sys::ncclUniqueId>),
    /// The library reads the configuration of a call from it.
    CallConfig(#[expect(dead_code, reason = "held, never read")] Box<CallConfig>),
}

/// The groups that the calling thread has open, counted over all libraries.
#[derive(Default)]
struct OpenGroups {
    depth: u32,
    lent: Vec<LentMemory>,
}

impl Drop for OpenGroups {
    fn drop(&mut self) {
        // A thread that ends inside a group cannot know when the library is done with the memory, so it is never freed.
        std::mem::take(&mut self.lent).into_iter().for_each(std::mem::forget);
    }
}

thread_local! {
    static GROUPS: RefCell<OpenGroups> = RefCell::default();
}

/// Must be called when the calling thread has opened a group.
pub(super) fn group_opened() {
    GROUPS.with_borrow_mut(|groups| groups.depth += 1);
}

/// Must be called when the calling thread has closed a group. If the library continues the group in the background
/// (`unfinished`), it may use the memory for an unknown time, so the memory is never freed.
pub(super) fn group_closed(unfinished: bool) {
    let lent = GROUPS.with_borrow_mut(|groups| {
        groups.depth = groups.depth.saturating_sub(1);
        if groups.depth == 0 { std::mem::take(&mut groups.lent) } else { Vec::new() }
    });
    if unfinished {
        lent.into_iter().for_each(std::mem::forget);
    }
}

/// Must be called when a call that was given this memory has returned; `unfinished` as for [`group_closed`].
pub(super) fn lend(things: impl IntoIterator<Item = LentMemory>, unfinished: bool) {
    GROUPS.with_borrow_mut(|groups| {
        if unfinished {
            things.into_iter().for_each(std::mem::forget);
        } else if groups.depth > 0 {
            groups.lent.extend(things);
        }
    });
}
