//! An operation as a rank asked for it.
use crate::arith::{Combine, Scalar, Type};
use crate::route::{Algorithm, Protocol};
use serde::{Deserialize, Serialize};

/// The operations of NCCL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum Kind {
    AllReduce,
    Reduce,
    Broadcast,
    AllGather,
    ReduceScatter,
    AlltoAll,
    Gather,
    Scatter,
    Send,
    Recv,
    Put,
    Signal,
    WaitSignal,
}

impl Kind {
    pub(crate) const ALL: [Self; 10] = [
        Self::AllReduce,
        Self::Reduce,
        Self::Broadcast,
        Self::AllGather,
        Self::ReduceScatter,
        Self::AlltoAll,
        Self::Gather,
        Self::Scatter,
        Self::Send,
        Self::Recv,
    ];

    /// The name for messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::AllReduce => "all_reduce",
            Self::Reduce => "reduce",
            Self::Broadcast => "broadcast",
            Self::AllGather => "all_gather",
            Self::ReduceScatter => "reduce_scatter",
            Self::AlltoAll => "all_to_all",
            Self::Gather => "gather",
            Self::Scatter => "scatter",
            Self::Send => "send",
            Self::Recv => "recv",
            Self::Put => "put",
            Self::Signal => "signal",
            Self::WaitSignal => "wait_signal",
        }
    }

    /// The word NCCL_ALGO uses, in lower case.
    pub(crate) fn algo_word(self) -> &'static str {
        match self {
            Self::AllReduce => "allreduce",
            Self::AllGather => "allgather",
            Self::ReduceScatter => "reducescatter",
            Self::AlltoAll => "alltoall",
            _ => self.name(),
        }
    }

    /// The name of NCCL's function.
    pub(crate) fn function(self) -> &'static str {
        match self {
            Self::AllReduce => "ncclAllReduce",
            Self::Reduce => "ncclReduce",
            Self::Broadcast => "ncclBroadcast",
            Self::AllGather => "ncclAllGather",
            Self::ReduceScatter => "ncclReduceScatter",
            Self::AlltoAll => "ncclAlltoAll",
            Self::Gather => "ncclGather",
            Self::Scatter => "ncclScatter",
            Self::Send => "ncclSend",
            Self::Recv => "ncclRecv",
            Self::Put => "ncclPutSignal",
            Self::Signal => "ncclSignal",
            Self::WaitSignal => "ncclWaitSignal",
        }
    }

    /// The algorithms that serve it, the default first; empty for operations whose data goes straight from rank to rank.
    pub(crate) fn algorithms(self) -> &'static [Algorithm] {
        match self {
            Self::AllReduce => &[Algorithm::Ring, Algorithm::Tree, Algorithm::SingleTree],
            Self::Reduce | Self::Broadcast => &[Algorithm::Ring, Algorithm::SingleTree],
            Self::AllGather | Self::ReduceScatter => &[Algorithm::Ring],
            Self::AlltoAll | Self::Gather | Self::Scatter | Self::Send | Self::Recv => &[],
            Self::Put | Self::Signal | Self::WaitSignal => &[],
        }
    }

    /// The numbers of blocks of `count` elements that a rank, or the root, reads and writes.
    pub(crate) fn blocks(self, root: bool, n: usize) -> (usize, usize) {
        match self {
            Self::AllReduce => (1, 1),
            Self::Reduce => (1, usize::from(root)),
            Self::Broadcast => (usize::from(root), 1),
            Self::AllGather => (1, n),
            Self::ReduceScatter => (n, 1),
            Self::AlltoAll => (n, n),
            Self::Gather => (1, if root { n } else { 0 }),
            Self::Scatter => (if root { n } else { 0 }, 1),
            // A put writes another rank's memory.
            Self::Send | Self::Put => (1, 0),
            Self::Signal | Self::WaitSignal => (0, 0),
            Self::Recv => (0, 1),
        }
    }

    /// Operations of one rank, for which the other rank makes no call.
    pub(crate) fn is_one_sided(self) -> bool {
        matches!(self, Self::Put | Self::Signal | Self::WaitSignal)
    }

    /// Operations that all ranks of a communicator call.
    pub(crate) fn is_collective(self) -> bool {
        !self.is_p2p() && !self.is_one_sided()
    }

    pub(crate) fn is_p2p(self) -> bool {
        matches!(self, Self::Send | Self::Recv)
    }
}

/// The properties of the reduction that the ranks of an operation must agree on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum Reduction {
    Plain(Combine),
    Average,
    PreMulSum,
}

impl Reduction {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Plain(Combine::Sum) => "sum",
            Self::Plain(Combine::Prod) => "prod",
            Self::Plain(Combine::Max) => "max",
            Self::Plain(Combine::Min) => "min",
            Self::Average => "avg",
            Self::PreMulSum => "premul_sum",
        }
    }

    /// The operator between two contributions.
    pub(crate) fn combine(self) -> Combine {
        match self {
            Self::Plain(combine) => combine,
            Self::Average | Self::PreMulSum => Combine::Sum,
        }
    }
}

/// The factor of a rank's own contribution.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PreMul {
    None,
    Value(Scalar),
    /// Device memory, read when the operation starts.
    Device(usize),
}

/// The properties on which all ranks of an operation must agree; operations that differ in it never exchange a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Signature {
    /// The operation, a send and its receive being one.
    pub kind: Kind,
    pub algorithm: Algorithm,
    pub protocol: Protocol,
    pub count: usize,
    pub ty: Type,
    pub reduction: Option<Reduction>,
    pub root: usize,
}

/// The signal of a one-sided operation, and the window of a put.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Signalling {
    pub index: u32,
    pub context: u32,
    /// The number of signals that a wait is for.
    pub count: u64,
    /// The number of the communicator's window that a put writes.
    pub window: u64,
    /// Bytes from the window's start on the other rank.
    pub offset: usize,
}

/// A checked call. Addresses are those of the caller's buffers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spec {
    pub kind: Kind,
    pub algorithm: Algorithm,
    pub protocol: Protocol,
    pub send: usize,
    pub recv: usize,
    pub count: usize,
    pub ty: Type,
    pub reduction: Option<Reduction>,
    pub premul: PreMul,
    /// The root, or the other rank of a send or receive.
    pub peer: usize,
    /// The signals of a one-sided operation.
    pub signal: Signalling,
}

impl Spec {
    pub(crate) fn signature(&self) -> Signature {
        let p2p = self.kind.is_p2p();
        Signature {
            kind: if p2p { Kind::Send } else { self.kind },
            algorithm: self.algorithm,
            protocol: self.protocol,
            count: self.count,
            ty: self.ty,
            reduction: self.reduction,
            root: if p2p { 0 } else { self.peer },
        }
    }

    /// Bytes of the larger buffer of a rank among `n`, as all ranks of the operation count them.
    pub(crate) fn bytes(&self, n: usize) -> usize {
        let blocks = match self.kind {
            Kind::AllGather | Kind::ReduceScatter | Kind::Gather | Kind::Scatter | Kind::AlltoAll => n,
            _ => 1,
        };
        self.count.saturating_mul(self.ty.size()).saturating_mul(blocks)
    }

    /// A description for messages, such as `all_reduce (sum) of 4 f32`.
    pub(crate) fn text(&self) -> String {
        let reduction = self.reduction.map(|r| format!(" ({})", r.name())).unwrap_or_default();
        let place = match self.kind {
            Kind::Send => format!(" to rank {}", self.peer),
            Kind::Recv => format!(" from rank {}", self.peer),
            Kind::Put => format!(" to rank {}", self.peer),
            Kind::Signal => return format!("signal to rank {}", self.peer),
            Kind::WaitSignal => {
                return format!("wait for {} signals of rank {}", self.signal.count, self.peer);
            }
            Kind::Reduce | Kind::Broadcast | Kind::Gather | Kind::Scatter => format!(", root {}", self.peer),
            _ => String::new(),
        };
        format!("{}{reduction} of {} {}{place}", self.kind.name(), self.count, self.ty.name())
    }
}
