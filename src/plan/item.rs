//! What ranks do, before counts are known.
use super::comms::Comms;
use super::types::{BufId, CommId, PlanStep, StepId};
use crate::expr::Value;
use crate::job::What;
use crate::num::DType;
use crate::ops::Collective;
use crate::scenario::{Case, ElementValue, ExpectedOutcome, Expr, Span};
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

/// A reduction, scalar not yet rounded.
#[derive(Clone, Copy, Debug)]
pub enum Red {
    Builtin(nccl_sys::ncclRedOp_t),
    PreMulSum { scalar: Scalar, device: bool },
}

/// A rank's factor of a premul_sum before its type is known.
#[derive(Clone, Copy, Debug)]
pub struct Scalar {
    pub span: Span,
    pub number: ScalarNumber,
}

/// How the factor is given.
#[derive(Clone, Copy, Debug)]
pub enum ScalarNumber {
    /// As a number, which the type must be able to hold.
    Written(ElementValue),
    /// By an expression: its value in f64, and in whole numbers if it has one.
    Computed { real: Value, whole: Option<Value> },
}

/// One thing that a rank does.
#[derive(Clone, Debug)]
pub struct Item {
    pub step: StepId,
    pub span: Span,
    /// The call is to return an error (or may): it means nothing to memory.
    pub fails: bool,
    pub kind: ItemKind,
}

/// What it is.
#[derive(Clone, Debug)]
pub enum ItemKind {
    Collective(Box<Coll>),
    AllGatherV {
        comm: CommId,
        me: usize,
        input: BufferSlice,
        /// Every member's input, where slices are taken.
        pieces: Vec<BufferSlice>,
        output: BufferSlice,
        stream: u32,
    },
    Send {
        comm: CommId,
        me: usize,
        peer: i128,
        input: BufferSlice,
        nulls: bool,
        stream: u32,
    },
    Recv {
        comm: CommId,
        me: usize,
        peer: i128,
        output: BufferSlice,
        count: Option<u64>,
        dtype: Option<DType>,
        nulls: bool,
        stream: u32,
    },
    /// Says how long a buffer is (all_to_all_v's output).
    Declare {
        output: BufferSlice,
        count: u64,
        like: BufId,
    },
    Map(Box<MapItem>),
    Call(What),
}

/// A collective on one rank.
#[derive(Clone, Debug)]
pub struct Coll {
    pub op: &'static Collective,
    pub comm: CommId,
    pub me: usize,
    pub input: Option<BufferSlice>,
    pub output: Option<BufferSlice>,
    pub red: Option<Red>,
    pub root: i128,
    pub root_span: Span,
    pub in_place: bool,
    pub nulls: bool,
    pub stream: u32,
}

/// A map on one rank.
#[derive(Clone, Debug)]
pub struct MapItem {
    pub expr: Arc<Expr>,
    pub names: Arc<Vec<(String, Value)>>,
    pub reads: Vec<BufId>,
    pub output: BufferSlice,
    pub count: Option<u64>,
    pub dtype: Option<DType>,
    pub stream: u32,
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
    pub streams: u32,
    /// Which of them is the null stream, if one is.
    pub null_stream: Option<u32>,
    pub items: Vec<Vec<Item>>,
    /// (rank, index) of every item in file order.
    pub order: Vec<(usize, usize)>,
    pub comm_steps: bool,
    pub exits: bool,
    /// By step: the group it is part of, or itself. One thread that drives all ranks does a unit at a time.
    pub units: Vec<StepId>,
}

impl Program {
    /// True if the file says that something may go wrong: misuse then runs, watched, instead of being refused.
    pub fn lenient(&self) -> bool {
        lenient(&self.case)
    }
}

/// See [`Program::lenient`].
pub fn lenient(case: &Case) -> bool {
    let bad =
        |e: &ExpectedOutcome| matches!(e, ExpectedOutcome::Error(_) | ExpectedOutcome::Hang | ExpectedOutcome::Crash);
    case.outcome.as_ref().is_some_and(|list| list.value.iter().any(bad))
}
