//! NCCL's functions under their own names. A library that lacks one is made by leaving it out of a copy, not here.
use crate::log;
use crate::misbehave::{self, Moment};
use crate::table;
use nccl_sys::*;
use std::ffi::{c_char, c_int, c_uint, c_ulonglong, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

type From = *const c_void;
type To = *mut c_void;
type Type = ncclDataType_t;
type Op = ncclRedOp_t;
type Comm = ncclComm_t;
type Stream = cudaStream_t;

/// A call with what goes wrong before and after it. The library contains its own panics; this contains those of the faults.
fn around(moment: Moment, call: impl FnOnce() -> ncclResult_t) -> ncclResult_t {
    let begun = Instant::now();
    let whole = || {
        misbehave::before(&moment).unwrap_or_else(|| {
            let code = call();
            misbehave::after(&moment, code);
            if let (Moment::Init(rank, ranks), ncclResult_t::Success) = (&moment, code) {
                log::init_timings(*rank, *ranks, begun.elapsed());
            }
            code
        })
    };
    catch_unwind(AssertUnwindSafe(whole)).unwrap_or(ncclResult_t::InternalError)
}

macro_rules! export_one {
    (fn $name:ident($($arg:ident: $ty:ty),* $(,)?), $moment:expr $(, then $code:ident => $then:expr)?;) => {
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name($($arg: $ty),*) -> ncclResult_t {
            around($moment, || {
                let code = match table().$name {
                    // SAFETY: the caller keeps to NCCL's contract, which is that of the table.
                    Some(f) => unsafe { f($($arg),*) },
                    None => ncclResult_t::InternalError,
                };
                $(let $code = code; $then;)?
                code
            })
        }
    };
}

macro_rules! export {
    ($(
        fn $name:ident($($arg:ident: $ty:ty),* $(,)?), $moment:expr $(, then $code:ident => $then:expr)?;
    )*) => {
        $(export_one! { fn $name($($arg: $ty),*), $moment $(, then $code => $then)?; })*
        /// The functions that answer an `ncclResult_t`, besides the collectives.
        const WITH_RESULT: &[&str] = &[$(stringify!($name)),*];
    };
}

/// Called after an accepted operation: its output may be corrupted.
macro_rules! wrote {
    ($code:ident, $to:ident, $count:expr, $dtype:ident, $root:expr, $comm:ident, $stream:ident) => {
        if $code == ncclResult_t::Success {
            misbehave::spoil($to, $count, $dtype, $root, $comm, $stream)
        }
    };
}

export! {
    fn ncclGetVersion(version: *mut c_int), Moment::Other, then code => {
        if let (ncclResult_t::Success, Some(number)) = (code, misbehave::false_version()) {
            // SAFETY: the library has just written there.
            unsafe { version.write(number) }
        }
    };
    fn ncclGetUniqueId(id: *mut ncclUniqueId), Moment::Other;
    fn ncclCommInitRank(comm: *mut Comm, n: c_int, id: ncclUniqueId, rank: c_int), Moment::Init(rank, n);
    fn ncclCommInitRankConfig(comm: *mut Comm, n: c_int, id: ncclUniqueId, rank: c_int, config: *mut ncclConfig_t),
        Moment::Init(rank, n);
    fn ncclCommInitRankScalable(
        comm: *mut Comm,
        n: c_int,
        rank: c_int,
        count: c_int,
        ids: *mut ncclUniqueId,
        config: *mut ncclConfig_t,
    ), Moment::Init(rank, n);
    fn ncclCommInitAll(comms: *mut Comm, n: c_int, devices: *const c_int), Moment::InitAll(n, devices);
    fn ncclCommSplit(comm: Comm, color: c_int, key: c_int, newcomm: *mut Comm, config: *mut ncclConfig_t),
        Moment::Split(comm, color);
    fn ncclCommShrink(
        comm: Comm,
        exclude: *mut c_int,
        count: c_int,
        newcomm: *mut Comm,
        config: *mut ncclConfig_t,
        flags: c_int,
    ), Moment::Other;
    fn ncclCommGetUniqueId(comm: Comm, id: *mut ncclUniqueId), Moment::Other;
    fn ncclCommGrow(
        comm: Comm,
        n: c_int,
        id: *const ncclUniqueId,
        rank: c_int,
        newcomm: *mut Comm,
        config: *mut ncclConfig_t,
    ), Moment::Other;
    fn ncclCommRevoke(comm: Comm, flags: c_int), Moment::Other;
    fn ncclCommSuspend(comm: Comm, flags: c_int), Moment::Other;
    fn ncclCommResume(comm: Comm), Moment::Other;
    fn ncclCommMemStats(comm: Comm, stat: ncclCommMemStat_t, value: *mut u64), Moment::Other;
    fn ncclCommFinalize(comm: Comm), Moment::Other;
    fn ncclCommDestroy(comm: Comm), Moment::Destroy(comm);
    fn ncclCommAbort(comm: Comm), Moment::Abort(comm);
    fn ncclCommGetAsyncError(comm: Comm, result: *mut ncclResult_t), Moment::Other, then code => {
        if let (ncclResult_t::Success, Some(error)) = (code, misbehave::false_error(comm)) {
            // SAFETY: the library has just written there.
            unsafe { result.write(error) }
        }
    };
    fn ncclCommCount(comm: Comm, count: *mut c_int), Moment::Other;
    fn ncclCommCuDevice(comm: Comm, device: *mut c_int), Moment::Other;
    fn ncclCommUserRank(comm: Comm, rank: *mut c_int), Moment::Other;
    fn ncclGroupStart(), Moment::GroupStart;
    fn ncclGroupEnd(), Moment::GroupEnd;
    fn ncclBcast(buff: To, count: usize, dtype: Type, root: c_int, comm: Comm, stream: Stream),
        Moment::Operation(comm, stream), then code => wrote!(code, buff, count, dtype, None, comm, stream);
    fn ncclSend(send: From, count: usize, dtype: Type, peer: c_int, comm: Comm, stream: Stream),
        Moment::Operation(comm, stream);
    fn ncclRecv(recv: To, count: usize, dtype: Type, peer: c_int, comm: Comm, stream: Stream),
        Moment::Operation(comm, stream), then code => wrote!(code, recv, count, dtype, None, comm, stream);
    fn ncclRedOpCreatePreMulSum(
        op: *mut Op,
        scalar: *mut c_void,
        dtype: Type,
        residence: ncclScalarResidence_t,
        comm: Comm,
    ), Moment::Other;
    fn ncclRedOpDestroy(op: Op, comm: Comm), Moment::Other;
    fn ncclMemAlloc(place: *mut *mut c_void, len: usize), Moment::Other;
    fn ncclMemFree(memory: *mut c_void), Moment::Other;
    fn ncclCommRegister(comm: Comm, buffer: To, len: usize, handle: *mut *mut c_void), Moment::Other;
    fn ncclCommDeregister(comm: Comm, handle: *mut c_void), Moment::Other;
    fn ncclCommWindowRegister(comm: Comm, buffer: To, len: usize, window: *mut ncclWindow_t, flags: c_int),
        Moment::Other;
    fn ncclCommWindowDeregister(comm: Comm, window: ncclWindow_t), Moment::Other;
    fn ncclWinGetUserPtr(comm: Comm, window: ncclWindow_t, place: *mut *mut c_void), Moment::Other;
    fn ncclPutSignal(
        local: From,
        count: usize,
        dtype: Type,
        peer: c_int,
        window: ncclWindow_t,
        offset: usize,
        index: c_int,
        context: c_int,
        flags: c_uint,
        comm: Comm,
        stream: Stream,
    ), Moment::Operation(comm, stream);
    fn ncclSignal(peer: c_int, index: c_int, context: c_int, flags: c_uint, comm: Comm, stream: Stream),
        Moment::Operation(comm, stream);
    fn ncclWaitSignal(count: c_int, descriptors: *mut ncclWaitSignalDesc_t, comm: Comm, stream: Stream),
        Moment::Operation(comm, stream);
    fn collspecMark(comm: Comm, tag: c_uint), Moment::Other;
    fn collspecTraffic(comm: Comm, tag: c_uint, traffic: *mut collspecTraffic_t), Moment::Other;
    fn collspecLabel(comm: Comm, label: c_uint), Moment::Other;
    fn collspecCensus(census: *mut collspecCensus_t), Moment::Other;
    fn collspecAwait(comm: Comm), Moment::Other;
    fn collspecIdleHook(hook: Option<extern "C" fn()>), Moment::Other;
}

macro_rules! export_collectives {
    (@ $function:ident $with_config:ident () all) => {
        export_collectives!(@ $function $with_config (), None);
    };
    (@ $function:ident $with_config:ident (reduction) all) => {
        export_collectives!(@ $function $with_config (op: Op,), None);
    };
    (@ $function:ident $with_config:ident (root) all) => {
        export_collectives!(@ $function $with_config (root: c_int,), None);
    };
    (@ $function:ident $with_config:ident (root) root) => {
        export_collectives!(@ $function $with_config (root: c_int,), Some(root));
    };
    (@ $function:ident $with_config:ident (reduction, root) root) => {
        export_collectives!(@ $function $with_config (op: Op, root: c_int,), Some(root));
    };
    (@ $function:ident $with_config:ident ($($arg:ident: $ty:ty,)*), $writer:expr) => {
        export_one! {
            fn $function(send: From, recv: To, count: usize, dtype: Type, $($arg: $ty,)* comm: Comm, stream: Stream),
            Moment::Operation(comm, stream), then code => wrote!(code, recv, count, dtype, $writer, comm, stream);
        }
        export_one! {
            fn $with_config(
                send: From, recv: To, count: usize, dtype: Type, $($arg: $ty,)* comm: Comm, stream: Stream,
                config: *const ncclCollConfig_t,
            ),
            Moment::Operation(comm, stream), then code => wrote!(code, recv, count, dtype, $writer, comm, stream);
        }
    };
    ($($variant:ident $function:ident $with_config:ident $takes:tt $written:ident;)*) => {
        $(export_collectives!(@ $function $with_config $takes $written);)*
        const COLLECTIVES: &[&str] = &[$(stringify!($function), stringify!($with_config)),*];
    };
}

nccl_sys::collectives!(export_collectives);

#[unsafe(no_mangle)]
unsafe extern "C" fn ncclGetErrorString(result: ncclResult_t) -> *const c_char {
    if let Some(text) = misbehave::false_text().filter(|_| result != ncclResult_t::Success) {
        return text;
    }
    // SAFETY: a number.
    table().ncclGetErrorString.map_or(c"".as_ptr(), |f| unsafe { f(result) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ncclGetLastError(comm: Comm) -> *const c_char {
    // SAFETY: the library checks the handle.
    misbehave::last_error_or(table().ncclGetLastError.map_or(c"".as_ptr(), |f| unsafe { f(comm) }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn collspecWhoWaits(text: *mut c_char, len: c_ulonglong) -> c_ulonglong {
    // SAFETY: the caller keeps to the table's contract.
    table().collspecWhoWaits.map_or(0, |f| unsafe { f(text, len) })
}

/// Identifies this library.
#[unsafe(no_mangle)]
extern "C" fn collspecStandin() -> *const c_char {
    const TEXT: &str = concat!("stand-in NCCL (soft-nccl ", env!("CARGO_PKG_VERSION"), ")\0");
    TEXT.as_ptr().cast()
}

/// Everything of the table that is exported: the functions with a result, then the others.
pub const EXPORTED: [&[&str]; 3] =
    [WITH_RESULT, COLLECTIVES, &["ncclGetErrorString", "ncclGetLastError", "collspecWhoWaits"]];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn whatever_the_library_has_is_exported_and_nothing_else() {
        let exported: BTreeSet<&str> = EXPORTED.concat().into_iter().collect();
        let present: BTreeSet<&str> = soft_nccl::table().present().into_iter().collect();
        assert_eq!(exported, present);
    }
}
