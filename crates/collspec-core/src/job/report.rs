//! The endings of a job's ranks, as the worker reports them.
use super::{Answers, MachineReport};
use serde::{Deserialize, Serialize};

/// The ending of one rank.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RankReport {
    /// The way its program ended.
    pub end: RankEnd,
    /// Calls that did not return success: index in the program, code, the library's text.
    pub codes: Vec<(u32, i32, String)>,
    /// Figures of named steps.
    pub figures: Vec<Figure>,
    /// The answers of NCCL's query functions.
    pub answers: Answers,
    /// Seconds of each timed iteration (see `Timed`); empty if the job is not timed.
    pub times: Vec<f64>,
    /// The total work of the kernels of the timed iterations, if it is counted.
    pub work: Option<Work>,
    /// What happened to the machine in its process, if it was disturbed or its kernels were other, and this is the process's first rank.
    pub machine: Option<MachineReport>,
}

/// The work done by kernels. On software GPUs it is counted, and the same in every run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Work {
    /// Instructions, each for every thread that executed it; those by which threads wait for others are left out.
    pub instructions: u64,
    /// Bytes loaded from global memory, other than by such instructions.
    pub loaded: u64,
    /// Bytes stored to global memory.
    pub stored: u64,
    /// Kernels that were launched.
    pub launches: u64,
    /// Blocks of all of them.
    pub blocks: u64,
}

impl Work {
    /// Combines each number of two works.
    pub fn with(self, other: Self, f: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            instructions: f(self.instructions, other.instructions),
            loaded: f(self.loaded, other.loaded),
            stored: f(self.stored, other.stored),
            launches: f(self.launches, other.launches),
            blocks: f(self.blocks, other.blocks),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RankEnd {
    /// All calls made, all streams drained, images in the arena.
    Done,
    /// A call failed and was not tolerated, or something failed outside of the calls: loading, or an asynchronous error while waiting.
    Error {
        /// While making the communicators.
        prelude: bool,
        /// Index in the program or prelude; `None` outside of the calls.
        call: Option<u32>,
        /// NCCL's code; [`NOT_NCCL`](super::NOT_NCCL) for a map without a value, and for the driver while opening.
        code: i32,
        /// The call, and the library's text.
        text: String,
    },
    /// The rank was stopped because another rank failed.
    Stopped,
    /// Was still making communicators or loading, by its step word.
    Opening {
        /// Index in the prelude (see `arena::Step::Opening`); `None` before the first call.
        call: Option<u32>,
    },
    /// Had not ended; the index of the call it was at, by its step word.
    Running {
        /// Index in the program.
        call: u32,
    },
}

/// Figures of one named step on one rank; several calls with one tag add up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    pub tag: u32,
    pub seconds: f64,
    pub traffic: Option<Traffic>,
}

/// Counted traffic, as in `nccl_sys::collspecTraffic_t`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traffic {
    pub rounds: u64,
    pub sent: u64,
    pub received: u64,
    pub inner: u64,
}
