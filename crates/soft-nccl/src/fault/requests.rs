//! Faults of what a rank asks for: misread roots, lost and endless operations, messages out of order.
use super::groups::{self, Group};
use super::memory::{Block, Extent, read, stand_in};
use super::{Wish, hit, named, wanted, wish};
use crate::algo::Algorithm;
use crate::arith::Scalar;
use crate::engine::{Request, read_scalar};
use crate::op::{Kind, PreMul, Signature, Spec};
use std::collections::HashMap;
use std::sync::Arc;

/// Requests in flight from which on one gets lost.
const BUDGET: usize = 32;
/// Where a counter of eight bits wraps.
pub(super) const WRAP: u64 = 256;

/// The number at which a counter of twelve bits wraps.
const TWELVE_BITS: u64 = 1 << 12;

/// What a fault does to one operation on one rank.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ill {
    /// It counts as done.
    pub lost: bool,
    /// It never ends.
    pub stalls: bool,
    /// The rank goes by another protocol than ranks of which this is not true.
    pub apart: bool,
    /// The input as it was when the call was made.
    pub(super) early: Option<Vec<u8>>,
    /// The scalar in device memory as it was when the call was made.
    pub(super) early_scalar: Option<Scalar>,
    /// Memory instead of the caller's.
    pub(super) stand_ins: Vec<Arc<Block>>,
    pub(super) stream: usize,
    /// True if the stream is its device's null stream.
    pub(super) null_stream: bool,
    /// How many operations with an input this rank's communicator has had.
    pub(super) turn: u64,
}

/// What faults remember of a rank's communicator.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// The last operation had no elements.
    empty: bool,
    inputs: u64,
    /// The start of the input with this number.
    pub(super) last_input: (u64, Vec<u8>),
    /// Messages so far by direction, peer and size.
    messages: HashMap<(bool, usize, usize), u64>,
    /// A call was refused.
    pub(super) unbalanced: bool,
    /// A communicator that was split off has been destroyed.
    pub(super) child_destroyed: bool,
    /// One was aborted.
    pub(super) child_aborted: bool,
    /// The communicator that this one was split off has ended.
    pub(super) parent_ended: bool,
}

/// A rank's communicator, to these faults.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Of<'a> {
    pub rank: usize,
    pub n: usize,
    /// Ranks of the world, as far as a communicator knows them: the devices of its ranks.
    pub devices: &'a [i32],
    /// Operations that are not finished.
    pub in_flight: usize,
    /// Another communicator came first in the group.
    pub second: bool,
}

/// Whether anything of this file can happen.
pub(crate) fn possible() -> bool {
    wish() != Wish::Sound
}

/// Whether it matters how many operations are in flight.
pub(crate) fn counts_requests() -> bool {
    wanted(named::F38)
}

/// Before the first communicator: what depends on how far a stream is would otherwise depend on chance.
pub(crate) fn prepare() {
    let late = [
        named::F12,
        named::F53,
        named::F13,
        named::F13B,
        named::F38,
        named::F60,
        named::F60B,
        named::F60C,
        named::F67B,
    ];
    crate::device::set_lazy(late.into_iter().any(wanted));
}

/// Changes what a rank asks for in one group on one communicator; answers what it will do once more.
pub(crate) fn misread(of: Of<'_>, state: &mut State, requests: &mut [Request]) -> Vec<Request> {
    let mut again = Vec::new();
    let mut group = Group::default();
    groups::share_attributes(of, requests);
    for (at, request) in requests.iter_mut().enumerate() {
        let (stream, null_stream) = (request.stream.raw(), request.null_stream);
        let mut ill = Ill { stream, null_stream, ..Ill::default() };
        let spec = &mut request.spec;
        peers(of, spec);
        let full = spec.count > 0;
        let hits = |fault| hit(fault, of.rank, spec.algorithm);
        ill.lost |= spec.kind.is_p2p() && spec.peer == of.rank && full && hits(named::F33);
        ill.lost |= std::mem::replace(&mut state.empty, !full) && full && hits(named::F34);
        ill.stalls |= !full && hits(named::F34B);
        ill.stalls |= state.child_aborted && hits(named::F63B);
        ill.lost |= group.loses(of, at, spec);
        if group.repeats(of, spec) {
            again.push(Request { ill: None, ..request.clone() });
        }
        let spec = &mut request.spec;
        ill.stalls |= of.in_flight + at >= BUDGET && hit(named::F38, of.rank, spec.algorithm);
        ill.apart = is_apart(of, spec);
        let (address, len) = Extent::of(spec, of.rank, of.n).send;
        if len > 0 {
            state.inputs += 1;
            ill.turn = state.inputs;
            ill.stalls |= ill.turn.is_multiple_of(WRAP) && hit(named::F37B, of.rank, spec.algorithm);
            ill.lost |= ill.turn.is_multiple_of(TWELVE_BITS) && hit(named::F62, of.rank, spec.algorithm);
            let early = wanted(named::F12) || (null_stream && wanted(named::F67B));
            if early && !ill.lost {
                // SAFETY: the call was checked, so its caller has promised the input; that it is read before its
                // stream has come to it is the fault.
                ill.early = Some(unsafe { read(address, len) });
            }
        }
        if let PreMul::Device(address) = spec.premul
            && wanted(named::F53)
        {
            // SAFETY: the caller that created the operator has promised a readable element at the address; reading it
            // before the stream has come to the call is the fault.
            ill.early_scalar = Some(unsafe { read_scalar(address, spec.ty) });
        }
        ill.stand_ins = stand_ins(of, spec);
        request.ill = Some(Box::new(ill));
    }
    again
}

/// Memory where a fault has led a call away from its caller's buffers.
fn stand_ins(of: Of<'_>, spec: &mut Spec) -> Vec<Arc<Block>> {
    let changed = [named::F14, named::F15, named::F30, named::F30C].into_iter().any(wanted);
    if !changed || matches!(wish(), Wish::Trace) {
        return Vec::new();
    }
    stand_in(spec, of.rank, of.n).into_iter().map(Arc::new).collect()
}

/// Roots and peers that are others than the caller said.
fn peers(of: Of<'_>, spec: &mut Spec) {
    let hits = |fault| hit(fault, of.rank, spec.algorithm);
    if spec.kind.has_root() && spec.peer != 0 && spec.count > 0 && hits(named::F14) {
        spec.peer = 0;
    }
    if spec.kind.has_root() || spec.kind.is_p2p() {
        let world = of.devices.get(spec.peer).and_then(|device| usize::try_from(*device).ok());
        let misread = world.and_then(|rank| rank.checked_rem(of.n)).filter(|rank| *rank != spec.peer);
        if let Some(rank) = misread
            && hits(named::F15)
        {
            spec.peer = rank;
        }
    }
}

/// What an operation shows to its peers: those that went by another protocol do not know it.
pub(crate) fn apart(signature: Signature, ill: &Ill) -> Signature {
    match (ill.apart, signature.algorithm) {
        (false, _) => signature,
        (true, Algorithm::Direct) => Signature { algorithm: Algorithm::Ring, ..signature },
        (true, _) => Signature { algorithm: Algorithm::Direct, ..signature },
    }
}

/// Whether the rank's own pointers make it choose what other ranks may not.
fn is_apart(of: Of<'_>, spec: &Spec) -> bool {
    let everywhere = matches!(spec.kind, Kind::AllReduce | Kind::AllGather | Kind::ReduceScatter | Kind::AlltoAll);
    if !everywhere || of.n == 1 || spec.count == 0 {
        return false;
    }
    let hits = |fault| hit(fault, of.rank, spec.algorithm);
    let in_place = Extent::of(spec, of.rank, of.n).overlaps();
    (in_place && hits(named::F39)) || (!spec.send.is_multiple_of(16) && hits(named::F39B))
}

/// Gives messages of one batch other numbers than their order says.
pub(crate) fn renumber<'a>(rank: usize, state: &mut State, numbered: impl Iterator<Item = (&'a Spec, &'a mut u64)>) {
    let mut first: HashMap<(bool, usize, usize), (usize, &mut u64)> = HashMap::new();
    for (spec, number) in numbered.filter(|(spec, _)| spec.kind.is_p2p()) {
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
