//! The calls of a rank's program, as they are read from any input.
use super::comms::Comms;
use super::inputs::Small;
use collspec_core::num::{DType, encode_f64};
use collspec_core::ops::{self, Kind};
use collspec_core::oracle::{ColumnReduction, ReduceKind};
use collspec_core::plan::cost::SEARCH_RANKS;
use std::collections::{BTreeMap, BTreeSet};

/// What a rank gives to an operation of a communicator.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Collective {
    /// The scenario language's word.
    pub op: &'static str,
    /// The scenario language's word; `sum` if the operation has none.
    pub reduce: &'static str,
    /// The factor of a `premul_sum`, if it is known.
    pub factor: Option<String>,
    pub dtype: DType,
    /// Elements of the scenario's `in` on this rank.
    pub count: u64,
    /// The rank of the communicator; 0 if the operation has none.
    pub root: usize,
    pub in_place: bool,
    /// Elements between a 256-byte boundary and `in`.
    pub offset: u64,
    /// What this rank of an `all_to_all_v` sends to each.
    pub pieces: Vec<u64>,
}

/// The properties of an operation that is one call of NCCL's.
pub fn properties(op: &str) -> Option<&'static ops::Collective> {
    match &ops::find(op)?.kind {
        Kind::Collective(collective) => Some(collective),
        _ => None,
    }
}

pub fn reduces(op: &str) -> bool {
    properties(op).is_some_and(|properties| properties.reduces)
}

pub fn is_rooted(op: &str) -> bool {
    properties(op).is_some_and(|properties| properties.rooted)
}

impl Collective {
    /// NCCL's count in a communicator of `n` ranks.
    pub fn part(&self, n: usize) -> u64 {
        let parts = properties(self.op).and_then(|properties| properties.send.elements(1, n));
        self.count / parts.unwrap_or(1).max(1)
    }

    /// True if it has a factor that must be guessed.
    pub fn lacks_factor(&self) -> bool {
        self.reduce == "premul_sum" && self.factor.is_none()
    }

    /// True if no bound says anything of `n` ranks' random numbers: it is as large as the result, or their product leaves the type's
    /// normal numbers.
    fn has_no_bound(&self, n: usize) -> bool {
        let reduction = self.reduction(n);
        let leaves_range = reduction.kind == ReduceKind::Prod && self.dtype.is_float() && n > SEARCH_RANKS;
        reduces(self.op) && (leaves_range || !reduction.has_bound())
    }

    /// True if `n` ranks' reduction cannot be judged even with inputs of small whole numbers.
    fn rounds_whole_numbers(&self, n: usize) -> bool {
        let number = |rank| self.small(n, n).map_or(1, |small| small.number(rank));
        let column: Vec<u64> = (0..n).map(|rank| encode_f64(self.dtype, number(rank) as f64)).collect();
        self.reduction(n).judgeable(&column).is_err()
    }

    fn reduction(&self, ranks: usize) -> ColumnReduction {
        let factor = self.factor.as_deref().and_then(|factor| factor.parse().ok()).unwrap_or(1.0);
        let kind = match self.reduce {
            "prod" => ReduceKind::Prod,
            "min" => ReduceKind::Min,
            "max" => ReduceKind::Max,
            "avg" => ReduceKind::Avg,
            "premul_sum" => ReduceKind::PreMulSum { scalars: vec![encode_f64(self.dtype, factor); ranks] },
            _ => ReduceKind::Sum,
        };
        ColumnReduction { dtype: self.dtype, kind, ranks }
    }

    /// The inputs of a reduction that has no bound.
    pub fn small(&self, n: usize, world: usize) -> Option<Small> {
        let most = 1 << self.dtype.precision()?.saturating_sub(1);
        self.has_no_bound(n).then(|| match self.reduce {
            "prod" => Small::Twos { every: world },
            _ => Small::Ones { every: world.div_ceil(most) },
        })
    }

    /// The keys of a step or variant that say what is done, but not with which buffers.
    pub fn keys(&self) -> String {
        let mut keys = match self.reduce {
            "sum" => String::new(),
            "premul_sum" => format!(", reduce = {{ premul_sum = {} }}", self.factor.as_deref().unwrap_or("1")),
            word => format!(", reduce = \"{word}\""),
        };
        if self.root != 0 {
            keys.push_str(&format!(", root = {}", self.root));
        }
        keys
    }
}

/// What is said of reductions of as many ranks as a call has, where no error bound says anything.
pub fn reductions_without_bound<'a>(calls: impl Iterator<Item = (&'a Collective, usize)>) -> Vec<String> {
    let mut remarks = BTreeSet::new();
    for (call, n) in calls.filter(|(call, n)| call.has_no_bound(*n)) {
        let what = format!("{} of {n} ranks' {}", call.reduce, call.dtype.name());
        remarks.insert(if call.rounds_whole_numbers(n) {
            format!("check refuses this: {what} round so often that no result can be judged")
        } else if call.reduce == "prod" {
            format!("guessed: inputs of 1 and 2, because {what} can be judged only if all of it is exact")
        } else {
            format!(
                "guessed: inputs of 0 and 1, because {what} round so often that only small whole numbers can be judged"
            )
        });
    }
    remarks.into_iter().collect()
}

/// A message to or from another rank.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Message {
    pub sends: bool,
    /// How many ranks the other one is after this one in the communicator, going round.
    pub distance: usize,
    pub dtype: DType,
    pub count: u64,
    pub offset: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Call {
    Collective(Collective),
    Message(Message),
}

impl Call {
    /// Where the call comes in a group of messages in a communicator of `n` ranks, by how far they go, so that the groups of all
    /// ranks look alike. Only the order of those to the same rank matters.
    pub fn place_in_group(&self, n: usize) -> (usize, bool) {
        match self {
            Call::Message(message) if message.sends => (message.distance, false),
            Call::Message(message) => ((n - message.distance) % n, true),
            Call::Collective(_) => (0, false),
        }
    }
}

/// A call, and where it is made.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Issued {
    /// The index of the communicator.
    pub comm: usize,
    /// The index of the stream on its rank.
    pub stream: usize,
    pub call: Call,
}

/// What a rank issues at once: a call, or a group of calls.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Unit {
    pub calls: Vec<Issued>,
}

impl Unit {
    /// True if it has a call that all ranks of a communicator must make.
    pub fn is_collective(&self) -> bool {
        self.collectives().next().is_some()
    }

    pub fn collectives(&self) -> impl Iterator<Item = &Collective> {
        self.calls.iter().filter_map(|issued| match &issued.call {
            Call::Collective(call) => Some(call),
            Call::Message(_) => None,
        })
    }

    /// The messages, and their communicators.
    pub fn messages(&self) -> impl Iterator<Item = (usize, &Message)> {
        self.calls.iter().filter_map(|issued| match &issued.call {
            Call::Message(message) => Some((issued.comm, message)),
            Call::Collective(_) => None,
        })
    }

    /// By communicator: what all its ranks must make, without what may differ between them.
    pub fn awaited(&self, comms: &Comms) -> BTreeMap<usize, Unit> {
        let mut awaited: BTreeMap<usize, Unit> = BTreeMap::new();
        for (issued, mut shape) in self.calls.iter().zip(self.shape(comms).calls) {
            if let Call::Collective(call) = &mut shape.call {
                call.factor = None;
                awaited.entry(issued.comm).or_default().calls.push(shape);
            }
        }
        awaited
    }

    /// The unit without what may differ between the ranks of a step.
    pub fn shape(&self, comms: &Comms) -> Unit {
        let mut shape = self.clone();
        for Issued { comm, stream, call } in &mut shape.calls {
            *stream = 0;
            match call {
                Call::Message(message) => message.offset = 0,
                Call::Collective(call) => {
                    (call.offset, call.in_place) = (0, false);
                    if !call.pieces.is_empty() {
                        // A step has one table of pieces, so communicators of a family do not share such a step.
                        (call.count, call.pieces, *stream) = (0, Vec::new(), *comm + 1);
                    }
                }
            }
            *comm = comms.family(*comm);
        }
        shape
    }
}
