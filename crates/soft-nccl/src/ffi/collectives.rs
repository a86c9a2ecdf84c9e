//! The operations.
#![allow(unsafe_code)] // exported C functions

use super::call_config::CallConfig;
use super::{check, enter};
use crate::algo::Protocol;
use crate::device::Stream;
use crate::engine::{NO_CHOICE, Request, lock, outcome};
use crate::failure::{Failure, Outcome};
use crate::group;
use crate::op::{Kind, PreMul, Signalling, Spec};
use nccl_sys::{Nccl, cudaStream_t, ncclCollConfig_t, ncclComm_t, ncclDataType_t, ncclRedOp_t, ncclResult_t};
use std::ffi::{c_int, c_void};

/// A call's arguments as they came.
struct Call {
    kind: Kind,
    send: *const c_void,
    recv: *mut c_void,
    count: usize,
    dtype: ncclDataType_t,
    op: Option<ncclRedOp_t>,
    /// The root or the peer.
    peer: Option<c_int>,
    comm: ncclComm_t,
    stream: cudaStream_t,
    /// The configuration of the call, if it has one.
    config: Option<CallConfig>,
}

impl Call {
    /// Checks everything and adds the operation to the thread's group.
    ///
    /// # Safety
    /// NCCL's contract: the stream lives and the buffers are valid for the operation until the stream has passed it.
    unsafe fn add(self) -> Outcome<()> {
        let kind = self.kind;
        let mut state = lock();
        let member = state.comms.member(self.comm)?;
        member.accept_work()?;
        let (rank, n, tag, device) = (member.rank, member.n, member.tag, member.device);
        let what = if kind.is_p2p() { "the peer" } else { "the root" };
        let peer = self.peer.map_or(Ok(0), |peer| check::rank(peer, n, what))?;
        let ty = check::dtype(self.dtype)?;
        let (reduction, premul) = match self.op {
            Some(op) => check::reduction(member, op, ty).map(|(reduction, premul)| (Some(reduction), premul))?,
            None => (None, PreMul::None),
        };
        drop(state);
        let (read, written) = kind.blocks(rank == peer, n);
        check::bytes(self.count, n, ty)?;
        check::buffer(self.send as usize, check::bytes(self.count, read, ty)?, "send", kind)?;
        check::buffer(self.recv as usize, check::bytes(self.count, written, ty)?, "receive", kind)?;
        if kind == Kind::AlltoAll && self.count > 0 && n > 1 && self.send == self.recv.cast_const() {
            return Err(Failure::argument("all_to_all cannot work in place"));
        }
        let selection = self.config.as_ref().map_or(Ok(None), |config| config.selection(kind, self.count))?;
        // SAFETY: the caller of `add` vouches for the stream.
        let stream = unsafe { Stream::lookup(self.stream, device)? };
        let spec = Spec {
            kind,
            algorithm: NO_CHOICE,
            protocol: Protocol::Simple,
            send: self.send as usize,
            recv: self.recv as usize,
            count: self.count,
            ty,
            reduction,
            premul,
            peer,
            signal: Signalling::default(),
        };
        // SAFETY: the caller of `add` vouches for the buffers and the stream.
        let request = unsafe { Request::new(self.comm as usize, spec, stream, tag) };
        group::add(request.selecting(selection))
    }
}

/// A C function: its name, its own arguments, then count, type, send side, receive side, reduction, root or peer.
macro_rules! operation {
    ($name:ident, $kind:ident, ($($arg:ident: $ty:ty),*), $count:ident, $dtype:ident, $send:expr, $recv:expr, $op:expr, $peer:expr) => {
        #[allow(non_snake_case)]
        unsafe extern "C" fn $name(
            $($arg: $ty,)* comm: ncclComm_t, stream: cudaStream_t,
        ) -> ncclResult_t {
            let (send, recv, op, peer) = ($send, $recv, $op, $peer);
            let (count, dtype, config) = ($count, $dtype, None);
            let call = Call { kind: Kind::$kind, send, recv, count, dtype, op, peer, comm, stream, config };
            // SAFETY: the caller keeps NCCL's contract.
            enter(|| group::grouped(|| outcome(comm as usize, unsafe { call.add() })))
        }
    };
}

type From = *const c_void;
type To = *mut c_void;
type Dtype = ncclDataType_t;
type Op = ncclRedOp_t;
const NOWHERE: To = std::ptr::null_mut();

/// Like [`operation`], with the configuration of the call as its last argument.
macro_rules! configured_operation {
    ($name:ident, $kind:ident, ($($arg:ident: $ty:ty),*), $op:expr, $peer:expr) => {
        #[allow(non_snake_case)]
        unsafe extern "C" fn $name(
            send: From, recv: To, count: usize, dtype: Dtype, $($arg: $ty,)*
            comm: ncclComm_t, stream: cudaStream_t, config: *const ncclCollConfig_t,
        ) -> ncclResult_t {
            let (op, peer) = ($op, $peer);
            enter(|| {
                // A configuration that is invalid in itself is refused before anything else is checked.
                // SAFETY: NCCL's contract: null, or a configuration that begins with its own size.
                let config = unsafe { CallConfig::read(config)? };
                let call = Call { kind: Kind::$kind, send, recv, count, dtype, op, peer, comm, stream, config };
                // SAFETY: the caller keeps NCCL's contract.
                group::grouped(|| outcome(comm as usize, unsafe { call.add() }))
            })
        }
    };
}

macro_rules! collective_operations {
    (@ $function:ident $with_config:ident $kind:ident ()) => {
        operation!($function, $kind, (send: From, recv: To, count: usize, dtype: Dtype),
            count, dtype, send, recv, None, None);
        configured_operation!($with_config, $kind, (), None, None);
    };
    (@ $function:ident $with_config:ident $kind:ident (reduction)) => {
        operation!($function, $kind, (send: From, recv: To, count: usize, dtype: Dtype, op: Op),
            count, dtype, send, recv, Some(op), None);
        configured_operation!($with_config, $kind, (op: Op), Some(op), None);
    };
    (@ $function:ident $with_config:ident $kind:ident (root)) => {
        operation!($function, $kind, (send: From, recv: To, count: usize, dtype: Dtype, root: c_int),
            count, dtype, send, recv, None, Some(root));
        configured_operation!($with_config, $kind, (root: c_int), None, Some(root));
    };
    (@ $function:ident $with_config:ident $kind:ident (reduction, root)) => {
        operation!($function, $kind, (send: From, recv: To, count: usize, dtype: Dtype, op: Op, root: c_int),
            count, dtype, send, recv, Some(op), Some(root));
        configured_operation!($with_config, $kind, (op: Op, root: c_int), Some(op), Some(root));
    };
    ($($kind:ident $function:ident $with_config:ident $takes:tt $written:ident;)*) => {
        $(collective_operations!(@ $function $with_config $kind $takes);)*

        fn fill_collectives(table: &mut Nccl) {
            $(
                table.$function = Some($function);
                table.$with_config = Some($with_config);
            )*
        }
    };
}

nccl_sys::collectives!(collective_operations);

operation!(bcast, Broadcast, (buffer: To, count: usize, dtype: Dtype, root: c_int),
    count, dtype, buffer.cast_const(), buffer, None, Some(root));
operation!(send, Send, (buffer: From, count: usize, dtype: Dtype, peer: c_int),
    count, dtype, buffer, NOWHERE, None, Some(peer));
operation!(recv, Recv, (buffer: To, count: usize, dtype: Dtype, peer: c_int),
    count, dtype, NOWHERE.cast_const(), buffer, None, Some(peer));

pub(super) fn fill(table: &mut Nccl) {
    fill_collectives(table);
    table.ncclBcast = Some(bcast);
    table.ncclSend = Some(send);
    table.ncclRecv = Some(recv);
}
