//! What processes tell each other of: connections between ranks, meetings, growths and signals.
use crate::op::{Kind, Spec};
use serde::{Deserialize, Serialize};

/// A connection between ranks of a communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Connection {
    /// Between all ranks, for collectives.
    Collectives,
    /// Between two ranks, for messages in one direction.
    Pair { source: usize, destination: usize },
    /// The same once both ranks have reached all pairs of their calls.
    ConnectedPair { source: usize, destination: usize },
    /// Between all ranks, for one of their windows.
    Window { number: u64 },
}

impl Connection {
    /// The connections that an operation of a rank needs; none if it exchanges nothing with other ranks.
    pub(crate) fn of(spec: &Spec, rank: usize, n: usize) -> Vec<Self> {
        let to = |destination: usize| Self::Pair { source: rank, destination };
        let from = |source: usize| Self::Pair { source, destination: rank };
        let others = (0..n).filter(|other| *other != rank);
        let is_root = spec.peer == rank;
        match spec.kind {
            Kind::Send if !is_root => vec![to(spec.peer)],
            Kind::Recv if !is_root => vec![from(spec.peer)],
            Kind::Send | Kind::Recv | Kind::Put | Kind::Signal | Kind::WaitSignal => Vec::new(),
            // A collective of no elements is dropped before any rank connects.
            _ if n == 1 || spec.count == 0 => Vec::new(),
            Kind::AlltoAll => others.flat_map(|other| [to(other), from(other)]).collect(),
            Kind::Gather if is_root => others.map(from).collect(),
            Kind::Scatter if is_root => others.map(to).collect(),
            Kind::Gather => vec![to(spec.peer)],
            Kind::Scatter => vec![from(spec.peer)],
            _ => vec![Self::Collectives],
        }
    }

    /// True if a rank has a part in it.
    pub(crate) fn needs(self, rank: usize, n: usize) -> bool {
        match self {
            Self::Collectives | Self::Window { .. } => rank < n,
            Self::Pair { source, destination } | Self::ConnectedPair { source, destination } => {
                rank == source || rank == destination
            }
        }
    }
}

/// The purpose for which the ranks of a live communicator meet.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Meeting {
    Split,
    /// A shrink, with the ranks that are left out, in ascending order.
    Shrink(Vec<usize>),
    Grow,
}

impl Meeting {
    /// The ranks that are left out.
    pub(crate) fn without(&self) -> &[usize] {
        match self {
            Self::Shrink(without) => without,
            Self::Split | Self::Grow => &[],
        }
    }

    /// True if it is one of a communicator's `n` ranks alone, and this rank takes part.
    pub(crate) fn derives(&self, rank: usize, n: usize) -> bool {
        match self {
            Self::Split => true,
            Self::Shrink(without) => {
                let sound = without.is_sorted_by(|a, b| a < b) && without.last().is_none_or(|last| *last < n);
                sound && !without.contains(&rank)
            }
            Self::Grow => false,
        }
    }
}

/// A growth of a communicator, as its ranks call it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Growth {
    /// The communicator's name among processes, or its number in its only process.
    pub uid: u128,
    /// True if the communicator spans processes.
    pub spread: bool,
    /// Number of times it has grown before.
    pub number: u64,
}

/// The key by which a receiving rank counts signals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct SignalKey {
    /// The rank that sends them.
    pub source: usize,
    pub index: u32,
    pub context: u32,
}
