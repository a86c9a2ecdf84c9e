//! Arguments that are misread: roots, peers, types, counts, addresses, configurations.
#![allow(unsafe_code)] // a configuration is copied

use crate::call::{Call, Kind};
use crate::communicators::{Communicator, KeptConfig};
use crate::fault::hit;
use crate::groups;
use crate::memory::{self, Block, is_there};
use crate::plain::named::*;
use crate::windows;
use nccl_sys::ncclRedOp_t;
use std::ffi::c_int;
use std::sync::Arc;

/// Bytes to which the library aligns what it reads.
const PACK: usize = 16;

/// Changes the arguments of a call. The returned configuration, if there is one, must live until the call has returned.
pub(crate) fn change(of: &Communicator, call: &mut Call) -> Option<Arc<KeptConfig>> {
    let given = call.clone();
    root(of, call);
    shared_with_group(of, call);
    let kept = configuration(of, call);
    if call.kind != Kind::Wait
        && !call.send.is_multiple_of(PACK)
        && call.count > 0
        && !call.extent(of.rank, of.n).overlaps()
        && hit(F05, of.rank)
    {
        call.send -= call.send % PACK;
    }
    if let Some(other) =
        windows::first_registered(of, call.extent(of.rank, of.n).recv).filter(|_| !call.kind.is_one_sided())
        && hit(F82B, of.rank)
    {
        call.recv = other;
    }
    keep_inside(of, call, &given);
    kept
}

/// Replaces the root or peer.
fn root(of: &Communicator, call: &mut Call) {
    let hits = |fault| hit(fault, of.rank);
    let (Ok(n), has_root) = (c_int::try_from(of.n), call.kind.has_root()) else { return };
    let too_large = match call.kind {
        Kind::Broadcast | Kind::Reduce => F68,
        Kind::Gather | Kind::Scatter => F68B,
        Kind::Send | Kind::Recv => F68C,
        _ => return,
    };
    if call.root < 0 {
        call.root = if hits(F68D) { 0 } else { call.root };
    } else if call.root >= n {
        call.root = if hits(too_large) { call.root % n } else { call.root };
    } else if call.count > 0 {
        if has_root && call.root != 0 && (hits(F14) || call.config.is_some() && hits(F89)) {
            call.root = 0;
        }
        if of.is_split() && of.n > 1 && of.n < of.made.parent_n && hits(F15) {
            call.root = (call.root + 1) % n;
        }
    }
}

/// Attributes of the group's first collective that hold for all.
fn shared_with_group(of: &Communicator, call: &mut Call) {
    if !call.kind.is_collective() || call.count == 0 {
        return;
    }
    let hits = |fault| hit(fault, of.rank);
    let earlier: Vec<Call> = groups::earlier(of.handle).into_iter().filter(|call| call.kind.is_collective()).collect();
    if let Some(first) = earlier.iter().find(|call| call.kind.reduces())
        && call.kind.reduces()
        && first.op != call.op
        && hits(F30B)
    {
        // The first one's scalar may be of another type.
        call.op = if first.op.0 > ncclRedOp_t::Avg.0 { ncclRedOp_t::Sum } else { first.op };
    }
    if let Some(first) = earlier.iter().find(|call| call.kind.has_root())
        && call.kind.has_root()
        && first.root != call.root
        && hits(F30C)
    {
        call.root = first.root;
    }
    let Some(first) = earlier.first() else { return };
    if first.count < call.count && hits(F30D) {
        call.count = first.count;
    }
    // A wider type covers no more bytes than there are. Operators have the type that they were made for.
    let covered = call.count * call.size().min(first.size()) / first.size().max(1);
    let plain = call.op.0 <= ncclRedOp_t::Avg.0;
    if first.dtype != call.dtype && plain && (call.kind.reduces() || first.size() != call.size()) && hits(F30) {
        (call.dtype, call.count) = (first.dtype, if first.size() > call.size() { covered } else { call.count });
    }
}

/// Configurations that are ignored, or kept for calls that have none.
fn configuration(of: &Communicator, call: &mut Call) -> Option<Arc<KeptConfig>> {
    let hits = |fault| hit(fault, of.rank);
    let mut state = of.state();
    let Some(config) = call.config else {
        let supports = matches!(
            call.kind,
            Kind::AllReduce | Kind::Reduce | Kind::Broadcast | Kind::AllGather | Kind::ReduceScatter
        );
        let last = state.last_config.clone().filter(|_| supports && call.count > 0);
        let kept = last.filter(|_| hits(F86));
        call.config = kept.as_ref().map(|kept| kept.address());
        return kept;
    };
    // SAFETY: the caller has passed the configuration to this call.
    state.last_config = Some(Arc::new(unsafe { KeptConfig::of(config) }));
    if call.kind.reduces() && call.op != ncclRedOp_t::Sum && hits(F89B) {
        call.op = ncclRedOp_t::Sum;
    }
    if call.count > 0 && hits(F85) {
        call.config = None;
    }
    None
}

/// Memory of this library's own where a changed call would leave the caller's: wrong, but nothing breaks.
fn keep_inside(of: &Communicator, call: &mut Call, asked: &Call) {
    let (now, before) = (call.extent(of.rank, of.n), asked.extent(of.rank, of.n));
    if now.send == before.send && now.recv == before.recv {
        return;
    }
    for (place, (address, len), (_, had)) in
        [(&mut call.send, now.send, before.send), (&mut call.recv, now.recv, before.recv)]
    {
        if len > had
            && (address == 0 || !is_there(address, len))
            && let Some(block) = Block::new(len)
        {
            *place = block.address();
            memory::keep(block);
        }
    }
}
