//! Host threads that wait for each other: making and splitting communicators, and flushing them.
use super::{Locked, SHARED, World, lock};
use crate::failure::{Failure, Outcome};
use std::collections::BTreeMap;
use std::sync::{Arc, Condvar};

/// What a waiting thread gets: a new communicator, none (no colour, or a mere flush), or a refusal.
pub(crate) type Answer = Outcome<Option<usize>>;

/// A host thread that waits for several answers at once (a group of calls).
pub(super) struct Block {
    answers: Vec<Option<Answer>>,
    missing: usize,
    condvar: Arc<Condvar>,
    /// What it waits for, for people.
    pub(super) text: String,
}

/// The right to an answer: a waiting thread and a place in its list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticket {
    block: u64,
    place: usize,
}

/// A rank that arrives at a rendezvous of all ranks.
#[derive(Clone, Debug)]
pub(crate) enum Arrival {
    /// `ncclCommInitRank` and its kin.
    Init { id: [u8; 128], rank: usize, n: usize, device: i32 },
    /// `ncclCommSplit`; no colour, no communicator.
    Split { comm: usize, color: Option<i32>, key: i32 },
}

/// The ranks that have arrived with one unique id.
pub(super) struct Rendezvous {
    pub(super) n: usize,
    pub(super) arrived: BTreeMap<usize, (i32, Ticket)>,
}

/// The ranks that have arrived at one split of a communicator.
pub(super) struct Split {
    pub(super) n: usize,
    pub(super) arrived: BTreeMap<usize, Joining>,
}

pub(super) struct Joining {
    color: Option<i32>,
    key: i32,
    device: i32,
    comm: usize,
    ticket: Ticket,
}

/// Arrives with all of them at once, or with none if one is refused, and waits for every answer.
pub(crate) fn arrive(arrivals: &[Arrival]) -> Outcome<Vec<Answer>> {
    let mut world = lock();
    world.check(arrivals)?;
    let text = arrivals.iter().map(|arrival| world.text(arrival)).collect::<Vec<_>>().join("; ");
    let block = world.block(arrivals.len(), text);
    for (place, arrival) in arrivals.iter().enumerate() {
        world.join(arrival, Ticket { block, place });
    }
    Ok(wait(world, block))
}

/// Waits until the communicator's operations have finished.
pub(crate) fn flush(comm: usize, what: &str) -> Outcome<()> {
    let mut world = lock();
    let Some(member) = world.members.get(&comm) else { return Ok(()) };
    if member.unfinished == 0 {
        return Ok(());
    }
    let text = format!("rank {} in {what} of communicator {} waits for its own operations", member.rank, member.core);
    let block = world.block(1, text);
    if let Some(member) = world.members.get_mut(&comm) {
        member.flushes.push((block, 0));
    }
    wait(world, block).into_iter().try_for_each(|answer| answer.map(|_| ()))
}

fn wait(mut world: Locked, block: u64) -> Vec<Answer> {
    let still = |world: &World| world.blocks.get(&block).filter(|b| b.missing > 0).map(|b| Arc::clone(&b.condvar));
    if still(&world).is_some()
        && let Some(hook) = world.hook()
    {
        drop(world);
        hook();
        world = lock();
    }
    while let Some(condvar) = still(&world) {
        world = world.wait(&condvar);
    }
    world.changed();
    let answers = world.blocks.remove(&block).map(|block| block.answers).unwrap_or_default();
    answers.into_iter().map(|answer| answer.unwrap_or_else(|| Err(Failure::internal("an answer got lost")))).collect()
}

impl World {
    fn text(&self, arrival: &Arrival) -> String {
        match arrival {
            Arrival::Init { rank, n, .. } => {
                format!("rank {rank} waits for the other ranks to make a communicator of {n}")
            }
            Arrival::Split { comm, .. } => match self.members.get(comm) {
                Some(member) => {
                    format!(
                        "rank {} of communicator {} waits for the other ranks to split it",
                        member.rank, member.core
                    )
                }
                None => "a rank waits for the other ranks to split a communicator".to_owned(),
            },
        }
    }

    fn block(&mut self, answers: usize, text: String) -> u64 {
        let id = self.number();
        let condvar = Arc::new(Condvar::new());
        self.blocks.insert(id, Block { answers: vec![None; answers], missing: answers, condvar, text });
        self.blocked_hosts += usize::from(answers > 0);
        self.changed();
        id
    }

    /// Gives a waiting thread one of its answers; with the last one it no longer counts as blocked.
    pub(super) fn answer(&mut self, (block, place): (u64, usize), answer: Answer) {
        let Some(block) = self.blocks.get_mut(&block) else { return };
        let Some(slot) = block.answers.get_mut(place) else { return };
        if slot.replace(answer).is_none() {
            block.missing = block.missing.saturating_sub(1);
            if block.missing == 0 {
                block.condvar.notify_all();
                self.blocked_hosts = self.blocked_hosts.saturating_sub(1);
            }
        }
        self.changed();
    }

    /// Whether all can arrive; changes nothing.
    fn check(&mut self, arrivals: &[Arrival]) -> Outcome<()> {
        let mut inits: BTreeMap<[u8; 128], (usize, Vec<usize>)> = BTreeMap::new();
        for arrival in arrivals {
            match arrival {
                Arrival::Init { id, rank, n, .. } => {
                    let known = self.rendezvous.get(id).map(|there| (there.n, there.arrived.keys().copied().collect()));
                    let (size, ranks) = inits.entry(*id).or_insert_with(|| known.unwrap_or((*n, Vec::new())));
                    if *size != *n {
                        return Err(Failure::argument(format!(
                            "rank {rank} says the communicator has {n} ranks, others with this unique id said {size}"
                        )));
                    }
                    if ranks.contains(rank) {
                        return Err(Failure::usage(format!(
                            "two callers with this unique id say they are rank {rank}"
                        )));
                    }
                    ranks.push(*rank);
                }
                Arrival::Split { comm, .. } => {
                    self.member(*comm as nccl_sys::ncclComm_t)?.accept_work()?;
                }
            }
        }
        Ok(())
    }

    fn join(&mut self, arrival: &Arrival, ticket: Ticket) {
        match arrival {
            Arrival::Init { id, rank, n, device } => {
                let there =
                    self.rendezvous.entry(*id).or_insert_with(|| Rendezvous { n: *n, arrived: BTreeMap::new() });
                there.arrived.insert(*rank, (*device, ticket));
                if there.arrived.len() == there.n
                    && let Some(there) = self.rendezvous.remove(id)
                {
                    self.complete_init(there);
                }
            }
            Arrival::Split { comm, color, key } => {
                let Some(member) = self.members.get_mut(comm) else { return };
                let place = (member.core, member.splits);
                member.splits += 1;
                let (rank, n, device) = (member.rank, member.n, member.device);
                let joining = Joining { color: *color, key: *key, device, comm: *comm, ticket };
                let split = self.splits.entry(place).or_insert_with(|| Split { n, arrived: BTreeMap::new() });
                split.arrived.insert(rank, joining);
                if split.arrived.len() == split.n
                    && let Some(split) = self.splits.remove(&place)
                {
                    self.complete_split(split);
                }
            }
        }
    }

    fn complete_init(&mut self, there: Rendezvous) {
        let devices: Vec<i32> = there.arrived.values().map(|(device, _)| *device).collect();
        let handles = self.create(&devices);
        for ((_, ticket), handle) in there.arrived.into_values().zip(handles) {
            self.answer((ticket.block, ticket.place), Ok(Some(handle)));
        }
    }

    /// One communicator per colour, its ranks in the order of their keys and, where these are equal, of their old ranks.
    fn complete_split(&mut self, split: Split) {
        let mut colors: BTreeMap<i32, Vec<(i32, usize, i32, Ticket)>> = BTreeMap::new();
        for (rank, joining) in split.arrived {
            match joining.color {
                Some(color) => {
                    colors.entry(color).or_default().push((joining.key, rank, joining.device, joining.ticket));
                }
                None => self.answer((joining.ticket.block, joining.ticket.place), Ok(None)),
            }
        }
        for mut ranks in colors.into_values() {
            ranks.sort_by_key(|(key, rank, ..)| (*key, *rank));
            let devices: Vec<i32> = ranks.iter().map(|(_, _, device, _)| *device).collect();
            let handles = self.create(&devices);
            for ((.., ticket), handle) in ranks.into_iter().zip(handles) {
                self.answer((ticket.block, ticket.place), Ok(Some(handle)));
            }
        }
    }

    /// Sends away the host threads that wait on behalf of a rank that aborts.
    fn dismiss_hosts(&mut self, handle: usize) {
        let refusal = || Err(Failure::usage("the communicator was aborted meanwhile"));
        let flushes =
            self.members.get_mut(&handle).map(|member| std::mem::take(&mut member.flushes)).unwrap_or_default();
        for place in flushes {
            self.answer(place, refusal());
        }
        let mut tickets = Vec::new();
        for split in self.splits.values_mut() {
            split.arrived.retain(|_, joining| {
                let leaves = joining.comm == handle;
                if leaves {
                    tickets.push(joining.ticket);
                }
                !leaves
            });
        }
        for ticket in tickets {
            self.answer((ticket.block, ticket.place), refusal());
        }
    }
}

/// Flushes and forgets a rank's communicator.
pub(crate) fn destroy(comm: usize) -> Outcome<()> {
    flush(comm, "destroy")?;
    lock().remove_member(comm);
    Ok(())
}

/// Forgets a rank's communicator and drops what it does: its stream items end, so that streams go on; its host threads
/// return; its peers stay where they are.
pub(crate) fn abort(comm: usize) {
    let mut world = lock();
    world.dismiss_hosts(comm);
    let mut dones = world.drop_batches(comm);
    // Memory may be freed as soon as this returns, so a step that runs must be over; its task is dropped then.
    world.aborting += 1;
    while world.running == Some(comm) {
        world = world.wait(&SHARED.step_over);
    }
    world.aborting -= 1;
    dones.extend(world.drop_batches(comm));
    world.remove_member(comm);
    drop(world);
    for done in dones {
        done.finish();
    }
    crate::device::wake_hosts();
}
