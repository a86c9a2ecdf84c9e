//! The operations.
#![allow(unsafe_code)] // exported C functions

use super::{check, enter};
use crate::algo::Protocol;
use crate::device::Stream;
use crate::engine::hooks::hooks;
use crate::engine::{NO_CHOICE, Request, lock, outcome};
use crate::failure::{Failure, Outcome};
use crate::group;
use crate::op::{Kind, PreMul, Signalling, Spec};
use nccl_sys::{Nccl, cudaStream_t, ncclComm_t, ncclDataType_t, ncclRedOp_t, ncclResult_t};
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
}

impl Call {
    /// Checks everything and adds the operation to the thread's group.
    ///
    /// # Safety
    /// NCCL's contract: the stream lives and the buffers are there for the operation until the stream has passed it.
    unsafe fn add(self) -> Outcome<()> {
        let kind = self.kind;
        let mut state = lock();
        let member = state.member(self.comm)?;
        member.accept_work()?;
        member.hooks.check_work(member.rank)?;
        let (rank, n, tag, device) = (member.rank, member.n, member.tag, member.device);
        let what = if kind.is_p2p() { "the peer" } else { "the root" };
        let peer = self.peer.map_or(Ok(0), |peer| check::rank(hooks().root(kind, peer, n, rank), n, what))?;
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
        let null_stream = self.stream.is_null();
        if null_stream {
            hooks().check_null_stream(rank)?;
        }
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
        group::add(unsafe { Request::new(self.comm as usize, spec, stream, null_stream, tag) })
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
            let call = Call { kind: Kind::$kind, send, recv, count: $count, dtype: $dtype, op, peer, comm, stream };
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

macro_rules! collective_operations {
    (@ $function:ident $kind:ident ()) => {
        operation!($function, $kind, (send: From, recv: To, count: usize, dtype: Dtype),
            count, dtype, send, recv, None, None);
    };
    (@ $function:ident $kind:ident (reduction)) => {
        operation!($function, $kind, (send: From, recv: To, count: usize, dtype: Dtype, op: Op),
            count, dtype, send, recv, Some(op), None);
    };
    (@ $function:ident $kind:ident (root)) => {
        operation!($function, $kind, (send: From, recv: To, count: usize, dtype: Dtype, root: c_int),
            count, dtype, send, recv, None, Some(root));
    };
    (@ $function:ident $kind:ident (reduction, root)) => {
        operation!($function, $kind, (send: From, recv: To, count: usize, dtype: Dtype, op: Op, root: c_int),
            count, dtype, send, recv, Some(op), Some(root));
    };
    ($($kind:ident $function:ident $with_config:ident $takes:tt $written:ident;)*) => {
        $(collective_operations!(@ $function $kind $takes);)*

        fn fill_collectives(table: &mut Nccl) {
            $(table.$function = Some($function);)*
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
