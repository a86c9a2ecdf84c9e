//! The types that make up a plan.
pub use super::rank_op::{Placed, RankCollective, RankMap, RankMessage};
use crate::job::{Call, CallKind};
use crate::num::DType;
use crate::ops::Collective;
use crate::scenario::{Case, ConfigValue, Diagnostic, Span};
use std::collections::HashSet;
use std::sync::Arc;

/// Index into [`Plan::buffers`].
pub type BufId = usize;
/// Index into [`Plan::allocs`].
pub type AllocId = usize;
/// Index into [`Plan::comms`].
pub type CommId = usize;
/// Index into [`Plan::steps`].
pub type StepId = u32;
/// Guard bytes on each side of a payload.
pub const GUARD: u64 = 4096;

/// A case made concrete: nothing is left to decide except the checkpoints (see `oracle::Forecast`).
#[derive(Clone, Debug)]
pub struct Plan {
    /// The case that was planned.
    pub case: Arc<Case>,
    /// Number of ranks in the world.
    pub n: usize,
    /// Every buffer name of the program.
    pub buffers: Vec<Buffer>,
    /// Every allocation; a rank whose calls pass unused pointers also has a scrap allocation (see [`Alloc::scrap`]).
    pub allocs: Vec<Alloc>,
    /// Every communicator, one entry per group or colour.
    pub comms: Vec<Comm>,
    /// The unrolled program's steps in file order.
    pub steps: Vec<PlanStep>,
    /// The effects of the calls, in an order in which everything that an event reads has been written by earlier ones.
    pub events: Vec<Event>,
    /// Calls that create communicators before the time limit of the case starts, by world rank; those of the idle ranks of a
    /// larger world come last.
    pub prelude: Vec<Vec<Call>>,
    /// Calls by world rank, as `prelude`.
    pub programs: Vec<Vec<Call>>,
    /// Configurations that `Init` and `Split` calls name.
    pub configs: Vec<Vec<(String, ConfigValue)>>,
    /// Warnings about a program that seems right but may go wrong in some environments.
    pub warnings: Vec<Diagnostic>,
    /// For each world rank: its non-blocking communicators, in ascending order. Empty if no rank has any.
    pub nonblocking: Vec<Vec<u32>>,
    /// Number of unique ids needed (`Init` calls name them by index).
    pub ids: u32,
    /// Number of unique ids that live communicators give for ranks that join (`GrowId` and `Grow` calls name them by index).
    pub grow_ids: u32,
    /// Number of streams per rank; index 0 is `main`.
    pub streams: u32,
    /// The stream that is CUDA's null stream, if a step runs on it.
    pub null_stream: Option<u32>,
    /// Names of `NAME.seconds` and such: tag number to step name.
    pub tags: Vec<String>,
    /// Its cost, except for the part that depends on data.
    pub cost: super::Cost,
    /// The limits on its cost.
    pub limits: super::Limits,
    /// The result of analysing which calls wait.
    pub foresight: Foresight,
    /// Contents of the plan's own buffers (names that start with `#`), by buffer and rank.
    pub constants: Vec<(BufId, usize, Vec<u8>)>,
    /// The reason the data is undefined, if it is (mismatched calls, a program that cannot finish): then only containment is judged.
    pub undefined: Option<String>,
    /// Rank and call of operations lost with a rank whose process ends: how far they get is left to chance.
    pub lost: HashSet<(usize, usize)>,
    /// True if the program creates, splits or ends communicators after the prelude.
    pub comm_steps: bool,
    /// The plan of the steps that run first in the same processes, if there are any; their results are judged as well.
    pub history: Option<Arc<Plan>>,
}

impl Plan {
    /// The launch that executes a replayed call of a rank's program: its index and its stream. `None` for any other call.
    pub fn launch_of(program: &[Call], call: u32) -> Option<(u32, u32)> {
        let CallKind::Replayed { launch, .. } = program.get(call as usize)?.kind else { return None };
        match program.get(launch as usize)?.kind {
            CallKind::Launch { stream, .. } => Some((launch, stream)),
            _ => None,
        }
    }

    /// Number of ranks that take part, including the idle ones of a larger world.
    pub fn ranks(&self) -> usize {
        self.programs.len()
    }
}

/// A named buffer, with separate memory on each rank that has it.
#[derive(Clone, Debug)]
pub struct Buffer {
    /// Its name. A name that starts with `#` is an internal buffer, for example a barrier's, and is not shown.
    pub name: String,
    /// Element type of the buffer.
    pub dtype: DType,
    /// The place in the file that names it first.
    pub span: Span,
    /// Its memory by world rank.
    pub places: Vec<Option<Place>>,
    /// Index into `Case::inputs`, if it exists before the first step.
    pub input: Option<usize>,
}

/// A buffer's memory on one rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The allocation that contains the row.
    pub alloc: AllocId,
    /// First byte in the allocation's payload.
    pub offset: u64,
    /// Number of elements.
    pub count: u64,
}

/// One allocation: `[guard | lead | payload | guard]`; base aligned to 4,096. Its image covers all of it.
#[derive(Clone, Debug)]
pub struct Alloc {
    /// World rank that owns the memory.
    pub rank: usize,
    /// Bytes of guard between the first guard and the payload (a buffer's `offset`).
    pub lead: u64,
    /// Number of bytes of the payload.
    pub payload: u64,
    /// Names of the buffers in it.
    pub label: String,
    /// True if it becomes a window, for which the library must allocate the memory.
    pub window: bool,
    /// True for the memory that unused pointers point to: nothing may write it.
    pub scrap: bool,
}

impl Alloc {
    /// Bytes of the whole image.
    pub fn image(&self) -> u64 {
        2 * GUARD + self.lead + self.payload
    }
    /// The offset of the payload in the image.
    pub fn start(&self) -> u64 {
        GUARD + self.lead
    }
}

/// A communicator of the plan.
#[derive(Clone, Debug)]
pub struct Comm {
    /// Its name in the file; several groups or colours share one; `None` for a step's `groups`.
    pub name: Option<String>,
    /// World ranks, in rank order.
    pub members: Vec<usize>,
}

/// One step of the unrolled program.
#[derive(Clone, Debug)]
pub struct PlanStep {
    /// The step's place in the file.
    pub span: Span,
    /// A readable name: `step 3: all_reduce`, `step 2.1 (round 4): send`.
    pub label: String,
    /// Expected codes by world rank, for those with an `error` in the step (`None` inside: any error).
    pub error: Vec<(usize, Option<nccl_sys::ncclResult_t>)>,
    /// The place of `error` in the file, if it is written.
    pub error_span: Option<Span>,
}

/// Part of a buffer on one rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// The buffer that contains the region.
    pub buf: BufId,
    /// World rank whose row it is.
    pub rank: usize,
    /// Index of the first element.
    pub start: u64,
    /// Number of elements.
    pub len: u64,
}

/// A region that a call writes, and where a checkpoint of it would go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Write {
    /// The region that is written.
    pub region: Region,
    /// A copy of it is ordered correctly if it is enqueued on `stream` straight after this call of the rank's program.
    pub after: u32,
    /// The stream that writes it.
    pub stream: u32,
}

/// A rank's operation as one call of its program.
#[derive(Clone, Debug)]
pub struct RankCall<T> {
    /// The operation of this rank.
    pub op: T,
    /// The step that makes the call.
    pub step: StepId,
    /// A copy of its result is ordered correctly if it is enqueued on the operation's stream straight after this call.
    pub after: u32,
}

/// An operation; it happens once all ranks that it needs have called it.
#[derive(Clone, Debug)]
pub enum Event {
    /// A collective of all ranks of a communicator.
    Collective(CollectiveEvent),
    /// A message leaves: its content is that of the sender's memory at this point.
    Sent {
        /// Number of the message.
        message: usize,
        /// The call of the sender.
        call: RankCall<RankMessage<Placed>>,
    },
    /// A message arrives, after it was sent.
    Received {
        /// Number of the message.
        message: usize,
        /// The call of the receiver.
        call: RankCall<RankMessage<Placed>>,
    },
    Map(RankCall<Arc<RankMap<Placed>>>),
    /// From this event on the contents are unknown (an operation that an `abort` may have cut short, or an error).
    Undefined {
        /// The step that caused it.
        step: StepId,
        /// The regions that may have been written.
        out: Vec<Write>,
    },
}

/// A collective that every rank of a communicator has called.
#[derive(Clone, Debug)]
pub struct CollectiveEvent {
    /// The call that came first; the others are equal in everything that [`Self::op`] to `Self::root` return.
    pub first: RankCall<Arc<RankCollective<Placed>>>,
    /// The ranks' calls, in the order of the communicator.
    pub calls: Vec<RankCall<Arc<RankCollective<Placed>>>>,
    /// The reduction, if it has one, with every rank's factor.
    pub reduction: Option<Reduction>,
}

impl CollectiveEvent {
    /// The collective's entry in the table.
    pub fn op(&self) -> &'static Collective {
        self.first.op.op
    }

    /// The communicator of the collective.
    pub fn comm(&self) -> CommId {
        self.first.op.comm
    }

    /// The count argument of NCCL's call.
    pub fn count(&self) -> u64 {
        self.first.op.size.count
    }

    /// Element type of the call.
    pub fn dtype(&self) -> DType {
        self.first.op.size.dtype
    }

    /// The region that each rank of the communicator reads.
    pub fn sends(&self) -> impl ExactSizeIterator<Item = Option<Region>> {
        self.calls.iter().map(|call| call.op.send)
    }

    /// The region that each rank of the communicator writes.
    pub fn recvs(&self) -> impl ExactSizeIterator<Item = Option<Write>> {
        self.calls.iter().map(|call| call.op.recv.map(|region| call.write(region, call.op.stream)))
    }
}

impl<T> RankCall<T> {
    fn write(&self, region: Region, stream: u32) -> Write {
        Write { region, after: self.after, stream }
    }
}

impl RankCall<RankMessage<Placed>> {
    /// The memory that the receiver writes.
    pub fn received(&self) -> Write {
        self.write(self.op.memory, self.op.stream)
    }
}

impl RankCall<Arc<RankMap<Placed>>> {
    /// The memory that the map writes.
    pub fn out(&self) -> Write {
        self.write(self.op.out, self.op.stream)
    }
}

impl Event {
    /// The step that it belongs to.
    pub fn step(&self) -> StepId {
        match self {
            Self::Collective(collective) => collective.first.step,
            Self::Sent { call, .. } | Self::Received { call, .. } => call.step,
            Self::Map(call) => call.step,
            Self::Undefined { step, .. } => *step,
        }
    }

    /// The regions that the event writes: for a collective by rank of the communicator, `None` where nothing is written.
    pub fn writes(&self) -> Vec<Option<Write>> {
        match self {
            Self::Collective(collective) => collective.recvs().collect(),
            Self::Sent { .. } => Vec::new(),
            Self::Received { call, .. } => vec![Some(call.received())],
            Self::Map(call) => vec![Some(call.out())],
            Self::Undefined { out, .. } => out.iter().copied().map(Some).collect(),
        }
    }

    pub fn reads(&self) -> Vec<Region> {
        match self {
            Self::Collective(collective) => collective.sends().flatten().collect(),
            Self::Sent { call, .. } => vec![call.op.memory],
            Self::Map(call) => call.op.reads.clone(),
            Self::Received { .. } | Self::Undefined { .. } => Vec::new(),
        }
    }
}

/// A reduction with a factor, or by default with the factors of all ranks of the communicator, as bits of the element type.
#[derive(Clone, Debug, PartialEq)]
pub enum Reduction<F = Vec<u64>> {
    /// sum, prod, max, min, avg.
    Builtin(nccl_sys::ncclRedOp_t),
    /// A sum of the ranks' inputs, each times its rank's factor.
    PreMulSum(F),
}

/// The result of analysing which calls wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Foresight {
    /// The program finishes even if every send waits for its receive.
    Completes,
    /// The program finishes only if sends are buffered, or if hosts do not wait where NCCL's may: these ranks wait for each other, or
    /// are some of those that wait.
    MayBlock(Vec<Waiting>),
    /// The program cannot finish.
    Stuck(Vec<Waiting>),
}

/// A rank that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// World rank that waits.
    pub rank: usize,
    /// The step at which it waits.
    pub step: StepId,
    /// The reason: `the send waits for its recv`.
    pub what: String,
    /// World ranks it waits for.
    pub on: Vec<usize>,
}
