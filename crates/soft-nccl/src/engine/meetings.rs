//! Ranks that have arrived where a communicator is made of them, and wait for the others.
use super::waiting::Ticket;
use crate::failure::Failure;
use crate::settings::CommConfig;
use crate::transport::terms::Meeting;
use crate::transport::{Address, Id, Name};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

/// Ids whose meeting failed that are remembered.
const MOST_SPOILED: usize = 256;

/// A meeting of ranks of a live communicator.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Place {
    pub shared: u64,
    /// Number of earlier meetings of the same kind of these ranks.
    pub number: u64,
    pub meeting: Meeting,
}

impl Place {
    /// The kind of the meeting, for messages.
    pub(super) fn text(&self) -> &'static str {
        match self.meeting {
            Meeting::Split => "split",
            Meeting::Shrink(_) => "shrink",
            Meeting::Grow => "grow",
        }
    }

    /// The ranks that have not arrived.
    pub(super) fn missing(&self, there: &Split) -> Vec<usize> {
        let without = self.meeting.without();
        let ranks = 0..there.n.saturating_add(without.len());
        ranks.filter(|rank| !without.contains(rank) && !there.arrived.contains_key(rank)).collect()
    }
}

/// The answer to ranks whose meeting needs a process that has no part in the communicator any more.
pub(super) fn given_up() -> Failure {
    Failure::remote("a process that the meeting of the ranks needs has given up the communicator")
}

/// A waiting rank of this process.
pub(super) struct PendingJoin {
    pub ticket: Ticket,
    /// The communicator that it splits or shrinks.
    pub comm: Option<usize>,
    /// The purpose for which its ranks meet.
    pub meeting: Option<Meeting>,
    /// The settings in its configuration.
    pub config: CommConfig,
    /// The handle that the rank has been given already.
    pub reserved: Option<usize>,
    /// The other process that has to answer.
    pub coordinator: Option<Name>,
}

/// A rank that has arrived.
#[derive(Clone, Copy)]
pub(super) struct Joining {
    /// The process that has the rank; `None` is this one.
    pub from: Option<Address>,
    pub token: u64,
    pub color: Option<i32>,
    pub key: i32,
    pub device: i32,
}

/// The ranks that have arrived with one unique id.
pub(super) struct Rendezvous {
    pub n: usize,
    /// NCCL_BUFFSIZE.
    pub buffer_bytes: usize,
    pub arrived: BTreeMap<usize, Joining>,
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

/// The ranks that have arrived at one split, shrink or grow of a communicator.
pub(super) struct Split {
    pub n: usize,
    pub arrived: BTreeMap<usize, Joining>,
}

/// A communicator whose parts are being created.
pub(super) struct Forming {
    pub uid: u128,
    pub processes: Vec<Option<Name>>,
    pub missing: BTreeSet<Option<Name>>,
}

#[derive(Default)]
pub(super) struct Meetings {
    /// Ranks of this process that wait for an answer, by token.
    pub joins: FxHashMap<u64, PendingJoin>,
    /// Meetings by unique ids of this process.
    pub by_id: HashMap<Id, Rendezvous>,
    /// Ids with which ranks of several processes could not meet; ranks that arrive later get the same answer.
    spoiled: VecDeque<(Id, Failure)>,
    /// Meetings of ranks of live communicators.
    pub splits: HashMap<Place, Split>,
    /// Communicators whose parts other processes are making.
    pub formings: HashMap<u64, Forming>,
}

impl Meetings {
    /// The answer to ranks that arrive with an id whose meeting has failed.
    pub(super) fn spoiled(&self, id: &Id) -> Option<Failure> {
        self.spoiled.iter().find(|(spoiled, _)| spoiled == id).map(|(_, failure)| failure.clone())
    }

    /// The reason a rank cannot join those that have arrived with an id.
    pub(super) fn refusal(&self, id: &Id, rank: usize, n: usize, buffer_bytes: usize) -> Option<Failure> {
        self.by_id.get(id)?.refusal(rank, n, buffer_bytes)
    }

    /// True if ranks of other processes have arrived with an id.
    pub(super) fn is_spread(&self, id: &Id) -> bool {
        self.by_id.get(id).is_some_and(Rendezvous::is_spread)
    }

    /// Ends a meeting by unique id; answers the ranks that have arrived.
    pub(super) fn spoil(&mut self, id: Id, failure: Failure) -> Vec<Joining> {
        self.spoiled.push_back((id, failure));
        if self.spoiled.len() > MOST_SPOILED {
            self.spoiled.pop_front();
        }
        self.by_id.remove(&id).map(|there| there.arrived.into_values().collect()).unwrap_or_default()
    }

    /// A rank arrives with an id; answers all of them if it is the last one.
    pub(super) fn meet(
        &mut self,
        id: Id,
        rank: usize,
        (n, buffer_bytes): (usize, usize),
        joining: Joining,
    ) -> Option<Vec<Joining>> {
        let there = self.by_id.entry(id).or_insert_with(|| Rendezvous { n, buffer_bytes, arrived: BTreeMap::new() });
        there.arrived.insert(rank, joining);
        let all = there.arrived.len() == there.n;
        let there = if all { self.by_id.remove(&id) } else { None };
        there.map(|there| there.arrived.into_values().collect())
    }

    /// A rank arrives at a meeting of a live communicator's ranks, of which `n` are expected; answers all of them if it is the last one.
    pub(super) fn meet_at(&mut self, place: Place, rank: usize, n: usize, joining: Joining) -> Option<Vec<Joining>> {
        let there = self.splits.entry(place.clone()).or_insert_with(|| Split { n, arrived: BTreeMap::new() });
        there.arrived.insert(rank, joining);
        let all = there.arrived.len() == there.n;
        let there = if all { self.splits.remove(&place) } else { None };
        there.map(|there| there.arrived.into_values().collect())
    }

    /// The tokens of the waiting ranks of this process for which this holds.
    pub(super) fn tokens(&self, holds: impl Fn(&PendingJoin) -> bool) -> Vec<u64> {
        self.joins.iter().filter(|(_, pending)| holds(pending)).map(|(token, _)| *token).collect()
    }

    /// Takes ranks of this process back from where they have arrived.
    pub(super) fn take_back(&mut self, tokens: &[u64]) {
        let stays = |joining: &Joining| joining.from.is_some() || !tokens.contains(&joining.token);
        self.by_id.values_mut().for_each(|there| there.arrived.retain(|_, joining| stays(joining)));
        self.by_id.retain(|_, there| !there.arrived.is_empty());
        self.splits.values_mut().for_each(|there| there.arrived.retain(|_, joining| stays(joining)));
    }

    /// The ids with which ranks of a process have arrived.
    pub(super) fn ids_with(&self, name: Name) -> Vec<Id> {
        let has = |there: &&Rendezvous| there.arrived.values().any(|j| j.from.is_some_and(|from| from.name == name));
        self.by_id.iter().filter(|(_, there)| has(there)).map(|(id, _)| *id).collect()
    }

    /// The communicators that are being formed in a process.
    pub(super) fn formings_with(&self, name: Name) -> Vec<u64> {
        self.formings.iter().filter(|(_, f)| f.processes.contains(&Some(name))).map(|(id, _)| *id).collect()
    }

    /// Processes whose answer is awaited, or to which one is owed.
    pub(super) fn correspondents(&self) -> BTreeSet<Name> {
        let mut names: BTreeSet<Name> = self.joins.values().filter_map(|pending| pending.coordinator).collect();
        let arrived = self.by_id.values().map(|there| &there.arrived);
        let arrived = arrived.chain(self.splits.values().map(|split| &split.arrived));
        names.extend(arrived.flat_map(BTreeMap::values).filter_map(|joining| joining.from).map(|from| from.name));
        names.extend(self.formings.values().flat_map(|forming| forming.processes.iter().flatten().copied()));
        names
    }

    /// True if an answer of another process is awaited, or ranks of others have arrived with an id.
    pub(super) fn depend_on_others(&self) -> bool {
        !self.formings.is_empty()
            || self.joins.values().any(|pending| pending.coordinator.is_some())
            || self.by_id.values().any(Rendezvous::is_spread)
    }
}
