//! The messages between parent and worker: length-prefixed postcard messages; bulk data lies in the arena.
use super::{Job, MappedLibrary, Reached, Report, SetId, Share};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The version of the messages, in the first one of every worker; a worker of another build is refused.
pub const PROTOCOL: u32 = 22;

/// A unique id's bytes, or the code and the text of its failure.
pub type Id = Result<Vec<u8>, (i32, String)>;

/// Parent to a part of a worker.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Request {
    /// Run this; answered by [`Reply::Loaded`] then [`Reply::Done`].
    Job(Box<Job>),
    /// Run this, as one of several parts; answered as a job is.
    Share(Box<Share>),
    /// Restore the inputs and run the same job on the same communicators once more; answered as a job is.
    Again,
    /// The unique ids of this run, created by another part.
    Ids(Vec<Id>),
    /// The unique id of this run with this number, which a live communicator gave in another part.
    GrowId(u32, Id),
    /// For a part whose rank dies with this number: end now. For any other part: the processes of those that die have ended.
    Death(u32),
    /// All parts are loaded. Not sent to a part that is alone, which need not wait.
    Run,
    /// Another part's rank has failed: stop.
    Stop,
    /// Asks for the faults that the run has met so far, when its time limit has ended it; answered by [`Reply::Reached`]. On software
    /// GPUs the log then gives the positions of kernels.
    Reached,
    /// End the last job and give back its resources. Another job may follow only when everything that this destroys is gone.
    Finish(Finish),
}

/// The communicators to keep and to destroy after a job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finish {
    /// The name under which the job's own are kept; without one they are destroyed.
    pub keep: Option<SetId>,
    /// Kept sets that are destroyed too.
    pub destroy: Vec<SetId>,
    /// True if the part sends [`Reply::Finished`] at the end; required if any communicator is destroyed.
    pub answer: bool,
}

/// A message from worker to parent.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Reply {
    /// First message of a worker.
    Hello {
        /// The worker's [`PROTOCOL`].
        protocol: u32,
        /// NCCL's version code, from the library.
        version: i32,
        /// Path from which the library was loaded.
        library: String,
        symbols: Vec<String>,
        /// The files of NCCL libraries that the process has mapped; `None` if it cannot tell.
        mapped: Option<Vec<MappedLibrary>>,
    },
    /// The unique ids of this run, for the other parts.
    Ids(Vec<Id>),
    /// The unique id with this number, which a live communicator gave, for the other parts.
    GrowId(u32, Id),
    /// Communicators, allocations, inputs and poison are in place: the clock starts. A part that is alone sends it together with
    /// its next message, because the parent sees in the step words that its ranks have begun.
    Loaded {
        /// True if the communicators are those of an earlier job.
        reused: bool,
        /// The time since then.
        ago: Duration,
    },
    /// All ranks that live here have ended. Images and checkpoints are in the arena for ranks that are `Done`.
    Done(Report),
    /// The software engine proved that nothing can move any more. The worker can only be killed now.
    Stuck {
        /// Describes who waits for whom.
        waits: String,
        /// The progress of the ranks.
        report: Report,
    },
    /// A rank waits for the death with this number.
    AtDeath(u32),
    /// The faults that the run has met so far, as a [`Report`] has them at the end.
    Reached(Reached),
    /// Everything that [`Finish`] asked for is done.
    Finished {
        /// World ranks, and the error of destroying their communicators.
        errors: Vec<(u32, String)>,
    },
    /// The system has refused this to the devices, and the run has an error that may come from that.
    Refused(String),
    /// The worker itself could not carry out a request (no memory, a bad message).
    Trouble(String),
}
