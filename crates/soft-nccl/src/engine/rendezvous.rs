//! Meetings of ranks: with a unique id, at the process that created it. When all have arrived their communicator is formed (see
//! `forming`).
use super::State;
use super::counts::{changed, number};
use super::growing::NewRank;
use super::hosts::Arrival;
use super::meetings::{Joining, PendingJoin, Place, given_up};
use super::waiting::{Answer, Ticket};
use crate::failure::{Failure, Outcome};
use crate::settings::settings;
use crate::transport::control::{Control, JoinRequest};
use crate::transport::id::origin;
use crate::transport::terms::Meeting;
use crate::transport::{Address, Id, Name};
use std::collections::{BTreeSet, HashMap};

impl State {
    /// Checks that all can arrive; does not change anything.
    pub(super) fn check(&mut self, arrivals: &[Arrival]) -> Outcome<()> {
        let mut inits: HashMap<Id, (usize, BTreeSet<usize>)> = HashMap::new();
        for arrival in arrivals {
            match arrival {
                Arrival::Init { id, rank, n, .. } => {
                    let refusal = || self.meetings.refusal(id, *rank, *n, settings().buffer_bytes);
                    if let Some(failure) = self.meetings.spoiled(id).or_else(refusal) {
                        return Err(failure);
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
                    self.comms.member(*comm as nccl_sys::ncclComm_t)?.accept_split()?;
                }
                Arrival::Grow { comm: None, .. } => {}
                Arrival::Grow { comm: Some(comm), .. } => {
                    self.comms.member(*comm as nccl_sys::ncclComm_t)?.accept_work()?;
                }
                Arrival::Shrink { comm, .. } => {
                    self.comms.member(*comm as nccl_sys::ncclComm_t)?.accept_shrink()?;
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
                && self.meetings.is_spread(id)
            {
                self.spoil(*id, failure.clone());
            }
        }
        self.tidy();
    }

    /// Ends a meeting by unique id: all ranks that have arrived, or will arrive, are refused.
    pub(super) fn spoil(&mut self, id: Id, failure: Failure) {
        for joining in self.meetings.spoil(id, failure.clone()) {
            self.refuse(&joining, failure.clone());
        }
    }

    /// A rank of this process arrives.
    pub(super) fn join(&mut self, arrival: &Arrival, ticket: Ticket) {
        let token = number();
        match arrival {
            Arrival::Init { id, rank, n, device, config, reserved } => {
                let coordinator = origin(id).ok().flatten();
                self.meetings.joins.insert(
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
                    Some(there) => match self.links.connect(there) {
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
                let joining = Joining { from: None, token, color: *color, key: *key, device: 0 };
                self.derive(*comm, Meeting::Split, *config, joining, ticket);
            }
            Arrival::Shrink { comm, without, config } => {
                let joining = Joining { from: None, token, color: Some(0), key: 0, device: 0 };
                self.derive(*comm, Meeting::Shrink(without.clone()), *config, joining, ticket);
            }
            Arrival::Grow { comm: Some(comm), n, config, .. } => self.join_grow(*comm, *n, *config, token, ticket),
            Arrival::Grow { comm: None, id, rank, n, device, config, reserved } => {
                let joining =
                    NewRank { id: *id, rank: *rank, n: *n, device: *device, config: *config, reserved: *reserved };
                self.join_grown(&joining, token, ticket);
            }
        }
    }

    /// A rank of another process arrives.
    pub(super) fn join_from(&mut self, from: Address, token: u64, request: JoinRequest) {
        if self.links.connect(from).is_err() {
            // It is gone already.
            return;
        }
        let joining = |device| Joining { from: Some(from), token, color: Some(0), key: 0, device };
        match request {
            JoinRequest::Init { id, rank, n, device, buffer_bytes } => {
                let joining = joining(device);
                if let Some(failure) = self.meetings.spoiled(&id) {
                    self.refuse(&joining, failure);
                } else if rank >= n || !matches!(origin(&id), Ok(None)) {
                    self.refuse(&joining, Failure::argument("the unique id was not made by the process it names"));
                } else if let Some(failure) = self.meetings.refusal(&id, rank, n, buffer_bytes) {
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
            JoinRequest::Derive { uid, number, meeting, rank, color, key, device } => {
                self.derive_from(uid, (number, meeting), rank, Joining { color, key, ..joining(device) });
            }
        }
    }

    fn meet(&mut self, id: Id, rank: usize, n: usize, buffer_bytes: usize, joining: Joining) {
        changed();
        if let Some(ranks) = self.meetings.meet(id, rank, (n, buffer_bytes), joining)
            && let Err(failure) = self.form(&ranks)
        {
            self.spoil(id, failure);
        }
    }

    /// Answers a waiting rank of this process.
    pub(super) fn reply(&mut self, token: u64, answer: Answer) {
        if let Some(pending) = self.meetings.joins.remove(&token) {
            if let Ok(Some(made)) = &answer
                && let Some(made) = self.comms.members.get_mut(made)
            {
                made.config = pending.config;
            }
            self.hosts.answer(pending.ticket, answer);
            self.links.sweep_later();
        }
    }

    pub(super) fn refuse(&mut self, joining: &Joining, failure: Failure) {
        match joining.from {
            None => self.reply(joining.token, Err(failure)),
            Some(from) => self.tell(Some(from.name), Control::Refuse { token: joining.token, failure }),
        }
        self.links.sweep_later();
    }

    /// Refuses the splits and shrinks that threads wait for on behalf of a rank, except for the shrinks that continue without the
    /// process `gone`.
    pub(super) fn retract(&mut self, handle: usize, failure: &Failure, gone: Option<Name>) {
        let shared = self.comms.members.get(&handle).map(|member| member.shared);
        let goes_on = |pending: &PendingJoin| {
            let (Some(shared), Some(gone), Some(meeting)) = (shared, gone, &pending.meeting) else { return false };
            self.comms.shrinks_without(shared, meeting, gone)
        };
        let tokens = self.meetings.tokens(|pending| pending.comm == Some(handle) && !goes_on(pending));
        self.meetings.take_back(&tokens);
        for token in tokens {
            self.reply(token, Err(failure.clone()));
        }
    }

    /// Refuses the waits of a rank that has received this handle already.
    pub(super) fn retract_reserved(&mut self, handle: usize, failure: &Failure) {
        let tokens = self.meetings.tokens(|pending| pending.reserved == Some(handle));
        self.meetings.take_back(&tokens);
        for token in &tokens {
            self.reply(*token, Err(failure.clone()));
        }
    }

    /// Refuses the splits and shrinks of a communicator that this process coordinates and gives up, except for the shrinks that
    /// continue without the process `gone`.
    pub(super) fn refuse_splits(&mut self, shared: u64, gone: Option<Name>) {
        let goes_on = |place: &Place| gone.is_some_and(|gone| self.comms.shrinks_without(shared, &place.meeting, gone));
        let places: Vec<Place> =
            self.meetings.splits.keys().filter(|place| place.shared == shared && !goes_on(place)).cloned().collect();
        for split in places.iter().filter_map(|place| self.meetings.splits.remove(place)).collect::<Vec<_>>() {
            for joining in split.arrived.into_values() {
                self.refuse(&joining, given_up());
            }
        }
    }

    /// The threads that wait for an answer of that process about this communicator, or about any.
    pub(super) fn refuse_asks(&mut self, coordinator: Name, shared: Option<u64>, failure: &Failure) {
        let concerns = |pending: &PendingJoin| {
            let of = pending.comm.and_then(|comm| self.comms.members.get(&comm)).map(|member| member.shared);
            pending.coordinator == Some(coordinator) && (shared.is_none() || shared == of)
        };
        let tokens = self.meetings.tokens(concerns);
        let formed: Vec<u128> = self
            .comms
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
            let mut spreads = state.comms.shared.values().filter_map(|shared| shared.spread.as_ref());
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
        for id in self.meetings.ids_with(name) {
            self.spoil(id, failure.clone());
        }
        for forming in self.meetings.formings_with(name) {
            self.on_ready(Some(name), forming, Some(failure.clone()));
        }
    }
}
