//! Faults of the C interface: wrong answers of query functions, and arguments that are wrongly accepted or refused.
use super::{hit, named};
use crate::algo::Algorithm;
use crate::engine::Member;
use crate::failure::{Failure, Outcome};
use crate::op::Kind;
use nccl_sys::ncclResult_t;
use std::ffi::c_int;

/// Stands for the algorithm of a call that has none, or none yet.
const NONE: Algorithm = Algorithm::Direct;
/// Stands for the rank of a call that belongs to no communicator.
const ANYBODY: usize = 0;

/// The answers to queries about a communicator.
pub(crate) struct Said<'a>(pub &'a Member);

impl Said<'_> {
    /// The answer of `ncclCommCount`.
    pub(crate) fn count(&self) -> usize {
        let Member { world, n, .. } = *self.0;
        if world != n && self.hits(named::F65) { world } else { n }
    }

    /// The answer of `ncclCommUserRank`.
    pub(crate) fn rank(&self) -> c_int {
        let (rank, device) = (self.0.rank as c_int, self.0.device);
        if rank != device && self.hits(named::F65B) { device } else { rank }
    }

    /// The answer of `ncclCommCuDevice`.
    pub(crate) fn device(&self) -> c_int {
        if self.0.device != 0 && self.hits(named::F65C) { 0 } else { self.0.device }
    }

    /// True if `ncclCommGetAsyncError` writes the error.
    pub(crate) fn has_error(&self) -> bool {
        self.0.parent.is_none() || !self.hits(named::F65D)
    }

    fn hits(&self, fault: super::Fault) -> bool {
        hit(fault, self.0.rank, NONE)
    }
}

/// True if `ncclGetErrorString` gives a null pointer for this code.
pub(crate) fn lacks_text(result: ncclResult_t) -> bool {
    result == ncclResult_t::RemoteError && hit(named::F65E, ANYBODY, NONE)
}

/// True if `ncclGetLastError` gives a null pointer although a call failed.
pub(crate) fn lacks_last_error() -> bool {
    hit(named::F65F, ANYBODY, NONE)
}

/// The root or peer that the library uses for the one in the call.
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

/// Refuses the null stream if the fault for that is on.
pub(crate) fn null_stream(rank: usize) -> Outcome<()> {
    if hit(named::F67, rank, NONE) { Err(Failure::argument("the stream is null")) } else { Ok(()) }
}

/// The effect of ending a group inside another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InnerEnd {
    /// None: everything begins at the outermost end (the right one).
    Waits,
    /// The calls collected so far begin.
    Begins,
    /// The outer group ends as well.
    Ends,
}

/// The effect of an inner group's end; `operations` is true if the group has any operation so far.
pub(crate) fn inner_end(operations: bool) -> InnerEnd {
    if hit(named::F66C, ANYBODY, NONE) {
        InnerEnd::Ends
    } else if operations && hit(named::F66B, ANYBODY, NONE) {
        InnerEnd::Begins
    } else {
        InnerEnd::Waits
    }
}

/// Refuses a group without operations if the fault for that is on.
pub(crate) fn empty_group() -> Outcome<()> {
    if hit(named::F66, ANYBODY, NONE) { Err(Failure::usage("the group has no operation")) } else { Ok(()) }
}
