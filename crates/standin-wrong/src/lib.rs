//! The stand-in driver and `wrong-nccl` over `soft-nccl` in one shared library, so that they share their device: a program that opens it
//! meets the faults that `collspec audit` knows. COLLSPEC_STANDIN_FAULT names one, such as `F13`, or `F13@1` for one rank.
//!
//! Nothing but tests uses it, and nothing links it.
#![allow(non_snake_case)] // NCCL's names
#![allow(unsafe_code)] // a C interface

// Its functions are exported with these.
use standin_cuda as _;

use nccl_sys::*;
use std::ffi::{CString, c_char, c_int, c_void};
use std::sync::LazyLock;

const VARIABLE: &str = "COLLSPEC_STANDIN_FAULT";

fn table() -> &'static Nccl {
    static TABLE: LazyLock<Nccl> = LazyLock::new(|| {
        let table = wrong_nccl::wrap(soft_nccl::table());
        let asked = std::env::var(VARIABLE).ok().and_then(|text| CString::new(text).ok());
        if let (Some(fault), Some(ask)) = (asked, table.collspecFault) {
            // SAFETY: a text with its end.
            let answer = unsafe { ask(fault.as_ptr()) };
            assert_eq!(answer, ncclResult_t::Success, "{VARIABLE} is no fault: {fault:?}");
        }
        table
    });
    &TABLE
}

macro_rules! export {
    ($(fn $name:ident($($arg:ident: $ty:ty),* $(,)?);)*) => {
        $(
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name($($arg: $ty),*) -> ncclResult_t {
                match table().$name {
                    // SAFETY: the caller keeps to NCCL's contract, which is that of the table.
                    Some(f) => unsafe { f($($arg),*) },
                    None => ncclResult_t::InternalError,
                }
            }
        )*
    };
}

export! {
    fn ncclGetVersion(version: *mut c_int);
    fn ncclGetUniqueId(id: *mut ncclUniqueId);
    fn ncclCommInitRank(comm: *mut ncclComm_t, n: c_int, id: ncclUniqueId, rank: c_int);
    fn ncclCommInitRankConfig(comm: *mut ncclComm_t, n: c_int, id: ncclUniqueId, rank: c_int, config: *mut ncclConfig_t);
    fn ncclCommInitAll(comms: *mut ncclComm_t, n: c_int, devices: *const c_int);
    fn ncclCommSplit(comm: ncclComm_t, color: c_int, key: c_int, new: *mut ncclComm_t, config: *mut ncclConfig_t);
    fn ncclCommFinalize(comm: ncclComm_t);
    fn ncclCommDestroy(comm: ncclComm_t);
    fn ncclCommAbort(comm: ncclComm_t);
    fn ncclCommGetAsyncError(comm: ncclComm_t, result: *mut ncclResult_t);
    fn ncclCommCount(comm: ncclComm_t, count: *mut c_int);
    fn ncclCommCuDevice(comm: ncclComm_t, device: *mut c_int);
    fn ncclCommUserRank(comm: ncclComm_t, rank: *mut c_int);
    fn ncclGroupStart();
    fn ncclGroupEnd();
    fn ncclSend(send: *const c_void, count: usize, dtype: ncclDataType_t, peer: c_int, comm: ncclComm_t, stream: cudaStream_t);
    fn ncclRecv(recv: *mut c_void, count: usize, dtype: ncclDataType_t, peer: c_int, comm: ncclComm_t, stream: cudaStream_t);
    fn ncclRedOpCreatePreMulSum(
        op: *mut ncclRedOp_t, scalar: *mut c_void, dtype: ncclDataType_t, residence: ncclScalarResidence_t, comm: ncclComm_t,
    );
    fn ncclRedOpDestroy(op: ncclRedOp_t, comm: ncclComm_t);
    fn ncclMemAlloc(place: *mut *mut c_void, len: usize);
    fn ncclMemFree(memory: *mut c_void);
    fn ncclCommRegister(comm: ncclComm_t, buffer: *mut c_void, len: usize, handle: *mut *mut c_void);
    fn ncclCommDeregister(comm: ncclComm_t, handle: *mut c_void);
}

macro_rules! export_collectives {
    (@ $function:ident ()) => { export_collectives!(@@ $function ()); };
    (@ $function:ident (reduction)) => { export_collectives!(@@ $function (op: ncclRedOp_t,)); };
    (@ $function:ident (root)) => { export_collectives!(@@ $function (root: c_int,)); };
    (@ $function:ident (reduction, root)) => { export_collectives!(@@ $function (op: ncclRedOp_t, root: c_int,)); };
    (@@ $function:ident ($($arg:ident: $ty:ty,)*)) => {
        export! {
            fn $function(
                send: *const c_void, recv: *mut c_void, count: usize, dtype: ncclDataType_t, $($arg: $ty,)* comm: ncclComm_t,
                stream: cudaStream_t,
            );
        }
    };
    ($($variant:ident $function:ident $with_config:ident $takes:tt $written:ident;)*) => {
        $(export_collectives!(@ $function $takes);)*
    };
}

nccl_sys::collectives!(export_collectives);

#[unsafe(no_mangle)]
unsafe extern "C" fn ncclGetErrorString(result: ncclResult_t) -> *const c_char {
    // SAFETY: a number.
    table().ncclGetErrorString.map_or(c"".as_ptr(), |f| unsafe { f(result) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ncclGetLastError(comm: ncclComm_t) -> *const c_char {
    // SAFETY: the library checks the handle.
    table().ncclGetLastError.map_or(c"".as_ptr(), |f| unsafe { f(comm) })
}
