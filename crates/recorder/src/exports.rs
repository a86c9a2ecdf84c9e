//! NCCL's functions that are recorded.
#![allow(unsafe_code)] // C functions that pass on what their callers vouch for

use crate::comms::Comm;
use crate::groups::{self, Asked, Handle};
use crate::real::Function;
use crate::watch::{Factor, Made, Progress};
use crate::{comms, file, watch};
use half::{bf16, f16};
use nccl_sys::*;
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::fmt::Write;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

thread_local! {
    /// True while this thread is in NCCL, whose functions call each other: `ncclBcast` calls `ncclBroadcast`.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// A function of NCCL's that writes its call down, before (`before`) or after the real one has answered (`after`).
macro_rules! record {
    ($(
        $text:literal fn $name:ident($($arg:ident: $ty:ty),* $(,)?) { before: $before:expr, after($code:pat): $after:expr }
    )*) => {
        $(
            #[cfg_attr(not(test), unsafe(no_mangle))]
            #[cfg_attr(test, allow(non_snake_case))]
            #[allow(clippy::no_effect)] // most need nothing before or after
            unsafe extern "C" fn $name($($arg: $ty),*) -> ncclResult_t {
                let real = by_name::$name.real();
                if real.is_null() {
                    return ncclResult_t::InternalError;
                }
                // SAFETY: the function of this name has this type, and the caller keeps to its contract.
                let call = || unsafe {
                    std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($ty),*) -> ncclResult_t>(real)($($arg),*)
                };
                if INSIDE.get() {
                    return call();
                }
                $before;
                INSIDE.set(true);
                let code = call();
                INSIDE.set(false);
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
        watch::begins(
            comm,
            &Made {
                name,
                send: *send as u64,
                recv: *recv as u64,
                count: *count as u64,
                dtype,
                op: *op,
                root: *root,
                comm: *handle as usize,
                stream: *stream,
                number,
                group,
            },
        );
    }
}

/// What came of a call.
fn ended(code: ncclResult_t) {
    watch::ended(progress(code), groups::current().is_some());
}

fn progress(code: ncclResult_t) -> Progress {
    match code {
        ncclResult_t::Success => Progress::Enqueued,
        ncclResult_t::InProgress => Progress::GoesOn,
        _ => Progress::Refused,
    }
}

/// A communicator's handle, once it can be used.
fn made(asked: &mut Asked) -> Option<ncclComm_t> {
    let comm = match asked.handle {
        // SAFETY: NCCL writes it there, so its caller keeps this place until then.
        Handle::At(place) => unsafe { *(place as *const ncclComm_t) },
        Handle::Is(comm) => comm as ncclComm_t,
    };
    if comm.is_null() {
        return None;
    }
    // From here on the caller may move it.
    asked.handle = Handle::Is(comm as usize);
    let state = ask(&by_name::ncclCommGetAsyncError, comm, ncclResult_t::Success)?;
    (state == ncclResult_t::Success).then_some(comm)
}

/// The answer of a function that asks a communicator for something.
fn ask<T>(function: &Function, comm: ncclComm_t, mut answer: T) -> Option<T> {
    type Ask<T> = unsafe extern "C" fn(ncclComm_t, *mut T) -> ncclResult_t;
    let real = function.real();
    if real.is_null() {
        return None;
    }
    let before = INSIDE.replace(true);
    // SAFETY: these functions have this type; the communicator is one that NCCL made.
    let code = unsafe { std::mem::transmute::<*mut c_void, Ask<T>>(real)(comm, &mut answer) };
    INSIDE.set(before);
    (code == ncclResult_t::Success).then_some(answer)
}

/// Writes down the communicators that were asked for and exist by now.
fn say_made() {
    for mut asked in groups::take_those(|asked| made(asked).is_some()) {
        let Some(comm) = made(&mut asked) else { continue };
        let number = |function| ask(function, comm, -1).unwrap_or(-1);
        let ranks = number(&by_name::ncclCommCount);
        let (rank, device) = (number(&by_name::ncclCommUserRank), number(&by_name::ncclCommCuDevice));
        comms::add(comm as usize, Comm::new(ranks, rank, device, asked.identity));
        watch::prepare(device);
        let text = &asked.text;
        file::line(
            device,
            format_args!("{text} comm {comm:?} rank {rank} nranks {ranks} cudaDev {device} - Init START"),
        );
    }
}

/// True if a call was not refused.
fn is_going_on(code: ncclResult_t) -> bool {
    matches!(code, ncclResult_t::Success | ncclResult_t::InProgress)
}

/// A communicator was asked for, and NCCL said `code`: it will be at `handle`; the number that its ranks share, and what its line says.
fn asked(code: ncclResult_t, handle: *mut ncclComm_t, parent: ncclComm_t, identity: u64, text: String) {
    if is_going_on(code) && !handle.is_null() {
        groups::ask(Asked { handle: Handle::At(handle as usize), parent: parent as usize, identity, text });
    }
    if groups::current().is_none() {
        say_made();
    }
}

/// A communicator ends: its address may be another's next.
fn ends(comm: ncclComm_t) {
    watch::forget(comm as usize);
    groups::forget(comm as usize);
    comms::remove(comm as usize);
}

/// No parent.
const NONE: ncclComm_t = std::ptr::null_mut();

/// A number for a unique id, the same on all ranks.
fn id_number(id: &ncclUniqueId) -> u64 {
    hash(id.internal.iter().map(|byte| *byte as u8))
}

/// A number for communicators of this process alone.
fn own_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    hash(format!("{} {} {number}", file::host(), std::process::id()).bytes())
}

/// A number for what is made of a communicator, the same on all ranks; 0 if that one has none.
fn child_id(parent: ncclComm_t, number: u64, color: c_int) -> u64 {
    match comms::identity(parent as usize) {
        0 => 0,
        parent => hash(format!("{parent} {number} {color}").bytes()),
    }
}

fn hash(bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// A reduction's factor.
fn factor_of(scalar: *const c_void, dtype: ncclDataType_t, residence: ncclScalarResidence_t) -> Option<Factor> {
    let size = watch::size_of(dtype.0)?;
    if scalar.is_null() {
        return None;
    }
    if residence != ncclScalarResidence_t::HostImmediate {
        return Some(Factor::At(scalar as u64));
    }
    let mut bytes = [0; 8];
    // SAFETY: the caller has put a value of this type there.
    unsafe { std::ptr::copy_nonoverlapping(scalar.cast::<u8>(), bytes.as_mut_ptr(), size) };
    Some(Factor::Bits(u64::from_le_bytes(bytes)))
}

/// The factor of a reduction, if it is in host memory and of a type that can be shown.
fn factor(scalar: *const c_void, dtype: ncclDataType_t, residence: ncclScalarResidence_t) -> Option<String> {
    if residence != ncclScalarResidence_t::HostImmediate || scalar.is_null() {
        return None;
    }
    // SAFETY: the caller has put a value of this type there.
    unsafe {
        Some(match dtype {
            ncclDataType_t::Float16 => shown(f16::from_bits(scalar.cast::<u16>().read_unaligned())),
            ncclDataType_t::Bfloat16 => shown(bf16::from_bits(scalar.cast::<u16>().read_unaligned())),
            ncclDataType_t::Float32 => shown(scalar.cast::<f32>().read_unaligned()),
            ncclDataType_t::Float64 => shown(scalar.cast::<f64>().read_unaligned()),
            ncclDataType_t::Int8 => scalar.cast::<i8>().read().to_string(),
            ncclDataType_t::Uint8 => scalar.cast::<u8>().read().to_string(),
            ncclDataType_t::Int32 => scalar.cast::<i32>().read_unaligned().to_string(),
            ncclDataType_t::Uint32 => scalar.cast::<u32>().read_unaligned().to_string(),
            ncclDataType_t::Int64 => scalar.cast::<i64>().read_unaligned().to_string(),
            ncclDataType_t::Uint64 => scalar.cast::<u64>().read_unaligned().to_string(),
            _ => return None,
        })
    }
}

/// With as many digits as it takes to get exactly this number back.
fn shown(number: impl Into<f64>) -> String {
    format!("{:?}", number.into())
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
    c"ncclCommGetAsyncError" fn ncclCommGetAsyncError(comm: ncclComm_t, state: *mut ncclResult_t) {
        before: (),
        after(code): {
            if groups::current().is_none() && !comms::is_known(comm as usize) {
                say_made();
            }
            // SAFETY: NCCL has just written it.
            match unsafe { state.as_ref() }.filter(|_| code == ncclResult_t::Success) {
                Some(&ncclResult_t::Success) => watch::completed(comm as usize),
                Some(&ncclResult_t::InProgress) | None => {}
                Some(_) => watch::failed(comm as usize),
            }
        }
    }
    c"ncclCommCount" fn ncclCommCount(comm: ncclComm_t, count: *mut c_int) { before: (), after(_): () }
    c"ncclCommUserRank" fn ncclCommUserRank(comm: ncclComm_t, rank: *mut c_int) { before: (), after(_): () }
    c"ncclCommCuDevice" fn ncclCommCuDevice(comm: ncclComm_t, device: *mut c_int) { before: (), after(_): () }
    c"ncclGroupStart" fn ncclGroupStart() { before: groups::start(), after(_): () }
    c"ncclGroupEnd" fn ncclGroupEnd() {
        before: (),
        after(code): if groups::end(!is_going_on(code)) {
            say_made();
            watch::group_ended(progress(code));
        }
    }
    c"ncclGroupSimulateEnd" fn ncclGroupSimulateEnd(info: *mut ncclSimInfo_t) {
        before: (),
        after(_): if groups::end(true) { watch::group_ended(Progress::Refused) }
    }

    c"ncclCommInitRank" fn ncclCommInitRank(comm: *mut ncclComm_t, nranks: c_int, id: ncclUniqueId, rank: c_int) {
        before: (),
        after(code): {
            let id = id_number(&id);
            asked(code, comm, NONE, id, format!("ncclCommInitRank commId {id:#x}"));
        }
    }
    c"ncclCommInitRankConfig" fn ncclCommInitRankConfig(
        comm: *mut ncclComm_t, nranks: c_int, id: ncclUniqueId, rank: c_int, config: *mut ncclConfig_t,
    ) {
        before: (),
        after(code): {
            let id = id_number(&id);
            asked(code, comm, NONE, id, format!("ncclCommInitRankConfig commId {id:#x}"));
        }
    }
    c"ncclCommInitRankScalable" fn ncclCommInitRankScalable(
        comm: *mut ncclComm_t, nranks: c_int, rank: c_int, nids: c_int, ids: *mut ncclUniqueId, config: *mut ncclConfig_t,
    ) {
        before: (),
        after(code): if !ids.is_null() && nids > 0 {
            // SAFETY: the caller passes this many ids.
            let id = id_number(unsafe { &*ids });
            asked(code, comm, NONE, id, format!("ncclCommInitRankScalable commId {id:#x}"));
        }
    }
    c"ncclCommInitAll" fn ncclCommInitAll(comms: *mut ncclComm_t, ndev: c_int, devlist: *const c_int) {
        before: (),
        after(code): {
            let id = own_id();
            for rank in 0..usize::try_from(ndev).unwrap_or(0) {
                asked(code, comms.wrapping_add(rank), NONE, id, format!("ncclCommInitAll commId {id:#x}"));
            }
        }
    }
    c"ncclCommSplit" fn ncclCommSplit(
        comm: ncclComm_t, color: c_int, key: c_int, newcomm: *mut ncclComm_t, config: *mut ncclConfig_t,
    ) {
        before: (),
        after(code): {
            let number = comms::next_split(comm as usize);
            if color != NCCL_SPLIT_NOCOLOR {
                let id = child_id(comm, number, color);
                asked(code, newcomm, comm, id, format!("ncclCommSplit parent {comm:?} splitCount {number} color {color} key {key}"));
            }
        }
    }
    c"ncclCommShrink" fn ncclCommShrink(
        comm: ncclComm_t, exclude: *mut c_int, count: c_int, newcomm: *mut ncclComm_t, config: *mut ncclConfig_t, flags: c_int,
    ) {
        before: (),
        after(code): {
            let number = comms::next_split(comm as usize);
            let id = child_id(comm, number, -1);
            asked(code, newcomm, comm, id, format!("ncclCommShrink parent {comm:?} splitCount {number} color 0 key 0"));
        }
    }
    c"ncclCommDestroy" fn ncclCommDestroy(comm: ncclComm_t) { before: ends(comm), after(_): () }
    c"ncclCommAbort" fn ncclCommAbort(comm: ncclComm_t) {
        before: {
            watch::failed(comm as usize);
            ends(comm);
        },
        after(_): ()
    }

    c"ncclCommRevoke" fn ncclCommRevoke(comm: ncclComm_t, flags: c_int) { before: watch::failed(comm as usize), after(_): () }

    c"ncclRedOpCreatePreMulSum" fn ncclRedOpCreatePreMulSum(
        op: *mut ncclRedOp_t, scalar: *mut c_void, dtype: ncclDataType_t, residence: ncclScalarResidence_t, comm: ncclComm_t,
    ) {
        before: (),
        after(code): if code == ncclResult_t::Success && !op.is_null() {
            // SAFETY: NCCL has just written it.
            let op = unsafe { (*op).0 };
            watch::made_factor(comm as usize, op, factor_of(scalar, dtype, residence));
            let factor = factor(scalar, dtype, residence).unwrap_or_else(|| "unknown".to_owned());
            file::line(0, format_args!("ncclRedOpCreatePreMulSum op {op} datatype {} factor {factor} comm {comm:?}", dtype.0));
        }
    }

    c"ncclAllReduce" fn ncclAllReduce(
        send: *const c_void, recv: *mut c_void, count: usize, dtype: ncclDataType_t, op: ncclRedOp_t, comm: ncclComm_t, stream: cudaStream_t,
    ) { before: call!("AllReduce", send, recv, count, dtype, op.0, 0, comm, stream), after(code): ended(code) }
    c"ncclReduce" fn ncclReduce(
        send: *const c_void, recv: *mut c_void, count: usize, dtype: ncclDataType_t, op: ncclRedOp_t, root: c_int, comm: ncclComm_t, stream: cudaStream_t,
    ) { before: call!("Reduce", send, recv, count, dtype, op.0, root, comm, stream), after(code): ended(code) }
    c"ncclBroadcast" fn ncclBroadcast(
        send: *const c_void, recv: *mut c_void, count: usize, dtype: ncclDataType_t, root: c_int, comm: ncclComm_t, stream: cudaStream_t,
    ) { before: call!("Broadcast", send, recv, count, dtype, 0, root, comm, stream), after(code): ended(code) }
    c"ncclBcast" fn ncclBcast(
        buff: *mut c_void, count: usize, dtype: ncclDataType_t, root: c_int, comm: ncclComm_t, stream: cudaStream_t,
    ) { before: call!("Broadcast", buff, buff, count, dtype, 0, root, comm, stream), after(code): ended(code) }
    c"ncclAllGather" fn ncclAllGather(
        send: *const c_void, recv: *mut c_void, count: usize, dtype: ncclDataType_t, comm: ncclComm_t, stream: cudaStream_t,
    ) { before: call!("AllGather", send, recv, count, dtype, 0, 0, comm, stream), after(code): ended(code) }
    c"ncclReduceScatter" fn ncclReduceScatter(
        send: *const c_void, recv: *mut c_void, count: usize, dtype: ncclDataType_t, op: ncclRedOp_t, comm: ncclComm_t, stream: cudaStream_t,
    ) { before: call!("ReduceScatter", send, recv, count, dtype, op.0, 0, comm, stream), after(code): ended(code) }
    c"ncclAlltoAll" fn ncclAlltoAll(
        send: *const c_void, recv: *mut c_void, count: usize, dtype: ncclDataType_t, comm: ncclComm_t, stream: cudaStream_t,
    ) { before: call!("AlltoAll", send, recv, count, dtype, 0, 0, comm, stream), after(code): ended(code) }
    c"ncclGather" fn ncclGather(
        send: *const c_void, recv: *mut c_void, count: usize, dtype: ncclDataType_t, root: c_int, comm: ncclComm_t, stream: cudaStream_t,
    ) { before: call!("Gather", send, recv, count, dtype, 0, root, comm, stream), after(code): ended(code) }
    c"ncclScatter" fn ncclScatter(
        send: *const c_void, recv: *mut c_void, count: usize, dtype: ncclDataType_t, root: c_int, comm: ncclComm_t, stream: cudaStream_t,
    ) { before: call!("Scatter", send, recv, count, dtype, 0, root, comm, stream), after(code): ended(code) }
    c"ncclSend" fn ncclSend(
        send: *const c_void, count: usize, dtype: ncclDataType_t, peer: c_int, comm: ncclComm_t, stream: cudaStream_t,
    ) { before: call!("Send", std::ptr::null::<c_void>(), send, count, dtype, 0, peer, comm, stream), after(code): ended(code) }
    c"ncclRecv" fn ncclRecv(
        recv: *mut c_void, count: usize, dtype: ncclDataType_t, peer: c_int, comm: ncclComm_t, stream: cudaStream_t,
    ) { before: call!("Recv", std::ptr::null::<c_void>(), recv, count, dtype, 0, peer, comm, stream), after(code): ended(code) }
    c"ncclAllReduceConfig" fn ncclAllReduceConfig(
        send: *const c_void, recv: *mut c_void, count: usize, dtype: ncclDataType_t, op: ncclRedOp_t, comm: ncclComm_t, stream: cudaStream_t,
        config: *const ncclCollConfig_t,
    ) { before: call!("AllReduce", send, recv, count, dtype, op.0, 0, comm, stream), after(code): ended(code) }
    c"ncclReduceConfig" fn ncclReduceConfig(
        send: *const c_void, recv: *mut c_void, count: usize, dtype: ncclDataType_t, op: ncclRedOp_t, root: c_int, comm: ncclComm_t, stream: cudaStream_t,
        config: *const ncclCollConfig_t,
    ) { before: call!("Reduce", send, recv, count, dtype, op.0, root, comm, stream), after(code): ended(code) }
    c"ncclBroadcastConfig" fn ncclBroadcastConfig(
        send: *const c_void, recv: *mut c_void, count: usize, dtype: ncclDataType_t, root: c_int, comm: ncclComm_t, stream: cudaStream_t,
        config: *const ncclCollConfig_t,
    ) { before: call!("Broadcast", send, recv, count, dtype, 0, root, comm, stream), after(code): ended(code) }
    c"ncclAllGatherConfig" fn ncclAllGatherConfig(
        send: *const c_void, recv: *mut c_void, count: usize, dtype: ncclDataType_t, comm: ncclComm_t, stream: cudaStream_t,
        config: *const ncclCollConfig_t,
    ) { before: call!("AllGather", send, recv, count, dtype, 0, 0, comm, stream), after(code): ended(code) }
    c"ncclReduceScatterConfig" fn ncclReduceScatterConfig(
        send: *const c_void, recv: *mut c_void, count: usize, dtype: ncclDataType_t, op: ncclRedOp_t, comm: ncclComm_t, stream: cudaStream_t,
        config: *const ncclCollConfig_t,
    ) { before: call!("ReduceScatter", send, recv, count, dtype, op.0, 0, comm, stream), after(code): ended(code) }
    c"ncclAlltoAllConfig" fn ncclAlltoAllConfig(
        send: *const c_void, recv: *mut c_void, count: usize, dtype: ncclDataType_t, comm: ncclComm_t, stream: cudaStream_t,
        config: *const ncclCollConfig_t,
    ) { before: call!("AlltoAll", send, recv, count, dtype, 0, 0, comm, stream), after(code): ended(code) }
    c"ncclGatherConfig" fn ncclGatherConfig(
        send: *const c_void, recv: *mut c_void, count: usize, dtype: ncclDataType_t, root: c_int, comm: ncclComm_t, stream: cudaStream_t,
        config: *const ncclCollConfig_t,
    ) { before: call!("Gather", send, recv, count, dtype, 0, root, comm, stream), after(code): ended(code) }
    c"ncclScatterConfig" fn ncclScatterConfig(
        send: *const c_void, recv: *mut c_void, count: usize, dtype: ncclDataType_t, root: c_int, comm: ncclComm_t, stream: cudaStream_t,
        config: *const ncclCollConfig_t,
    ) { before: call!("Scatter", send, recv, count, dtype, 0, root, comm, stream), after(code): ended(code) }
}
