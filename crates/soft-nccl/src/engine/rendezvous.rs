//! Meetings of ranks: with a unique id, at the process that made it; at a split, at the process of rank 0.
//!
//! That process coordinates. Where all ranks are its own it makes the communicators at once. Otherwise it sends every
//! process that has a part the table of all ranks, waits until each has made its part and its links, and then lets all
//! go; or, if one cannot, refuses all.
use super::State;
use super::hooks::{SplitRank, hooks};
use super::hosts::{Answer, Arrival, Ticket};
use super::member::Spread;
use crate::failure::{Failure, Outcome};
use crate::settings::settings;
use crate::transport::control::{Control, JoinRequest, Table};
use crate::transport::id::{Id, origin};
use crate::transport::{Address, MOST_PROCESSES, Name, endpoint, known};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Ids whose meeting failed that are remembered.
const MOST_SPOILED: usize = 256;

/// A waiting rank of this process.
pub(super) struct PendingJoin {
    ticket: Ticket,
    /// The communicator that it splits.
    comm: Option<usize>,
    /// The other process that is to answer.
    pub(super) coordinator: Option<Name>,
}

/// The ranks that have arrived with one unique id.
pub(super) struct Rendezvous {
    pub(super) n: usize,
    buffer: u64,
    pub(super) arrived: BTreeMap<usize, Joining>,
}

/// The ranks that have arrived at one split of a communicator.
pub(super) struct Split {
    pub(super) n: usize,
    pub(super) arrived: BTreeMap<usize, Joining>,
}

/// A rank that has arrived.
#[derive(Clone, Copy)]
pub(super) struct Joining {
    /// The process that has the rank; `None` is this one.
    pub(super) from: Option<Address>,
    token: u64,
    color: Option<i32>,
    key: i32,
    device: i32,
}

/// A communicator whose parts are being made.
pub(super) struct Forming {
    uid: u128,
    pub(super) processes: Vec<Option<Name>>,
    missing: BTreeSet<Option<Name>>,
}

impl Rendezvous {
    fn is_spread(&self) -> bool {
        self.arrived.values().any(|joining| joining.from.is_some())
    }

    /// Why a rank cannot join.
    fn refusal(&self, rank: usize, n: usize, buffer: u64) -> Option<Failure> {
        let size = self.n;
        if n != size {
            return Some(Failure::argument(format!(
                "rank {rank} says the communicator has {n} ranks, others with this unique id said {size}"
            )));
        }
        if self.arrived.contains_key(&rank) {
            return Some(Failure::usage(format!("two callers with this unique id say they are rank {rank}")));
        }
        (self.buffer != buffer).then(|| {
            let first = self.buffer;
            Failure::usage(format!(
                "rank {rank} has buffers of {buffer} bytes, others have {first}: NCCL_BUFFSIZE differs"
            ))
        })
    }
}

fn buffer() -> u64 {
    settings().buffer_bytes as u64
}

impl State {
    /// Whether all can arrive; changes nothing.
    pub(super) fn check(&mut self, arrivals: &[Arrival]) -> Outcome<()> {
        let mut inits: HashMap<Id, (usize, BTreeSet<usize>)> = HashMap::new();
        for arrival in arrivals {
            match arrival {
                Arrival::Init { id, rank, n, .. } => {
                    if let Some((_, failure)) = self.spoiled.iter().find(|(spoiled, _)| spoiled == id) {
                        return Err(failure.clone());
                    }
                    if let Some(refusal) = self.rendezvous.get(id).and_then(|there| there.refusal(*rank, *n, buffer()))
                    {
                        return Err(refusal);
                    }
                    let (size, ranks) = inits.entry(*id).or_insert((*n, BTreeSet::new()));
                    if *size != *n {
                        return Err(Failure::argument(format!(
                            "rank {rank} says the communicator has {n} ranks, others with this unique id said {size}"
                        )));
                    }
                    if !ranks.insert(*rank) {
                        return Err(Failure::usage(format!(
                            "two callers with this unique id say they are rank {rank}"
                        )));
                    }
                }
                Arrival::Split { comm, .. } => {
                    self.member(*comm as nccl_sys::ncclComm_t)?.accept_work()?;
                }
            }
        }
        Ok(())
    }

    /// A refused call in this process ends its meeting for all if ranks of other processes have come, which could not learn
    /// otherwise that the meeting will never be complete.
    pub(super) fn spoil_meetings(&mut self, arrivals: &[Arrival], failure: &Failure) {
        for arrival in arrivals {
            if let Arrival::Init { id, .. } = arrival
                && self.rendezvous.get(id).is_some_and(Rendezvous::is_spread)
            {
                self.spoil(*id, failure.clone());
            }
        }
        self.tidy();
    }

    /// Ends a meeting by unique id: all ranks that have come, or will come, are refused.
    fn spoil(&mut self, id: Id, failure: Failure) {
        for joining in self.rendezvous.remove(&id).map(|there| there.arrived).unwrap_or_default().into_values() {
            self.refuse(&joining, failure.clone());
        }
        self.spoiled.push_back((id, failure));
        if self.spoiled.len() > MOST_SPOILED {
            self.spoiled.pop_front();
        }
    }

    /// A rank of this process arrives.
    pub(super) fn join(&mut self, arrival: &Arrival, ticket: Ticket) {
        let token = self.number();
        match arrival {
            Arrival::Init { id, rank, n, device } => {
                let coordinator = origin(id).ok().flatten();
                self.pending_joins.insert(
                    token,
                    PendingJoin { ticket, comm: None, coordinator: coordinator.map(|there| there.name) },
                );
                match coordinator {
                    None => {
                        let joining = Joining { from: None, token, color: Some(0), key: 0, device: *device };
                        self.meet(*id, *rank, *n, buffer(), joining);
                    }
                    Some(there) => match self.connect(there) {
                        Ok(()) => {
                            let request =
                                JoinRequest::Init { id: *id, rank: *rank, n: *n, device: *device, buffer: buffer() };
                            self.tell(Some(there.name), Control::Join { token, request });
                        }
                        Err(error) => {
                            let text = format!("the process that made the unique id cannot be reached: {error}");
                            self.reply(token, Err(Failure::system(text)));
                        }
                    },
                }
            }
            Arrival::Split { comm, color, key } => {
                let Some(member) = self.members.get_mut(comm) else { return };
                let number = member.splits;
                member.splits += 1;
                let (shared, rank, n, device) = (member.shared, member.rank, member.n, member.device);
                let spread = self.shared.get(&shared).and_then(|shared| shared.spread.as_ref());
                let coordinator = spread.and_then(|spread| spread.places.first().copied().flatten());
                let uid = spread.map_or(0, |spread| spread.uid);
                let gone = spread.is_some_and(|spread| coordinator.is_some_and(|name| spread.left.contains(&name)));
                self.pending_joins.insert(token, PendingJoin { ticket, comm: Some(*comm), coordinator });
                if gone {
                    let text = "the process of rank 0, at which a split meets, has given up the communicator";
                    self.reply(token, Err(Failure::remote(text)));
                } else if coordinator.is_some() {
                    let request = JoinRequest::Split { uid, number, rank, color: *color, key: *key, device };
                    self.tell(coordinator, Control::Join { token, request });
                } else {
                    let joining = Joining { from: None, token, color: *color, key: *key, device };
                    self.meet_to_split((shared, number), rank, n, joining);
                }
            }
        }
    }

    /// A rank of another process arrives.
    pub(super) fn join_from(&mut self, from: Address, token: u64, request: JoinRequest) {
        if self.connect(from).is_err() {
            // It is gone already.
            return;
        }
        let joining = Joining { from: Some(from), token, color: Some(0), key: 0, device: 0 };
        match request {
            JoinRequest::Init { id, rank, n, device, buffer } => {
                let joining = Joining { device, ..joining };
                let spoiled =
                    self.spoiled.iter().find(|(spoiled, _)| *spoiled == id).map(|(_, failure)| failure.clone());
                if let Some(failure) = spoiled {
                    self.refuse(&joining, failure);
                } else if rank >= n || !matches!(origin(&id), Ok(None)) {
                    self.refuse(&joining, Failure::argument("the unique id was not made by the process it names"));
                } else if let Some(failure) = self.rendezvous.get(&id).and_then(|there| there.refusal(rank, n, buffer))
                {
                    self.refuse(&joining, failure.clone());
                    self.spoil(id, failure);
                } else {
                    self.meet(id, rank, n, buffer, joining);
                }
            }
            JoinRequest::Split { uid, number, rank, color, key, device } => {
                let joining = Joining { color, key, device, ..joining };
                let shared = self.uids.get(&uid).copied();
                let spread = shared.and_then(|id| self.shared.get(&id)?.spread.as_ref().map(|spread| (id, spread)));
                match spread {
                    Some((shared, spread)) if spread.places.get(rank) == Some(&Some(from.name)) => {
                        let n = spread.places.len();
                        self.meet_to_split((shared, number), rank, n, joining);
                    }
                    _ => {
                        let text = "the process of rank 0, at which a split meets, has given up the communicator";
                        self.refuse(&joining, Failure::remote(text));
                    }
                }
            }
        }
    }

    fn meet(&mut self, id: Id, rank: usize, n: usize, buffer: u64, joining: Joining) {
        let there = self.rendezvous.entry(id).or_insert_with(|| Rendezvous { n, buffer, arrived: BTreeMap::new() });
        there.arrived.insert(rank, joining);
        self.changed();
        if self.rendezvous.get(&id).is_some_and(|there| there.arrived.len() == there.n)
            && let Some(there) = self.rendezvous.remove(&id)
            && let Err(failure) = self.form(&there.arrived.into_values().collect::<Vec<_>>())
        {
            self.spoil(id, failure);
        }
    }

    fn meet_to_split(&mut self, place: (u64, u64), rank: usize, n: usize, joining: Joining) {
        let split = self.splits.entry(place).or_insert_with(|| Split { n, arrived: BTreeMap::new() });
        split.arrived.insert(rank, joining);
        let all = split.arrived.len() == split.n;
        self.changed();
        if all && let Some(split) = self.splits.remove(&place) {
            self.complete_split(split);
        }
    }

    /// One communicator per colour, its ranks in the order of their keys and, where these are equal, of their old ranks.
    fn complete_split(&mut self, mut split: Split) {
        let ranks = split.arrived.iter_mut();
        hooks().split(&mut ranks.map(|(rank, j)| SplitRank { rank: *rank, color: &mut j.color, key: &mut j.key }));
        let mut colors: BTreeMap<i32, Vec<Joining>> = BTreeMap::new();
        for joining in split.arrived.into_values() {
            match (joining.color, joining.from) {
                (Some(color), _) => colors.entry(color).or_default().push(joining),
                (None, None) => self.reply(joining.token, Ok(None)),
                (None, Some(from)) => self.tell(Some(from.name), Control::Nothing { token: joining.token }),
            }
        }
        for mut ranks in colors.into_values() {
            ranks.sort_by_key(|joining| joining.key);
            // A part of what spans few enough processes does so as well.
            let _ = self.form(&ranks);
        }
    }

    /// Begins a communicator of these ranks, in this order; if that cannot be, they are refused and the reason is given.
    fn form(&mut self, ranks: &[Joining]) -> Outcome<()> {
        if ranks.iter().all(|joining| joining.from.is_none()) {
            let devices: Vec<i32> = ranks.iter().map(|joining| joining.device).collect();
            let handles = self.create(&devices);
            for (joining, handle) in ranks.iter().zip(handles) {
                self.reply(joining.token, Ok(Some(handle)));
            }
            return Ok(());
        }
        let mut processes: Vec<Option<Address>> = Vec::new();
        let places: Vec<usize> = ranks
            .iter()
            .map(|joining| {
                processes.iter().position(|process| *process == joining.from).unwrap_or_else(|| {
                    processes.push(joining.from);
                    processes.len() - 1
                })
            })
            .collect();
        let refusal = match known() {
            _ if processes.len() > MOST_PROCESSES => Failure::usage(format!(
                "a communicator of the software library spans at most {MOST_PROCESSES} processes, not {}",
                processes.len()
            )),
            None => Failure::internal("ranks of other processes came without a socket"),
            Some(own) => {
                self.send_tables(ranks, &processes, &places, own.address);
                return Ok(());
            }
        };
        for joining in ranks {
            self.refuse(joining, refusal.clone());
        }
        Err(refusal)
    }

    fn send_tables(&mut self, ranks: &[Joining], processes: &[Option<Address>], places: &[usize], own: Address) {
        let forming = self.number();
        let uid = own.name.0.wrapping_add(u128::from(forming));
        let names: Vec<Option<Name>> = processes.iter().map(|process| process.map(|there| there.name)).collect();
        let missing = names.iter().copied().collect();
        self.formings.insert(forming, Forming { uid, processes: names.clone(), missing });
        for (at, to) in names.into_iter().enumerate() {
            let yours = ranks.iter().zip(places).enumerate().filter(|(_, (_, place))| **place == at);
            let table = Table {
                forming,
                uid,
                processes: processes.iter().map(|process| process.unwrap_or(own)).collect(),
                ranks: ranks.iter().zip(places).map(|(joining, place)| (*place, joining.device)).collect(),
                yours: yours.map(|(rank, (joining, _))| (rank, joining.token)).collect(),
            };
            self.tell(to, Control::Table(table));
        }
    }

    /// Makes this process's part of a communicator, and its links to the others.
    pub(super) fn on_table(&mut self, coordinator: Option<Name>, table: &Table) {
        let Ok(own) = endpoint().map(|endpoint| endpoint.address) else { return };
        let mut failure = None;
        let mut peers = Vec::new();
        for process in table.processes.iter().filter(|process| **process != own) {
            peers.push(process.name);
            if let Err(error) = self.connect(*process) {
                failure.get_or_insert(Failure::remote(format!("another process cannot be reached: {error}")));
            }
        }
        let place = |(process, _): &(usize, i32)| {
            table.processes.get(*process).filter(|process| **process != own).map(|process| process.name)
        };
        let places: Vec<Option<Name>> = table.ranks.iter().map(place).collect();
        let ranks: Vec<(usize, i32)> = table
            .yours
            .iter()
            .filter_map(|(rank, _)| table.ranks.get(*rank).map(|(_, device)| (*rank, *device)))
            .collect();
        let alone = peers.is_empty();
        let spread =
            Spread { uid: table.uid, places, peers, left: BTreeSet::new(), waiting: Vec::new(), failed: false };
        let devices: Vec<i32> = table.ranks.iter().map(|(_, device)| *device).collect();
        let (shared, handles) = self.create_part(&devices, &ranks, Some(spread));
        let waiting = table.yours.iter().zip(handles).map(|((_, token), handle)| (*token, handle)).collect();
        if let Some(spread) = self.shared.get_mut(&shared).and_then(|shared| shared.spread.as_mut()) {
            spread.waiting = waiting;
        }
        self.tell(coordinator, Control::Ready { forming: table.forming, failure });
        if alone {
            // Ranks of one process need no socket any more.
            self.on_go(table.uid);
            self.uids.remove(&table.uid);
            if let Some(shared) = self.shared.get_mut(&shared) {
                shared.spread = None;
            }
        }
    }

    /// A process has made its part, or has not.
    pub(super) fn on_ready(&mut self, from: Option<Name>, forming: u64, failure: Option<Failure>) {
        let Some(there) = self.formings.get_mut(&forming) else { return };
        let control = match failure {
            Some(failure) => Control::Fail { uid: there.uid, failure },
            None => {
                there.missing.remove(&from);
                if !there.missing.is_empty() {
                    return;
                }
                Control::Go { uid: there.uid }
            }
        };
        if let Some(there) = self.formings.remove(&forming) {
            for process in there.processes {
                self.tell(process, control.clone());
            }
        }
        self.sweep_due = true;
    }

    /// All parts are there: the ranks get their handles.
    pub(super) fn on_go(&mut self, uid: u128) {
        for (token, handle) in self.waiting(uid) {
            if self.pending_joins.contains_key(&token) {
                self.reply(token, Ok(Some(handle)));
            } else {
                // The rank aborted what it wanted to split.
                self.remove_member(handle);
            }
        }
    }

    /// A communicator cannot be made.
    pub(super) fn on_fail(&mut self, uid: u128, failure: &Failure) {
        if let Some(spread) = self.uids.get(&uid).and_then(|shared| self.shared.get_mut(shared)?.spread.as_mut()) {
            spread.failed = true;
        }
        for (token, handle) in self.waiting(uid) {
            self.reply(token, Err(failure.clone()));
            self.remove_member(handle);
        }
    }

    fn waiting(&mut self, uid: u128) -> Vec<(u64, usize)> {
        let shared = self.uids.get(&uid).and_then(|shared| self.shared.get_mut(shared));
        shared
            .and_then(|shared| shared.spread.as_mut())
            .map(|spread| std::mem::take(&mut spread.waiting))
            .unwrap_or_default()
    }

    /// Answers a waiting rank of this process.
    pub(super) fn reply(&mut self, token: u64, answer: Answer) {
        if let Some(pending) = self.pending_joins.remove(&token) {
            let parent = pending.comm.and_then(|comm| self.members.get(&comm)).map(|parent| parent.world_size);
            if let (Some(world_size), Ok(Some(child))) = (parent, &answer)
                && let Some(child) = self.members.get_mut(child)
            {
                child.world_size = world_size;
                child.parent = pending.comm;
            }
            self.answer(pending.ticket, answer);
            self.sweep_due = true;
        }
    }

    fn refuse(&mut self, joining: &Joining, failure: Failure) {
        match joining.from {
            None => self.reply(joining.token, Err(failure)),
            Some(from) => self.tell(Some(from.name), Control::Refuse { token: joining.token, failure }),
        }
        self.sweep_due = true;
    }

    /// Refuses the splits that threads wait for on behalf of a rank.
    pub(super) fn retract(&mut self, handle: usize, failure: &Failure) {
        let tokens: Vec<u64> = self
            .pending_joins
            .iter()
            .filter(|(_, pending)| pending.comm == Some(handle))
            .map(|(token, _)| *token)
            .collect();
        for split in self.splits.values_mut() {
            split.arrived.retain(|_, joining| joining.from.is_some() || !tokens.contains(&joining.token));
        }
        for token in tokens {
            self.reply(token, Err(failure.clone()));
        }
    }

    /// Refuses the splits of a communicator that this process coordinates and gives up.
    pub(super) fn refuse_splits(&mut self, shared: u64) {
        let places: Vec<(u64, u64)> = self.splits.keys().filter(|(of, _)| *of == shared).copied().collect();
        for split in places.iter().filter_map(|place| self.splits.remove(place)).collect::<Vec<_>>() {
            for joining in split.arrived.into_values() {
                let text = "the process of rank 0, at which a split meets, has given up the communicator";
                self.refuse(&joining, Failure::remote(text));
            }
        }
    }

    /// The threads that wait for an answer of that process about this communicator, or about any.
    pub(super) fn refuse_asks(&mut self, coordinator: Name, shared: Option<u64>, failure: &Failure) {
        let concerns = |pending: &PendingJoin| {
            let of = pending.comm.and_then(|comm| self.members.get(&comm)).map(|member| member.shared);
            pending.coordinator == Some(coordinator) && (shared.is_none() || shared == of)
        };
        let tokens: Vec<u64> =
            self.pending_joins.iter().filter(|(_, pending)| concerns(pending)).map(|(token, _)| *token).collect();
        let formed: Vec<u128> = self
            .shared
            .values()
            .filter_map(|shared| shared.spread.as_ref())
            .filter(|spread| spread.waiting.iter().any(|(token, _)| tokens.contains(token)))
            .map(|spread| spread.uid)
            .collect();
        // A split whose parts are being made goes on without its parent.
        for uid in formed.iter().filter(|_| shared.is_none()) {
            self.on_fail(*uid, failure);
        }
        let still = |state: &Self, token: &u64| {
            let mut spreads = state.shared.values().filter_map(|shared| shared.spread.as_ref());
            !spreads.any(|spread| spread.waiting.iter().any(|(waits, _)| waits == token))
        };
        for token in tokens {
            if still(self, &token) {
                self.reply(token, Err(failure.clone()));
            }
        }
    }

    /// A process is gone: what it was to take part in, or to coordinate, is refused.
    pub(super) fn forget_process(&mut self, name: Name, failure: &Failure) {
        self.refuse_asks(name, None, failure);
        let has = |there: &&Rendezvous| there.arrived.values().any(|j| j.from.is_some_and(|from| from.name == name));
        let ids: Vec<Id> = self.rendezvous.iter().filter(|(_, there)| has(there)).map(|(id, _)| *id).collect();
        for id in ids {
            self.spoil(id, failure.clone());
        }
        let formings: Vec<u64> =
            self.formings.iter().filter(|(_, f)| f.processes.contains(&Some(name))).map(|(id, _)| *id).collect();
        for forming in formings {
            self.on_ready(Some(name), forming, Some(failure.clone()));
        }
    }

    /// Processes whose answer is awaited, or to which one is owed.
    pub(super) fn correspondents(&self) -> BTreeSet<Name> {
        let mut names: BTreeSet<Name> = self.pending_joins.values().filter_map(|pending| pending.coordinator).collect();
        let arrived = self.rendezvous.values().map(|there| &there.arrived);
        let arrived = arrived.chain(self.splits.values().map(|split| &split.arrived));
        names.extend(arrived.flat_map(BTreeMap::values).filter_map(|joining| joining.from).map(|from| from.name));
        names.extend(self.formings.values().flat_map(|forming| forming.processes.iter().flatten().copied()));
        names
    }
}
