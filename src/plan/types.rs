//! What a plan is.
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

/// A case made concrete: nothing is left to decide but what the checkpoints are (see `oracle::Forecast`).
#[derive(Clone, Debug)]
pub struct Plan {
    /// The case.
    pub case: Arc<Case>,
    /// World size.
    pub n: usize,
    /// Every buffer name of the program.
    pub buffers: Vec<Buffer>,
    /// Every allocation; a rank whose calls pass unused pointers also has a scrap allocation (see [`Alloc::scrap`]).
    pub allocs: Vec<Alloc>,
    /// Every communicator, one entry per group or colour.
    pub comms: Vec<Comm>,
    /// The unrolled program's steps in file order.
    pub steps: Vec<PlanStep>,
    /// What the calls mean, in an order in which everything that an event reads has been written by earlier ones.
    pub events: Vec<Event>,
    /// Calls that make communicators before the time limit of the case starts, by world rank; those of the idle ranks of a
    /// larger world come last.
    pub prelude: Vec<Vec<Call>>,
    /// Calls by world rank, as `prelude`.
    pub programs: Vec<Vec<Call>>,
    /// Configurations that `Init` and `Split` calls name.
    pub configs: Vec<Vec<(String, ConfigValue)>>,
    /// What may go wrong although the program is right as far as it can be known.
    pub warnings: Vec<Diagnostic>,
    /// By world rank: the communicators that are non-blocking for it, in ascending order. Empty if none is for any rank.
    pub nonblocking: Vec<Vec<u32>>,
    /// Unique ids needed (`Init` calls name them by index).
    pub ids: u32,
    /// Unique ids that live communicators give for ranks that join (`GrowId` and `Grow` calls name them by index).
    pub grow_ids: u32,
    /// Streams per rank; index 0 is `main`.
    pub streams: u32,
    /// Which of them is CUDA's null stream, if a step runs on it.
    pub null_stream: Option<u32>,
    /// Names of `NAME.seconds` and such: tag number to step name.
    pub tags: Vec<String>,
    /// Its cost, except for the part that only the data decide.
    pub cost: super::Cost,
    /// The limits on its cost.
    pub limits: super::Limits,
    /// What the analysis says of waiting.
    pub foresight: Foresight,
    /// Contents of the plan's own buffers (names that start with `#`), by buffer and rank.
    pub constants: Vec<(BufId, usize, Vec<u8>)>,
    /// Why the data is undefined, if it is (mismatched calls, a program that cannot finish): only containment is judged then.
    pub undefined: Option<String>,
    /// Ranks and calls that are lost with a rank whose process ends: how far they come is left to chance.
    pub lost: HashSet<(usize, usize)>,
    /// True if the program makes, splits or ends communicators after the prelude.
    pub comm_steps: bool,
    /// The plan of what runs first in the same processes, if anything does; its results are judged as well.
    pub history: Option<Arc<Plan>>,
}

impl Plan {
    /// The launch that makes a replayed call of a rank's program: its index and its stream. `None` for any other call.
    pub fn launch_of(program: &[Call], call: u32) -> Option<(u32, u32)> {
        let CallKind::Replayed { launch, .. } = program.get(call as usize)?.kind else { return None };
        match program.get(launch as usize)?.kind {
            CallKind::Launch { stream, .. } => Some((launch, stream)),
            _ => None,
        }
    }

    /// Ranks that take part, the idle ones of a larger world too.
    pub fn ranks(&self) -> usize {
        self.programs.len()
    }
}

/// A name; one memory per rank that has it.
#[derive(Clone, Debug)]
pub struct Buffer {
    /// Its name. A name that starts with `#` is an internal buffer, for example a barrier's, and is not shown.
    pub name: String,
    /// Element type.
    pub dtype: DType,
    /// Where it is first named.
    pub span: Span,
    /// Its memory by world rank.
    pub places: Vec<Option<Place>>,
    /// Index into [`Case::inputs`], if it exists before the first step.
    pub input: Option<usize>,
}

/// A buffer's memory on one rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The allocation.
    pub alloc: AllocId,
    /// First byte in the allocation's payload.
    pub offset: u64,
    /// Elements.
    pub count: u64,
}

/// One allocation: `[guard | lead | payload | guard]`; base aligned to 4,096. Its image is all of it.
#[derive(Clone, Debug)]
pub struct Alloc {
    /// World rank.
    pub rank: usize,
    /// Bytes of guard between the first guard and the payload (a buffer's `offset`).
    pub lead: u64,
    /// Bytes of payload.
    pub payload: u64,
    /// Names of the buffers in it.
    pub label: String,
    /// True if it becomes a window, for which the library allocates it.
    pub window: bool,
    /// True for the memory into which unused pointers point: nothing may write it.
    pub scrap: bool,
}

impl Alloc {
    /// Bytes of the whole image.
    pub fn image(&self) -> u64 {
        2 * GUARD + self.lead + self.payload
    }
    /// Where the payload starts in the image.
    pub fn start(&self) -> u64 {
        GUARD + self.lead
    }
}

/// A communicator.
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
    /// Where it is written.
    pub span: Span,
    /// For people: `step 3: all_reduce`, `step 2.1 (round 4): send`.
    pub label: String,
    /// Expected codes by world rank, where the step says `error` (`None` inside: any error).
    pub error: Vec<(usize, Option<nccl_sys::ncclResult_t>)>,
    /// Where `error` is written, if it is.
    pub error_span: Option<Span>,
}

/// Part of a buffer on one rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// The buffer.
    pub buf: BufId,
    /// World rank.
    pub rank: usize,
    /// First element.
    pub start: u64,
    /// Elements.
    pub len: u64,
}

/// A region that a call writes, and where a checkpoint of it would go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Write {
    /// What is written.
    pub region: Region,
    /// A copy of it is ordered right if it is enqueued on `stream` straight after this call of the rank's program.
    pub after: u32,
    /// The stream.
    pub stream: u32,
}

/// A rank's operation as one call of its program.
#[derive(Clone, Debug)]
pub struct RankCall<T> {
    /// The rank's operation.
    pub op: T,
    /// The step.
    pub step: StepId,
    /// A copy of what it writes is ordered right if it is enqueued on the operation's stream straight after this call.
    pub after: u32,
}

/// An operation; it happens once all ranks that it needs have called it.
#[derive(Clone, Debug)]
pub enum Event {
    /// A collective.
    Collective(CollectiveEvent),
    /// A message leaves: its content is that of the sender's memory at this point.
    Sent {
        /// Number of the message.
        message: usize,
        /// The sender's call.
        call: RankCall<RankMessage<Placed>>,
    },
    /// A message arrives, after it was sent.
    Received {
        /// Number of the message.
        message: usize,
        /// The receiver's call.
        call: RankCall<RankMessage<Placed>>,
    },
    /// A map on one rank.
    Map(RankCall<Arc<RankMap<Placed>>>),
    /// From here on the contents of these are unknown (an operation that an `abort` may have cut short, or an error).
    Undefined {
        /// The step.
        step: StepId,
        /// What it may have written.
        out: Vec<Write>,
    },
}

/// A collective that every rank of a communicator has called.
#[derive(Clone, Debug)]
pub struct CollectiveEvent {
    /// The call that came first; the others are equal in what [`Self::op`] to [`Self::root`] give.
    pub first: RankCall<Arc<RankCollective<Placed>>>,
    /// The ranks' calls, in the order of the communicator.
    pub calls: Vec<RankCall<Arc<RankCollective<Placed>>>>,
    /// The reduction, if it has one, with every rank's factor.
    pub reduction: Option<Reduction>,
}

impl CollectiveEvent {
    /// Its entry in the table.
    pub fn op(&self) -> &'static Collective {
        self.first.op.op
    }

    /// The communicator.
    pub fn comm(&self) -> CommId {
        self.first.op.comm
    }

    /// NCCL's count.
    pub fn count(&self) -> u64 {
        self.first.op.size.count
    }

    /// Element type.
    pub fn dtype(&self) -> DType {
        self.first.op.size.dtype
    }

    /// Rank in the communicator; 0 if it takes none.
    pub fn root(&self) -> usize {
        self.first.op.root()
    }

    /// What each rank of the communicator reads.
    pub fn sends(&self) -> impl ExactSizeIterator<Item = Option<Region>> {
        self.calls.iter().map(|call| call.op.send)
    }

    /// What each rank of the communicator writes.
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
    /// The receiver's memory.
    pub fn received(&self) -> Write {
        self.write(self.op.memory, self.op.stream)
    }
}

impl RankCall<Arc<RankMap<Placed>>> {
    /// The map's result.
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

    /// What it writes: of a collective by rank of the communicator, `None` where nothing is written.
    pub fn writes(&self) -> Vec<Option<Write>> {
        match self {
            Self::Collective(collective) => collective.recvs().collect(),
            Self::Sent { .. } => Vec::new(),
            Self::Received { call, .. } => vec![Some(call.received())],
            Self::Map(call) => vec![Some(call.out())],
            Self::Undefined { out, .. } => out.iter().copied().map(Some).collect(),
        }
    }

    /// The regions that it reads.
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

/// What the analysis says of waiting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Foresight {
    /// It finishes even if every send waits for its receive.
    Completes,
    /// It finishes only if sends are buffered, or if hosts do not wait where NCCL's may: these ranks wait for each other, or some
    /// that wait.
    MayBlock(Vec<Waiting>),
    /// It cannot finish.
    Stuck(Vec<Waiting>),
}

/// A rank that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// World rank.
    pub rank: usize,
    /// At this step.
    pub step: StepId,
    /// The reason: `the send waits for its recv`.
    pub what: String,
    /// World ranks it waits for.
    pub on: Vec<usize>,
}
