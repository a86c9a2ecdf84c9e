//! The calls of a rank's program, as they are read from any input.
use collspec_core::num::DType;
use collspec_core::ops::{self, Kind};

/// What a rank gives to an operation of a communicator.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Collective {
    /// The scenario language's word.
    pub op: &'static str,
    /// The scenario language's word; `sum` if the operation has none.
    pub reduce: &'static str,
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

    /// The keys of a step or variant that say what is done, but not with which buffers.
    pub fn keys(&self) -> String {
        let mut keys = match self.reduce {
            "sum" => String::new(),
            "premul_sum" => ", reduce = { premul_sum = 1 }".to_owned(),
            word => format!(", reduce = \"{word}\""),
        };
        if self.root != 0 {
            keys.push_str(&format!(", root = {}", self.root));
        }
        keys
    }
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

/// What a rank issues at once: a call, or a group of calls.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Unit {
    /// The index of the communicator.
    pub comm: usize,
    /// The index of the stream on its rank.
    pub stream: usize,
    pub calls: Vec<Call>,
}

impl Unit {
    /// True if the ranks of the communicator must all make it.
    pub fn is_collective(&self) -> bool {
        self.collectives().next().is_some()
    }

    pub fn collectives(&self) -> impl Iterator<Item = &Collective> {
        self.calls.iter().filter_map(|call| if let Call::Collective(call) = call { Some(call) } else { None })
    }

    pub fn messages(&self) -> impl Iterator<Item = &Message> {
        self.calls.iter().filter_map(|call| if let Call::Message(message) = call { Some(message) } else { None })
    }

    /// The unit without what may differ between the ranks that make it together.
    pub fn shape(&self, family: usize) -> Unit {
        let mut shape = Unit { comm: family, stream: 0, calls: self.calls.clone() };
        for call in &mut shape.calls {
            match call {
                Call::Message(message) => message.offset = 0,
                Call::Collective(call) => {
                    (call.offset, call.in_place) = (0, false);
                    if !call.pieces.is_empty() {
                        // A step has one table of pieces, so communicators of a family do not share such a step.
                        (call.count, call.pieces, shape.stream) = (0, Vec::new(), self.comm + 1);
                    }
                }
            }
        }
        shape
    }
}
