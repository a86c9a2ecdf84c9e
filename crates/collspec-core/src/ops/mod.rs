//! The operation table: one entry per operation of the scenario language. An entry of the [`Kind::Collective`] kind says
//! everything the other rooms need: counts, buffers, in-place layout, NCCL's call, the oracle's rule, algorithms and the
//! bandwidth factor.
mod algorithm;
mod collective;
mod config;
mod exit_status;
mod table;

pub use algorithm::{AUTOMATIC, AlgorithmChoice, AlgorithmVariables, UnmetSelection, algorithm_words};
pub use collective::{Bandwidth, Collective, Extent, InPlace, NcclCall, Rule, Who};
pub use config::ConfigValue;
pub use exit_status::ExitStatus;
pub use table::{ALL_REDUCE, BROADCAST, GROUP, LAUNCH, LOOP, REDUCE, RELEASE, TABLE, find};

/// An operation of the scenario language.
#[derive(Debug)]
pub struct Op {
    /// Its word in scenarios.
    pub name: &'static str,
    /// The kind of operation.
    pub kind: Kind,
    /// The keys a step of this operation may have, besides [`COMMON_KEYS`].
    pub keys: &'static [&'static str],
}

impl PartialEq for Op {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

/// Keys that every step may have. `in_place`, `null_pointers`, `graph` and such are listed by the operations that use them.
pub const COMMON_KEYS: &[&str] = &["op", "ranks", "times", "name"];

/// The kind of an operation.
#[derive(Debug)]
pub enum Kind {
    /// One of NCCL's collectives.
    Collective(Collective),
    /// A group of NCCL's point-to-point calls or broadcasts that implements a collective.
    Composite(Composite),
    /// Point to point: `send`.
    Send,
    /// Point to point: `recv`.
    Recv,
    /// Both in one group.
    SendRecv,
    /// An expression on the rank itself.
    Map,
    /// One NCCL group call of its steps.
    Group,
    /// Its steps in turn.
    Loop,
    /// An action of the host.
    Host(Host),
    /// Makes or ends a communicator.
    Comm(CommOp),
    /// Moves data into another rank's window, signals a rank, or waits for signals.
    OneSided(OneSided),
    /// Registers memory with a communicator, or ends that.
    Registration(RegistrationOp),
    /// Runs or ends a graph.
    Graph(GraphOp),
}

impl Kind {
    /// True for collectives, point-to-point operations, and those that are made of these.
    pub const fn transfers(&self) -> bool {
        matches!(self, Self::Collective(_) | Self::Composite(_) | Self::Send | Self::Recv | Self::SendRecv)
    }

    /// The collective of NCCL that implements the operation, alone or called once for each rank.
    pub const fn collective(&self) -> Option<&Collective> {
        match self {
            Self::Collective(collective) => Some(collective),
            Self::Composite(Composite::Barrier) => Some(&ALL_REDUCE),
            Self::Composite(Composite::AllGatherV) => Some(&BROADCAST),
            Self::Composite(Composite::ReduceScatterV) => Some(&REDUCE),
            _ => None,
        }
    }
}

/// Operations that are groups of NCCL's own calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Composite {
    AllGatherV,
    AllToAllV,
    ReduceScatterV,
    Barrier,
}

/// Operations of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Host {
    Wait,
    Sleep,
    Exit,
}

/// Operations for which the other rank makes no call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OneSided {
    Put,
    Signal,
    WaitSignal,
}

/// Operations that register memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegistrationOp {
    Register,
    Deregister,
}

/// The operations on graphs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GraphOp {
    Launch,
    Release,
}

/// The operations on communicators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommOp {
    Init,
    Split,
    Shrink,
    Grow,
    Finalize,
    Destroy,
    Abort,
    Revoke,
    Suspend,
    Resume,
}

impl CommOp {
    /// True if it creates a communicator, whose name is `new`.
    pub const fn makes_communicator(self) -> bool {
        matches!(self, Self::Init | Self::Split | Self::Shrink | Self::Grow)
    }
}
