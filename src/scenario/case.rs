//! A case: one point of a file's matrix, everything checked that can be checked without unrolling the program. Defaults
//! (keys marked * in the language) have been pushed down to where they are used; numbers that may differ by rank are
//! still [`NumberByRank`]s, which `plan` evaluates.
use super::diagnostic::{SourceFile, Span};
use super::forms::{Form, FormOrigin};
use crate::expr::Expr;
use crate::num::DType;
pub use crate::num::ElementValue;
pub use crate::ops::ConfigValue;
use crate::ops::{AlgorithmChoice, ExitStatus, Op};
use std::sync::Arc;

/// A value with its place in the file.
#[derive(Clone, Debug, PartialEq)]
pub struct Spanned<T> {
    /// Place.
    pub span: Span,
    /// Value.
    pub value: T,
}

/// One point of a file's matrix.
#[derive(Clone, Debug)]
pub struct Case {
    /// Path under the root without `.toml`, then `[axis=value,...,variant=name]`; unique in a suite.
    pub name: String,
    /// The file it came from.
    pub file: Arc<SourceFile>,
    /// The span of diagnostics about the whole case: `world_size`, or the file's start.
    pub span: Span,
    /// The file's `description`.
    pub description: Option<String>,
    /// Tags for filters.
    pub tags: Vec<String>,
    /// Number of ranks.
    pub world_size: Spanned<usize>,
    /// Axes with numbers, which expressions may name.
    pub axes: Vec<(String, crate::expr::Value)>,
    /// Buffers that exist before the first step.
    pub inputs: Vec<BufferDef>,
    /// Communicators made before the first step, in file order; `world` is not listed.
    pub comms: Vec<CommDef>,
    /// The program; the short form is one step with buffers `in` and `out`.
    pub steps: Vec<Step>,
    /// The program that runs first, on separate communicators; without it, the results of `steps` must have the same bits.
    pub before: Vec<Step>,
    /// Communicators made before its first step, as `comms`.
    pub comms_before: Vec<CommDef>,
    /// Expected contents at the end.
    pub expect: Vec<Expectation>,
    /// Expressions that must hold.
    pub asserts: Vec<Spanned<Expr>>,
    /// Admissible outcomes; `None` is "must be ok, and must be foreseeable".
    pub outcome: Option<Spanned<Vec<ExpectedOutcome>>>,
    /// Text that the error or refusal must contain.
    pub reason: Option<Spanned<String>>,
    /// NCCL_* variables of the worker.
    pub env: Vec<EnvVar>,
    /// Default configuration of every communicator: NCCL's field name and value.
    pub config: Vec<(Spanned<String>, Spanned<ConfigValue>)>,
    /// `offset` of the file, for outputs that `inputs` does not declare.
    pub offset: Option<NumberByRank>,
    /// Offsets by name of buffers that `inputs` does not declare; they precede `offset`.
    pub offsets: Vec<(String, NumberByRank)>,
    /// `register` of the file, for outputs that `inputs` does not declare.
    pub register: Option<RegisterByRank>,
    /// Runs on the same communicators; at least 1.
    pub repeat: u32,
    /// Seconds; `None` is the runner's default.
    pub timeout: Option<Spanned<f64>>,
    /// The threads and processes that drive the ranks.
    pub placement: Placement,
    /// Requirements; a case without them is skipped.
    pub requires: Requires,
    /// The file's `snapshot` key, if written.
    pub snapshot: Option<bool>,
    /// True if the file has a matrix or variants (such cases have no snapshot unless asked).
    pub swept: bool,
    /// The forms in which the file wants the case to run in addition.
    pub forms: Vec<Spanned<&'static Form>>,
    /// The file's table `[bench]`.
    pub bench: Option<Bench>,
    /// The form and the case that this one is derived from; `None` for a case of the file.
    pub form: Option<FormOrigin>,
    /// The larger world that this one is split out of, if there is one.
    pub outer: Option<OuterWorld>,
}

impl Case {
    /// True if some buffer is to be registered before the first step that uses it.
    pub fn registers_buffers(&self) -> bool {
        let registers = |register: &Option<RegisterByRank>| {
            register.as_ref().is_some_and(|r| r.kinds.iter().any(|kind| *kind != RegisterKind::None))
        };
        registers(&self.register) || self.inputs.iter().any(|def| registers(&def.register))
    }

    /// Number of ranks, with the idle ones of a larger world.
    pub fn total_ranks(&self) -> usize {
        self.outer.as_ref().map_or(self.world_size.value, |outer| outer.order.len())
    }

    /// The name of the case in the file, of which this may be a form.
    pub fn base_name(&self) -> &str {
        self.form.as_ref().map_or(&self.name, |derived| &derived.base)
    }
}

/// What is measured for a file, as lists of values; an empty list is the default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Bench {
    /// The table's place.
    pub span: Span,
    pub operations: Vec<String>,
    pub reductions: Vec<String>,
    pub dtypes: Vec<DType>,
    pub roots: Vec<usize>,
    pub ranks: Vec<usize>,
    pub in_place: Vec<bool>,
    /// Values of NCCL_ALGO; `None` leaves the choice to the library.
    pub algorithms: Vec<Option<String>>,
    /// Values of NCCL_PROTO.
    pub protocols: Vec<Option<String>>,
    /// In bytes.
    pub sizes: Vec<u64>,
    pub warm_up: Option<u32>,
    pub iterations: Option<u32>,
    pub samples: Option<u32>,
}

/// A larger world of which the case's world is a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OuterWorld {
    /// For each rank of the larger world, its rank in the case's world; for an idle rank a number that is no rank.
    pub order: Vec<usize>,
}

/// An admissible outcome of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExpectedOutcome {
    /// All ranks finish, all lanes pass.
    Ok,
    /// Some call fails; `None` is any error.
    Error(Option<nccl_sys::ncclResult_t>),
    /// Not finished when the time is up, or proved stuck.
    Hang,
    /// A process dies.
    Crash,
    /// The plan refuses the case.
    Refused,
}

/// The threads and processes that drive the ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub enum Placement {
    /// One process, a thread per rank.
    #[default]
    Threads,
    /// A process per rank.
    Processes,
    /// One thread; every step is one group over all ranks.
    OneThread,
}

impl Placement {
    /// All placements.
    pub const ALL: [Self; 3] = [Self::Threads, Self::Processes, Self::OneThread];

    /// Largest number of processes of a case.
    pub const MAX_PROCESSES: usize = 16;

    /// The name in scenarios and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Threads => "threads",
            Self::Processes => "processes",
            Self::OneThread => "one_thread",
        }
    }

    /// The placement with this name.
    ///
    /// # Errors
    ///
    /// A text that lists the names.
    pub fn parse(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|placement| placement.name() == text);
        found.ok_or_else(|| format!("the placements are {}", Self::ALL.map(Self::name).join(", ")))
    }
}

/// The `requires` table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Requires {
    /// NCCL's version: comparison (`>=`, `>`, `<=`, `<`, `==`) and version.
    pub nccl: Vec<(String, (u32, u32, u32))>,
    /// True if the case needs NVIDIA's library, or one that behaves like it beyond NCCL's documentation.
    pub nvidia: bool,
    /// Least number of GPUs.
    pub gpus: Option<u32>,
    /// Least number of machines.
    pub nodes: Option<u32>,
    /// Least compute capability.
    pub compute: Option<(u32, u32)>,
    /// Backend by name.
    pub backend: Option<String>,
}

/// An environment variable of the worker.
#[derive(Clone, Debug)]
pub struct EnvVar {
    /// `NCCL_...`.
    pub name: Spanned<String>,
    /// One text for all, or one per world rank.
    pub value: EnvValue,
}

/// The value of a variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EnvValue {
    /// The same for all.
    All(String),
    /// One per world rank.
    PerRank(Vec<String>),
}

/// A number that may differ by rank and is not yet evaluated.
#[derive(Clone, Debug)]
pub struct NumberByRank {
    /// Place.
    pub span: Span,
    /// How it is written.
    pub kind: NumberByRankKind,
}

/// How a number is written.
#[derive(Clone, Debug)]
pub enum NumberByRankKind {
    /// A whole number or a truth value (1 or 0).
    Int(i128),
    /// A number with a fraction.
    Float(f64),
    /// An expression in quotes.
    Expr(Box<Expr>),
    /// One entry per rank (of the communicator, or of the world; rule 3 of the language). Entries are never lists.
    List(Vec<NumberByRank>),
}

/// The world ranks that run a step or have a buffer.
#[derive(Clone, Debug)]
pub enum Ranks {
    /// All ranks that can.
    All,
    /// The listed ranks.
    List(Vec<Spanned<i128>>),
    /// Ranks for which the expression is true.
    Expr(Spanned<Expr>),
}

/// A named buffer, or part of it.
#[derive(Clone, Debug)]
pub struct BufferRef {
    /// Place of the whole text.
    pub span: Span,
    /// The buffer's name.
    pub name: String,
    /// `[from:to]`; either may be missing.
    pub slice: Option<Box<(Option<Expr>, Option<Expr>)>>,
}

/// A buffer that exists before the first step.
#[derive(Clone, Debug)]
pub struct BufferDef {
    /// Name and its span (the short form's `in` has the span of `inputs`).
    pub name: Spanned<String>,
    /// Element type; the default is f32, for text u8.
    pub dtype: DType,
    /// Initial contents.
    pub content: BufferContent,
    /// Number of elements between a 256-byte boundary and the start, by world rank.
    pub offset: Option<NumberByRank>,
    /// How its memory is registered with the communicators that use it.
    pub register: Option<RegisterByRank>,
    /// The ranks that have the buffer.
    pub ranks: Ranks,
}

/// How memory is registered with a communicator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RegisterKind {
    /// Not at all.
    #[default]
    None,
    /// By each rank for itself, with `ncclCommRegister`.
    Local,
    /// By all ranks together as a symmetric window, with `ncclCommWindowRegister`.
    Window,
}

/// `register` of a buffer.
#[derive(Clone, Debug, PartialEq)]
pub struct RegisterByRank {
    /// Place.
    pub span: Span,
    /// By world rank.
    pub kinds: Vec<RegisterKind>,
}

/// The contents of a buffer.
#[derive(Clone, Debug)]
pub enum BufferContent {
    /// One row per world rank.
    Rows(Vec<Row>),
    /// One table for all ranks.
    All(FillTable),
}

impl BufferContent {
    /// The table of a rank: the one for all ranks, or that of the rank's row.
    pub fn table(&self, rank: usize) -> Option<&FillTable> {
        match self {
            Self::All(fill) => Some(fill),
            Self::Rows(rows) => match rows.get(rank).map(|row| &row.kind) {
                Some(RowKind::Table(fill)) => Some(fill),
                _ => None,
            },
        }
    }

    /// A rank's row, if it is written element by element.
    pub fn elements(&self, rank: usize) -> Option<&[Element]> {
        match self {
            Self::All(_) => None,
            Self::Rows(rows) => match rows.get(rank).map(|row| &row.kind) {
                Some(RowKind::Elements(list)) => Some(list),
                _ => None,
            },
        }
    }
}

/// One rank's row.
#[derive(Clone, Debug)]
pub struct Row {
    /// Place.
    pub span: Span,
    /// How it is written.
    pub kind: RowKind,
}

/// How a row is written.
#[derive(Clone, Debug)]
pub enum RowKind {
    /// Element by element (nesting removed).
    Elements(Vec<Element>),
    /// By a table.
    Table(FillTable),
    /// "untouched", in `expect` only: no element was written.
    Untouched,
    /// "any", in `expect` only: not compared.
    Any,
}

/// A table with the contents of a buffer or row.
#[derive(Clone, Debug)]
pub struct FillTable {
    /// Place.
    pub span: Span,
    /// The values.
    pub values: FillValues,
    /// Number of elements, defaults included; `None` if the values or the step that uses the buffer give it.
    pub count: Option<NumberByRank>,
}

/// The values of a [`FillTable`].
#[derive(Clone, Debug)]
pub enum FillValues {
    /// No values: the buffer starts with poison.
    Poison,
    /// An expression in `rank`, `n`, `i` and axes, in world ranks.
    Each(Spanned<Expr>),
    /// One number for every element.
    Number(Element),
    /// The same row on every rank.
    Row(Vec<Element>),
    /// Random numbers by seed, rank and index; see `num::random`.
    Random {
        /// Seed.
        seed: u64,
        /// Least value; integer types: default the type's.
        low: Option<Element>,
        /// Greatest (integers) or first excluded (floats) value.
        high: Option<Element>,
    },
    /// One text for all ranks: literal parts and expressions in turn.
    Template(Vec<TextPart>),
    /// One literal text per world rank.
    Texts(Vec<String>),
    /// "untouched" for all ranks, in `expect` only.
    Untouched,
    /// "any" for all ranks, in `expect` only.
    Any,
}

/// A part of a text template.
#[derive(Clone, Debug)]
pub enum TextPart {
    /// Literal text.
    Literal(String),
    /// An expression whose value is filled in.
    Expr(Spanned<Expr>),
}

/// An element as it is written; it fits its dtype.
#[derive(Clone, Debug, PartialEq)]
pub struct Element {
    /// Place.
    pub span: Span,
    /// Value.
    pub value: ElementValue,
}

/// An entry of `expect`.
#[derive(Clone, Debug)]
pub struct Expectation {
    /// The buffer or part of it.
    pub target: BufferRef,
    /// Rows or a table; `Untouched` and `Any` are possible.
    pub content: BufferContent,
}

/// A communicator made before the first step, or by `init` and `split`.
#[derive(Clone, Debug)]
pub struct CommDef {
    /// Its name.
    pub name: Spanned<String>,
    /// How it is made.
    pub creation: CommCreation,
    /// Its configuration, which precedes the case's.
    pub config: Vec<(Spanned<String>, Spanned<ConfigValue>)>,
    /// How many unique ids it is made by, if not by one that all ranks pass alone.
    pub ids: Option<Spanned<i128>>,
}

/// How a communicator is made.
#[derive(Clone, Debug)]
pub enum CommCreation {
    /// By unique ids: a communicator for each list of world ranks.
    Groups(Spanned<Vec<Vec<Spanned<i128>>>>),
    /// By splitting `comm`; colour and key count in it.
    Split {
        /// The parent.
        comm: Spanned<String>,
        /// Colour; -1 for no new communicator.
        color: NumberByRank,
        /// Sort key of the new ranks; the default is the old rank.
        key: Option<NumberByRank>,
    },
    /// By leaving ranks of `comm` out; the ranks count in it.
    Shrink {
        /// The parent.
        comm: Spanned<String>,
        /// The ranks that are left out, which make no call.
        without: Spanned<Ranks>,
        /// True if the parent's operations are aborted first.
        abort: bool,
    },
    /// By adding world ranks behind those of `comm`.
    Grow {
        /// The parent.
        comm: Spanned<String>,
        /// The ranks that join.
        with: Spanned<Ranks>,
    },
}

/// The communicators in which a step runs.
#[derive(Clone, Debug)]
pub enum StepComm {
    /// A named communicator (`world` by default).
    Comm(Spanned<String>),
    /// New communicators by world ranks.
    Groups(Spanned<Vec<Vec<Spanned<i128>>>>),
}

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

/// A step as it is written; loops are not unrolled. Steps have the defaults that apply to them. On a `group` or `loop`,
/// `ranks` is [`Ranks::All`], because its steps have theirs, and `comm` serves only to evaluate `times`.
#[derive(Clone, Debug)]
pub struct Step {
    /// The place of the step's `op` (or of the step).
    pub span: Span,
    /// Its entry in the operation table.
    pub op: &'static Op,
    /// Its name in `assert`.
    pub name: Option<Spanned<String>>,
    /// `in`.
    pub input: Option<BufferRef>,
    /// `out`.
    pub output: Option<BufferRef>,
    /// The reduction; the default is sum.
    pub reduce: Option<Spanned<StepReduction>>,
    /// The root; the default is 0.
    pub root: Option<NumberByRank>,
    /// The communicators.
    pub comm: StepComm,
    /// World ranks that run the step.
    pub ranks: Ranks,
    /// True if the step itself has the key `ranks`, not only a default.
    pub own_ranks: bool,
    /// 1 for ranks of the communicator on which the call is in place.
    pub in_place: Option<NumberByRank>,
    /// True if unused buffers are passed as null pointers.
    pub null_pointers: bool,
    /// Stream name; the default is `main`.
    pub stream: String,
    /// Streams whose earlier work the step waits for.
    pub after: Vec<Spanned<String>>,
    /// The graph into which the step is captured, or which it launches or releases.
    pub graph: Option<Spanned<String>>,
    /// Number of rounds; the default is 1.
    pub times: Option<NumberByRank>,
    /// The algorithm that the call asks for.
    pub algorithm: Option<Box<Spanned<StepAlgorithm>>>,
    /// Codes that the call must return, by rank of the communicator.
    pub error: Option<Spanned<StepError>>,
    /// send, recv and send_recv: the peer, of send_recv in both directions.
    pub peer: Option<NumberByRank>,
    /// send_recv: the receiver.
    pub to: Option<NumberByRank>,
    /// send_recv: the sender.
    pub from: Option<NumberByRank>,
    /// recv and map: number of elements.
    pub count: Option<NumberByRank>,
    /// all_to_all_v: the number of elements that each rank sends to each rank.
    pub counts: Option<Spanned<AllToAllCounts>>,
    /// map: the expression.
    pub expr: Option<Spanned<Expr>>,
    /// map: the dtype of `out`.
    pub dtype: Option<Spanned<DType>>,
    /// sleep: the duration in seconds.
    pub seconds: Option<NumberByRank>,
    /// exit: how the process ends; the default is the exit status 0.
    pub status: Option<ExitStatus>,
    /// wait: the stream; `None` for all streams.
    pub wait_stream: Option<Spanned<String>>,
    /// put, signal and wait_signal: the signal.
    pub signal: StepSignal,
    /// register: how.
    pub register: Option<Spanned<RegisterKind>>,
    /// init and split: the new communicator.
    pub new: Option<Box<CommDef>>,
    /// group and loop: the inner steps.
    pub steps: Vec<Step>,
}

/// The signal of a one-sided step.
#[derive(Clone, Debug, Default)]
pub struct StepSignal {
    /// `context`; the default is 0.
    pub context: Option<NumberByRank>,
    /// `signal_index`; the default is 0.
    pub index: Option<NumberByRank>,
    /// wait_signal: how many signals, of `peer` or of each rank; the default is 1.
    pub signals: Option<NumberByRank>,
}

/// `algorithm` of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepAlgorithm {
    /// What is asked for.
    pub choice: AlgorithmChoice,
    /// True if the worker's variables ask for it, and the call itself for nothing.
    pub by_variables: bool,
    /// Where the file says it.
    pub span: Span,
}

impl Step {
    /// A step of all ranks of the world on the first stream, with none of its optional keys.
    pub(super) fn bare(op: &'static Op, span: Span) -> Self {
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

/// `error` of a step.
#[derive(Clone, Debug, PartialEq)]
pub enum StepError {
    /// The same on every rank; `None` is any error.
    All(Option<nccl_sys::ncclResult_t>),
    /// By rank of the communicator; `Some(Success)` is "ok".
    PerRank(Vec<Option<nccl_sys::ncclResult_t>>),
}

/// `counts` of all_to_all_v.
#[derive(Clone, Debug)]
pub enum AllToAllCounts {
    /// By sender (row) and receiver (column).
    Matrix(Vec<Vec<i128>>),
    /// An expression in `rank` and `peer`.
    Expr(Expr),
}
