//! Groups of non-blocking communicators: the call that ends one returns at once, and a thread continues it.
#![allow(unsafe_code)] // communicators' handles are written where the caller wants them

use super::{Group, Making, go};
use crate::engine::{
    Arrival, ByComm, Destination, Outcomes, arrive, begin, connect, destination, lock, outcome, reserve,
};
use crate::failure::{Failure, Outcome};
use nccl_sys::ncclComm_t;

impl Group {
    /// True if the group's end does not wait: for operations the last one's communicator decides.
    pub(super) fn is_nonblocking(&self) -> bool {
        match (self.operations.last(), self.makings.first()) {
            (Some(last), _) => lock().comms.members.get(&last.comm).is_some_and(|member| member.config.nonblocking),
            (None, Some(first)) => makes_nonblocking(&first.arrival),
            (None, None) => false,
        }
    }

    /// Adds a communicator that the group creates.
    ///
    /// # Errors
    /// It is non-blocking and the first one is not, or the other way round: as in NCCL, the call itself is refused.
    pub(super) fn add_making(&mut self, making: Making) -> Outcome<()> {
        let own = makes_nonblocking(&making.arrival);
        if self.makings.first().is_some_and(|first| makes_nonblocking(&first.arrival) != own) {
            return Err(Failure::argument("blocking and non-blocking communicators cannot share a group"));
        }
        self.makings.push(making);
        Ok(())
    }
}

fn makes_nonblocking(arrival: &Arrival) -> bool {
    let parent =
        arrival.parent().and_then(|comm| lock().comms.members.get(&comm).map(|parent| parent.config.nonblocking));
    parent.unwrap_or_else(|| arrival.config().nonblocking)
}

/// Enqueues operations in the background. Captured operations must be enqueued while their streams are capturing, and do not wait for
/// other ranks.
pub(super) fn go_later(comm: usize, prepared: Outcome<ByComm>) -> Outcome<()> {
    let prepared = match prepared {
        Ok(prepared) => prepared,
        Err(failure) => return outcome(comm, Err(failure)),
    };
    if matches!(destination(&prepared)?, Destination::Graph) {
        return outcome(comm, go(prepared));
    }
    let comms: Vec<usize> = prepared.iter().map(|(comm, _)| *comm).collect();
    let all = comms.clone();
    let job = move || -> Outcomes {
        let gone = connect(&prepared).and_then(|()| go(prepared));
        all.into_iter().map(|comm| (comm, gone.clone())).collect()
    };
    begin(comms, Box::new(job))
}

/// Creates communicators in the background. One that is not derived from another has its handle at once.
pub(super) fn make_later(makings: Vec<Making>) -> Outcome<()> {
    let mut handles = Vec::with_capacity(makings.len());
    let mut later = Vec::with_capacity(makings.len());
    for Making { mut arrival, place } in makings {
        let handle = match arrival.parent() {
            Some(parent) => parent,
            None => {
                let reserved = reserve();
                arrival.reserve(reserved);
                // SAFETY: the caller of `make` has promised a place that is writable until the group's end.
                unsafe { place.write(reserved as ncclComm_t) };
                reserved
            }
        };
        handles.push(handle);
        later.push((arrival, Place(place), handle));
    }
    begin(handles, Box::new(move || make(later)))
}

/// The place of a handle that a thread of this library writes.
struct Place(*mut ncclComm_t);

// SAFETY: the caller of a non-blocking call keeps the place until `ncclCommGetAsyncError` says that the call is over or the
// communicator was aborted, and does not look at it before.
unsafe impl Send for Place {}

fn make(makings: Vec<(Arrival, Place, usize)>) -> Outcomes {
    let arrivals: Vec<Arrival> = makings.iter().map(|(arrival, ..)| arrival.clone()).collect();
    let answers = match arrive(&arrivals) {
        Ok(answers) => answers,
        Err(failure) => return makings.into_iter().map(|(.., handle)| (handle, Err(failure.clone()))).collect(),
    };
    let mut outcomes = Outcomes::with_capacity(makings.len());
    for ((arrival, Place(place), handle), answer) in makings.into_iter().zip(answers) {
        let outcome = if arrival.parent().is_some() {
            answer.map(|made| {
                let mut state = lock();
                if state.comms.is_in_progress(handle) {
                    // SAFETY: a non-blocking call's caller keeps the place until the call is over, or until it aborts the parent,
                    // which takes the parent's entry away while it holds the lock.
                    unsafe { place.write(made.map_or(std::ptr::null_mut(), |made| made as ncclComm_t)) }
                } else if let Some(made) = made {
                    state.remove_member(made);
                }
            })
        } else {
            lock().adopt(handle, answer)
        };
        outcomes.push((handle, outcome));
    }
    outcomes
}
