//! Meetings of ranks: with a unique id, at the process that created it; at a split, at the process of rank 0. When all have arrived
//! their communicators are formed (see `forming`).
use super::State;
use super::changing::{Meeting, Place};
use super::growing::NewRank;
use super::hosts::{Answer, Arrival, Ticket};
use crate::failure::{Failure, Outcome};
use crate::settings::{CommConfig, settings};
use crate::transport::control::{Control, JoinRequest};
use crate::transport::id::origin;
use crate::transport::{Address, Id, Name};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Ids whose meeting failed that are remembered.
const MOST_SPOILED: usize = 256;

/// A waiting rank of this process.
pub(super) struct PendingJoin {
    pub(super) ticket: Ticket,
    /// The communicator that it splits or shrinks.
    pub(super) comm: Option<usize>,
    /// The purpose for which its ranks meet.
    pub(super) meeting: Option<Meeting>,
    /// The settings in its configuration.
    pub(super) config: CommConfig,
    /// The handle that the rank has been given already.
    pub(super) reserved: Option<usize>,
    /// The other process that has to answer.
    pub(super) coordinator: Option<Name>,
}

/// The ranks that have arrived with one unique id.
pub(super) struct Rendezvous {
    pub(super) n: usize,
    /// NCCL_BUFFSIZE.
    buffer_bytes: usize,
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
    pub(super) token: u64,
    pub(super) color: Option<i32>,
    pub(super) key: i32,
    pub(super) device: i32,
}

impl Rendezvous {
    fn is_spread(&self) -> bool {
        self.arrived.values().any(|joining| joining.from.is_some())
    }

    /// The reason a rank cannot join.
    fn refusal(&self, rank: usize, n: usize, buffer_bytes: usize) -> Option<Failure> {
        let size = self.n;
        if n != size {
            return Some(Failure::argument(format!(
                "rank {rank} says the communicator has {n} ranks, others with this unique id said {size}"
            )));
        }
        if self.arrived.contains_key(&rank) {
            return Some(Failure::usage(format!("two callers with this unique id say they are rank {rank}")));
        }
        let first = self.buffer_bytes;
        (buffer_bytes != first).then(|| {
            Failure::usage(format!(
                "rank {rank} has buffers of {buffer_bytes} bytes, others have {first}: NCCL_BUFFSIZE differs"
            ))
        })
    }
}

impl State {
    /// Checks that all can arrive; does not change anything.
    pub(super) fn check(&mut self, arrivals: &[Arrival]) -> Outcome<()> {
        let mut inits: HashMap<Id, (usize, BTreeSet<usize>)> = HashMap::new();
        for arrival in arrivals {
            match arrival {
                Arrival::Init { id, rank, n, .. } => {
                    if let Some((_, failure)) = self.spoiled.iter().find(|(spoiled, _)| spoiled == id) {
                        return Err(failure.clone());
                    }
                    if let Some(refusal) =
                        self.rendezvous.get(id).and_then(|there| there.refusal(*rank, *n, settings().buffer_bytes))
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
                    self.member(*comm as nccl_sys::ncclComm_t)?.accept_split()?;
                }
                Arrival::Grow { comm: None, .. } => {}
                Arrival::Grow { comm: Some(comm), .. } => {
                    self.member(*comm as nccl_sys::ncclComm_t)?.accept_work()?;
                }
                Arrival::Shrink { comm, .. } => {
                    self.member(*comm as nccl_sys::ncclComm_t)?.accept_shrink()?;
                }
            }
        }
        Ok(())
    }

    /// A refused call in this process ends its meeting for all if ranks of other processes have arrived, which could not learn
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

    /// Ends a meeting by unique id: all ranks that have arrived, or will arrive, are refused.
    pub(super) fn spoil(&mut self, id: Id, failure: Failure) {
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
            Arrival::Init { id, rank, n, device, config, reserved } => {
                let coordinator = origin(id).ok().flatten();
                self.pending_joins.insert(
                    token,
                    PendingJoin {
                        ticket,
                        comm: None,
                        meeting: None,
                        config: *config,
                        reserved: *reserved,
                        coordinator: coordinator.map(|there| there.name),
                    },
                );
                match coordinator {
                    None => {
                        let joining = Joining { from: None, token, color: Some(0), key: 0, device: *device };
                        self.meet(*id, *rank, *n, settings().buffer_bytes, joining);
                    }
                    Some(there) => match self.connect(there) {
                        Ok(()) => {
                            let buffer_bytes = settings().buffer_bytes;
                            let (id, rank, n, device) = (*id, *rank, *n, *device);
                            let request = JoinRequest::Init { id, rank, n, device, buffer_bytes };
                            self.tell(Some(there.name), Control::Join { token, request });
                        }
                        Err(error) => {
                            let text = format!("the process that made the unique id cannot be reached: {error}");
                            self.reply(token, Err(Failure::system(text)));
                        }
                    },
                }
            }
            Arrival::Split { comm, color, key, config } => {
                let Some(member) = self.members.get_mut(comm) else { return };
                let number = member.splits;
                member.splits += 1;
                let (shared, rank, n, device) = (member.shared, member.rank, member.n, member.device);
                let spread = self.shared.get(&shared).and_then(|shared| shared.spread.as_ref());
                let coordinator = spread.and_then(|spread| spread.places.first().copied().flatten());
                let uid = spread.map_or(0, |spread| spread.uid);
                let gone = spread.is_some_and(|spread| coordinator.is_some_and(|name| spread.left.contains(&name)));
                self.pending_joins.insert(
                    token,
                    PendingJoin {
                        ticket,
                        comm: Some(*comm),
                        meeting: Some(Meeting::Split),
                        config: *config,
                        reserved: None,
                        coordinator,
                    },
                );
                if gone {
                    let text = "the process of rank 0, at which a split meets, has given up the communicator";
                    self.reply(token, Err(Failure::remote(text)));
                } else if coordinator.is_some() {
                    let request = JoinRequest::Split { uid, number, rank, color: *color, key: *key, device };
                    self.tell(coordinator, Control::Join { token, request });
                } else {
                    let joining = Joining { from: None, token, color: *color, key: *key, device };
                    self.meet_to_split(Place::split(shared, number), rank, n, joining);
                }
            }
            Arrival::Grow { comm: Some(comm), n, config, .. } => self.join_grow(*comm, *n, *config, token, ticket),
            Arrival::Grow { comm: None, id, rank, n, device, config, reserved } => {
                let joining =
                    NewRank { id: *id, rank: *rank, n: *n, device: *device, config: *config, reserved: *reserved };
                self.join_grown(&joining, token, ticket);
            }
            Arrival::Shrink { comm, without, config } => self.join_shrink(*comm, without, *config, token, ticket),
        }
    }

    /// A rank of another process arrives.
    pub(super) fn join_from(&mut self, from: Address, token: u64, request: JoinRequest) {
        if self.connect(from).is_err() {
            // It is gone already.
            return;
        }
        let joining = |device| Joining { from: Some(from), token, color: Some(0), key: 0, device };
        match request {
            JoinRequest::Init { id, rank, n, device, buffer_bytes } => {
                let joining = joining(device);
                let spoiled =
                    self.spoiled.iter().find(|(spoiled, _)| *spoiled == id).map(|(_, failure)| failure.clone());
                if let Some(failure) = spoiled {
                    self.refuse(&joining, failure);
                } else if rank >= n || !matches!(origin(&id), Ok(None)) {
                    self.refuse(&joining, Failure::argument("the unique id was not made by the process it names"));
                } else if let Some(failure) =
                    self.rendezvous.get(&id).and_then(|there| there.refusal(rank, n, buffer_bytes))
                {
                    self.refuse(&joining, failure.clone());
                    self.spoil(id, failure);
                } else {
                    self.meet(id, rank, n, buffer_bytes, joining);
                }
            }
            JoinRequest::Grow { growth, rank, n, device } => {
                let joining = Joining { key: rank as i32, ..joining(device) };
                self.join_grow_from(from, growth, rank, n, joining);
            }
            JoinRequest::Shrink { uid, number, rank, without, device } => {
                let joining = Joining { key: rank as i32, ..joining(device) };
                self.join_shrink_from(from, uid, (number, rank, without), joining);
            }
            JoinRequest::Split { uid, number, rank, color, key, device } => {
                let joining = Joining { color, key, ..joining(device) };
                let shared = self.uids.get(&uid).copied();
                let spread = shared.and_then(|id| self.shared.get(&id)?.spread.as_ref().map(|spread| (id, spread)));
                match spread {
                    Some((shared, spread)) if spread.places.get(rank) == Some(&Some(from.name)) => {
                        let n = spread.places.len();
                        self.meet_to_split(Place::split(shared, number), rank, n, joining);
                    }
                    _ => {
                        let text = "the process of rank 0, at which a split meets, has given up the communicator";
                        self.refuse(&joining, Failure::remote(text));
                    }
                }
            }
        }
    }

    fn meet(&mut self, id: Id, rank: usize, n: usize, buffer_bytes: usize, joining: Joining) {
        let there =
            self.rendezvous.entry(id).or_insert_with(|| Rendezvous { n, buffer_bytes, arrived: BTreeMap::new() });
        there.arrived.insert(rank, joining);
        self.changed();
        if self.rendezvous.get(&id).is_some_and(|there| there.arrived.len() == there.n)
            && let Some(there) = self.rendezvous.remove(&id)
            && let Err(failure) = self.form(&there.arrived.into_values().collect::<Vec<_>>())
        {
            self.spoil(id, failure);
        }
    }

    fn meet_to_split(&mut self, place: Place, rank: usize, n: usize, joining: Joining) {
        let split = self.splits.entry(place.clone()).or_insert_with(|| Split { n, arrived: BTreeMap::new() });
        split.arrived.insert(rank, joining);
        let all = split.arrived.len() == split.n;
        self.changed();
        if all && let Some(split) = self.splits.remove(&place) {
            self.complete_split(split);
        }
    }

    /// One communicator per colour, its ranks in the order of their keys and, where these are equal, of their old ranks.
    fn complete_split(&mut self, split: Split) {
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
            // A part of a communicator that spans few enough processes does so as well.
            let _ = self.form(&ranks);
        }
    }

    /// Answers a waiting rank of this process.
    pub(super) fn reply(&mut self, token: u64, answer: Answer) {
        if let Some(pending) = self.pending_joins.remove(&token) {
            if let Ok(Some(made)) = &answer
                && let Some(made) = self.members.get_mut(made)
            {
                made.config = pending.config;
            }
            self.answer(pending.ticket, answer);
            self.sweep_due = true;
        }
    }

    pub(super) fn refuse(&mut self, joining: &Joining, failure: Failure) {
        match joining.from {
            None => self.reply(joining.token, Err(failure)),
            Some(from) => self.tell(Some(from.name), Control::Refuse { token: joining.token, failure }),
        }
        self.sweep_due = true;
    }

    /// Refuses the splits and shrinks that threads wait for on behalf of a rank, except for the shrinks that continue without the
    /// process `gone`.
    pub(super) fn retract(&mut self, handle: usize, failure: &Failure, gone: Option<Name>) {
        let shared = self.members.get(&handle).map(|member| member.shared);
        let goes_on = |pending: &PendingJoin| {
            let (Some(shared), Some(gone)) = (shared, gone) else { return false };
            self.shrinks_without(shared, pending.meeting.as_ref().and_then(Meeting::without), gone)
        };
        let tokens: Vec<u64> = self
            .pending_joins
            .iter()
            .filter(|(_, pending)| pending.comm == Some(handle) && !goes_on(pending))
            .map(|(token, _)| *token)
            .collect();
        for split in self.splits.values_mut() {
            split.arrived.retain(|_, joining| joining.from.is_some() || !tokens.contains(&joining.token));
        }
        for token in tokens {
            self.reply(token, Err(failure.clone()));
        }
    }

    /// Refuses the waits of a rank that has received this handle already.
    pub(super) fn retract_reserved(&mut self, handle: usize, failure: &Failure) {
        let mine = |(_, pending): &(&u64, &PendingJoin)| pending.reserved == Some(handle);
        let tokens: Vec<u64> = self.pending_joins.iter().filter(mine).map(|(token, _)| *token).collect();
        let stays = |joining: &Joining| joining.from.is_some() || !tokens.contains(&joining.token);
        self.rendezvous.values_mut().for_each(|there| there.arrived.retain(|_, joining| stays(joining)));
        self.rendezvous.retain(|_, there| !there.arrived.is_empty());
        self.splits.values_mut().for_each(|there| there.arrived.retain(|_, joining| stays(joining)));
        for token in &tokens {
            self.reply(*token, Err(failure.clone()));
        }
    }

    /// Refuses the splits and shrinks of a communicator that this process coordinates and gives up, except for the shrinks that
    /// continue without the process `gone`.
    pub(super) fn refuse_splits(&mut self, shared: u64, gone: Option<Name>) {
        let goes_on =
            |place: &Place| gone.is_some_and(|gone| self.shrinks_without(shared, place.meeting.without(), gone));
        let places: Vec<Place> =
            self.splits.keys().filter(|place| place.shared == shared && !goes_on(place)).cloned().collect();
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
        // A split whose parts are being created continues without its parent.
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

    /// A process is gone: meetings that it was to take part in, or to coordinate, are refused.
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
