//! Calls on non-blocking communicators: they return at once that they are in progress, and a thread of this library continues
//! them as a blocking call would.
use super::counts::changed;
use super::hosts::wait;
use super::waiting::{Answer, Ticket, go_to_background};
use super::{State, lock};
use crate::failure::{Failure, Outcome};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The outcomes of a call, by handle.
pub(crate) type Outcomes = Vec<(usize, Outcome<()>)>;

/// Continues a call in the background and returns that it is in progress, or the reason it cannot be. `handles` are those of live
/// communicators, or of some that are being created.
pub(crate) fn begin(handles: Vec<usize>, job: Box<dyn FnOnce() -> Outcomes + Send>) -> Outcome<()> {
    {
        let mut state = lock();
        state.comms.begin(&handles);
        state.hosts.begin_background(1);
    }
    let all = handles.clone();
    let thread = std::thread::Builder::new().name("soft-nccl call".to_owned());
    let spawned = thread.spawn(move || {
        go_to_background();
        let broken =
            || all.iter().map(|handle| (*handle, Err(Failure::internal("a call failed: this is a bug")))).collect();
        let outcomes = catch_unwind(AssertUnwindSafe(job)).unwrap_or_else(|_| broken());
        // Streams that this thread keeps from beginning must not wait for its end: nothing else would show that they can continue.
        crate::device::host_waits();
        finish(outcomes);
    });
    match spawned {
        Ok(_) => Err(Failure::in_progress()),
        Err(error) => {
            let failure = Failure::system(format!("no thread for a call: {error}"));
            finish(handles.into_iter().map(|handle| (handle, Err(failure.clone()))).collect());
            Err(failure)
        }
    }
}

/// Runs work that a call has to wait for: on the calling thread, or for a non-blocking communicator in the background.
pub(crate) fn run(nonblocking: bool, comm: usize, call: impl FnOnce() -> Outcome<()> + Send + 'static) -> Outcome<()> {
    if nonblocking { begin(vec![comm], Box::new(move || vec![(comm, call())])) } else { call() }
}

/// Does parts of one call that wait independently of each other, on a thread each if there are several. The calling thread waits
/// for all of them, and counts as one host thread that is blocked when every part is.
pub(super) fn side_by_side<T: Sync>(parts: &[T], each: impl Fn(&T) -> Outcome<()> + Sync) -> Outcome<()> {
    if let [] | [_] = parts {
        return parts.iter().try_for_each(each);
    }
    let each = &each;
    std::thread::scope(|scope| {
        let host = {
            let mut state = lock();
            state.hosts.begin_background(parts.len());
            state.hosts.block(parts.len(), String::new())
        };
        for (index, part) in parts.iter().enumerate() {
            let thread = std::thread::Builder::new().name("soft-nccl part".to_owned());
            let spawned = thread.spawn_scoped(scope, move || {
                go_to_background();
                let broken = |_| Err(Failure::internal("a part of a call failed: this is a bug"));
                part_is_over(
                    Ticket { host, index },
                    catch_unwind(AssertUnwindSafe(|| each(part))).unwrap_or_else(broken),
                );
            });
            if let Err(error) = spawned {
                let failure = Failure::system(format!("no thread for a part of a call: {error}"));
                part_is_over(Ticket { host, index }, Err(failure));
            }
        }
        wait(lock(), host).into_iter().try_for_each(|answer| answer.map(|_| ()))
    })
}

fn part_is_over(ticket: Ticket, outcome: Outcome<()>) {
    let mut state = lock();
    state.hosts.answer(ticket, outcome.map(|()| None));
    state.hosts.end_background();
    let hook = state.hook();
    drop(state);
    if let Some(hook) = hook {
        hook();
    }
}

/// The failure of calls on a communicator that was aborted.
pub(super) fn aborted() -> Failure {
    Failure::usage("the communicator was aborted meanwhile")
}

fn finish(outcomes: Outcomes) {
    let mut state = lock();
    for (handle, outcome) in outcomes {
        for ticket in state.comms.end(handle, outcome) {
            state.hosts.answer(ticket, Ok(None));
        }
    }
    state.hosts.end_background();
    let hook = state.hook();
    drop(state);
    if let Some(hook) = hook {
        hook();
    }
}

/// Waits until the calls on a communicator are over.
pub(crate) fn wait_for(comm: usize) -> Outcome<()> {
    crate::device::host_waits();
    let mut state = lock();
    if !state.comms.is_in_progress(comm) {
        return Ok(());
    }
    let host = state.hosts.block(1, "a host thread waits for the end of a non-blocking call".to_owned());
    if let Some(progress) = state.comms.progress.get_mut(&comm) {
        progress.waiting.push(Ticket { host, index: 0 });
    }
    wait(state, host).into_iter().try_for_each(|answer| answer.map(|_| ()))
}

impl State {
    /// Gives up the calls on a handle: a communicator that is being created is no longer wanted.
    pub(super) fn forget_progress(&mut self, comm: usize) {
        let Some(progress) = self.comms.progress.remove(&comm) else { return };
        let refusal = aborted();
        self.retract_reserved(comm, &refusal);
        progress.waiting.into_iter().for_each(|ticket| self.hosts.answer(ticket, Err(refusal.clone())));
        changed();
    }

    /// Gives a communicator the handle that its rank received before; the communicator of a rank that has aborted is dropped.
    pub(crate) fn adopt(&mut self, reserved: usize, answer: Answer) -> Outcome<()> {
        let made = answer?;
        let Some(made) = made else { return Ok(()) };
        if !self.comms.progress.contains_key(&reserved) {
            self.remove_member(made);
            return Ok(());
        }
        if let Some(member) = self.comms.members.remove(&made) {
            self.comms.members.insert(reserved, member);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Arrival, arrive, mark_revoked};
    use crate::settings::CommConfig;
    use crate::transport::id;
    use nccl_sys::{ncclComm_t, ncclResult_t};

    fn communicator_of_one() -> usize {
        let id = id::public();
        let config = CommConfig { nonblocking: true, ..CommConfig::unset() };
        let arrival = Arrival::Init { id, rank: 0, n: 1, device: 0, config, reserved: None };
        let answers = arrive(&[arrival]).expect("a communicator of one rank waits for no other rank");
        answers.into_iter().next().expect("an answer for each arrival").expect("a communicator").expect("a handle")
    }

    fn call_that_fails(comm: usize, failure: Failure) {
        let begun = begin(vec![comm], Box::new(move || vec![(comm, Err(failure))]));
        assert_eq!(begun.map_err(|failure| failure.code), Err(ncclResult_t::InProgress));
        wait_for(comm).expect("nothing keeps the call from its end");
    }

    #[test]
    fn a_call_that_met_a_dead_rank_lets_its_communicator_be_revoked_and_shrunk() {
        let comm = communicator_of_one();
        lock().comms.members.get_mut(&comm).expect("it was just made").error = Some(ncclResult_t::RemoteError);
        call_that_fails(comm, Failure::remote("a process with ranks of the communicator is gone"));
        assert!(lock().comms.member(comm as ncclComm_t).is_ok());
        mark_revoked(comm).expect("a communicator that has lost a rank can be revoked");
    }

    #[test]
    fn another_failure_of_a_call_is_kept() {
        let comm = communicator_of_one();
        lock().comms.members.get_mut(&comm).expect("it was just made").error = Some(ncclResult_t::RemoteError);
        call_that_fails(comm, Failure::internal("out of order"));
        let kept = lock().comms.member(comm as ncclComm_t).map(drop).map_err(|failure| failure.code);
        assert_eq!(kept, Err(ncclResult_t::InternalError));
    }
}
