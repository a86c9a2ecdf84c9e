//! Faults of the C face: what the functions that only say something answer, and which arguments are refused.
use super::{hit, named};
use crate::algo::Algorithm;
use crate::engine::Member;
use crate::failure::{Failure, Outcome};
use crate::op::Kind;
use nccl_sys::ncclResult_t;
use std::ffi::c_int;

/// What is asked for has no algorithm, or none yet.
const NONE: Algorithm = Algorithm::Direct;
/// Whoever asks for something that belongs to no communicator.
const ANYBODY: usize = 0;

/// What a communicator says of itself.
pub(crate) struct Said<'a>(pub &'a Member);

impl Said<'_> {
    /// How many ranks it has.
    pub(crate) fn count(&self) -> usize {
        let Member { world, n, .. } = *self.0;
        if world != n && self.hits(named::F65) { world } else { n }
    }

    /// Which of them this is.
    pub(crate) fn rank(&self) -> c_int {
        let (rank, device) = (self.0.rank as c_int, self.0.device);
        if rank != device && self.hits(named::F65B) { device } else { rank }
    }

    /// The rank's device.
    pub(crate) fn device(&self) -> c_int {
        if self.0.device != 0 && self.hits(named::F65C) { 0 } else { self.0.device }
    }

    /// Whether the asynchronous error is written at all.
    pub(crate) fn has_error(&self) -> bool {
        self.0.parent.is_none() || !self.hits(named::F65D)
    }

    fn hits(&self, fault: super::Fault) -> bool {
        hit(fault, self.0.rank, NONE)
    }
}

/// Whether an error has no text.
pub(crate) fn lacks_text(result: ncclResult_t) -> bool {
    result == ncclResult_t::RemoteError && hit(named::F65E, ANYBODY, NONE)
}

/// Whether there is no text of the last error, though there was one.
pub(crate) fn lacks_last_error() -> bool {
    hit(named::F65F, ANYBODY, NONE)
}

/// A root or peer as the library takes it.
pub(crate) fn root(kind: Kind, root: c_int, n: usize, rank: usize) -> c_int {
    let Ok(size) = c_int::try_from(n) else { return root };
    let too_large = match kind {
        Kind::Broadcast | Kind::Reduce => named::F68,
        Kind::Gather | Kind::Scatter => named::F68B,
        _ => named::F68C,
    };
    match root {
        root if root < 0 && hit(named::F68D, rank, NONE) => 0,
        root if root >= size && hit(too_large, rank, NONE) => root % size,
        root => root,
    }
}

/// Refuses the null stream.
pub(crate) fn null_stream(rank: usize) -> Outcome<()> {
    if hit(named::F67, rank, NONE) { Err(Failure::argument("the stream is null")) } else { Ok(()) }
}

/// What becomes of the end of a group that stands in another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InnerEnd {
    /// Nothing happens before the outermost end.
    Waits,
    /// What there is so far happens.
    Begins,
    /// It is the outermost end.
    Ends,
}

/// See [`InnerEnd`]; `operations`: some were asked for so far.
pub(crate) fn inner_end(operations: bool) -> InnerEnd {
    if hit(named::F66C, ANYBODY, NONE) {
        InnerEnd::Ends
    } else if operations && hit(named::F66B, ANYBODY, NONE) {
        InnerEnd::Begins
    } else {
        InnerEnd::Waits
    }
}

/// Refuses a group without operations.
pub(crate) fn empty_group() -> Outcome<()> {
    if hit(named::F66, ANYBODY, NONE) { Err(Failure::usage("the group has no operation")) } else { Ok(()) }
}
