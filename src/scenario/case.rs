//! A case: one point of a file's matrix, everything checked that can be checked without unrolling the program. Defaults
//! (keys marked * in the language) have been pushed down to where they are used; numbers that may differ by rank are
//! still [`Num`]s, which `plan` evaluates.
use super::diagnostic::{SourceFile, Span};
use super::forms::{Derived, Form};
use crate::expr::Expr;
use crate::num::DType;
pub use crate::num::ElementValue;
pub use crate::ops::ConfigValue;
use crate::ops::Op;
use std::sync::Arc;

/// A value with its place in the file.
#[derive(Clone, Debug, PartialEq)]
pub struct Sp<T> {
    /// Place.
    pub span: Span,
    /// Value.
    pub v: T,
}

/// One point of a file's matrix.
#[derive(Clone, Debug)]
pub struct Case {
    /// Path under the root without `.toml`, then `[axis=value,...,variant=name]`; unique in a suite.
    pub name: String,
    /// The file it came from.
    pub file: Arc<SourceFile>,
    /// Where to point when nothing finer is known (`world_size`, or the file's start).
    pub span: Span,
    /// For people.
    pub description: Option<String>,
    /// For filters.
    pub tags: Vec<String>,
    /// Number of ranks.
    pub world_size: Sp<usize>,
    /// Numeric axes and such that expressions may name.
    pub axes: Vec<(String, crate::expr::Value)>,
    /// Buffers that exist before the first step.
    pub inputs: Vec<BufferDef>,
    /// Communicators made before the first step, in file order; `world` is not listed.
    pub comms: Vec<CommDef>,
    /// The program; the short form is one step with buffers `in` and `out`.
    pub steps: Vec<Step>,
    /// Expected contents at the end.
    pub expect: Vec<Expectation>,
    /// Expressions that must hold.
    pub asserts: Vec<Sp<Expr>>,
    /// Admissible outcomes; `None` is "must be ok, and must be foreseeable".
    pub outcome: Option<Sp<Vec<Expected>>>,
    /// Text that the error or refusal must contain.
    pub reason: Option<Sp<String>>,
    /// NCCL_* variables of the worker.
    pub env: Vec<EnvVar>,
    /// Configuration of every communicator that says nothing else: NCCL's field name and value.
    pub config: Vec<(Sp<String>, Sp<ConfigValue>)>,
    /// The top's `offset`: for outputs that `inputs` does not declare.
    pub offset: Option<Num>,
    /// Offsets of buffers that `inputs` does not declare, by name; they go before `offset`.
    pub offsets: Vec<(String, Num)>,
    /// Runs on the same communicators; at least 1.
    pub repeat: u32,
    /// Seconds; `None` is the runner's default.
    pub timeout: Option<Sp<f64>>,
    /// Which threads drive the ranks.
    pub placement: Placement,
    /// What is needed; what is missing is a skip.
    pub requires: Requires,
    /// The file's `snapshot` key, if written.
    pub snapshot: Option<bool>,
    /// True if the file has a matrix or variants (such cases have no snapshot unless asked).
    pub swept: bool,
    /// The forms in which the file wants the case to be run too.
    pub forms: Vec<Sp<&'static Form>>,
    /// Which form of which case this is; `None` for what the file says.
    pub form: Option<Derived>,
    /// The larger world that this one is split out of, if there is one.
    pub outer: Option<Outer>,
}

impl Case {
    /// Ranks that take part, idle ones too.
    pub fn ranks(&self) -> usize {
        self.outer.as_ref().map_or(self.world_size.v, |outer| outer.order.len())
    }

    /// The name of the case that the file has; its own, if it is not a form of another.
    pub fn base(&self) -> &str {
        self.form.as_ref().map_or(&self.name, |derived| &derived.base)
    }
}

/// A world around a case's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outer {
    /// By rank in the larger world: the rank of the case's world, or for an idle rank a number that is none.
    pub order: Vec<usize>,
}

/// One admissible ending of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expected {
    /// All ranks finish, all lanes pass.
    Ok,
    /// Some call fails; `None` is any error.
    Error(Option<nccl_sys::ncclResult_t>),
    /// Not finished when the time is up, or proved stuck.
    Hang,
    /// A process dies.
    Crash,
    /// `check` rejects it.
    Refused,
}

/// Which threads and processes drive the ranks.
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
    /// All that there are.
    pub const ALL: [Self; 3] = [Self::Threads, Self::Processes, Self::OneThread];

    /// More processes than this are no test of anything but the machine.
    pub const MOST_PROCESSES: usize = 16;

    /// As in scenarios and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Threads => "threads",
            Self::Processes => "processes",
            Self::OneThread => "one_thread",
        }
    }

    /// By its name; the error lists the names.
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
    /// NVIDIA's library, or one that also behaves like it where NCCL's documentation promises nothing.
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
    pub name: Sp<String>,
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

/// A number that may differ by rank, not yet evaluated.
#[derive(Clone, Debug)]
pub struct Num {
    /// Place.
    pub span: Span,
    /// How it is written.
    pub kind: NumKind,
}

/// How a number is written.
#[derive(Clone, Debug)]
pub enum NumKind {
    /// A whole number or a truth value (1 or 0).
    Int(i128),
    /// A number with a fraction.
    Float(f64),
    /// In quotes.
    Expr(Expr),
    /// One entry per rank (of the communicator, or of the world; rule 3). Entries are never lists.
    List(Vec<Num>),
}

/// Who runs a step or has a buffer, in world ranks.
#[derive(Clone, Debug)]
pub enum Ranks {
    /// Everybody that can.
    All,
    /// These, as written.
    List(Vec<Sp<i128>>),
    /// Those for whom it is true.
    Expr(Sp<Expr>),
}

/// A named buffer, or part of it.
#[derive(Clone, Debug)]
pub struct BufRef {
    /// Place of the whole text.
    pub span: Span,
    /// The buffer.
    pub name: String,
    /// `[from:to]`; either may be missing.
    pub slice: Option<(Option<Expr>, Option<Expr>)>,
}

/// A buffer that exists before the first step.
#[derive(Clone, Debug)]
pub struct BufferDef {
    /// Name, and where it stands (the short form's `in` has the span of `inputs`).
    pub name: Sp<String>,
    /// Element type, default f32 (u8 for text), already resolved.
    pub dtype: DType,
    /// What it holds.
    pub content: Content,
    /// Elements between a 256-byte boundary and the start; world rank expression.
    pub offset: Option<Num>,
    /// Who has it.
    pub ranks: Ranks,
}

/// What a buffer holds.
#[derive(Clone, Debug)]
pub enum Content {
    /// One row per world rank.
    Rows(Vec<Row>),
    /// One table for all ranks.
    All(Fill),
}

impl Content {
    /// The table that says what a rank has: the one for all ranks, or the rank's own.
    pub fn table(&self, rank: usize) -> Option<&Fill> {
        match self {
            Self::All(fill) => Some(fill),
            Self::Rows(rows) => match rows.get(rank).map(|row| &row.kind) {
                Some(RowKind::Table(fill)) => Some(fill),
                _ => None,
            },
        }
    }

    /// A rank's row, where it is written element by element.
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
    /// How it is given.
    pub kind: RowKind,
}

/// How a row is given.
#[derive(Clone, Debug)]
pub enum RowKind {
    /// Element by element (nesting removed).
    Elements(Vec<Element>),
    /// By a table.
    Table(Fill),
    /// `expect` only: nothing was written.
    Untouched,
    /// `expect` only: not compared.
    Any,
}

/// A table that says what a buffer (or row) holds.
#[derive(Clone, Debug)]
pub struct Fill {
    /// Place.
    pub span: Span,
    /// The values.
    pub values: Values,
    /// Elements; `None` where values, or the step that uses it, give it. Defaults have been applied.
    pub count: Option<Num>,
}

/// The values of a [`Fill`].
#[derive(Clone, Debug)]
pub enum Values {
    /// None: the buffer starts poisoned.
    Poison,
    /// An expression in `rank`, `n`, `i` and axes, in world ranks.
    Each(Sp<Expr>),
    /// One number for every element.
    Number(Element),
    /// The same row on every rank.
    Row(Vec<Element>),
    /// Counter-based random numbers; see `num::random`.
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
    /// `expect` only, for all ranks.
    Untouched,
    /// `expect` only, for all ranks.
    Any,
}

/// A part of a text template.
#[derive(Clone, Debug)]
pub enum TextPart {
    /// As it is.
    Literal(String),
    /// Filled in.
    Expr(Sp<Expr>),
}

/// A written element; checked to fit its dtype.
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
    /// Which buffer or part.
    pub target: BufRef,
    /// Rows or a table; `Untouched` and `Any` are possible.
    pub content: Content,
}

/// A communicator made before the first step, or by `init` and `split`.
#[derive(Clone, Debug)]
pub struct CommDef {
    /// Its name.
    pub name: Sp<String>,
    /// How it is made.
    pub how: CommHow,
    /// Its own configuration over the case's.
    pub config: Vec<(Sp<String>, Sp<ConfigValue>)>,
}

/// How a communicator is made.
#[derive(Clone, Debug)]
pub enum CommHow {
    /// By unique ids: a communicator for each list of world ranks.
    Groups(Sp<Vec<Vec<Sp<i128>>>>),
    /// By splitting `comm`; colour and key count in it.
    Split {
        /// The parent.
        comm: Sp<String>,
        /// Colour, -1 for none.
        color: Num,
        /// Order in the new one; default the old rank.
        key: Option<Num>,
    },
}

/// Where a step runs.
#[derive(Clone, Debug)]
pub enum Where {
    /// In a named communicator (`world` by default).
    Comm(Sp<String>),
    /// In fresh communicators by world ranks.
    Groups(Sp<Vec<Vec<Sp<i128>>>>),
}

/// The reduction of a step.
#[derive(Clone, Debug)]
pub enum Reduce {
    /// sum, prod, min, max, avg.
    Builtin(nccl_sys::ncclRedOp_t),
    /// Each rank's input times its scalar, then the sum.
    PreMulSum {
        /// Rounded to the dtype.
        scalar: Num,
        /// True if the scalar lies in device memory.
        device: bool,
    },
}

/// One step as written; loops are not unrolled. Defaults have been pushed down: on a `group` or `loop`, `ranks` is [`Ranks::All`]
/// because its steps have their own, and `place` serves only to evaluate `times`.
#[derive(Clone, Debug)]
pub struct Step {
    /// The place of the step's `op` (or of the step).
    pub span: Span,
    /// Its entry in the operation table.
    pub op: &'static Op,
    /// For `assert`.
    pub name: Option<Sp<String>>,
    /// `in`.
    pub input: Option<BufRef>,
    /// `out`.
    pub output: Option<BufRef>,
    /// Default sum.
    pub reduce: Option<Sp<Reduce>>,
    /// Default 0.
    pub root: Option<Num>,
    /// Communicator(s).
    pub place: Where,
    /// World ranks that run it.
    pub ranks: Ranks,
    /// True if the step itself says `ranks`, and no default does.
    pub own_ranks: bool,
    /// Truth value by rank of the communicator.
    pub in_place: Option<Num>,
    /// See the language.
    pub null_pointers: bool,
    /// Stream name, default `main`.
    pub stream: String,
    /// Streams whose work so far it waits for.
    pub after: Vec<Sp<String>>,
    /// So often in a row; default 1.
    pub times: Option<Num>,
    /// Codes that the call must return, by rank of the communicator.
    pub error: Option<Sp<StepError>>,
    /// `peer` (send, recv, and both ways of send_recv).
    pub peer: Option<Num>,
    /// send_recv.
    pub to: Option<Num>,
    /// send_recv.
    pub from: Option<Num>,
    /// recv and map: elements.
    pub count: Option<Num>,
    /// all_to_all_v: what rank r sends to j.
    pub counts: Option<Sp<Counts>>,
    /// map.
    pub expr: Option<Sp<Expr>>,
    /// map: dtype of `out`.
    pub dtype: Option<Sp<DType>>,
    /// sleep.
    pub seconds: Option<Num>,
    /// wait: the stream; `None` is all.
    pub wait_stream: Option<Sp<String>>,
    /// init, split.
    pub new: Option<CommDef>,
    /// group and loop.
    pub steps: Vec<Step>,
}

/// `error` of a step.
#[derive(Clone, Debug, PartialEq)]
pub enum StepError {
    /// On every rank; `None` is any error.
    All(Option<nccl_sys::ncclResult_t>),
    /// By rank of the communicator; `Some(Success)` is "ok".
    PerRank(Vec<Option<nccl_sys::ncclResult_t>>),
}

/// `counts` of all_to_all_v.
#[derive(Clone, Debug)]
pub enum Counts {
    /// Row r, column j.
    Matrix(Vec<Vec<i128>>),
    /// In `rank` and `peer`.
    Expr(Expr),
}
