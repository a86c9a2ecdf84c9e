//! Faults in the handling of communicators whose ranks' processes have ended.
use super::{hit, named};
use crate::algo::Algorithm;
use crate::engine::Member;
use nccl_sys::ncclResult_t;

/// The algorithm reported for these requests, which have none.
const NONE: Algorithm = Algorithm::Direct;

/// The number of ranks that `ncclCommCount` gives, if it counts a dead one.
pub(super) fn count(member: &Member) -> Option<usize> {
    (member.after_death && hit(named::F90, member.rank, NONE)).then_some(member.n + 1)
}

/// True if the first operation after a death is treated as over.
pub(super) fn is_lost(rank: usize) -> bool {
    hit(named::F91, rank, NONE)
}

/// The error that is reported in place of an asynchronous error.
pub(super) fn error(rank: usize, error: Option<ncclResult_t>) -> Option<ncclResult_t> {
    if error == Some(ncclResult_t::RemoteError) && hit(named::F92, rank, NONE) {
        return Some(ncclResult_t::InternalError);
    }
    error
}

/// True if a communicator of this rank does not notice that a process of it has ended.
pub(super) fn is_missed(rank: usize) -> bool {
    hit(named::F92B, rank, NONE)
}

/// True if the end of a process breaks a communicator of this rank that the process has no part in.
pub(super) fn spreads(rank: usize) -> bool {
    hit(named::F93, rank, NONE)
}

/// True if a broken communicator accepts operations.
pub(super) fn is_forgotten(rank: usize) -> bool {
    hit(named::F94, rank, NONE)
}
