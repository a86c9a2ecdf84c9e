//! NCCL's functions that are recorded.
#![allow(unsafe_code)] // C functions that pass on what their callers vouch for

use crate::groups::{self, Asked};
use crate::real::Function;
use crate::{comms, file};
use nccl_sys::*;
use std::ffi::{c_int, c_void};
use std::fmt::Write;
use std::sync::atomic::AtomicPtr;

/// A function of NCCL's that writes its call down, before (`before`) or after the real one has answered (`after`).
macro_rules! record {
    ($(
        $text:literal fn $name:ident($($arg:ident: $ty:ty),* $(,)?) { before: $before:expr, after($code:pat): $after:expr }
    )*) => {
        $(
            #[cfg_attr(not(test), unsafe(no_mangle))]
            unsafe extern "C" fn $name($($arg: $ty),*) -> ncclResult_t {
                let real = by_name::$name.real();
                if real.is_null() {
                    return ncclResult_t::InternalError;
                }
                $before;
                // SAFETY: the function of this name has this type, and the caller keeps to its contract.
                let code = unsafe {
                    std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($ty),*) -> ncclResult_t>(real)($($arg),*)
                };
                let $code = code;
                $after;
                code
            }
        )*

        #[allow(non_upper_case_globals)]
        mod by_name {
            use super::*;
            $(pub static $name: Function = Function {
                name: $text,
                wrapper: || super::$name as *mut c_void,
                real: AtomicPtr::new(std::ptr::null_mut()),
            };)*
        }

        /// All functions that are recorded.
        pub static FUNCTIONS: &[&Function] = &[$(&by_name::$name),*];
    };
}

/// A call on a communicator, as NCCL logs it.
struct Call {
    send: *const c_void,
    recv: *const c_void,
    count: usize,
    dtype: ncclDataType_t,
    op: i32,
    root: c_int,
    comm: ncclComm_t,
    stream: cudaStream_t,
}

impl Call {
    fn write(&self, name: &str) {
        // A non-blocking communicator may have come into being meanwhile.
        if !comms::is_known(self.comm as usize) {
            say_made();
        }
        let group = groups::current();
        let (comm, number) = comms::next_call(self.comm as usize, group);
        let Self { send, recv, count, dtype, op, root, comm: handle, stream } = self;
        let (dtype, ranks) = (dtype.0, comm.ranks);
        let mut of_group = String::new();
        if let Some(group) = group {
            let _ = write!(of_group, " group {group}");
        }
        file::line(
            comm.device,
            format_args!(
                "{name}: opCount {number:x} sendbuff {send:?} recvbuff {recv:?} count {count} datatype {dtype} op {op} root {root} \
                 comm {handle:?} [nranks={ranks}] stream {stream:?}{of_group}"
            ),
        );
    }
}

/// The address of a communicator's handle, once there is one.
fn made(asked: &Asked) -> Option<ncclComm_t> {
    // SAFETY: the caller of the function that makes the communicator keeps the handle's place until it is made.
    let comm = unsafe { *(asked.handle as *const ncclComm_t) };
    (!comm.is_null() && ask(&by_name::ncclCommCount, comm).is_some()).then_some(comm)
}

/// The answer of a function that asks a communicator for a number.
fn ask(function: &Function, comm: ncclComm_t) -> Option<c_int> {
    type Ask = unsafe extern "C" fn(ncclComm_t, *mut c_int) -> ncclResult_t;
    let real = function.real();
    if real.is_null() {
        return None;
    }
    let mut number = 0;
    // SAFETY: these functions have this type; the communicator is one that NCCL made.
    let code = unsafe { std::mem::transmute::<*mut c_void, Ask>(real)(comm, &mut number) };
    (code == ncclResult_t::Success).then_some(number)
}

/// Writes down the communicators that were asked for and exist by now.
fn say_made() {
    for asked in groups::take_those(|asked| made(asked).is_some()) {
        let Some(comm) = made(&asked) else { continue };
        let number = |function| ask(function, comm).unwrap_or(-1);
        let ranks = number(&by_name::ncclCommCount);
        let (rank, device) = (number(&by_name::ncclCommUserRank), number(&by_name::ncclCommCuDevice));
        comms::add(comm as usize, ranks, device);
        let text = &asked.text;
        file::line(
            device,
            format_args!("{text} comm {comm:?} rank {rank} nranks {ranks} cudaDev {device} - Init START"),
        );
    }
}

/// A communicator will be at `handle`; what its line says.
fn asked(handle: *mut ncclComm_t, text: String) {
    if !handle.is_null() {
        groups::ask(Asked { handle: handle as usize, text });
    }
    if groups::current().is_none() {
        say_made();
    }
}

/// A number for a unique id, the same on all ranks.
fn id_number(id: &ncclUniqueId) -> u64 {
    id.internal
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ (*byte as u8) as u64).wrapping_mul(0x0100_0000_01b3))
}

/// The factor of a reduction, if it is in host memory.
fn factor(scalar: *const c_void, dtype: ncclDataType_t, residence: ncclScalarResidence_t) -> Option<f64> {
    if residence != ncclScalarResidence_t::HostImmediate || scalar.is_null() {
        return None;
    }
    // SAFETY: the caller has put a value of this type there.
    unsafe {
        Some(match dtype {
            ncclDataType_t::Float32 => f64::from(*scalar.cast::<f32>()),
            ncclDataType_t::Float64 => *scalar.cast::<f64>(),
            ncclDataType_t::Int32 => f64::from(*scalar.cast::<i32>()),
            ncclDataType_t::Uint32 => f64::from(*scalar.cast::<u32>()),
            ncclDataType_t::Int8 => f64::from(*scalar.cast::<i8>()),
            ncclDataType_t::Uint8 => f64::from(*scalar.cast::<u8>()),
            _ => return None,
        })
    }
}

macro_rules! call {
    ($name:literal, $send:expr, $recv:expr, $count:expr, $dtype:expr, $op:expr, $root:expr, $comm:expr, $stream:expr) => {
        Call {
            send: $send as *const c_void,
            recv: $recv as *const c_void,
            count: $count,
            dtype: $dtype,
            op: $op,
            root: $root,
            comm: $comm,
            stream: $stream,
        }
        .write($name)
    };
}

record! {
    c"ncclCommCount" fn ncclCommCount(comm: ncclComm_t, count: *mut c_int) { before: (), after(_): () }
    c"ncclCommUserRank" fn ncclCommUserRank(comm: ncclComm_t, rank: *mut c_int) { before: (), after(_): () }
    c"ncclCommCuDevice" fn ncclCommCuDevice(comm: ncclComm_t, device: *mut c_int) { before: (), after(_): () }
    c"ncclGroupStart" fn ncclGroupStart() { before: groups::start(), after(_): () }
    c"ncclGroupEnd" fn ncclGroupEnd() {
        before: (),
        after(_): if groups::end() { say_made() }
    }

    c"ncclCommInitRank" fn ncclCommInitRank(comm: *mut ncclComm_t, nranks: c_int, id: ncclUniqueId, rank: c_int) {
        before: (),
        after(_): asked(comm, format!("ncclCommInitRank commId {:#x}", id_number(&id)))
    }
    c"ncclCommInitRankConfig" fn ncclCommInitRankConfig(
        comm: *mut ncclComm_t, nranks: c_int, id: ncclUniqueId, rank: c_int, config: *mut ncclConfig_t,
    ) {
        before: (),
        after(_): asked(comm, format!("ncclCommInitRankConfig commId {:#x}", id_number(&id)))
    }
    c"ncclCommInitRankScalable" fn ncclCommInitRankScalable(
        comm: *mut ncclComm_t, nranks: c_int, rank: c_int, nids: c_int, ids: *mut ncclUniqueId, config: *mut ncclConfig_t,
    ) {
        before: (),
        after(_): if !ids.is_null() && nids > 0 {
            // SAFETY: the caller passes this many ids.
            let id = id_number(unsafe { &*ids });
            asked(comm, format!("ncclCommInitRankScalable commId {id:#x}"));
        }
    }
    c"ncclCommInitAll" fn ncclCommInitAll(comms: *mut ncclComm_t, ndev: c_int, devlist: *const c_int) {
        before: (),
        after(_): for rank in 0..usize::try_from(ndev).unwrap_or(0) {
            // One id for all of them: the address of the handles, which are this process's own.
            asked(comms.wrapping_add(rank), format!("ncclCommInitAll commId {comms:?}"));
        }
    }
    c"ncclCommSplit" fn ncclCommSplit(
        comm: ncclComm_t, color: c_int, key: c_int, newcomm: *mut ncclComm_t, config: *mut ncclConfig_t,
    ) {
        before: (),
        after(_): {
            let number = comms::next_split(comm as usize);
            if color != NCCL_SPLIT_NOCOLOR {
                asked(newcomm, format!("ncclCommSplit parent {comm:?} splitCount {number} color {color} key {key}"));
            }
        }
    }
    c"ncclCommShrink" fn ncclCommShrink(
        comm: ncclComm_t, exclude: *mut c_int, count: c_int, newcomm: *mut ncclComm_t, config: *mut ncclConfig_t, flags: c_int,
    ) {
        before: (),
        after(_): {
            let number = comms::next_split(comm as usize);
            asked(newcomm, format!("ncclCommShrink parent {comm:?} splitCount {number} color 0 key 0"));
        }
    }
    c"ncclCommDestroy" fn ncclCommDestroy(comm: ncclComm_t) { before: comms::remove(comm as usize), after(_): () }
    c"ncclCommAbort" fn ncclCommAbort(comm: ncclComm_t) { before: comms::remove(comm as usize), after(_): () }

    c"ncclRedOpCreatePreMulSum" fn ncclRedOpCreatePreMulSum(
        op: *mut ncclRedOp_t, scalar: *mut c_void, dtype: ncclDataType_t, residence: ncclScalarResidence_t, comm: ncclComm_t,
    ) {
        before: (),
        after(code): if code == ncclResult_t::Success && !op.is_null() {
            // SAFETY: NCCL has just written it.
            let op = unsafe { (*op).0 };
            let factor = factor(scalar, dtype, residence).map_or_else(|| "unknown".to_owned(), |factor| factor.to_string());
            file::line(0, format_args!("ncclRedOpCreatePreMulSum op {op} datatype {} factor {factor} comm {comm:?}", dtype.0));
        }
    }

    c"ncclAllReduce" fn ncclAllReduce(
        send: *const c_void, recv: *mut c_void, count: usize, dtype: ncclDataType_t, op: ncclRedOp_t, comm: ncclComm_t, stream: cudaStream_t,
    ) { before: call!("AllReduce", send, recv, count, dtype, op.0, 0, comm, stream), after(_): () }
    c"ncclReduce" fn ncclReduce(
        send: *const c_void, recv: *mut c_void, count: usize, dtype: ncclDataType_t, op: ncclRedOp_t, root: c_int, comm: ncclComm_t, stream: cudaStream_t,
    ) { before: call!("Reduce", send, recv, count, dtype, op.0, root, comm, stream), after(_): () }
    c"ncclBroadcast" fn ncclBroadcast(
        send: *const c_void, recv: *mut c_void, count: usize, dtype: ncclDataType_t, root: c_int, comm: ncclComm_t, stream: cudaStream_t,
    ) { before: call!("Broadcast", send, recv, count, dtype, 0, root, comm, stream), after(_): () }
    c"ncclBcast" fn ncclBcast(
        buff: *mut c_void, count: usize, dtype: ncclDataType_t, root: c_int, comm: ncclComm_t, stream: cudaStream_t,
    ) { before: call!("Broadcast", buff, buff, count, dtype, 0, root, comm, stream), after(_): () }
    c"ncclAllGather" fn ncclAllGather(
        send: *const c_void, recv: *mut c_void, count: usize, dtype: ncclDataType_t, comm: ncclComm_t, stream: cudaStream_t,
    ) { before: call!("AllGather", send, recv, count, dtype, 0, 0, comm, stream), after(_): () }
    c"ncclReduceScatter" fn ncclReduceScatter(
        send: *const c_void, recv: *mut c_void, count: usize, dtype: ncclDataType_t, op: ncclRedOp_t, comm: ncclComm_t, stream: cudaStream_t,
    ) { before: call!("ReduceScatter", send, recv, count, dtype, op.0, 0, comm, stream), after(_): () }
    c"ncclAlltoAll" fn ncclAlltoAll(
        send: *const c_void, recv: *mut c_void, count: usize, dtype: ncclDataType_t, comm: ncclComm_t, stream: cudaStream_t,
    ) { before: call!("AlltoAll", send, recv, count, dtype, 0, 0, comm, stream), after(_): () }
    c"ncclGather" fn ncclGather(
        send: *const c_void, recv: *mut c_void, count: usize, dtype: ncclDataType_t, root: c_int, comm: ncclComm_t, stream: cudaStream_t,
    ) { before: call!("Gather", send, recv, count, dtype, 0, root, comm, stream), after(_): () }
    c"ncclScatter" fn ncclScatter(
        send: *const c_void, recv: *mut c_void, count: usize, dtype: ncclDataType_t, root: c_int, comm: ncclComm_t, stream: cudaStream_t,
    ) { before: call!("Scatter", send, recv, count, dtype, 0, root, comm, stream), after(_): () }
    c"ncclSend" fn ncclSend(
        send: *const c_void, count: usize, dtype: ncclDataType_t, peer: c_int, comm: ncclComm_t, stream: cudaStream_t,
    ) { before: call!("Send", std::ptr::null::<c_void>(), send, count, dtype, 0, peer, comm, stream), after(_): () }
    c"ncclRecv" fn ncclRecv(
        recv: *mut c_void, count: usize, dtype: ncclDataType_t, peer: c_int, comm: ncclComm_t, stream: cudaStream_t,
    ) { before: call!("Recv", std::ptr::null::<c_void>(), recv, count, dtype, 0, peer, comm, stream), after(_): () }
}
