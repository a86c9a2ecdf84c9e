//! Calls on non-blocking communicators: they return at once that they are in progress, and a thread of this library continues
//! them as a blocking call would.
use super::hosts::{Answer, Ticket, wait};
use super::{State, lock};
use crate::failure::{Failure, Outcome};
use nccl_sys::{ncclComm_t, ncclResult_t};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    static HERE: Cell<bool> = const { Cell::new(false) };
}

/// True on a thread of this library that continues a call.
pub(super) fn is_here() -> bool {
    HERE.get()
}

/// The progress of the calls on a handle.
#[derive(Default)]
pub(super) struct Progress {
    /// Calls that are not over.
    running: usize,
    /// The reason the first failed call failed.
    failure: Option<Failure>,
    /// Host threads that wait for the end of all calls.
    waiting: Vec<Ticket>,
}

/// The outcomes of a call, by handle.
pub(crate) type Outcomes = Vec<(usize, Outcome<()>)>;

/// Continues a call in the background and returns that it is in progress, or the reason it cannot be. `handles` are those of live
/// communicators, or of some that are being created.
pub(crate) fn begin(handles: Vec<usize>, job: Box<dyn FnOnce() -> Outcomes + Send>) -> Outcome<()> {
    {
        let mut state = lock();
        for handle in &handles {
            state.progress.entry(*handle).or_default().running += 1;
        }
        state.background += 1;
        state.changed();
    }
    let all = handles.clone();
    let thread = std::thread::Builder::new().name("soft-nccl call".to_owned());
    let spawned = thread.spawn(move || {
        HERE.set(true);
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
            state.background += parts.len();
            state.block_host(parts.len(), String::new())
        };
        for (index, part) in parts.iter().enumerate() {
            let thread = std::thread::Builder::new().name("soft-nccl part".to_owned());
            let spawned = thread.spawn_scoped(scope, move || {
                HERE.set(true);
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
    state.answer(ticket, outcome.map(|()| None));
    state.background = state.background.saturating_sub(1);
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
        let member_error = state.members.get(&handle).and_then(|member| member.error);
        let Some(progress) = state.progress.get_mut(&handle) else { continue };
        progress.running = progress.running.saturating_sub(1);
        // Calls that met the end of another rank do not keep the communicator from being revoked or shrunk, however late they met it.
        if let Err(failure) = outcome
            && member_error != Some(failure.code)
        {
            progress.failure.get_or_insert(failure);
        }
        if progress.running == 0 {
            let waiting = std::mem::take(&mut progress.waiting);
            if progress.failure.is_none() {
                state.progress.remove(&handle);
            }
            waiting.into_iter().for_each(|ticket| state.answer(ticket, Ok(None)));
        }
    }
    state.background = state.background.saturating_sub(1);
    state.changed();
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
    if state.progress.get(&comm).is_none_or(|progress| progress.running == 0) {
        return Ok(());
    }
    let host = state.block_host(1, "a host thread waits for the end of a non-blocking call".to_owned());
    if let Some(progress) = state.progress.get_mut(&comm) {
        progress.waiting.push(Ticket { host, index: 0 });
    }
    wait(state, host).into_iter().try_for_each(|answer| answer.map(|_| ()))
}

impl State {
    /// Reserves a handle for a communicator that will be created.
    pub(crate) fn reserve(&mut self) -> usize {
        (self.number() as usize) << 6
    }

    /// Refuses a call on a communicator whose earlier calls are not over, or failed.
    pub(super) fn check_progress(&self, comm: usize) -> Outcome<()> {
        let Some(progress) = self.progress.get(&comm).filter(|_| !is_here()) else { return Ok(()) };
        match &progress.failure {
            _ if progress.running > 0 => Err(Failure::argument(
                "the communicator's last call is still in progress: ncclCommGetAsyncError has to say that it is over first",
            )),
            Some(failure) => Err(failure.clone()),
            None => Ok(()),
        }
    }

    /// Keeps the reason a call on a communicator was refused. As in NCCL, a non-blocking one reports it from then on and refuses every
    /// call but an abort; a revoked one does not keep failures.
    pub(crate) fn keep_failure(&mut self, comm: usize, failure: &Failure) {
        let keeps =
            |member: &super::Member| member.config.nonblocking && !member.revoked && member.error != Some(failure.code);
        if failure.code == ncclResult_t::InProgress || !self.members.get(&comm).is_some_and(keeps) {
            return;
        }
        let progress = self.progress.entry(comm).or_default();
        if progress.running == 0 {
            progress.failure.get_or_insert_with(|| failure.clone());
        }
    }

    /// Forgets the error that a communicator keeps: NCCL allows a revoke in spite of it.
    pub(crate) fn forget_failure(&mut self, comm: usize) {
        let may_be_revoked = self.members.get(&comm).is_some_and(|member| !member.finalized && !member.revoked);
        if may_be_revoked && self.progress.get(&comm).is_some_and(|progress| progress.running == 0) {
            self.progress.remove(&comm);
        }
    }

    /// True if calls on a handle are not over, and it was not given up in the meantime.
    pub(crate) fn is_in_progress(&self, handle: usize) -> bool {
        self.progress.get(&handle).is_some_and(|progress| progress.running > 0)
    }

    /// The answer of `ncclCommGetAsyncError` on calls that are not over, or failed.
    pub(crate) fn progress_of(&self, comm: usize) -> Option<ncclResult_t> {
        let progress = self.progress.get(&comm)?;
        if progress.running > 0 {
            return Some(ncclResult_t::InProgress);
        }
        progress.failure.as_ref().map(|failure| failure.code)
    }

    /// Checks that a handle has something that can be aborted: a communicator, or one that is being created.
    pub(crate) fn check_abort(&mut self, comm: ncclComm_t) -> Outcome<()> {
        if self.progress.contains_key(&(comm as usize)) { Ok(()) } else { self.member(comm).map(|_| ()) }
    }

    /// Checks that a communicator can be destroyed: its calls are over, and no call has failed except the one that was to create it.
    pub(crate) fn check_destroy(&mut self, comm: ncclComm_t) -> Outcome<()> {
        let failed = |progress: &Progress| progress.running == 0 && progress.failure.is_some();
        let unmade = !self.members.contains_key(&(comm as usize));
        if unmade && self.progress.get(&(comm as usize)).is_some_and(failed) {
            Ok(())
        } else {
            self.member(comm).map(|_| ())
        }
    }

    /// Gives up the calls on a handle: a communicator that is being created is no longer wanted.
    pub(super) fn forget_progress(&mut self, comm: usize) {
        let Some(progress) = self.progress.remove(&comm) else { return };
        let refusal = aborted();
        self.retract_reserved(comm, &refusal);
        progress.waiting.into_iter().for_each(|ticket| self.answer(ticket, Err(refusal.clone())));
        self.changed();
    }

    /// Gives a communicator the handle that its rank received before; the communicator of a rank that has aborted is dropped.
    pub(crate) fn adopt(&mut self, reserved: usize, answer: Answer) -> Outcome<()> {
        let made = answer?;
        let Some(made) = made else { return Ok(()) };
        if !self.progress.contains_key(&reserved) {
            self.remove_member(made);
            return Ok(());
        }
        if let Some(member) = self.members.remove(&made) {
            self.members.insert(reserved, member);
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
        lock().members.get_mut(&comm).expect("it was just made").error = Some(ncclResult_t::RemoteError);
        call_that_fails(comm, Failure::remote("a process with ranks of the communicator is gone"));
        assert!(lock().check_progress(comm).is_ok());
        mark_revoked(comm).expect("a communicator that has lost a rank can be revoked");
    }

    #[test]
    fn another_failure_of_a_call_is_kept() {
        let comm = communicator_of_one();
        lock().members.get_mut(&comm).expect("it was just made").error = Some(ncclResult_t::RemoteError);
        call_that_fails(comm, Failure::internal("out of order"));
        let kept = lock().check_progress(comm).map_err(|failure| failure.code);
        assert_eq!(kept, Err(ncclResult_t::InternalError));
    }
}
