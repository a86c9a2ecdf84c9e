//! The messages between parent and worker: length-prefixed postcard messages; bulk data lies in the arena.
pub mod arena;
mod mapped;
mod observation;
pub mod wire;

pub use mapped::{MappedLibrary, mapped_libraries};
pub use observation::{Ended, Observation};

use crate::expr::{Expr, Value};
use crate::num::DType;
use crate::ops::NcclCall;
use crate::ops::{AlgorithmChoice, ConfigValue, ExitStatus};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::ops::Range;

/// The version of the messages, in the first one of every worker; a worker of another build is refused.
pub const PROTOCOL: u32 = 9;

/// The code of a failure that is none of NCCL's: a map without a value, the driver before the program runs.
pub const NOT_NCCL: i32 = -1;

/// Where a pointer argument points.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ptr {
    /// Null.
    Null,
    /// Byte `byte` of allocation `alloc`'s payload.
    At {
        /// Index into [`Job::allocs`].
        alloc: u32,
        /// Byte in the payload.
        byte: u64,
    },
}

/// One call of a rank.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Call {
    /// The unrolled step it belongs to; grows along a program.
    pub step: u32,
    /// True if the program goes on after an error code (the step says `error`); the code is recorded either way.
    pub tolerate: bool,
    /// True if the program goes on while the call is in progress; else such a call is waited for.
    pub left_in_progress: bool,
    /// What it does.
    pub kind: CallKind,
}

/// What a call does. `comm` indexes [`Job::comms`], `stream` counts the rank's streams.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum CallKind {
    Collective {
        call: NcclCall,
        send: Ptr,
        recv: Ptr,
        count: u64,
        dtype: DType,
        red: Red,
        root: i32,
        comm: u32,
        stream: u32,
        /// What the call asks for in its configuration; without one it has none.
        algorithm: Option<AlgorithmChoice>,
    },
    Send {
        ptr: Ptr,
        count: u64,
        dtype: DType,
        peer: i32,
        comm: u32,
        stream: u32,
    },
    Recv {
        ptr: Ptr,
        count: u64,
        dtype: DType,
        peer: i32,
        comm: u32,
        stream: u32,
    },
    GroupStart,
    GroupEnd,
    /// Element i of `out` from the expression, in stream order, by the host.
    Map {
        expr: Expr,
        names: Vec<(String, Value)>,
        reads: Vec<MapRead>,
        out: Ptr,
        count: u64,
        dtype: DType,
        stream: u32,
    },
    /// Checkpoint `index` (see [`Job::checkpoints`]) is a copy of `from`, in stream order.
    Checkpoint {
        from: Ptr,
        bytes: u64,
        index: u32,
        stream: u32,
    },
    /// `stream` waits on the device for the work so far of the streams `on`.
    After {
        stream: u32,
        on: Vec<u32>,
    },
    /// The host waits for a stream's work so far, or for all streams'.
    Wait {
        stream: Option<u32>,
    },
    Sleep {
        seconds: f64,
    },
    /// The process ends in this way: at once, or, as the death with this number, once every other rank is at its
    /// [`CallKind::AwaitDeath`].
    Exit {
        status: ExitStatus,
        death: Option<u32>,
    },
    /// Waits until the processes of these ranks have ended.
    AwaitDeath {
        death: u32,
        ranks: Vec<u32>,
    },
    /// Waits until each of these communicators, which have lost a rank, reports an asynchronous error, which is the call's.
    AwaitError {
        comms: Vec<u32>,
    },
    /// Makes `comm` with unique id `id` as rank `rank` of `n`; with `ids` by so many ids from there on (`ncclCommInitRankScalable`).
    Init {
        comm: u32,
        id: u32,
        ids: Option<u32>,
        rank: i32,
        n: i32,
        config: Option<u32>,
    },
    /// Splits `parent`; `new` is the communicator of this colour, `None` with colour -1.
    Split {
        parent: u32,
        color: i32,
        key: i32,
        new: Option<u32>,
        config: Option<u32>,
    },
    /// Makes `new` of the ranks of `parent` but `exclude`; `None` where the call is to fail.
    Shrink {
        parent: u32,
        exclude: Vec<i32>,
        /// True if the parent's operations are aborted first.
        abort: bool,
        new: Option<u32>,
        config: Option<u32>,
    },
    /// Gets a unique id for new ranks of a live communicator, and publishes it as number `id` of its kind.
    GrowId {
        comm: u32,
        id: u32,
    },
    /// Makes `new` with `n` ranks: a rank of `parent` keeps its number, any other joins as `rank` by the id `id`.
    Grow {
        parent: Option<u32>,
        id: u32,
        rank: i32,
        n: i32,
        new: Option<u32>,
        config: Option<u32>,
    },
    Revoke {
        comm: u32,
    },
    Suspend {
        comm: u32,
    },
    Resume {
        comm: u32,
    },
    Finalize {
        comm: u32,
    },
    Destroy {
        comm: u32,
    },
    Abort {
        comm: u32,
    },
    /// Registers bytes of an allocation's image with `comm`, as registration `id` of the rank: as a symmetric window, which all
    /// ranks of the communicator make together, or by this rank alone.
    Register {
        id: u32,
        window: bool,
        alloc: u32,
        /// First byte in the allocation's image.
        from: u64,
        bytes: u64,
        comm: u32,
    },
    /// Data into byte `offset` of the peer's part of a window, which is a registration of this rank too, and a signal. Without a
    /// window a null one is passed.
    Put {
        ptr: Ptr,
        count: u64,
        dtype: DType,
        peer: i32,
        window: Option<u32>,
        offset: u64,
        signal: Signal,
        comm: u32,
        stream: u32,
    },
    /// A signal alone.
    Signal {
        peer: i32,
        signal: Signal,
        comm: u32,
        stream: u32,
    },
    /// Waits on the stream for signals: of each of these ranks so many.
    WaitSignal {
        peers: Vec<(i32, i32)>,
        signal: Signal,
        comm: u32,
        stream: u32,
    },
    /// Libraries before 2.31 connect at the first one-sided operation of a communicator, which every rank must call: a signal to
    /// the rank itself.
    FirstSignal {
        comm: u32,
        stream: u32,
    },
    /// Ends registration `id`.
    Deregister {
        id: u32,
        comm: u32,
    },
    /// What `stream` gets from here on is captured into `graph` instead of run, and so is what streams get that wait for it.
    BeginCapture {
        graph: u32,
        stream: u32,
    },
    /// Part of the capture of `graph`; left out where the graph is there already, from an earlier run of the job.
    Captured {
        graph: u32,
        call: Box<CallKind>,
    },
    /// The capture that began on `stream` is over.
    EndCapture {
        graph: u32,
        stream: u32,
    },
    /// Runs a graph, as one piece of work of `stream`.
    Launch {
        graph: u32,
        stream: u32,
    },
    /// What the launch with this index does, behind it in a plan: no worker is given such a call.
    Replayed {
        launch: u32,
        call: Box<CallKind>,
    },
    /// Destroys a graph.
    Release {
        graph: u32,
    },
    /// A named step begins: traffic of `comm` (if any) counts under `tag`, the clock starts.
    Begin {
        tag: u32,
        comm: Option<u32>,
    },
    /// A named step has been called: the clock stops when `stream` (if any) gets here.
    End {
        tag: u32,
        stream: Option<u32>,
    },
}

impl CallKind {
    /// What the call means where it stands in a plan: of a replayed call what a graph does, of a captured one nothing.
    pub fn effect(&self) -> &Self {
        match self {
            Self::Replayed { call, .. } => call,
            other => other,
        }
    }

    /// Puts an operation on another stream.
    pub fn set_stream(&mut self, to: u32) {
        if let Self::Collective { stream, .. }
        | Self::Send { stream, .. }
        | Self::Recv { stream, .. }
        | Self::Map { stream, .. } = self
        {
            *stream = to;
        }
    }

    /// The call that a worker makes in the end, captured or not.
    pub fn inner(&self) -> &Self {
        match self {
            Self::Replayed { call, .. } | Self::Captured { call, .. } => call,
            other => other,
        }
    }
}

/// Which signal of which context a one-sided call means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Signal {
    pub index: i32,
    pub context: i32,
}

/// A buffer that a map reads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct MapRead {
    pub name: String,
    pub ptr: Ptr,
    pub count: u64,
    pub dtype: DType,
}

/// The reduction argument.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Red {
    /// The call takes none.
    None,
    /// NCCL's code.
    Builtin(i32),
    /// `ncclRedOpCreatePreMulSum` before the call, `ncclRedOpDestroy` after it (after the group's end inside a group).
    PreMulSum {
        /// The scalar's bytes, read from host memory unless `device` is given. With `device`, the initial image holds the value
        /// right behind that place, and it is copied to the place in stream order.
        scalar: Vec<u8>,
        /// In device memory (the allocation's initial image holds the value).
        device: Option<Ptr>,
    },
}

/// An allocation and where its images lie in the arena.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AllocSpec {
    /// World rank.
    pub rank: u32,
    /// Where the payload starts in the image.
    pub start: u64,
    /// True if the library allocates it, because it becomes a window.
    pub from_library: bool,
    /// Bytes of the image.
    pub image: u64,
    /// Byte of the arena where the initial image lies.
    pub initial: u64,
    /// Byte of the arena where the final image goes; the same if the allocation itself lies there.
    pub last: u64,
}

impl AllocSpec {
    /// True if the allocation itself lies in the arena, so that nothing is copied to and fro.
    pub fn is_in_arena(&self) -> bool {
        self.initial == self.last
    }
}

/// A checkpoint and where it goes in the arena.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct CheckpointSpec {
    pub rank: u32,
    pub bytes: u64,
    pub at: u64,
}

/// Names a set of communicators that a worker keeps. The parent hands the names out and never uses one twice for a worker;
/// it alone decides which sets are kept and which are destroyed.
pub type SetId = u64;

/// Everything that a worker gets of a case, or that one of its parts gets if `ranks` are not all ranks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// For logs.
    pub case: String,
    /// Ranks that take part.
    pub n: u32,
    /// World ranks that live here. The part of rank 0 makes the unique ids for all parts.
    pub ranks: Range<u32>,
    /// Members (world ranks) of every communicator.
    pub comms: Vec<Vec<u32>>,
    /// Configurations.
    pub configs: Vec<Vec<(String, ConfigValue)>>,
    /// Unique ids to make.
    pub ids: u32,
    /// Unique ids that live communicators give while the programs run (see [`CallKind::GrowId`]).
    pub grow_ids: u32,
    /// Streams per rank.
    pub streams: u32,
    /// Which of them is the null stream, if one is.
    pub null_stream: Option<u32>,
    /// Allocations.
    pub allocs: Vec<AllocSpec>,
    /// Checkpoints.
    pub checkpoints: Vec<CheckpointSpec>,
    /// Number of tags.
    pub tags: u32,
    /// Calls of *opening*, by world rank. Equal preludes (with equal `comms` and `configs`) may share communicators.
    pub prelude: Vec<Vec<Call>>,
    /// Calls of *running*, by world rank; empty for ranks that live elsewhere.
    pub programs: Vec<Vec<Call>>,
    /// One thread drives all ranks: steps in turn, each as one group over all ranks.
    pub one_thread: bool,
    /// Bytes of arena in use. It starts with a step word of eight bytes for every rank (see `arena::Step`).
    pub arena: u64,
    /// The kept set of communicators to run on, if its prelude is equal; otherwise they are made.
    pub reuse: Option<SetId>,
    /// The fault that the software library must have; empty if none.
    pub fault: String,
    /// How often the programs run for their times; `None` if they run once and are not timed.
    pub timed: Option<Timed>,
}

/// How often every rank's program runs, for its times. Before the last iteration inputs and poison are put in place again,
/// so that the images are what that iteration made of them. The ranks of a process begin each iteration together.
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

    /// The communicators that lose a rank while the programs run, as far as ranks that outlive it know.
    pub fn bereaved(&self) -> BTreeSet<usize> {
        let dead = self.programs.iter().flatten().filter_map(|call| match &call.kind {
            CallKind::AwaitDeath { ranks, .. } => Some(ranks),
            _ => None,
        });
        let dead: BTreeSet<u32> = dead.flatten().copied().collect();
        let lost = |members: &[u32]| members.iter().any(|member| dead.contains(member));
        self.comms.iter().enumerate().filter(|(_, members)| lost(members)).map(|(index, _)| index).collect()
    }

    /// The job for the part with these ranks. It keeps all preludes, so that all parts agree on which are equal.
    pub fn share(&self, ranks: Range<u32>) -> Self {
        let own = |rank: usize| ranks.contains(&(rank as u32));
        let programs = self.programs.iter().enumerate();
        let programs = programs.map(|(rank, calls)| if own(rank) { calls.clone() } else { Vec::new() }).collect();
        Self {
            case: self.case.clone(),
            comms: self.comms.clone(),
            configs: self.configs.clone(),
            allocs: self.allocs.clone(),
            checkpoints: self.checkpoints.clone(),
            prelude: self.prelude.clone(),
            programs,
            ranks,
            fault: self.fault.clone(),
            ..*self
        }
    }
}

/// A unique id's bytes, or the code and the text of its failure.
pub type Id = Result<Vec<u8>, (i32, String)>;

/// Parent to a part of a worker.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Request {
    /// Run this; answered by [`Reply::Loaded`] then [`Reply::Done`].
    Job(Box<Job>),
    /// Restore the inputs and run the same job on the same communicators once more; answered as a job is.
    Again,
    /// The unique ids of this run, made by another part.
    Ids(Vec<Id>),
    /// The unique id of this run with this number, which a live communicator gave in another part.
    GrowId(u32, Id),
    /// To a part whose rank dies with this number: end now. To any other part: the processes of those that die have ended.
    Death(u32),
    /// All parts are loaded. Not sent to a part that is alone: it need not wait.
    Run,
    /// Another part's rank has failed: stop.
    Stop,
    /// End the last job and give back its resources. Another job may follow only when everything that this destroys is gone.
    Finish(Finish),
}

/// Which communicators are kept and which are destroyed after a job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finish {
    /// The name under which the job's own are kept; without one they are destroyed.
    pub keep: Option<SetId>,
    /// Kept sets that are destroyed too.
    pub destroy: Vec<SetId>,
    /// True if the part sends [`Reply::Finished`] at the end; required if any communicator is destroyed.
    pub answer: bool,
}

/// Worker to parent.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Reply {
    /// First message of a worker.
    Hello {
        /// [`PROTOCOL`].
        protocol: u32,
        /// NCCL's version code, from the library.
        version: i32,
        /// Where the library came from.
        library: String,
        /// Symbols that it has.
        symbols: Vec<String>,
        /// The files of NCCL libraries that the process has mapped; `None` if it cannot tell.
        mapped: Option<Vec<MappedLibrary>>,
    },
    /// The unique ids of this run, for the other parts.
    Ids(Vec<Id>),
    /// The unique id with this number, which a live communicator gave, for the other parts.
    GrowId(u32, Id),
    /// Communicators, allocations, inputs and poison are in place: the clock starts.
    Loaded {
        /// True if the communicators are those of an earlier job.
        reused: bool,
    },
    /// All ranks that live here have ended. Images and checkpoints are in the arena for ranks that are `Done`.
    Done(Report),
    /// The software engine proved that nothing can move any more. The worker can only be killed now.
    Stuck {
        /// Who waits for whom.
        waits: String,
        /// How far the ranks got.
        report: Report,
    },
    /// A rank waits for the death with this number.
    AtDeath(u32),
    /// Everything that [`Finish`] asked for is done.
    Finished {
        /// World ranks, and the error of destroying their communicators.
        errors: Vec<(u32, String)>,
    },
    /// The worker itself could not do what was asked (no memory, a bad message).
    Trouble(String),
}

/// Faults on demand of the software library, a bit each in the order of `soft_nccl::fault::TABLE`.
pub type Reached = soft_nccl::fault::Reached;

/// How every rank ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// By world rank; the entries of ranks that live elsewhere have no meaning.
    pub ranks: Vec<RankReport>,
    /// Faults on demand that struck, or would have: a bit each.
    pub reached: Reached,
}

/// How one rank ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RankReport {
    /// The end.
    pub end: RankEnd,
    /// Calls that did not return success: index in the program, code, the library's text.
    pub codes: Vec<(u32, i32, String)>,
    /// Figures of named steps.
    pub figures: Vec<Figure>,
    /// The answers of NCCL's query functions.
    pub answers: Answers,
    /// Seconds of each timed iteration (see [`Timed`]); empty if the job is not timed.
    pub times: Vec<f64>,
}

/// The answers of NCCL's query functions on one rank.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answers {
    /// About communicators: asked when they have been made, and when the program is over.
    pub comms: Vec<Asked>,
    /// The memory statistics of communicators: asked with the rest, and after each suspend and resume.
    pub memory: Vec<MemoryAsked>,
    /// The text for each code, `None` for a null pointer. Only one rank of a process asks; empty on all others.
    pub texts: Vec<(i32, Option<String>)>,
    /// NCCL's version code, from the rank that asks for the texts.
    pub version: Option<i32>,
    /// Calls that failed as they were expected to, after which the last error was a null pointer.
    pub mute: u32,
    /// About windows: asked when they have been made.
    pub windows: Vec<WindowAnswer>,
}

/// The answer about a window that was registered without an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WindowAnswer {
    /// The registration's number.
    pub id: u32,
    /// False if the library gave a null window, because it does not support windows here.
    pub given: bool,
    /// What `ncclWinGetUserPtr` answered.
    pub pointer: PointerAnswer,
}

/// The answer of a function that writes an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PointerAnswer {
    /// The library has no such function.
    Absent,
    /// The address of the registered memory.
    Registered,
    /// A null pointer.
    Null,
    /// Another address.
    Other,
    /// It returned this code.
    Refused(i32),
}

/// The answers about one communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    /// Index of the communicator.
    pub comm: u32,
    /// Its number of ranks.
    pub count: Answer,
    /// This rank's number in it.
    pub rank: Answer,
    /// The rank's device.
    pub device: Answer,
    /// The calling thread's current device, which is the right answer for `device`.
    pub current: Option<i32>,
    /// The asynchronous error's code.
    pub error: Answer,
}

/// What `ncclCommMemStats` answered about one communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryAsked {
    /// Index of the communicator.
    pub comm: u32,
    /// True if the program has suspended it.
    pub suspended: bool,
    /// Bytes that suspending releases.
    pub suspendable: MemoryAnswer,
    /// 1 while they are released.
    pub released: MemoryAnswer,
    /// Bytes that stay.
    pub persistent: MemoryAnswer,
    /// All bytes.
    pub total: MemoryAnswer,
}

/// One statistic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MemoryAnswer {
    /// This number.
    Is(u64),
    /// Success, and nothing was written.
    Nothing,
    /// It returned this code.
    Refused(i32),
}

/// The answer of a query function that writes a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// The library has no such function.
    Absent,
    /// This number.
    Is(i32),
    /// Success, and nothing was written.
    Nothing,
    /// It returned this code.
    Refused(i32),
}

/// The end of one rank.
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
        /// NCCL's code; [`NOT_NCCL`] for a map without a value, and for the driver while opening.
        code: i32,
        /// What was called, and the library's text.
        text: String,
    },
    /// Told to stop because another rank failed.
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
#[allow(missing_docs)]
pub struct Figure {
    pub tag: u32,
    pub seconds: f64,
    pub traffic: Option<Traffic>,
}

/// As `nccl_sys::collspecTraffic_t`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Traffic {
    pub rounds: u64,
    pub sent: u64,
    pub received: u64,
    pub inner: u64,
}
