//! Faults of a rank's requests: misread roots, lost and endless operations, messages out of order.
#![allow(unsafe_code)] // a caller's buffers are addresses

use super::graphs::{Graphs, Place};
use super::groups::{self, Group};
use super::memory::{Extent, Substitute, read, stand_in};
use super::situations::{self, Surroundings};
use super::{FaultMode, deaths, hit, mode, named, one_sided, wanted};
use crate::algo::{Algorithm, Selection};
use crate::arith::Scalar;
use crate::engine::hooks::RequestContext;
use crate::engine::{Operation, Request, read_scalar};
use crate::op::{Kind, PreMul, Signature, Spec};
use std::collections::HashMap;
use std::sync::Arc;

/// Number of requests in flight from which on one gets lost.
const BUDGET: usize = 32;
/// The value at which an 8-bit counter wraps.
pub(super) const WRAP: u64 = 256;

/// The number at which a counter of twelve bits wraps.
const TWELVE_BITS: u64 = 1 << 12;

/// The effects of a fault on one operation on one rank.
#[derive(Clone, Debug, Default)]
pub(super) struct Injected {
    /// It counts as done.
    pub lost: bool,
    /// True if the operation never ends.
    pub stalls: bool,
    /// True if the last element of its output keeps its old value.
    pub short: bool,
    /// True if the rank uses another protocol than ranks for which this is false.
    pub apart: bool,
    /// The input at the time of the call.
    pub(super) early: Option<Vec<u8>>,
    /// The scalar in device memory at the time of the call.
    pub(super) early_scalar: Option<Scalar>,
    /// Memory instead of the caller's.
    pub(super) stand_ins: Vec<Arc<Substitute>>,
    /// Its place in the graph whose launch it is part of.
    pub(super) place: Option<Place>,
    pub(super) stream: usize,
    /// True if the stream is its device's null stream.
    pub(super) null_stream: bool,
    /// The number of operations with an input that this rank's communicator has had.
    pub(super) turn: u64,
}

/// The state that faults keep for a rank's communicator.
#[derive(Debug, Default)]
pub(super) struct CommState {
    /// The last operation had no elements.
    empty: bool,
    inputs: u64,
    /// One-sided operations so far.
    one_sided: u64,
    /// The start of the input with this number.
    pub(super) last_input: (u64, Vec<u8>),
    /// The state of its graphs.
    pub(super) graphs: Graphs,
    /// Messages so far by direction, peer and size.
    messages: HashMap<(bool, usize, usize), u64>,
    /// A call was refused.
    pub(super) unbalanced: bool,
    /// A communicator that was split off has been destroyed.
    pub(super) child_destroyed: bool,
    /// True if one of them was aborted.
    pub(super) child_aborted: bool,
    /// The communicator that this one was split off has ended.
    pub(super) parent_ended: bool,
    /// The communicator was shrunk after a death, and has had no operation.
    pub(super) after_death: bool,
    /// It was suspended and works again, and had no operation since.
    pub(super) resumed: bool,
    /// It was suspended at some time.
    pub(super) was_suspended: bool,
    /// The selection of the last call that had one.
    pub(super) last_selection: Option<Selection>,
}

/// Changes the requests of a rank in one group on one communicator; returns the requests that are repeated, and the effects of
/// faults on each operation.
pub(super) fn misread(
    of: RequestContext<'_>,
    state: &mut CommState,
    requests: &mut [Request],
) -> (Vec<Request>, Vec<Injected>) {
    let (mut again, mut all) = (Vec::new(), Vec::with_capacity(requests.len()));
    let in_flight = if wanted(named::F38) { (of.in_flight)() } else { 0 };
    let mut group = Group::default();
    groups::share_attributes(of, requests);
    let (together, first_stream) = (requests.len(), requests.first().map(|request| request.stream.raw()));
    for (at, request) in requests.iter_mut().enumerate() {
        let (stream, null_stream) = (request.stream.raw(), request.null_stream);
        let mut injected = Injected { stream, null_stream, ..Injected::default() };
        let around = Surroundings {
            together,
            second_stream: Some(stream) != first_stream,
            in_graph: state.graphs.place(at).is_some(),
            resumed: state.was_suspended && !state.resumed,
        };
        injected.short = situations::leaves_the_end(of, around, request);
        let spec = &mut request.spec;
        peers(of, spec);
        if spec.kind.is_one_sided() {
            state.one_sided += 1;
            injected.lost |= one_sided::is_lost(of.rank, spec, state.one_sided);
        }
        if matches!(spec.kind, Kind::Signal | Kind::WaitSignal) {
            all.push(injected);
            continue;
        }
        let full = spec.count > 0;
        let hits = |fault| hit(fault, of.rank, spec.algorithm);
        injected.lost |= spec.kind.is_p2p() && spec.peer == of.rank && full && hits(named::F33);
        injected.lost |= std::mem::replace(&mut state.empty, !full) && full && hits(named::F34);
        injected.stalls |= !full && hits(named::F34B);
        injected.stalls |= state.child_aborted && hits(named::F63B);
        injected.lost |= full && std::mem::take(&mut state.after_death) && deaths::is_lost(of.rank);
        injected.lost |= full && std::mem::take(&mut state.resumed) && hits(named::F73);
        injected.lost |= group.loses(of, at, spec);
        injected.lost |= state.graphs.loses(of.rank, spec);
        injected.place = state.graphs.place(at);
        if group.repeats(of, spec) {
            again.push(request.clone());
        }
        let spec = &mut request.spec;
        injected.stalls |= in_flight + at >= BUDGET && hit(named::F38, of.rank, spec.algorithm);
        injected.apart = is_apart(of, spec);
        let (address, len) = Extent::of(spec, of.rank, of.n).send;
        if len > 0 {
            state.inputs += 1;
            injected.turn = state.inputs;
            injected.stalls |= injected.turn.is_multiple_of(WRAP) && hit(named::F37B, of.rank, spec.algorithm);
            injected.lost |= injected.turn.is_multiple_of(TWELVE_BITS) && hit(named::F62, of.rank, spec.algorithm);
            let early = wanted(named::F12) || (null_stream && wanted(named::F67B));
            if early && !injected.lost {
                // SAFETY: the call was checked, so its caller has promised the input; that it is read before its
                // stream has reached it is the fault.
                injected.early = Some(unsafe { read(address, len) });
            }
        }
        if let PreMul::Device(address) = spec.premul
            && wanted(named::F53)
        {
            // SAFETY: the caller that created the operator has promised a readable element at the address; reading it
            // before the stream has reached the call is the fault.
            injected.early_scalar = Some(unsafe { read_scalar(address, spec.ty) });
        }
        injected.stand_ins = stand_ins(of, spec);
        all.push(injected);
    }
    state.graphs.requested();
    (again, all)
}

/// Memory where a fault has led a call away from its caller's buffers.
fn stand_ins(of: RequestContext<'_>, spec: &mut Spec) -> Vec<Arc<Substitute>> {
    let changed = [named::F14, named::F15, named::F30, named::F30C].into_iter().any(wanted);
    if !changed || matches!(mode(), FaultMode::Trace) {
        return Vec::new();
    }
    stand_in(spec, of.rank, of.n).into_iter().map(Arc::new).collect()
}

/// Roots and peers that are others than the caller said.
fn peers(of: RequestContext<'_>, spec: &mut Spec) {
    let hits = |fault| hit(fault, of.rank, spec.algorithm);
    if spec.kind.has_root() && spec.peer != 0 && spec.count > 0 && hits(named::F14) {
        spec.peer = 0;
    }
    if spec.kind.has_root() || spec.kind.is_p2p() {
        let world_rank = of.devices.get(spec.peer).and_then(|device| usize::try_from(*device).ok());
        let misread = world_rank.and_then(|rank| rank.checked_rem(of.n)).filter(|rank| *rank != spec.peer);
        if let Some(rank) = misread
            && hits(named::F15)
        {
            spec.peer = rank;
        }
    }
}

/// The signature that an operation shows to its peers: those that use another protocol do not know it.
pub(super) fn apart(signature: Signature, injected: &Injected) -> Signature {
    match (injected.apart, signature.algorithm) {
        (false, _) => signature,
        (true, Algorithm::Direct) => Signature { algorithm: Algorithm::Ring, ..signature },
        (true, _) => Signature { algorithm: Algorithm::Direct, ..signature },
    }
}

/// True if the rank's own pointers make it choose something that other ranks may not choose.
fn is_apart(of: RequestContext<'_>, spec: &Spec) -> bool {
    let everywhere = matches!(spec.kind, Kind::AllReduce | Kind::AllGather | Kind::ReduceScatter | Kind::AlltoAll);
    if !everywhere || of.n == 1 || spec.count == 0 {
        return false;
    }
    let hits = |fault| hit(fault, of.rank, spec.algorithm);
    let in_place = Extent::of(spec, of.rank, of.n).overlaps();
    (in_place && hits(named::F39)) || (!spec.send.is_multiple_of(16) && hits(named::F39B))
}

/// Gives messages of one batch other numbers than their order says.
pub(super) fn renumber(rank: usize, state: &mut CommState, operations: &mut [Operation]) {
    let mut first: HashMap<(bool, usize, usize), (usize, &mut u64)> = HashMap::new();
    for Operation { spec, sequence: number, .. } in operations.iter_mut().filter(|op| op.spec.kind.is_p2p()) {
        let hits = |fault| hit(fault, rank, spec.algorithm);
        let sends = spec.kind == Kind::Send;
        let bytes = spec.count * spec.ty.size();
        if wanted(named::F32B) {
            let of_size = state.messages.entry((sends, spec.peer, bytes)).or_default();
            *of_size += 1;
            if *of_size != *number && hits(named::F32B) {
                *number = *of_size;
            }
        }
        let (fault, address) = if sends { (named::F32, spec.send) } else { (named::F32C, spec.recv) };
        if bytes == 0 || !wanted(fault) {
            continue;
        }
        match first.remove(&(sends, spec.peer, bytes)) {
            Some((other_address, other)) if other_address != address => {
                if hits(fault) {
                    std::mem::swap(other, number);
                }
            }
            _ => _ = first.insert((sends, spec.peer, bytes), (address, number)),
        }
    }
}
