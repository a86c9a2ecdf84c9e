//! The ranks' operations and calls at the stage before counts are known.
use super::comms::Comms;
use super::rank_op::{RankOp, Stage};
use super::types::{BufId, CommId, PlanStep, StepId};
use crate::expr::Value;
use crate::job::CallKind;
use crate::num::DType;
use crate::scenario::{Case, ElementValue, ExpectedOutcome, RegisterKind, Span, Spanned};
use std::sync::Arc;

/// A buffer name before its counts are known.
#[derive(Clone, Debug)]
pub struct Name {
    pub name: String,
    pub span: Span,
    pub input: Option<usize>,
    pub dtype: Option<DType>,
}

/// A buffer or part of it on one rank, bounds evaluated.
#[derive(Clone, Copy, Debug)]
pub struct BufferSlice {
    pub buf: BufId,
    pub start: u64,
    pub end: Option<u64>,
    pub sliced: bool,
    pub span: Span,
}

impl BufferSlice {
    /// All of a buffer.
    pub fn whole(buf: BufId, span: Span) -> Self {
        Self { buf, start: 0, end: None, sliced: false, span }
    }
}

/// The stage at which buffers are known by name, and counts and types are open.
#[derive(Clone, Debug)]
pub struct Open;

impl Stage for Open {
    type Memory = BufferSlice;
    type Size = WrittenSize;
    type Rank = Spanned<i128>;
    type Factor = Factor;
}

/// The count and element type written in the step.
#[derive(Clone, Copy, Debug, Default)]
pub struct WrittenSize {
    pub count: Option<u64>,
    pub dtype: Option<DType>,
}

/// A rank's factor of a premul_sum before its type is known.
#[derive(Clone, Copy, Debug)]
pub struct Factor {
    pub span: Span,
    pub number: FactorNumber,
    /// True if NCCL reads the factor from device memory.
    pub device: bool,
    /// True if the operator that has it is destroyed before the call.
    pub destroyed: bool,
}

/// The form of the factor.
#[derive(Clone, Copy, Debug)]
pub enum FactorNumber {
    /// A literal number, which the type must be able to hold.
    Written(ElementValue),
    /// The result of an expression: its value in f64, and in whole numbers if it has one.
    Computed { real: Value, whole: Option<Value> },
}

/// One action of a rank.
#[derive(Clone, Debug)]
pub struct Item {
    pub step: StepId,
    pub span: Span,
    /// True if the call is expected to return an error, or may do so: it does not affect memory.
    pub fails: bool,
    pub phase: Phase,
    pub kind: ItemKind,
}

impl Item {
    /// True if the call becomes part of a graph.
    pub fn is_captured(&self) -> bool {
        self.phase.graph().is_some()
    }

    /// True if the rank's process ends with the item while others continue.
    pub fn ends_the_rank(&self) -> bool {
        matches!(self.kind, ItemKind::Call(CallKind::Exit { death: Some(_), .. }))
    }
}

/// The time at which an item takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// At its call.
    Eager,
    /// Not at its call: it becomes part of a graph, given as an index into [`Program::graphs`] or, once captures are found, as the
    /// number of the rank's graph.
    Captured(u32),
    /// In the preceding launch. The index is that of the captured item of the same rank.
    Replayed(Option<usize>),
}

impl Phase {
    /// The graph that the item becomes part of.
    pub fn graph(self) -> Option<u32> {
        match self {
            Self::Captured(graph) => Some(graph),
            Self::Eager | Self::Replayed(_) => None,
        }
    }
}

#[derive(Clone, Debug)]
pub enum ItemKind {
    /// An operation on data.
    Op(RankOp<Open>),
    /// One broadcast for each member, whose counts are those of the members' inputs.
    AllGatherV {
        comm: CommId,
        rank: usize,
        input: BufferSlice,
        /// Every member's input, where slices are taken.
        pieces: Vec<BufferSlice>,
        output: BufferSlice,
        stream: u32,
    },
    /// Sets the length of a buffer (all_to_all_v's output).
    Declare { output: BufferSlice, count: u64, like: BufId },
    /// Registers memory with a communicator.
    Register { comm: CommId, memory: BufferSlice, how: RegisterKind },
    /// Ends the registration of memory.
    Deregister { comm: CommId, memory: BufferSlice },
    /// A point at which buffers with the key `register` are registered, or deregistered.
    RegistrationPoint(RegistrationPoint),
    /// A call that does not use memory.
    Call(CallKind),
    /// This many captured calls; their kinds are known where a launch makes them.
    Captured { calls: usize, stream: u32 },
}

/// A place in a rank's program that matters to registrations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegistrationPoint {
    /// Before the first step.
    First,
    /// A step has created this communicator.
    Made(CommId),
    /// Windows may have been created, after which one-sided operations begin. One thread for all ranks has ended its group by then.
    Signals,
    /// A step is about to finalize or destroy this communicator.
    Ending(CommId),
    /// A step has aborted this communicator.
    Aborted(CommId),
    /// After the last step.
    Last,
}

impl ItemKind {
    pub fn writes(&self) -> &[BufferSlice] {
        match self {
            Self::Op(op) => op.writes(),
            Self::AllGatherV { output, .. } | Self::Declare { output, .. } => std::slice::from_ref(output),
            Self::Register { .. }
            | Self::Deregister { .. }
            | Self::RegistrationPoint(_)
            | Self::Call(_)
            | Self::Captured { .. } => &[],
        }
    }

    /// The number of elements written in the step.
    pub fn written_count(&self) -> Option<u64> {
        match self {
            Self::Op(op) => op.size().count,
            Self::Declare { count, .. } => Some(*count),
            Self::AllGatherV { .. }
            | Self::Register { .. }
            | Self::Deregister { .. }
            | Self::RegistrationPoint(_)
            | Self::Captured { .. }
            | Self::Call(_) => None,
        }
    }
}

/// The unrolled program.
#[derive(Debug)]
pub struct Program {
    pub case: Arc<Case>,
    pub n: usize,
    pub names: Vec<Name>,
    pub comms: Comms,
    pub steps: Vec<PlanStep>,
    pub tags: Vec<String>,
    /// Number of streams of every rank, including those at the end that represent the further streams of graphs.
    pub streams: u32,
    /// The number of streams that a rank really has.
    pub real_streams: u32,
    /// The names of streams that steps name.
    pub stream_names: Vec<String>,
    /// The names of graphs.
    pub graphs: Vec<String>,
    /// The stream that is the null stream, if a step uses it.
    pub null_stream: Option<u32>,
    pub items: Vec<Vec<Item>>,
    /// (rank, index) of every item in file order.
    pub order: Vec<(usize, usize)>,
    pub comm_steps: bool,
    pub exits: bool,
    /// For each step: the group it is part of, or itself. One thread that drives all ranks handles one unit at a time.
    pub units: Vec<StepId>,
}

impl Program {
    /// The name of a stream, for messages.
    pub fn stream_name(&self, stream: u32) -> &str {
        self.stream_names.get(stream as usize).map_or("?", String::as_str)
    }

    /// True if the file says that something may go wrong: misuse then runs under observation instead of being refused.
    pub fn lenient(&self) -> bool {
        lenient(&self.case)
    }
}

/// Implements [`Program::lenient`] for a case that is not unrolled yet.
pub fn lenient(case: &Case) -> bool {
    let bad =
        |e: &ExpectedOutcome| matches!(e, ExpectedOutcome::Error(_) | ExpectedOutcome::Hang | ExpectedOutcome::Crash);
    case.outcome.as_ref().is_some_and(|list| list.value.iter().any(bad))
}
