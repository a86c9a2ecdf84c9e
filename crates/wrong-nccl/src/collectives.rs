//! NCCL's functions that put work on a stream, each of which becomes a [`Call`].
#![allow(unsafe_code)] // C functions

use crate::call::{Call, Kind, OneSided};
use crate::perform::perform;
use nccl_sys::*;
use std::ffi::{c_int, c_uint, c_void};

/// A call of an operation with buffers.
fn call(
    kind: Kind,
    buffers: (*const c_void, *mut c_void),
    count: usize,
    dtype: ncclDataType_t,
    (op, root): (ncclRedOp_t, c_int),
    (comm, stream): (ncclComm_t, cudaStream_t),
) -> Call {
    Call {
        kind,
        send: buffers.0.expose_provenance(),
        recv: buffers.1.expose_provenance(),
        count,
        dtype,
        op,
        root,
        comm: comm.expose_provenance(),
        stream: stream.expose_provenance(),
        config: None,
        one_sided: OneSided::default(),
    }
}

macro_rules! functions {
    (@ $variant:ident $function:ident $with_config:ident ($($op:ident)? ; $($root:ident)?) $how:expr) => {
        #[allow(non_snake_case)] // NCCL's names
        mod $function {
            use crate::call::{Call, Kind};
            use crate::collectives::call;
            use crate::perform::perform;
            use nccl_sys::*;
            use std::ffi::c_void;
            pub(super) unsafe extern "C" fn plain(
                send: *const c_void, recv: *mut c_void, count: usize, dtype: ncclDataType_t,
                $($op: ncclRedOp_t,)? $($root: std::ffi::c_int,)? comm: ncclComm_t, stream: cudaStream_t,
            ) -> ncclResult_t {
                perform(call(Kind::$variant, (send, recv), count, dtype, $how, (comm, stream)))
            }
            pub(super) unsafe extern "C" fn configured(
                send: *const c_void, recv: *mut c_void, count: usize, dtype: ncclDataType_t,
                $($op: ncclRedOp_t,)? $($root: std::ffi::c_int,)? comm: ncclComm_t, stream: cudaStream_t, config: *const ncclCollConfig_t,
            ) -> ncclResult_t {
                let plain = call(Kind::$variant, (send, recv), count, dtype, $how, (comm, stream));
                let config = (!config.is_null()).then(|| config.expose_provenance());
                perform(Call { config, ..plain })
            }
        }
    };
    (@@ $variant:ident $function:ident $with_config:ident ()) => {
        functions! { @ $variant $function $with_config (;) (ncclRedOp_t::Sum, 0) }
    };
    (@@ $variant:ident $function:ident $with_config:ident (reduction)) => {
        functions! { @ $variant $function $with_config (op;) (op, 0) }
    };
    (@@ $variant:ident $function:ident $with_config:ident (root)) => {
        functions! { @ $variant $function $with_config (; root) (ncclRedOp_t::Sum, root) }
    };
    (@@ $variant:ident $function:ident $with_config:ident (reduction, root)) => {
        functions! { @ $variant $function $with_config (op; root) (op, root) }
    };
    ($($variant:ident $function:ident $with_config:ident $takes:tt $written:ident;)*) => {
        $(functions! { @@ $variant $function $with_config $takes })*

        /// Puts these functions into the table in place of those that it has.
        pub(crate) fn replace(table: &mut Nccl) {
            $(
                if table.$function.is_some() {
                    table.$function = Some($function::plain);
                }
                if table.$with_config.is_some() {
                    table.$with_config = Some($function::configured);
                }
            )*
            macro_rules! others {
                ($name:ident: $other:path) => {
                    if table.$name.is_some() {
                        table.$name = Some($other);
                    }
                };
            }
            others!(ncclBcast: broadcast_in_place);
            others!(ncclSend: send);
            others!(ncclRecv: recv);
            others!(ncclPutSignal: put);
            others!(ncclSignal: signal);
            others!(ncclWaitSignal: wait);
        }
    };
}

nccl_sys::collectives!(functions);

const NO_REDUCTION: ncclRedOp_t = ncclRedOp_t::Sum;

unsafe extern "C" fn broadcast_in_place(
    buff: *mut c_void,
    count: usize,
    dtype: ncclDataType_t,
    root: c_int,
    comm: ncclComm_t,
    stream: cudaStream_t,
) -> ncclResult_t {
    perform(call(Kind::Broadcast, (buff, buff), count, dtype, (NO_REDUCTION, root), (comm, stream)))
}

unsafe extern "C" fn send(
    send: *const c_void,
    count: usize,
    dtype: ncclDataType_t,
    peer: c_int,
    comm: ncclComm_t,
    stream: cudaStream_t,
) -> ncclResult_t {
    perform(call(Kind::Send, (send, std::ptr::null_mut()), count, dtype, (NO_REDUCTION, peer), (comm, stream)))
}

unsafe extern "C" fn recv(
    recv: *mut c_void,
    count: usize,
    dtype: ncclDataType_t,
    peer: c_int,
    comm: ncclComm_t,
    stream: cudaStream_t,
) -> ncclResult_t {
    perform(call(Kind::Recv, (std::ptr::null(), recv), count, dtype, (NO_REDUCTION, peer), (comm, stream)))
}

unsafe extern "C" fn put(
    send: *const c_void,
    count: usize,
    dtype: ncclDataType_t,
    peer: c_int,
    window: ncclWindow_t,
    offset: usize,
    signal: c_int,
    context: c_int,
    flags: c_uint,
    comm: ncclComm_t,
    stream: cudaStream_t,
) -> ncclResult_t {
    let plain = call(Kind::Put, (send, std::ptr::null_mut()), count, dtype, (NO_REDUCTION, peer), (comm, stream));
    let window = window.expose_provenance();
    perform(Call { one_sided: OneSided { window, offset, signal, context, flags, waits: Vec::new() }, ..plain })
}

unsafe extern "C" fn signal(
    peer: c_int,
    signal: c_int,
    context: c_int,
    flags: c_uint,
    comm: ncclComm_t,
    stream: cudaStream_t,
) -> ncclResult_t {
    let nothing = (std::ptr::null(), std::ptr::null_mut());
    let plain = call(Kind::Signal, nothing, 0, ncclDataType_t::Int8, (NO_REDUCTION, peer), (comm, stream));
    perform(Call { one_sided: OneSided { signal, context, flags, ..OneSided::default() }, ..plain })
}

unsafe extern "C" fn wait(
    count: c_int,
    signals: *mut ncclWaitSignalDesc_t,
    comm: ncclComm_t,
    stream: cudaStream_t,
) -> ncclResult_t {
    let waits = match usize::try_from(count) {
        // SAFETY: the caller has passed this many descriptors.
        Ok(count) if !signals.is_null() => unsafe { std::slice::from_raw_parts(signals, count) }.to_vec(),
        _ => {
            // SAFETY: the caller's arguments, which the library refuses.
            return crate::right::right()
                .ncclWaitSignal
                .map_or(ncclResult_t::InternalError, |f| unsafe { f(count, signals, comm, stream) });
        }
    };
    let nothing = (std::ptr::null(), std::ptr::null_mut());
    let plain = call(Kind::Wait, nothing, 0, ncclDataType_t::Int8, (NO_REDUCTION, 0), (comm, stream));
    perform(Call { one_sided: OneSided { waits, ..OneSided::default() }, ..plain })
}
