//! Group calls: the requests of a thread between `GroupStart` and `GroupEnd` happen at the outermost end, all or nothing.
#![allow(unsafe_code)] // a communicator's handle is written where the caller wants it

use crate::engine::{
    Arrival, ByComm, Destination, Request, WindowRequest, arrive, capture, connect, destination, lock, outcome,
    register_windows,
};
use crate::failure::{Failure, Outcome};
use nccl_sys::{ncclComm_t, ncclWindow_t};
use std::cell::RefCell;

mod nonblocking;

/// A communicator that will be created, and the place for its handle.
struct Making {
    arrival: Arrival,
    place: *mut ncclComm_t,
}

/// A window that will be created, and the place for its handle.
struct WindowMaking {
    request: WindowRequest,
    place: *mut ncclWindow_t,
}

#[derive(Default)]
struct Group {
    depth: usize,
    operations: Vec<Request>,
    makings: Vec<Making>,
    windows: Vec<WindowMaking>,
    /// The first refusal inside the group: then no part of it happens.
    failure: Option<Failure>,
}

thread_local! {
    static GROUP: RefCell<Group> = RefCell::default();
}

fn with<T>(f: impl FnOnce(&mut Group) -> T) -> Outcome<T> {
    GROUP
        .try_with(|group| group.try_borrow_mut().map(|mut group| f(&mut group)))
        .ok()
        .and_then(Result::ok)
        .ok_or_else(|| Failure::internal("the thread's group is not available"))
}

/// Implements `ncclGroupStart`.
pub(crate) fn start() -> Outcome<()> {
    with(|group| group.depth += 1)
}

/// `ncclGroupEnd`: at the outermost level everything happens.
pub(crate) fn end() -> Outcome<()> {
    let group = with(|group| match group.depth {
        0 => Err(Failure::usage("a group is ended that was not started")),
        1 => Ok(Some(std::mem::take(group))),
        _ => {
            group.depth -= 1;
            Ok(None)
        }
    })??;
    match group {
        Some(group) => group.happen(),
        None => Ok(()),
    }
}

/// Runs a call as a separate group or as part of the thread's group, which it spoils if it is refused.
pub(crate) fn grouped(call: impl FnOnce() -> Outcome<()>) -> Outcome<()> {
    start()?;
    let outcome = call();
    if let Err(failure) = &outcome {
        spoil(failure);
    }
    let ended = end();
    outcome.and(ended)
}

/// Makes the thread's group, if there is one, fail.
pub(crate) fn spoil(failure: &Failure) {
    // A thread without a group has nothing to spoil.
    let _ = with(|group| {
        if group.depth > 0 {
            group.failure.get_or_insert_with(|| failure.clone());
        }
    });
}

/// Adds an operation to the thread's group.
pub(crate) fn add(request: Request) -> Outcome<()> {
    with(|group| group.operations.push(request))
}

/// Adds a communicator that the group creates; its handle is written to `place` when it exists.
///
/// # Safety
/// `place` is writable until the thread's outermost group has ended.
pub(crate) unsafe fn make(arrival: Arrival, place: *mut ncclComm_t) -> Outcome<()> {
    crate::engine::ensure_started()?;
    with(|group| group.add_making(Making { arrival, place }))?
}

/// Adds a window that the group creates; its handle is written to `place` when it exists.
///
/// # Safety
/// `place` is writable until the thread's outermost group has ended.
pub(crate) unsafe fn make_window(request: WindowRequest, place: *mut ncclWindow_t) -> Outcome<()> {
    with(|group| group.windows.push(WindowMaking { request, place }))
}

impl Group {
    fn happen(self) -> Outcome<()> {
        if let Some(failure) = self.failure {
            let mut state = lock();
            self.operations.iter().for_each(|request| state.comms.keep_failure(request.comm, &failure));
            return Err(failure);
        }
        if !self.makings.is_empty() && !self.operations.is_empty() {
            return Err(Failure::usage("calls that make communicators cannot share a group with operations"));
        }
        let nonblocking = self.is_nonblocking();
        if !self.makings.is_empty() {
            return if nonblocking { nonblocking::make_later(self.makings) } else { make_all(&self.makings) };
        }
        if !self.windows.is_empty() {
            make_windows(&self.windows)?;
        }
        if self.operations.is_empty() {
            return Ok(());
        }
        let comm = self.operations.first().map_or(0, |request| request.comm);
        let prepared = lock().prepare(self.operations);
        if nonblocking {
            return nonblocking::go_later(comm, prepared);
        }
        let connected = prepared.and_then(|prepared| connect(&prepared).map(|()| prepared));
        outcome(comm, connected.and_then(go))
    }
}

/// Enqueues operations, or turns them into nodes if their streams are being captured.
fn go(prepared: ByComm) -> Outcome<()> {
    match destination(&prepared)? {
        Destination::Graph => capture(prepared),
        Destination::Streams => {
            let enqueued = lock().enqueue(prepared)?;
            enqueued.launch()
        }
    }
}

fn make_windows(makings: &[WindowMaking]) -> Outcome<()> {
    let requests: Vec<WindowRequest> = makings.iter().map(|making| making.request).collect();
    for (making, handle) in makings.iter().zip(register_windows(&requests)?) {
        let handle = handle.map_or(std::ptr::null_mut(), std::ptr::with_exposed_provenance_mut);
        // SAFETY: the caller of `make_window` has promised a place that is writable until the group's end.
        unsafe { making.place.write(handle) };
    }
    Ok(())
}

fn make_all(makings: &[Making]) -> Outcome<()> {
    let arrivals: Vec<Arrival> = makings.iter().map(|making| making.arrival.clone()).collect();
    let answers = arrive(&arrivals)?;
    let mut outcome = Ok(());
    for (making, answer) in makings.iter().zip(answers) {
        match answer {
            // SAFETY: the caller of `make` has promised a place that is writable until the group's end.
            Ok(handle) => unsafe { making.place.write(handle.map_or(std::ptr::null_mut(), |h| h as ncclComm_t)) },
            Err(failure) => outcome = outcome.and(Err(failure)),
        }
    }
    outcome
}
