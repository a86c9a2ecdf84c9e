//! A case: one point of a file's matrix, with all checks done that do not require unrolling the program. Defaults
//! (keys marked * in the language) have been pushed down to where they are used; numbers that may differ by rank are
//! still [`NumberByRank`]s, which `plan` evaluates.
mod buffers;
mod by_rank;
mod communicators;
mod requirements;
mod steps;

pub use buffers::*;
pub use by_rank::*;
pub use communicators::*;
pub use requirements::*;
pub use steps::*;

use super::diagnostic::{SourceFile, Span};
use super::forms::{Form, FormOrigin};
use crate::expr::Expr;
use crate::job::MachineFault;
use crate::num::DType;
pub use crate::num::ElementValue;
pub use crate::ops::ConfigValue;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// A value with its place in the file.
#[derive(Clone, Debug, PartialEq)]
pub struct Spanned<T> {
    /// The value's place in the file.
    pub span: Span,
    /// The value that the file gives.
    pub value: T,
}

/// One point of a file's matrix.
#[derive(Clone, Debug)]
pub struct Case {
    /// Path under the root without `.toml`, then `[axis=value,...,variant=name]`; unique in a suite.
    pub name: String,
    /// Axes with numbers, which expressions may use.
    pub axes: Vec<(String, crate::expr::Value)>,
    /// The form and the case that this one is derived from; `None` for a case of the file.
    pub form: Option<FormOrigin>,
    /// Shared by points of a file that differ only in numbers used in expressions. It is copied when it is changed.
    pub(in crate::scenario) content: Arc<CaseContent>,
}

impl Case {
    /// True if the file expects that the case may hang.
    pub fn may_hang(&self) -> bool {
        self.outcome.as_ref().is_some_and(|outcome| outcome.value.contains(&ExpectedOutcome::Hang))
    }
}

impl Deref for Case {
    type Target = CaseContent;

    fn deref(&self) -> &CaseContent {
        &self.content
    }
}

impl DerefMut for Case {
    fn deref_mut(&mut self) -> &mut CaseContent {
        Arc::make_mut(&mut self.content)
    }
}

/// Everything in a case except its name, its numbers and its form. Its fields are accessible as fields of the case.
#[derive(Clone, Debug)]
pub struct CaseContent {
    /// The file it came from.
    pub file: Arc<SourceFile>,
    /// The span of diagnostics about the whole case: `world_size`, or the file's start.
    pub span: Span,
    /// The file's `description`.
    pub description: Option<String>,
    /// Tags, which filters select by.
    pub tags: Vec<String>,
    /// Number of ranks.
    pub world_size: Spanned<usize>,
    /// Buffers that exist before the first step.
    pub inputs: Vec<BufferDef>,
    /// Communicators created before the first step, in file order; `world` is not listed.
    pub comms: Vec<CommDef>,
    /// The program; the short form is one step with buffers `in` and `out`.
    pub steps: Vec<Step>,
    /// The program that runs first, on separate communicators; without it, the results of `steps` must have the same bits.
    pub before: Vec<Step>,
    /// Communicators created before the first step of `before`, in the same form.
    pub comms_before: Vec<CommDef>,
    /// Expected contents at the end.
    pub expect: Vec<Expectation>,
    /// Expressions that must hold.
    pub asserts: Vec<Spanned<Expr>>,
    /// Admissible outcomes; `None` means that it must be ok, and predictably so.
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
    /// Number of runs on the same communicators; at least 1.
    pub repeat: u32,
    /// Time limit in seconds; `None` for the runner's default.
    pub timeout: Option<Spanned<f64>>,
    /// The threads and processes that drive the ranks.
    pub placement: Placement,
    /// What happens to the machine in every run; on software GPUs only.
    pub fault: Option<MachineFault>,
    /// Requirements; if they are not met, the case is skipped.
    pub requires: Requires,
    /// The file's `snapshot` key, if written.
    pub snapshot: Option<bool>,
    /// True if the file has a matrix or variants (such cases have no snapshot unless requested).
    pub swept: bool,
    /// The forms in which the file also wants the case to run.
    pub forms: Vec<Spanned<&'static Form>>,
    /// The file's table `[bench]`.
    pub bench: Option<Box<Bench>>,
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

    /// The name of the case in the file; this case may be a form of it.
    pub fn base_name(&self) -> &str {
        self.form.as_ref().map_or(&self.name, |derived| &derived.base)
    }
}

/// The parameters that are measured for a file, as lists of values; an empty list means the default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bench {
    /// The table's place in the file.
    pub span: Span,
    pub operations: Vec<String>,
    pub reductions: Vec<String>,
    pub dtypes: Vec<DType>,
    pub roots: Vec<usize>,
    pub ranks: Vec<usize>,
    pub in_place: Vec<bool>,
    /// Values of NCCL_ALGO; `None` leaves the choice to the library.
    pub algorithms: Vec<Option<String>>,
    /// Values of NCCL_PROTO to measure.
    pub protocols: Vec<Option<String>>,
    /// Sizes in bytes.
    pub sizes: Vec<u64>,
    pub warm_up: Option<u32>,
    pub iterations: Option<u32>,
    pub samples: Option<u32>,
}

/// A larger world that contains the case's world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OuterWorld {
    /// For each rank of the larger world, its rank in the case's world; for an idle rank, a number outside that world.
    pub order: Vec<usize>,
}

/// An admissible outcome of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExpectedOutcome {
    /// All ranks finish, and all lanes pass.
    Ok,
    /// Some call fails; `None` means any error.
    Error(Option<nccl_sys::ncclResult_t>),
    /// The case is not finished when the time is up, or is proved stuck.
    Hang,
    /// A process crashes.
    Crash,
    /// The plan refuses the case.
    Refused,
}

/// The threads and processes that drive the ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub enum Placement {
    /// One process with a thread per rank.
    #[default]
    Threads,
    /// A process per rank.
    Processes,
    /// One thread for all ranks; every step is one group over all of them.
    OneThread,
}

impl Placement {
    /// Every placement.
    pub const ALL: [Self; 3] = [Self::Threads, Self::Processes, Self::OneThread];

    /// Limit on the processes of a case.
    pub const MAX_PROCESSES: usize = 16;

    /// The name in scenarios and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Threads => "threads",
            Self::Processes => "processes",
            Self::OneThread => "one_thread",
        }
    }

    /// Parses the name of a placement.
    ///
    /// # Errors
    ///
    /// The name is unknown; the text lists the names.
    pub fn parse(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|placement| placement.name() == text);
        found.ok_or_else(|| format!("the placements are {}", Self::ALL.map(Self::name).join(", ")))
    }
}
