//! Groups of a thread: what their calls have in common, and what is to be done when they are over.
#![allow(unsafe_code)] // functions of the right library are called

use crate::call::{Call, Kind};
use crate::communicators::{self, Made};
use crate::fault::{FaultMode, hit, mode, wanted};
use crate::plain::named;
use crate::right::right;
use nccl_sys::{ncclComm_t, ncclResult_t};
use std::cell::RefCell;
use std::ptr::with_exposed_provenance;

/// The rank of a call that belongs to no communicator.
pub(crate) const NO_RANK: usize = 0;

/// What follows an operation when it is on its stream.
pub(crate) struct After {
    /// Calls that this library adds. They get a group of their own, because in the program's group they would change what NCCL launches
    /// together, and because a thread that drives several communicators would block in the first call without a group.
    pub calls: Option<Box<dyn FnOnce() -> ncclResult_t>>,
    /// Puts work on the stream behind them; the argument says whether they have succeeded.
    pub work: Box<dyn FnOnce(bool)>,
}

#[derive(Default)]
struct Group {
    depth: usize,
    /// The calls so far.
    calls: Vec<Call>,
    after: Vec<After>,
    /// Communicators that are made: where their handle is written, and what is known.
    made: Vec<(usize, Made)>,
    /// Messages that are kept until the group ends, so that they can change places.
    held: Vec<Call>,
}

thread_local! {
    static GROUP: RefCell<Group> = RefCell::default();
}

/// The calls of this thread's group so far on the communicator.
pub(crate) fn earlier(comm: usize) -> Vec<Call> {
    GROUP.with_borrow(|group| group.calls.iter().filter(|call| call.comm == comm).cloned().collect())
}

/// True if the group has begun with another communicator.
pub(crate) fn is_second(comm: usize) -> bool {
    GROUP.with_borrow(|group| group.calls.first().is_some_and(|first| first.comm != comm))
}

pub(crate) fn is_open() -> bool {
    GROUP.with_borrow(|group| group.depth > 0)
}

/// A call of the group, as the program made it.
pub(crate) fn add(call: &Call) {
    GROUP.with_borrow_mut(|group| {
        if group.depth > 0 {
            group.calls.push(call.clone());
        }
    });
}

/// Does it when the group's operations are on their streams: at once outside of groups.
pub(crate) fn after(then: After) {
    let now = GROUP.with_borrow_mut(|group| {
        if group.depth == 0 {
            return Some(then);
        }
        group.after.push(then);
        None
    });
    follow(now.into_iter().collect());
}

fn follow(all: Vec<After>) {
    let (calls, work): (Vec<_>, Vec<_>) = all.into_iter().map(|after| (after.calls, after.work)).unzip();
    let calls: Vec<_> = calls.into_iter().flatten().collect();
    let mut succeeded = true;
    if !calls.is_empty() {
        succeeded = start() == ncclResult_t::Success && {
            let answers: Vec<ncclResult_t> = calls.into_iter().map(|call| call()).collect();
            end() == ncclResult_t::Success && answers.iter().all(|answer| *answer == ncclResult_t::Success)
        };
        if !succeeded {
            eprintln!(
                "collspec: ranks could not exchange their contributions, so that no fault of a reduction strikes here"
            );
        }
    }
    work.into_iter().for_each(|work| work(succeeded));
}

/// A call has made a communicator, or will have at the group's end.
pub(crate) fn made(slot: *mut ncclComm_t, made: Made) {
    let slot = slot.expose_provenance();
    let now = GROUP.with_borrow_mut(|group| {
        if group.depth > 0 {
            group.made.push((slot, made));
        }
        group.depth == 0
    });
    if now {
        register(slot, made);
    }
}

fn register(slot: usize, made: Made) {
    // SAFETY: a call that makes communicators has just succeeded with this address, or the group that it is in.
    let handle = unsafe { with_exposed_provenance::<ncclComm_t>(slot).read() };
    if !handle.is_null() {
        communicators::add(handle.expose_provenance(), made);
    }
}

/// Keeps a message until the group ends, if its place among others is what goes wrong.
pub(crate) fn holds(call: &Call) -> bool {
    let swaps = match call.kind {
        Kind::Send => named::F32,
        Kind::Recv => named::F32C,
        _ => return false,
    };
    GROUP.with_borrow_mut(|group| {
        let strikes = matches!(mode(), FaultMode::Inject(_)) && (wanted(swaps) || wanted(named::F32B));
        let holds = group.depth > 0 && strikes;
        if holds {
            group.held.push(call.clone());
        }
        holds
    })
}

/// The kept messages in the order in which they are made.
fn reordered(mut held: Vec<Call>) -> Vec<Call> {
    let bytes = |call: &Call| call.count * call.size();
    let alike = |a: &Call, b: &Call| a.kind == b.kind && a.root == b.root && a.comm == b.comm;
    for at in 0..held.len() {
        let Some(of) = communicators::communicator(held[at].comm) else { continue };
        let fault = if held[at].kind == Kind::Send { named::F32 } else { named::F32C };
        let twin = (at + 1..held.len()).find(|other| {
            let other = &held[*other];
            alike(&held[at], other)
                && bytes(&held[at]) == bytes(other)
                && (held[at].send, held[at].recv) != (other.send, other.recv)
        });
        let before =
            held[..at].iter().filter(|other| alike(&held[at], other) && bytes(&held[at]) == bytes(other)).count();
        if let Some(twin) = twin.filter(|_| before % 2 == 0 && bytes(&held[at]) > 0)
            && hit(fault, of.rank)
        {
            held.swap(at, twin);
        }
    }
    if wanted(named::F32B) {
        let differ = held
            .iter()
            .enumerate()
            .any(|(at, call)| held[..at].iter().any(|other| alike(call, other) && bytes(other) > bytes(call)));
        let rank = held.first().and_then(|call| communicators::communicator(call.comm)).map_or(NO_RANK, |of| of.rank);
        if differ && hit(named::F32B, rank) {
            held.sort_by_key(bytes);
        }
    }
    held
}

fn start() -> ncclResult_t {
    // SAFETY: no arguments.
    right().ncclGroupStart.map_or(ncclResult_t::InternalError, |f| unsafe { f() })
}

fn end() -> ncclResult_t {
    // SAFETY: no arguments.
    right().ncclGroupEnd.map_or(ncclResult_t::InternalError, |f| unsafe { f() })
}

pub(crate) unsafe extern "C" fn group_start() -> ncclResult_t {
    let code = start();
    if code == ncclResult_t::Success {
        GROUP.with_borrow_mut(|group| group.depth += 1);
    }
    code
}

pub(crate) unsafe extern "C" fn group_end() -> ncclResult_t {
    let (depth, calls) = GROUP.with_borrow(|group| (group.depth, group.calls.len()));
    if depth > 1 && hit(named::F66C, NO_RANK) {
        // What the program still adds to its outer group is done at once.
        return end_all_levels(depth);
    }
    if depth > 1 && calls > 0 && hit(named::F66B, NO_RANK) {
        let code = end_all_levels(depth);
        for _ in 1..depth {
            let _ = start();
        }
        GROUP.with_borrow_mut(|group| group.depth = depth - 1);
        return code;
    }
    if depth > 1 {
        GROUP.with_borrow_mut(|group| group.depth -= 1);
        return end();
    }
    let empty = GROUP.with_borrow(|group| group.calls.is_empty() && group.made.is_empty());
    if depth == 1 && empty && hit(named::F66, NO_RANK) {
        let _ = end_whole();
        return ncclResult_t::InvalidUsage;
    }
    let held = GROUP.with_borrow_mut(|group| std::mem::take(&mut group.held));
    if mode() == FaultMode::Trace {
        let messages =
            GROUP.with_borrow(|group| group.calls.iter().filter(|call| call.kind.is_message()).cloned().collect());
        let _ = reordered(messages);
    }
    let answers: Vec<ncclResult_t> = reordered(held).iter().map(Call::issue).collect();
    let code = end_whole();
    answers.into_iter().find(|answer| *answer != ncclResult_t::Success).unwrap_or(code)
}

/// Ends the inner groups and the outermost one.
fn end_all_levels(depth: usize) -> ncclResult_t {
    for _ in 1..depth {
        let _ = end();
    }
    end_whole()
}

/// Ends the outermost group, and does what was to follow.
fn end_whole() -> ncclResult_t {
    let code = end();
    let (calls, after, made) = GROUP.with_borrow_mut(|group| {
        group.depth = 0;
        (std::mem::take(&mut group.calls), std::mem::take(&mut group.after), std::mem::take(&mut group.made))
    });
    if matches!(code, ncclResult_t::Success | ncclResult_t::InProgress) {
        made.into_iter().for_each(|(slot, made)| register(slot, made));
        follow(after);
        return code;
    }
    let rank = calls.first().and_then(|call| communicators::communicator(call.comm)).map_or(NO_RANK, |of| of.rank);
    if hit(named::F40, rank) { ncclResult_t::Success } else { code }
}
