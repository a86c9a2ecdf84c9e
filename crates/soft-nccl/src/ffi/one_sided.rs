//! One-sided operations.
#![allow(unsafe_code)] // exported C functions

use super::{check, enter};
use crate::algo::Protocol;
use crate::device::Stream;
use crate::engine::{Locked, Member, NO_CHOICE, Request, lock, outcome};
use crate::failure::{Failure, Outcome};
use crate::group;
use crate::op::{Kind, PreMul, Signalling, Spec};
use nccl_sys::{Nccl, cudaStream_t, ncclComm_t, ncclDataType_t, ncclResult_t, ncclWaitSignalDesc_t, ncclWindow_t};
use std::ffi::{c_int, c_uint, c_void};

/// A signal's index and context, checked.
fn signal(member: &Member, index: c_int, context: c_int) -> Outcome<Signalling> {
    let within = |value: c_int, most: u32, what: &str| {
        let value = u32::try_from(value).ok().filter(|value| *value < most);
        value.ok_or_else(|| Failure::argument(format!("the {what} is not in 0..{most}")))
    };
    let (contexts, signals) = member.config.one_sided.limits();
    let (index, context) = (within(index, signals, "signal index")?, within(context, contexts, "context")?);
    Ok(Signalling { index, context, ..Signalling::default() })
}

/// The rank's communicator, which takes work.
fn member(state: &mut Locked, comm: ncclComm_t) -> Outcome<&mut Member> {
    let member = state.comms.member(comm)?;
    member.accept_work()?;
    Ok(member)
}

/// Signals need a window first, unless the communicator is configured otherwise.
fn needs_window(member: &Member) -> Outcome<()> {
    if member.windows > 0 || member.config.one_sided.eager == Some(true) {
        return Ok(());
    }
    Err(Failure::usage("signals need a window of the communicator first, or rmaEagerInit in its configuration"))
}

/// Adds an operation to the thread's group.
///
/// # Safety
/// NCCL's contract: the stream lives, and the buffer and the window are valid until the stream has passed the operation.
unsafe fn add(comm: ncclComm_t, spec: Spec, stream: cudaStream_t) -> Outcome<()> {
    let (tag, device) = {
        let mut state = lock();
        let member = state.comms.member(comm)?;
        (member.tag, member.device)
    };
    // SAFETY: the caller vouches for the stream.
    let found = unsafe { Stream::lookup(stream, device)? };
    // SAFETY: the caller vouches for the buffer, the window and the stream.
    group::add(unsafe { Request::new(comm as usize, spec, found, tag) })
}

fn spec(kind: Kind, peer: usize, signal: Signalling) -> Spec {
    Spec {
        kind,
        algorithm: NO_CHOICE,
        protocol: Protocol::Simple,
        send: 0,
        recv: 0,
        count: 0,
        ty: crate::arith::Type::U8,
        reduction: None,
        premul: PreMul::None,
        peer,
        signal,
    }
}

/// The signal of an operation to a peer.
struct PeerSignal {
    peer: c_int,
    index: c_int,
    context: c_int,
    options: c_uint,
}

impl PeerSignal {
    /// The operation without its data, checked.
    fn spec(&self, member: &Member, kind: Kind) -> Outcome<Spec> {
        let peer = check::rank(self.peer, member.n, "the peer")?;
        let signal = signal(member, self.index, self.context)?;
        if self.options != 0 {
            return Err(Failure::argument("one-sided operations have no flags"));
        }
        Ok(spec(kind, peer, signal))
    }
}

unsafe extern "C" fn put_signal(
    local: *const c_void,
    count: usize,
    dtype: ncclDataType_t,
    peer: c_int,
    window: ncclWindow_t,
    offset: usize,
    index: c_int,
    context: c_int,
    options: c_uint,
    comm: ncclComm_t,
    stream: cudaStream_t,
) -> ncclResult_t {
    let call = || {
        let mut state = lock();
        let spec = PeerSignal { peer, index, context, options }.spec(member(&mut state, comm)?, Kind::Put)?;
        let ty = check::dtype(dtype)?;
        let bytes = check::bytes(count, 1, ty)?;
        let there = state.window(comm, window.addr())?;
        if !there.symmetric {
            return Err(Failure::argument("the window of a put is symmetric"));
        }
        if bytes > 0 && offset >= there.memory.len {
            return Err(Failure::argument("a put begins within its own rank's part of the window"));
        }
        // NCCL looks the window up by the address alone, which the end of a window is not in.
        if !state.registered.in_window(comm, local.addr(), bytes.max(1)) {
            return Err(Failure::argument("what a put reads lies in a symmetric window of the communicator"));
        }
        drop(state);
        let signal = Signalling { window: there.number, offset, ..spec.signal };
        let spec = Spec { send: local.addr(), count, ty, signal, ..spec };
        // SAFETY: NCCL's contract.
        unsafe { add(comm, spec, stream) }
    };
    enter(|| group::grouped(|| outcome(comm as usize, call())))
}

unsafe extern "C" fn signal_peer(
    peer: c_int,
    index: c_int,
    context: c_int,
    options: c_uint,
    comm: ncclComm_t,
    stream: cudaStream_t,
) -> ncclResult_t {
    let call = || {
        let mut state = lock();
        let member = member(&mut state, comm)?;
        needs_window(member)?;
        let spec = PeerSignal { peer, index, context, options }.spec(member, Kind::Signal)?;
        drop(state);
        // SAFETY: NCCL's contract.
        unsafe { add(comm, spec, stream) }
    };
    enter(|| group::grouped(|| outcome(comm as usize, call())))
}

unsafe extern "C" fn wait_signal(
    count: c_int,
    descriptors: *mut ncclWaitSignalDesc_t,
    comm: ncclComm_t,
    stream: cudaStream_t,
) -> ncclResult_t {
    let call = || {
        let none = || Failure::argument("a wait for signals has descriptors, each for one signal or more");
        let count =
            usize::try_from(count).ok().filter(|count| *count > 0 && !descriptors.is_null()).ok_or_else(none)?;
        let mut state = lock();
        let member = member(&mut state, comm)?;
        needs_window(member)?;
        let mut specs = Vec::with_capacity(count.min(member.n));
        for at in 0..count {
            // SAFETY: NCCL's contract: this many descriptors.
            let descriptor = unsafe { descriptors.add(at).read() };
            let signals = u64::try_from(descriptor.op_cnt).ok().filter(|count| *count > 0).ok_or_else(none)?;
            let signal = signal(member, descriptor.sig_idx, descriptor.ctx)?;
            // The peer is not checked: a rank that does not exist sends no signal.
            let peer = usize::try_from(descriptor.peer).unwrap_or(usize::MAX);
            specs.push(spec(Kind::WaitSignal, peer, Signalling { count: signals, ..signal }));
        }
        drop(state);
        // SAFETY: NCCL's contract.
        specs.into_iter().try_for_each(|spec| unsafe { add(comm, spec, stream) })
    };
    enter(|| group::grouped(|| outcome(comm as usize, call())))
}

pub(super) fn fill(table: &mut Nccl) {
    table.ncclPutSignal = Some(put_signal);
    table.ncclSignal = Some(signal_peer);
    table.ncclWaitSignal = Some(wait_signal);
}
