//! The data exchanged between parent and worker: programs of calls, the messages around them, the shared arena, observations.
pub mod arena;
mod mapped;
mod messages;
mod share;
mod variation;
pub mod wire;

pub use collspec_core::job::*;
pub use mapped::{MappedLibrary, mapped_libraries};
pub use messages::{Finish, Id, PROTOCOL, Reply, Request};
pub use share::{ELSEWHERE, Share, World};
pub use variation::{EarlyLoads, StoreUnit, Variation};

use collspec_core::ops::ConfigValue;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Faults on demand, a bit each in the order of `wrong_nccl::TABLE`.
pub type Reached = wrong_nccl::Reached;

/// The endings of all ranks, or in a part's message of the part's ranks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Reports in the order of the ranks.
    pub ranks: Vec<RankReport>,
    /// Faults on demand that struck, or would have: a bit each.
    pub reached: Reached,
}

/// An allocation and where its images lie in the arena.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AllocSpec {
    /// World rank that owns it.
    pub rank: u32,
    /// The offset of the payload in the image.
    pub start: u64,
    /// True if the library must allocate it, because it becomes a window.
    pub from_library: bool,
    /// Bytes of the image.
    pub image: u64,
    /// Byte of the arena where the initial image lies.
    pub initial: u64,
    /// Byte of the arena where the final image goes; the same if the allocation itself lies there.
    pub last: u64,
}

impl AllocSpec {
    /// True if the allocation itself lies in the arena, so that copies are unnecessary.
    pub fn is_in_arena(&self) -> bool {
        self.initial == self.last
    }
}

/// A checkpoint and where it goes in the arena.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CheckpointSpec {
    pub rank: u32,
    pub bytes: u64,
    pub at: u64,
}

/// Names a set of communicators that a worker keeps. The parent hands the names out and never uses one twice for a worker;
/// it alone decides which sets are kept and which are destroyed.
pub type SetId = u64;

/// Everything about a case that a worker receives, or one of its parts if `ranks` are not all ranks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// The case's name, for logs.
    pub case: String,
    /// Ranks that take part.
    pub n: u32,
    /// World ranks that live here.
    pub ranks: Range<u32>,
    /// The rank whose part creates the unique ids for all parts. Its process does not end before the others, because an id cannot be
    /// used once the process that created it has ended.
    pub makes_ids: u32,
    /// Members (world ranks) of every communicator.
    pub comms: Vec<Vec<u32>>,
    /// The communicators, in ascending order, that can only be aborted in the end: they lose a rank, or a rank aborts them, and
    /// `ncclCommDestroy` is a call that all ranks of a machine make.
    pub left_to_abort: Vec<u32>,
    /// The distinct configurations of communicators.
    pub configs: Vec<Vec<(String, ConfigValue)>>,
    /// For each world rank: its non-blocking communicators, in ascending order. Empty if no rank has any.
    pub nonblocking: Vec<Vec<u32>>,
    /// Unique ids to make.
    pub ids: u32,
    /// Unique ids that live communicators give while the programs run (see [`CallKind::GrowId`]).
    pub grow_ids: u32,
    /// Number of streams per rank.
    pub streams: u32,
    /// The stream that is the null stream, if a step uses it.
    pub null_stream: Option<u32>,
    /// The allocations of all ranks.
    pub allocs: Vec<AllocSpec>,
    /// The copies of results to take while the programs run.
    pub checkpoints: Vec<CheckpointSpec>,
    /// Number of tags under which traffic is counted.
    pub tags: u32,
    /// Calls of *opening*, by world rank. Equal preludes (with equal `comms` and `configs`) may share communicators.
    pub prelude: Vec<Vec<Call>>,
    /// Calls of *running*, by world rank; empty for ranks that live elsewhere.
    pub programs: Vec<Vec<Call>>,
    /// One thread drives all ranks: steps in turn, each as one group over all ranks.
    pub one_thread: bool,
    /// Bytes of arena in use. It starts with a step word of eight bytes for every rank (see `arena::Step`).
    pub arena: u64,
    /// The kept set of communicators to run on, if its prelude is equal; otherwise they are created.
    pub reuse: Option<SetId>,
    /// What this run does differently. Each further run of the job has the next seed.
    pub variation: Variation,
    /// True if the parent cannot see the step words while the ranks run, because they are in another machine's memory: it then receives
    /// a message when the ranks begin.
    pub words_unseen: bool,
    /// The repetitions of the programs for timing; `None` if they run once and are not timed.
    pub timed: Option<Timed>,
    /// A part's knowledge of all ranks; `None` if they all live in this worker.
    pub world: Option<World>,
}

/// The number of times every rank's program runs, for timing. Before the last iteration inputs and poison are restored,
/// so that the images are the results of that iteration. The ranks of a process begin each iteration together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timed {
    /// Iterations first that are not timed.
    pub warm_up: u32,
    /// Iterations that are timed; at least one is.
    pub iterations: u32,
}

impl Job {
    /// True if all ranks live in one process.
    pub fn alone(&self) -> bool {
        self.ranks == (0..self.n)
    }
}
