//! A rank's operations on data: collectives, sends, receives and maps. One type serves while counts are open and once
//! every buffer has its memory; a [`Stage`] determines what is known.
use super::types::{CommId, Reduction, Region};
use crate::expr::{Expr, Value};
use crate::num::DType;
use crate::ops::{Collective, OneSided};
use crate::scenario::StepAlgorithm;
use std::fmt::Debug;
use std::sync::Arc;

/// The knowledge about operations at one stage of planning.
pub trait Stage: Clone + Debug {
    /// A part of a buffer.
    type Memory: Clone + Debug;
    /// A count and an element type.
    type Size: Clone + Debug;
    /// A rank of the communicator: a root or a peer.
    type Rank: Clone + Debug;
    /// A rank's factor of a premul_sum.
    type Factor: Clone + Debug;
}

/// The stage at which every buffer has its memory. Ranks are in the form that NCCL receives.
#[derive(Clone, Debug)]
pub struct Placed;

impl Stage for Placed {
    type Memory = Region;
    type Size = Size;
    type Rank = i32;
    /// Its bits in the element type.
    type Factor = u64;
}

/// The count and element type of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// The count argument of NCCL's call.
    pub count: u64,
    /// Element type of the call.
    pub dtype: DType,
}

/// One rank's share of an operation.
#[derive(Clone, Debug)]
pub enum RankOp<S: Stage> {
    /// A collective of NCCL's.
    Collective(Arc<RankCollective<S>>),
    /// The sender's side of a message.
    Send(RankMessage<S>),
    /// The receiver's side of a message.
    Recv(RankMessage<S>),
    /// A put, a signal or a wait for signals.
    OneSided(Arc<RankOneSided<S>>),
    /// An expression on the rank itself.
    Map(Arc<RankMap<S>>),
}

/// One rank's share of a collective.
#[derive(Clone, Debug)]
pub struct RankCollective<S: Stage> {
    /// The collective's entry in the table.
    pub op: &'static Collective,
    /// The communicator of the call.
    pub comm: CommId,
    /// This rank in the communicator.
    pub rank: usize,
    /// The memory that is read, if there is any.
    pub send: Option<S::Memory>,
    /// The memory that is written, if there is any.
    pub recv: Option<S::Memory>,
    /// Count and element type.
    pub size: S::Size,
    /// The reduction, if it has one, with this rank's factor.
    pub reduction: Option<Reduction<S::Factor>>,
    /// The root; 0 if the collective does not have one.
    pub root: S::Rank,
    /// True if input and output share memory because the step says so.
    pub in_place: bool,
    /// True if memory that is not used is passed as a null pointer.
    pub null_pointers: bool,
    /// The algorithm that the step requests.
    pub algorithm: Option<Arc<StepAlgorithm>>,
    /// The stream that the call is enqueued on.
    pub stream: u32,
}

/// One side of a message between two ranks.
#[derive(Clone, Debug)]
pub struct RankMessage<S: Stage> {
    /// The communicator of the call.
    pub comm: CommId,
    /// This rank in the communicator.
    pub rank: usize,
    /// The rank on the other side.
    pub peer: S::Rank,
    /// The memory that is read by the sender, written by the receiver.
    pub memory: S::Memory,
    /// Count and element type.
    pub size: S::Size,
    /// True if empty memory is passed as a null pointer.
    pub null_pointers: bool,
    /// The stream that the call is enqueued on.
    pub stream: u32,
}

/// A rank's operation in which the other rank does not make a call.
#[derive(Clone, Debug)]
pub struct RankOneSided<S: Stage> {
    /// The kind of one-sided operation.
    pub kind: OneSided,
    /// The communicator of the call.
    pub comm: CommId,
    /// This rank in the communicator.
    pub rank: usize,
    /// The rank that receives the data and the signal, with 1; or the ranks whose signals are awaited, with the number from each.
    pub peers: Vec<(S::Rank, i128)>,
    /// The memory that a put reads on this rank, and the memory that it writes on the peer.
    pub put: Option<(S::Memory, S::Memory)>,
    /// Count and element type.
    pub size: S::Size,
    /// The context, in the form that NCCL receives.
    pub context: i128,
    /// Index of the signal within the context.
    pub signal_index: i128,
    /// Flags: 0, unless the call has to fail.
    pub flags: i128,
    /// The stream that the call is enqueued on.
    pub stream: u32,
}

/// A map on one rank: element i of `out` from an expression.
#[derive(Clone, Debug)]
pub struct RankMap<S: Stage> {
    /// The expression for each element.
    pub expr: Arc<Expr>,
    /// The names of the expression: `rank`, `n`, `t`, axes...
    pub names: Arc<Vec<(String, Value)>>,
    /// The buffers that it names, each as a whole.
    pub reads: Vec<S::Memory>,
    /// Memory for the result.
    pub out: S::Memory,
    /// Count and element type of the result.
    pub size: S::Size,
    /// The stream that the call is enqueued on.
    pub stream: u32,
}

/// A message's communicator, and sender and receiver in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Route {
    /// The communicator of the message.
    pub comm: CommId,
    /// The sending rank.
    pub from: usize,
    /// The receiving rank.
    pub to: usize,
}

impl<S: Stage> RankOp<S> {
    pub fn reads(&self) -> &[S::Memory] {
        match self {
            Self::Collective(c) => c.send.as_slice(),
            Self::Send(message) => std::slice::from_ref(&message.memory),
            Self::Recv(_) => &[],
            Self::OneSided(one_sided) => one_sided.put.as_ref().map_or(&[], |(from, _)| std::slice::from_ref(from)),
            Self::Map(map) => &map.reads,
        }
    }

    /// The memory of this rank that is written. A put writes another rank's memory.
    pub fn writes(&self) -> &[S::Memory] {
        match self {
            Self::Collective(c) => c.recv.as_slice(),
            Self::Send(_) | Self::OneSided(_) => &[],
            Self::Recv(message) => std::slice::from_ref(&message.memory),
            Self::Map(map) => std::slice::from_ref(&map.out),
        }
    }

    /// The stream that the operation is enqueued on.
    pub fn stream(&self) -> u32 {
        match self {
            Self::Collective(c) => c.stream,
            Self::Send(message) | Self::Recv(message) => message.stream,
            Self::OneSided(one_sided) => one_sided.stream,
            Self::Map(map) => map.stream,
        }
    }

    /// The communicator, if the operation uses one.
    pub fn comm(&self) -> Option<CommId> {
        match self {
            Self::Collective(c) => Some(c.comm),
            Self::Send(message) | Self::Recv(message) => Some(message.comm),
            Self::OneSided(one_sided) => Some(one_sided.comm),
            Self::Map(_) => None,
        }
    }

    /// Count and element type.
    pub fn size(&self) -> &S::Size {
        match self {
            Self::Collective(c) => &c.size,
            Self::Send(message) | Self::Recv(message) => &message.size,
            Self::OneSided(one_sided) => &one_sided.size,
            Self::Map(map) => &map.size,
        }
    }
}

impl RankOp<Placed> {
    /// The route of a message, from either side of it.
    pub fn route(&self) -> Option<Route> {
        match self {
            Self::Send(m) => Some(Route { comm: m.comm, from: m.rank, to: rank_or_none(m.peer) }),
            Self::Recv(m) => Some(Route { comm: m.comm, from: rank_or_none(m.peer), to: m.rank }),
            Self::Collective(_) | Self::OneSided(_) | Self::Map(_) => None,
        }
    }
}

impl RankCollective<Placed> {
    /// The root; 0 if the collective does not have one.
    pub fn root(&self) -> usize {
        rank_or_none(self.root)
    }
}

/// The number of a rank; a negative one becomes a number that no rank of a communicator has.
pub fn rank_or_none(rank: i32) -> usize {
    usize::try_from(rank).unwrap_or(usize::MAX)
}
