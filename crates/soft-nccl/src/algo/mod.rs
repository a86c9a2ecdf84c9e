//! Algorithms: the work of one rank for an operation, as lanes of primitive steps. Nothing in this module touches memory, a
//! message or a number; the engine does.
mod channels;
mod choice;
mod direct;
mod ring;
mod selection;
mod stripes;
mod topology;
mod tree;

pub use crate::route::{Algorithm, Protocol};
pub use choice::{Algorithms, Protocols};

pub(crate) use selection::Selection;

use crate::op::{Kind, Spec};
use channels::Share;

/// One end of a channel, as a script names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    /// Distinguishes several channels between the same two ranks in one operation.
    pub lane: u8,
    /// The rank at the other end.
    pub peer: usize,
}

/// The place that a step reads or writes; offsets in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operand {
    /// The caller's send buffer.
    In(usize),
    /// The caller's receive buffer.
    Out(usize),
    /// The lane's own memory: one chunk.
    Scratch,
}

impl Operand {
    /// The place this many elements later in a caller's buffer.
    pub(crate) fn behind(self, elements: usize) -> Self {
        match self {
            Self::In(at) => Self::In(at + elements),
            Self::Out(at) => Self::Out(at + elements),
            Self::Scratch => Self::Scratch,
        }
    }
}

/// A primitive step: receive, combine with local data, write, send on; each part may be missing. It happens when
/// its message has arrived and its send has a free slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Step {
    /// Take one message from here.
    pub recv: Option<Link>,
    /// The data to read; if there is also a message, the two are combined.
    pub source: Option<Operand>,
    /// The source is the rank's own contribution to a reduction, to be pre-multiplied.
    pub own: bool,
    /// The value is the whole reduction, to be divided where the operation divides.
    pub last: bool,
    /// Write the value here.
    pub target: Option<Operand>,
    /// Send the value there.
    pub send: Option<Link>,
    /// Number of elements.
    pub count: usize,
    /// The value does not depend on earlier steps of this lane.
    pub fresh: bool,
    /// The links of this step are not used again; a sender waits until everything was taken.
    pub close: bool,
}

/// A lane's steps, by number, so that no list of them is ever built.
pub(crate) trait Script: Send {
    /// The step with this number; `None` past the last.
    fn step(&self, cursor: u64) -> Option<Step>;
}

/// Steps that run one after the other; an operation's lanes run in parallel.
pub(crate) type Lane = Box<dyn Script>;

/// The information that a rank needs to do its part of an operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub rank: usize,
    pub n: usize,
    /// Elements per chunk.
    pub chunk: usize,
    /// Channels at most; unset, a ring has one and a double tree one for each tree.
    pub channels: Option<usize>,
    /// Number of lanes into which each channel of a ring divides its passes.
    pub stripes: usize,
}

/// The lanes of `spec` on one rank, and in how many trees the rank has children.
pub(crate) fn lanes(spec: &Spec, part: Part) -> (Vec<Lane>, u64) {
    if spec.kind.is_one_sided() {
        return (vec![direct::one_sided(spec, part)], 0);
    }
    if spec.count == 0 && !matches!(spec.kind, Kind::Send | Kind::Recv) {
        return (Vec::new(), 0);
    }
    if part.n == 1 && !matches!(spec.kind, Kind::Send | Kind::Recv) {
        return (vec![Box::new(direct::Copy { count: spec.count, chunk: part.chunk })], 0);
    }
    match (spec.kind, spec.algorithm) {
        (Kind::AllReduce | Kind::Reduce | Kind::Broadcast, Algorithm::Tree | Algorithm::SingleTree) => {
            tree::lanes(spec, part)
        }
        _ => (ring::lanes(spec, part).unwrap_or_else(|| direct::lanes(spec, part)), 0),
    }
}

/// A range of elements cut into chunks.
#[derive(Clone, Copy, Debug)]
struct Chunks {
    start: usize,
    end: usize,
    size: usize,
}

impl Share {
    fn chunks(self, size: usize) -> Chunks {
        Chunks { start: self.start, end: self.start + self.len, size }
    }
}

impl Chunks {
    fn get(self, index: u64) -> Option<(usize, usize)> {
        let offset = usize::try_from(index).ok()?.checked_mul(self.size)?.checked_add(self.start)?;
        (offset < self.end).then(|| (offset, self.size.min(self.end - offset)))
    }
}
