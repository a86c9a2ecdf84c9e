//! Host threads that wait for each other: making and splitting communicators, and flushing them.
use super::background;
use super::waiting::{Answer, Ticket};
use super::{ENGINE, Locked, State, lock};
use crate::device::Done;
use crate::failure::{Failure, Outcome};
use crate::settings::CommConfig;
use std::time::{Duration, Instant};

/// The time that destroy waits for a peer that does not read.
const PATIENCE: Duration = Duration::from_secs(2);

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
    let host = state.hosts.block(arrivals.len(), text);
    for (index, arrival) in arrivals.iter().enumerate() {
        let ticket = Ticket { host, index };
        if state.is_given_up(arrival) {
            state.hosts.answer(ticket, Err(background::aborted()));
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
    let Some(member) = state.comms.members.get(&comm) else { return Ok(()) };
    if member.unfinished == 0 {
        return Ok(());
    }
    let name = state.comms.text(member.shared);
    let text = format!("rank {} in {what} of {name} waits for its own operations", member.rank);
    let host = state.hosts.block(1, text);
    if let Some(member) = state.comms.members.get_mut(&comm) {
        member.flushes.push(Ticket { host, index: 0 });
    }
    wait(state, host).into_iter().try_for_each(|answer| answer.map(|_| ()))
}

/// Waits for all answers of a blocked host thread.
pub(super) fn wait(mut state: Locked, host: u64) -> Vec<Answer> {
    if state.hosts.still(host).is_some()
        && let Some(hook) = state.hook()
    {
        drop(state);
        hook();
        state = lock();
    }
    while let Some(condvar) = state.hosts.still(host) {
        state = state.wait(&condvar);
    }
    state.hosts.release(host)
}

impl State {
    /// True if the communicator was aborted before its rank joined.
    fn is_given_up(&self, arrival: &Arrival) -> bool {
        arrival.reserved().is_some_and(|handle| !self.comms.progress.contains_key(&handle))
    }

    fn describe(&self, arrival: &Arrival) -> String {
        match arrival {
            Arrival::Init { rank, n, .. } => {
                format!("rank {rank} waits for the other ranks to make a communicator of {n}")
            }
            Arrival::Split { comm, .. } => match self.comms.members.get(comm) {
                Some(member) => {
                    let comm = self.comms.text(member.shared);
                    format!("rank {} of {comm} waits for the other ranks to split it", member.rank)
                }
                None => "a rank waits for the other ranks to split a communicator".to_owned(),
            },
            Arrival::Grow { n, .. } => format!("a rank waits for the other ranks to grow a communicator to {n}"),
            Arrival::Shrink { comm, without, .. } => {
                let of = self.comms.members.get(comm).map(|member| (member.rank, self.comms.text(member.shared)));
                let (rank, comm) = of.unwrap_or((0, "a communicator".to_owned()));
                format!("rank {rank} of {comm} waits for the other ranks that remain to shrink it without {without:?}")
            }
        }
    }

    /// Refuses the calls of host threads that wait on behalf of a rank that aborts.
    fn dismiss_hosts(&mut self, handle: usize) {
        let refusal = background::aborted();
        self.refuse_flushes(handle, &refusal);
        self.retract(handle, &refusal, None);
    }

    /// Answers the host threads that wait for the end of a rank's operations, or for a connection of it.
    pub(super) fn refuse_flushes(&mut self, handle: usize, failure: &Failure) {
        for ticket in self.comms.take_tickets(handle) {
            self.hosts.answer(ticket, Err(failure.clone()));
        }
    }
}

/// The outcome of an operation on a communicator that is returned to its caller.
pub(crate) fn outcome(comm: usize, outcome: Outcome<()>) -> Outcome<()> {
    outcome.inspect_err(|failure| lock().comms.keep_failure(comm, failure))
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
    while state.links.has_closing_output() && Instant::now() < limit {
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
    let drop_all = |state: &mut State| -> Vec<Done> {
        comms.iter().flat_map(|comm| state.work.drop_batches(&mut state.channels, *comm)).collect()
    };
    let mut dones = drop_all(&mut state);
    // Memory may be freed as soon as a stream continues, so a step that runs must be over; its task is dropped then.
    state.work.aborting += 1;
    while state.work.running.iter().any(|running| comms.contains(running)) {
        state = state.wait(&ENGINE.step_over);
    }
    state.work.aborting -= 1;
    state.work.ends = state.work.ends.wrapping_add(1);
    dones.extend(drop_all(&mut state));
    (state, dones)
}
