//! The programs of ranks, as the worker receives them: lists of calls.
use crate::expr::{Expr, Value};
use crate::num::DType;
use crate::ops::{AlgorithmChoice, ExitStatus, NcclCall};
use serde::{Deserialize, Serialize};

/// The memory that a pointer argument points to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ptr {
    /// The null pointer.
    Null,
    /// Byte `byte` of allocation `alloc`'s payload.
    At {
        /// Index into `Job::allocs`.
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
    /// True if the program continues after an error code (the step says `error`); the code is recorded either way.
    pub tolerate: bool,
    /// True if the program continues while the call is in progress; otherwise the call is waited for.
    pub left_in_progress: bool,
    /// The kind of call, with its arguments.
    pub kind: CallKind,
}

/// The kind of a call. `comm` indexes `Job::comms`, `stream` counts the rank's streams.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
        /// The call's configuration; `None` for a call without one.
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
    /// Checkpoint `index` (see `Job::checkpoints`) is a copy of `from`, in stream order; with `digest` its
    /// [`digest`](super::digest).
    Checkpoint {
        from: Ptr,
        bytes: u64,
        index: u32,
        stream: u32,
        digest: bool,
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
    /// Waits until this communicator, which has lost a rank, reports an asynchronous error, which is the call's.
    AwaitError {
        comm: u32,
    },
    /// Creates `comm` with unique id `id` as rank `rank` of `n`; with `ids`, from this many from `id` on (`ncclCommInitRankScalable`).
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
    /// Creates `new` from the ranks of `parent` except `exclude`; `None` if the call has to fail.
    Shrink {
        parent: u32,
        exclude: Vec<i32>,
        /// True if the parent's operations are aborted first.
        abort: bool,
        new: Option<u32>,
        config: Option<u32>,
    },
    /// Obtains a unique id for new ranks of a live communicator, and publishes it as number `id` of its kind.
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
    /// Sends a signal without data.
    Signal {
        peer: i32,
        signal: Signal,
        comm: u32,
        stream: u32,
    },
    /// Waits on the stream for signals: the given number from each of these ranks.
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
    /// Ends the registration `id`.
    Deregister {
        id: u32,
        comm: u32,
    },
    /// Work put on `stream` from here on is captured into `graph` instead of run, and so is the work of streams that wait for it.
    BeginCapture {
        graph: u32,
        stream: u32,
    },
    /// Part of the capture of `graph`; skipped if the graph exists already, from an earlier run of the job.
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
    /// The work of the launch with this index, placed after it in a plan: a worker never receives such a call.
    Replayed {
        launch: u32,
        call: Box<CallKind>,
    },
    /// Destroys a captured graph.
    Release {
        graph: u32,
    },
    /// A named step begins: traffic of `comm` (if any) counts under `tag`, the clock starts.
    Begin {
        tag: u32,
        comm: Option<u32>,
    },
    /// A named step has been called: the clock stops when `stream` (if any) reaches this point.
    End {
        tag: u32,
        stream: Option<u32>,
    },
}

impl CallKind {
    /// The effect of the call at its place in a plan: for a replayed call that of the graph's work, for a captured one none.
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

/// The signal and context that a one-sided call refers to, and the flags of the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signal {
    pub index: i32,
    pub context: i32,
    pub call_flags: u32,
}

/// A buffer that a map reads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MapRead {
    pub name: String,
    pub ptr: Ptr,
    pub count: u64,
    pub dtype: DType,
}

/// The reduction argument of a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Red {
    /// The call takes none.
    None,
    /// The code of one of NCCL's reductions.
    Builtin(i32),
    /// `ncclRedOpCreatePreMulSum` before the call, `ncclRedOpDestroy` after it (after the group's end inside a group).
    PreMulSum {
        /// The scalar's bytes, read from host memory unless `device` is given. With `device`, the initial image holds the value
        /// right after that place, and it is copied to the place in stream order.
        scalar: Vec<u8>,
        /// The place in device memory (the allocation's initial image holds the value).
        device: Option<Ptr>,
        /// True if the operator is destroyed before the call instead.
        destroyed: bool,
    },
}
