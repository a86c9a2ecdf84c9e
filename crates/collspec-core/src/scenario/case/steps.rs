//! The steps of a case.
use super::{BufferRef, CommDef, NumberByRank, Ranks, RegisterKind, Spanned, StepComm};
use crate::expr::Expr;
use crate::num::DType;
use crate::ops::{AlgorithmChoice, Collective, CommOp, ExitStatus, Op};
use crate::scenario::diagnostic::Span;
use std::sync::Arc;

#[derive(Clone, Debug)]
pub enum StepReduction {
    /// sum, prod, min, max, avg.
    Builtin(nccl_sys::ncclRedOp_t),
    /// Each rank's input times its scalar, then the sum.
    PreMulSum {
        /// The scalar, which is rounded to the dtype.
        scalar: NumberByRank,
        /// True if the scalar lies in device memory.
        device: bool,
        /// True if the operator is destroyed before the call.
        destroyed: bool,
    },
}

/// A step as written; loops are not unrolled. Steps have the defaults that apply to them. On a `group` or `loop`, `ranks` is
/// [`Ranks::All`], because its steps have their own, and `comm` serves only to evaluate `times`.
#[derive(Clone, Debug)]
pub struct Step {
    /// The place of the step's `op` (or of the step).
    pub span: Span,
    /// The operation's entry in the table.
    pub op: &'static Op,
    /// The keys that belong to the operation.
    pub kind: StepKind,
    /// Its name in `assert`.
    pub name: Option<Spanned<String>>,
    /// The communicators that the step runs on.
    pub comm: StepComm,
    /// World ranks that run the step.
    pub ranks: Ranks,
    /// True if the step itself has the key `ranks`, not only a default.
    pub own_ranks: bool,
    /// Stream name; the default is `main`.
    pub stream: String,
    /// Streams whose earlier work the step waits for.
    pub after: Vec<Spanned<String>>,
    /// The graph into which the step is captured.
    pub graph: Option<Spanned<String>>,
    /// Number of rounds; the default is 1.
    pub times: Option<Box<NumberByRank>>,
    /// Codes that the call must return, by rank of the communicator.
    pub error: Option<Box<Spanned<StepError>>>,
    /// True if buffers that the call does not use are passed as null pointers.
    pub null_pointers: bool,
}

/// The keys of a step that not every operation has. A `wait` without a stream is for all of them. The expression of a map is shared by
/// the calls of all ranks and rounds. `NewComm` makes a communicator, `Comm` changes or ends one.
#[derive(Clone, Debug)]
pub enum StepKind {
    Collective(CollectiveStep),
    AllGatherV { input: BufferRef, output: BufferRef },
    AllToAllV { input: BufferRef, output: BufferRef, counts: CountsByPair },
    ReduceScatterV { input: BufferRef, output: BufferRef, counts: CountsByRank, reduce: Option<StepReduction> },
    Barrier,
    Send { input: BufferRef, peer: NumberByRank },
    Recv { output: BufferRef, peer: NumberByRank, size: StepSize },
    SendRecv { input: BufferRef, output: BufferRef, to: NumberByRank, from: NumberByRank },
    Map { output: BufferRef, expr: Arc<Expr>, size: StepSize },
    Group(Vec<Step>),
    Loop(Vec<Step>),
    Wait { stream: Option<String> },
    Sleep { seconds: NumberByRank },
    Exit { status: ExitStatus },
    NewComm(CommDef),
    Comm(CommOp),
    OneSided(OneSidedStep),
    Register { memory: BufferRef, how: RegisterKind },
    Deregister { memory: BufferRef },
    Launch { graph: String },
    Release { graph: String },
}

/// The keys of a collective.
#[derive(Clone, Debug)]
pub struct CollectiveStep {
    pub op: &'static Collective,
    pub input: BufferRef,
    /// A step with the key `in_place` can do without it.
    pub output: Option<BufferRef>,
    /// 1 for ranks of the communicator on which the call is in place.
    pub in_place: Option<NumberByRank>,
    /// The default is 0.
    pub root: Option<NumberByRank>,
    /// What is passed where only the root reads; the default is what the root passes.
    pub size: StepSize,
    /// The default is sum.
    pub reduce: Option<StepReduction>,
    pub algorithm: Option<StepAlgorithm>,
}

/// The number and type of the elements that a step writes, as far as the step says them.
#[derive(Clone, Debug)]
pub struct StepSize {
    pub count: Option<NumberByRank>,
    pub dtype: Option<DType>,
}

/// The key `counts`: a list, or an expression in `rank` and `peer`.
#[derive(Clone, Debug)]
pub enum StepCounts<T> {
    Listed(T),
    Expr(Expr),
}

/// Row r, column j of a list is what rank r sends to rank j.
pub type CountsByPair = Spanned<StepCounts<Vec<Vec<i128>>>>;

/// Entry j of a list is what rank j receives.
pub type CountsByRank = Spanned<StepCounts<Vec<i128>>>;

/// The keys of a one-sided step. Context, index of the signal and flags are 0 by default.
#[derive(Clone, Debug)]
pub struct OneSidedStep {
    pub context: Option<NumberByRank>,
    pub signal_index: Option<NumberByRank>,
    pub flags: Option<NumberByRank>,
    pub call: OneSidedCall,
}

/// A one-sided operation and the ranks at its other end. The output of a put is a buffer of the peer. A `wait_signal` without a peer is
/// for all other ranks, and without a number for one signal from each.
#[derive(Clone, Debug)]
pub enum OneSidedCall {
    Put { input: BufferRef, output: BufferRef, peer: NumberByRank },
    Signal { peer: NumberByRank },
    WaitSignal { peer: Option<NumberByRank>, signals: Option<NumberByRank> },
}

/// The key `algorithm` of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepAlgorithm {
    /// The algorithm that is requested.
    pub choice: AlgorithmChoice,
    /// True if it is requested by the worker's variables and not by the call itself.
    pub by_variables: bool,
    /// The place of `algorithm` in the file.
    pub span: Span,
}

impl Step {
    /// A step of all ranks of the world on the first stream, with no more keys than these.
    pub(in crate::scenario) fn bare(op: &'static Op, span: Span, kind: StepKind) -> Self {
        Self {
            span,
            op,
            kind,
            name: None,
            comm: StepComm::Comm(Spanned { span, value: "world".to_owned() }),
            ranks: Ranks::All,
            own_ranks: false,
            stream: "main".to_owned(),
            after: Vec::new(),
            graph: None,
            times: None,
            error: None,
            null_pointers: false,
        }
    }

    /// The buffer that `in` names.
    pub fn input(&self) -> Option<&BufferRef> {
        use StepKind as K;
        match &self.kind {
            K::Collective(CollectiveStep { input, .. })
            | K::AllGatherV { input, .. }
            | K::AllToAllV { input, .. }
            | K::ReduceScatterV { input, .. }
            | K::Send { input, .. }
            | K::SendRecv { input, .. }
            | K::OneSided(OneSidedStep { call: OneSidedCall::Put { input, .. }, .. })
            | K::Register { memory: input, .. }
            | K::Deregister { memory: input } => Some(input),
            _ => None,
        }
    }

    /// The buffer that `out` names.
    pub fn output(&self) -> Option<&BufferRef> {
        use StepKind as K;
        match &self.kind {
            K::Collective(collective) => collective.output.as_ref(),
            K::AllGatherV { output, .. }
            | K::AllToAllV { output, .. }
            | K::ReduceScatterV { output, .. }
            | K::Recv { output, .. }
            | K::SendRecv { output, .. }
            | K::Map { output, .. }
            | K::OneSided(OneSidedStep { call: OneSidedCall::Put { output, .. }, .. }) => Some(output),
            _ => None,
        }
    }

    /// The algorithm that the call requests.
    pub fn algorithm(&self) -> Option<&StepAlgorithm> {
        match &self.kind {
            StepKind::Collective(collective) => collective.algorithm.as_ref(),
            _ => None,
        }
    }

    /// The steps of a group or loop.
    pub fn inner(&self) -> &[Self] {
        match &self.kind {
            StepKind::Group(steps) | StepKind::Loop(steps) => steps,
            _ => &[],
        }
    }

    /// The same, to change them.
    pub fn inner_mut(&mut self) -> &mut [Self] {
        match &mut self.kind {
            StepKind::Group(steps) | StepKind::Loop(steps) => steps,
            _ => &mut [],
        }
    }
}

/// The steps and those inside of them, outer ones first.
pub fn all_steps(steps: &[Step]) -> impl Iterator<Item = &Step> {
    let mut rest: Vec<&Step> = steps.iter().rev().collect();
    std::iter::from_fn(move || {
        let step = rest.pop()?;
        rest.extend(step.inner().iter().rev());
        Some(step)
    })
}

/// The key `error` of a step.
#[derive(Clone, Debug, PartialEq)]
pub enum StepError {
    /// The same code on every rank; `None` means any error.
    All(Option<nccl_sys::ncclResult_t>),
    /// Codes by rank of the communicator; `Some(Success)` is "ok".
    PerRank(Vec<Option<nccl_sys::ncclResult_t>>),
}
