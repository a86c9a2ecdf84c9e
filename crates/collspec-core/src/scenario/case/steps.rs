//! The steps of a case.
use super::{BufferRef, CommDef, NumberByRank, Ranks, RegisterKind, Spanned, StepComm};
use crate::expr::Expr;
use crate::num::DType;
use crate::ops::{AlgorithmChoice, ExitStatus, Op};
use crate::scenario::diagnostic::Span;

/// The reduction of a step.
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
    /// Its name in `assert`.
    pub name: Option<Spanned<String>>,
    /// The buffer that `in` names.
    pub input: Option<BufferRef>,
    /// The buffer that `out` names.
    pub output: Option<BufferRef>,
    /// The reduction; the default is sum.
    pub reduce: Option<Spanned<StepReduction>>,
    /// The root; the default is 0.
    pub root: Option<Box<NumberByRank>>,
    /// The communicators that the step runs on.
    pub comm: StepComm,
    /// World ranks that run the step.
    pub ranks: Ranks,
    /// True if the step itself has the key `ranks`, not only a default.
    pub own_ranks: bool,
    /// 1 for ranks of the communicator on which the call is in place.
    pub in_place: Option<Box<NumberByRank>>,
    /// True if unused buffers are passed as null pointers.
    pub null_pointers: bool,
    /// Stream name; the default is `main`.
    pub stream: String,
    /// Streams whose earlier work the step waits for.
    pub after: Vec<Spanned<String>>,
    /// The graph into which the step is captured, or which it launches or releases.
    pub graph: Option<Spanned<String>>,
    /// Number of rounds; the default is 1.
    pub times: Option<Box<NumberByRank>>,
    /// The algorithm that the call requests.
    pub algorithm: Option<Box<Spanned<StepAlgorithm>>>,
    /// Codes that the call must return, by rank of the communicator.
    pub error: Option<Box<Spanned<StepError>>>,
    /// The peer of a send, recv or send_recv; for send_recv in both directions.
    pub peer: Option<Box<NumberByRank>>,
    /// The receiver of a send_recv.
    pub to: Option<Box<NumberByRank>>,
    /// The sender of a send_recv.
    pub from: Option<Box<NumberByRank>>,
    /// The number of elements of a recv or map.
    pub count: Option<Box<NumberByRank>>,
    /// The number of elements that each rank sends to each rank in an all_to_all_v.
    pub counts: Option<Box<Spanned<AllToAllCounts>>>,
    /// The expression of a map.
    pub expr: Option<Spanned<Expr>>,
    /// The dtype of `out` of a map.
    pub dtype: Option<Spanned<DType>>,
    /// The duration of a sleep in seconds.
    pub seconds: Option<Box<NumberByRank>>,
    /// The way the process ends at an exit; the default is the exit status 0.
    pub status: Option<ExitStatus>,
    /// The stream of a wait; `None` for all streams.
    pub wait_stream: Option<Spanned<String>>,
    /// The signal of a put, signal or wait_signal.
    pub signal: StepSignal,
    /// The kind of registration that a `register` step makes.
    pub register: Option<Spanned<RegisterKind>>,
    /// The new communicator of an init or split.
    pub new: Option<Box<CommDef>>,
    /// The inner steps of a group or loop.
    pub steps: Vec<Step>,
}

/// The signal of a one-sided step.
#[derive(Clone, Debug, Default)]
pub struct StepSignal {
    /// The value of `context`; the default is 0.
    pub context: Option<Box<NumberByRank>>,
    /// The value of `signal_index`; the default is 0.
    pub index: Option<Box<NumberByRank>>,
    /// The number of signals that a wait_signal awaits from `peer` or from each rank; the default is 1.
    pub signals: Option<Box<NumberByRank>>,
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
    /// A step of all ranks of the world on the first stream, without any optional keys.
    pub(in crate::scenario) fn bare(op: &'static Op, span: Span) -> Self {
        Self {
            span,
            op,
            name: None,
            input: None,
            output: None,
            reduce: None,
            root: None,
            comm: StepComm::Comm(Spanned { span, value: "world".to_owned() }),
            ranks: Ranks::All,
            own_ranks: false,
            in_place: None,
            null_pointers: false,
            stream: "main".to_owned(),
            after: Vec::new(),
            graph: None,
            times: None,
            algorithm: None,
            error: None,
            peer: None,
            to: None,
            from: None,
            count: None,
            counts: None,
            expr: None,
            dtype: None,
            seconds: None,
            status: None,
            wait_stream: None,
            signal: StepSignal::default(),
            register: None,
            new: None,
            steps: Vec::new(),
        }
    }
}

/// The key `error` of a step.
#[derive(Clone, Debug, PartialEq)]
pub enum StepError {
    /// The same code on every rank; `None` means any error.
    All(Option<nccl_sys::ncclResult_t>),
    /// Codes by rank of the communicator; `Some(Success)` is "ok".
    PerRank(Vec<Option<nccl_sys::ncclResult_t>>),
}

/// The key `counts` of all_to_all_v and reduce_scatter_v.
#[derive(Clone, Debug)]
pub enum AllToAllCounts {
    /// Lengths by sender (row) and receiver (column).
    Matrix(Vec<Vec<i128>>),
    /// Lengths by receiver, for reduce_scatter_v.
    ByRank(Vec<i128>),
    /// An expression in `rank` and `peer`.
    Expr(Expr),
}
