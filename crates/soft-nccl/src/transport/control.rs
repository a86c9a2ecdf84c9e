//! Messages between processes other than the traffic of operations: meeting and parting.
use super::terms::{Connection, Growth, Meeting, SignalKey};
use super::{Address, Id, MOST_PROCESSES};
use crate::failure::Failure;
use serde::{Deserialize, Serialize};

/// A rank's request to meet the others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum JoinRequest {
    /// `ncclCommInitRank`.
    Init {
        #[serde(with = "id_bytes")]
        id: Id,
        rank: usize,
        n: usize,
        device: i32,
        buffer_bytes: usize,
    },
    /// `ncclCommSplit` and `ncclCommShrink`: the communicator, how often these ranks met for this before, and as there.
    Derive { uid: u128, number: u64, meeting: Meeting, rank: usize, color: Option<i32>, key: i32, device: i32 },
    /// `ncclCommGrow`: of an old rank, or of one that joins.
    Grow { growth: Growth, rank: usize, n: usize, device: i32 },
}

/// A communicator that will be created: the process in which each rank lives.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Table {
    pub forming: u64,
    pub uid: u128,
    pub processes: Vec<Address>,
    /// Process and device of each rank.
    pub ranks: Vec<(usize, i32)>,
    /// Ranks of the receiving process, each with its token.
    pub yours: Vec<(usize, u64)>,
}

impl Table {
    /// True if every rank lives in one of the processes, and every token belongs to a rank.
    pub(super) fn is_consistent(&self) -> bool {
        let processes = self.processes.len();
        (1..=MOST_PROCESSES).contains(&processes)
            && self.ranks.iter().all(|(process, _)| *process < processes)
            && self.yours.iter().all(|(rank, _)| *rank < self.ranks.len())
    }
}

/// A message. A token names a waiting rank in the process that joined.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Control {
    Join {
        token: u64,
        request: JoinRequest,
    },
    /// The split gives this rank no communicator.
    Nothing {
        token: u64,
    },
    Refuse {
        token: u64,
        failure: Failure,
    },
    Table(Table),
    /// The process has created its part of the communicator, or could not.
    Ready {
        forming: u64,
        failure: Option<Failure>,
    },
    /// All parts are created.
    Go {
        uid: u128,
    },
    Fail {
        uid: u128,
        failure: Failure,
    },
    /// A rank of the process has reached a connection.
    Connect {
        uid: u128,
        connection: Connection,
        rank: usize,
    },
    /// A rank of the process signals another rank.
    Signal {
        uid: u128,
        key: SignalKey,
        destination: usize,
    },
    /// The process has no rank in the communicator any more; `failed` if the others cannot do without.
    Leave {
        uid: u128,
        failed: bool,
    },
}

/// Serde has no arrays of this length.
mod id_bytes {
    use crate::transport::Id;
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(id: &Id, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(id)
    }

    pub(super) fn deserialize<'a, D: Deserializer<'a>>(deserializer: D) -> Result<Id, D::Error> {
        let bytes = <&[u8]>::deserialize(deserializer)?;
        bytes.try_into().map_err(|_| D::Error::invalid_length(bytes.len(), &"the bytes of a unique id"))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::transport::Name;

    /// A message of every kind.
    pub(in crate::transport) fn controls() -> Vec<Control> {
        let failure = Failure::usage("no");
        let address = Address { name: Name(7), cookie: 8, network: Some(([10, 0, 0, 1], 80).into()) };
        let device = -1;
        let init = JoinRequest::Init { id: [3; 128], rank: 1, n: 2, device, buffer_bytes: 9 };
        let derive =
            |meeting, color| JoinRequest::Derive { uid: 4, number: 1, meeting, rank: 2, color, key: -3, device };
        let growth = Growth { uid: 3, spread: true, number: 1 };
        let table =
            Table { forming: 1, uid: 2, processes: vec![address], ranks: vec![(0, device)], yours: vec![(0, 6)] };
        vec![
            Control::Join { token: 1, request: init },
            Control::Join { token: 1, request: derive(Meeting::Split, None) },
            Control::Join { token: 1, request: derive(Meeting::Shrink(vec![1]), Some(0)) },
            Control::Join { token: 1, request: JoinRequest::Grow { growth, rank: 3, n: 4, device } },
            Control::Nothing { token: 4 },
            Control::Refuse { token: 4, failure: failure.clone() },
            Control::Table(table),
            Control::Ready { forming: 1, failure: None },
            Control::Ready { forming: 1, failure: Some(failure.clone()) },
            Control::Go { uid: 3 },
            Control::Fail { uid: 3, failure },
            Control::Signal { uid: 3, key: SignalKey { source: 1, index: 2, context: 0 }, destination: 4 },
            Control::Leave { uid: 3, failed: true },
            Control::Connect { uid: 3, connection: Connection::Collectives, rank: 9 },
            Control::Connect { uid: 3, connection: Connection::Window { number: 2 }, rank: 1 },
            Control::Connect { uid: 3, connection: Connection::Pair { source: 9, destination: 1 }, rank: 1 },
        ]
    }
}
