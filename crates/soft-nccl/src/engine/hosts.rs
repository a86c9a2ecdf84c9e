//! Host threads that wait for each other: making and splitting communicators, and flushing them.
use super::background;
use super::{ENGINE, Locked, State, lock};
use crate::device::Done;
use crate::failure::{Failure, Outcome};
use crate::settings::CommConfig;
use std::sync::{Arc, Condvar};
use std::time::{Duration, Instant};

/// The time that destroy waits for a peer that does not read.
const PATIENCE: Duration = Duration::from_secs(2);

/// The answer to a waiting thread: a new communicator, none (no colour, or a mere flush), or a refusal.
pub(crate) type Answer = Outcome<Option<usize>>;

/// A host thread that waits for several answers at once (a group of calls).
pub(super) struct BlockedHost {
    answers: Vec<Option<Answer>>,
    missing: usize,
    condvar: Arc<Condvar>,
    /// The thing that it waits for, for messages.
    pub(super) text: String,
    /// True if this library started the thread; no call of the user waits for it.
    background: bool,
}

/// The place of an answer: a waiting thread and the answer's index in its list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticket {
    pub(super) host: u64,
    pub(super) index: usize,
}

/// A rank that arrives at a rendezvous of all ranks. `reserved` is the handle that a non-blocking call has given already.
#[derive(Clone, Debug)]
pub(crate) enum Arrival {
    /// `ncclCommInitRank` and its kin.
    Init { id: [u8; 128], rank: usize, n: usize, device: i32, config: CommConfig, reserved: Option<usize> },
    /// `ncclCommSplit`; no colour, no communicator.
    Split { comm: usize, color: Option<i32>, key: i32, config: CommConfig },
    /// `ncclCommShrink`: the ranks that it leaves out, in rising order.
    Shrink { comm: usize, without: Vec<usize>, config: CommConfig },
    /// `ncclCommGrow`: of an old rank, or of one that joins with an id.
    Grow {
        comm: Option<usize>,
        id: [u8; 128],
        rank: usize,
        n: usize,
        device: i32,
        config: CommConfig,
        reserved: Option<usize>,
    },
}

impl Arrival {
    /// The live communicator that it starts from.
    pub(crate) fn parent(&self) -> Option<usize> {
        match self {
            Self::Init { .. } => None,
            Self::Split { comm, .. } | Self::Shrink { comm, .. } => Some(*comm),
            Self::Grow { comm, .. } => *comm,
        }
    }

    /// The configuration of the new communicator.
    pub(crate) fn config(&self) -> CommConfig {
        let (Self::Init { config, .. }
        | Self::Split { config, .. }
        | Self::Shrink { config, .. }
        | Self::Grow { config, .. }) = self;
        *config
    }

    /// The handle that the rank has been given before.
    pub(super) fn reserved(&self) -> Option<usize> {
        match self {
            Self::Init { reserved, .. } | Self::Grow { reserved, .. } => *reserved,
            Self::Split { .. } | Self::Shrink { .. } => None,
        }
    }

    /// Notes the handle that the rank has been given.
    pub(crate) fn reserve(&mut self, handle: usize) {
        if let Self::Init { reserved, .. } | Self::Grow { reserved, .. } = self {
            *reserved = Some(handle);
        }
    }
}

/// Arrives with all of them at once, or with none if one is refused, and waits for every answer.
pub(crate) fn arrive(arrivals: &[Arrival]) -> Outcome<Vec<Answer>> {
    crate::device::host_waits();
    let mut state = lock();
    if let Err(failure) = state.check(arrivals) {
        state.spoil_meetings(arrivals, &failure);
        return Err(failure);
    }
    let text = arrivals.iter().map(|arrival| state.describe(arrival)).collect::<Vec<_>>().join("; ");
    let host = state.block_host(arrivals.len(), text);
    for (index, arrival) in arrivals.iter().enumerate() {
        let ticket = Ticket { host, index };
        if state.is_given_up(arrival) {
            state.answer(ticket, Err(background::aborted()));
        } else {
            state.join(arrival, ticket);
        }
    }
    state.tidy();
    Ok(wait(state, host))
}

/// Waits until the communicator's operations have finished.
fn flush(comm: usize, what: &str) -> Outcome<()> {
    crate::device::host_waits();
    let mut state = lock();
    let Some(member) = state.members.get(&comm) else { return Ok(()) };
    if member.unfinished == 0 {
        return Ok(());
    }
    let name = state.comm_text(member.shared);
    let text = format!("rank {} in {what} of {name} waits for its own operations", member.rank);
    let host = state.block_host(1, text);
    if let Some(member) = state.members.get_mut(&comm) {
        member.flushes.push(Ticket { host, index: 0 });
    }
    wait(state, host).into_iter().try_for_each(|answer| answer.map(|_| ()))
}

/// Waits for all answers of a blocked host thread.
pub(super) fn wait(mut state: Locked, host: u64) -> Vec<Answer> {
    let still = |state: &State| {
        let blocked = state.waiting_hosts.get(&host).filter(|blocked| blocked.missing > 0);
        blocked.map(|blocked| Arc::clone(&blocked.condvar))
    };
    if still(&state).is_some()
        && let Some(hook) = state.hook()
    {
        drop(state);
        hook();
        state = lock();
    }
    while let Some(condvar) = still(&state) {
        state = state.wait(&condvar);
    }
    state.changed();
    let answers = state.waiting_hosts.remove(&host).map(|blocked| blocked.answers).unwrap_or_default();
    answers.into_iter().map(|answer| answer.unwrap_or_else(|| Err(Failure::internal("an answer got lost")))).collect()
}

impl State {
    /// True if the communicator was aborted before its rank joined.
    fn is_given_up(&self, arrival: &Arrival) -> bool {
        arrival.reserved().is_some_and(|handle| !self.progress.contains_key(&handle))
    }

    fn describe(&self, arrival: &Arrival) -> String {
        match arrival {
            Arrival::Init { rank, n, .. } => {
                format!("rank {rank} waits for the other ranks to make a communicator of {n}")
            }
            Arrival::Split { comm, .. } => match self.members.get(comm) {
                Some(member) => {
                    let comm = self.comm_text(member.shared);
                    format!("rank {} of {comm} waits for the other ranks to split it", member.rank)
                }
                None => "a rank waits for the other ranks to split a communicator".to_owned(),
            },
            Arrival::Grow { n, .. } => format!("a rank waits for the other ranks to grow a communicator to {n}"),
            Arrival::Shrink { comm, without, .. } => {
                let of = self.members.get(comm).map(|member| (member.rank, self.comm_text(member.shared)));
                let (rank, comm) = of.unwrap_or((0, "a communicator".to_owned()));
                format!("rank {rank} of {comm} waits for the other ranks that remain to shrink it without {without:?}")
            }
        }
    }

    /// A waiting thread, whose answers are given by [`State::answer`].
    pub(super) fn block_host(&mut self, answers: usize, text: String) -> u64 {
        let id = self.number();
        let condvar = Arc::new(Condvar::new());
        let background = background::is_here();
        self.waiting_hosts
            .insert(id, BlockedHost { answers: vec![None; answers], missing: answers, condvar, text, background });
        if answers > 0 {
            if background { self.background -= 1 } else { self.blocked_hosts += 1 }
        }
        self.changed();
        id
    }

    /// Gives a waiting thread one of its answers; with the last one, it no longer counts as blocked.
    pub(super) fn answer(&mut self, Ticket { host, index }: Ticket, answer: Answer) {
        let Some(blocked) = self.waiting_hosts.get_mut(&host) else { return };
        let Some(slot) = blocked.answers.get_mut(index) else { return };
        if slot.replace(answer).is_none() {
            blocked.missing = blocked.missing.saturating_sub(1);
            if blocked.missing == 0 {
                blocked.condvar.notify_all();
                if blocked.background {
                    self.background += 1;
                } else {
                    self.blocked_hosts = self.blocked_hosts.saturating_sub(1);
                }
            }
        }
        self.changed();
    }

    /// Refuses the calls of host threads that wait on behalf of a rank that aborts.
    fn dismiss_hosts(&mut self, handle: usize) {
        let refusal = background::aborted();
        self.refuse_flushes(handle, &refusal);
        self.retract(handle, &refusal, None);
    }

    /// Answers the host threads that wait for the end of a rank's operations, or for a connection of it.
    pub(super) fn refuse_flushes(&mut self, handle: usize, failure: &Failure) {
        let Some(member) = self.members.get_mut(&handle) else { return };
        let mut tickets = std::mem::take(&mut member.flushes);
        tickets.append(&mut member.graphs.waits);
        tickets.extend(std::mem::take(&mut member.connects).into_iter().map(|(ticket, _)| ticket));
        for ticket in tickets {
            self.answer(ticket, Err(failure.clone()));
        }
    }
}

/// The outcome of an operation on a communicator that is returned to its caller.
pub(crate) fn outcome(comm: usize, outcome: Outcome<()>) -> Outcome<()> {
    outcome.inspect_err(|failure| lock().keep_failure(comm, failure))
}

/// Waits for a rank's operations, and until the graphs that have captured the communicator are gone.
pub(crate) fn finalize(comm: usize) -> Outcome<()> {
    flush(comm, "finalize")?;
    super::capture::outlive_graphs(comm, "finalize")
}

/// Flushes and forgets a rank's communicator.
pub(crate) fn destroy(comm: usize) -> Outcome<()> {
    flush(comm, "destroy")?;
    super::capture::outlive_graphs(comm, "destroy")?;
    let mut state = lock();
    state.forget_progress(comm);
    state.remove_member(comm);
    state.tidy();
    // The process may end next, and unwritten frames would be lost. Peers always read, unless they are stopped.
    let limit = Instant::now() + PATIENCE;
    while state.has_closing_output() && Instant::now() < limit {
        state = state.wait_a_while(&ENGINE.written, PATIENCE);
    }
    Ok(())
}

/// Forgets a rank's communicator and drops its work: its stream items end, so that streams continue; its host threads
/// return; its peers stay where they are.
pub(crate) fn abort(comm: usize) {
    let mut state = lock();
    state.forget_progress(comm);
    state.dismiss_hosts(comm);
    let (mut state, dones) = stop(state, &[comm]);
    state.remove_member(comm);
    state.tidy();
    drop(state);
    for done in dones {
        done.finish();
    }
    crate::device::wake_hosts();
}

/// Drops the work of ranks. When this returns, no step of theirs touches memory any more.
pub(super) fn stop(mut state: Locked, comms: &[usize]) -> (Locked, Vec<Done>) {
    let mut dones = Vec::new();
    for comm in comms {
        dones.extend(state.drop_batches(*comm));
    }
    // Memory may be freed as soon as a stream continues, so a step that runs must be over; its task is dropped then.
    state.aborting += 1;
    while state.running.iter().any(|running| comms.contains(running)) {
        state = state.wait(&ENGINE.step_over);
    }
    state.aborting -= 1;
    state.ends = state.ends.wrapping_add(1);
    for comm in comms {
        dones.extend(state.drop_batches(*comm));
    }
    (state, dones)
}
