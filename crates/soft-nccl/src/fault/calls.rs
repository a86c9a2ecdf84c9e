//! Faults of the C interface: wrong answers of query functions, and arguments that are wrongly accepted or refused.
use super::{hit, named};
use crate::algo::Algorithm;
use crate::engine::Member;
use crate::engine::hooks::InnerGroupEnd;
use crate::failure::{Failure, Outcome};
use crate::op::Kind;
use nccl_sys::ncclResult_t;
use std::ffi::c_int;

/// The algorithm reported for a call that has none, or none yet.
const NONE: Algorithm = Algorithm::Direct;
/// The rank reported for a call that does not belong to a communicator.
const NO_RANK: usize = 0;

/// The answer of `ncclCommCount`.
pub(super) fn count(member: &Member) -> usize {
    let Member { world_size, n, .. } = *member;
    if world_size != n && hit(named::F65, member.rank, NONE) { world_size } else { n }
}

/// The answer of `ncclCommUserRank`.
pub(super) fn rank(member: &Member) -> c_int {
    let (rank, device) = (member.rank as c_int, member.device);
    if rank != device && hit(named::F65B, member.rank, NONE) { device } else { rank }
}

/// The answer of `ncclCommCuDevice`.
pub(super) fn device(member: &Member) -> c_int {
    if member.device != 0 && hit(named::F65C, member.rank, NONE) { 0 } else { member.device }
}

/// True if `ncclCommGetAsyncError` writes the error.
pub(super) fn writes_async_error(member: &Member) -> bool {
    member.parent.is_none() || !hit(named::F65D, member.rank, NONE)
}

/// True if `ncclGetErrorString` gives a null pointer for this code.
pub(super) fn lacks_text(result: ncclResult_t) -> bool {
    result == ncclResult_t::RemoteError && hit(named::F65E, NO_RANK, NONE)
}

/// True if `ncclGetLastError` gives a null pointer although a call failed.
pub(super) fn lacks_last_error() -> bool {
    hit(named::F65F, NO_RANK, NONE)
}

/// The root or peer that the library uses for the one in the call.
pub(super) fn root(kind: Kind, root: c_int, n: usize, rank: usize) -> c_int {
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
pub(super) fn null_stream(rank: usize) -> Outcome<()> {
    if hit(named::F67, rank, NONE) { Err(Failure::argument("the stream is null")) } else { Ok(()) }
}

/// The effect of an inner group's end; `has_operations` is true if the group has any operation so far.
pub(super) fn inner_group_end(has_operations: bool) -> InnerGroupEnd {
    if hit(named::F66C, NO_RANK, NONE) {
        InnerGroupEnd::Ends
    } else if has_operations && hit(named::F66B, NO_RANK, NONE) {
        InnerGroupEnd::Begins
    } else {
        InnerGroupEnd::Waits
    }
}

/// Refuses a group without operations if the fault for that is on.
pub(super) fn empty_group() -> Outcome<()> {
    if hit(named::F66, NO_RANK, NONE) { Err(Failure::usage("the group has no operation")) } else { Ok(()) }
}
