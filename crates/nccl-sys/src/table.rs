//! The function table: one optional pointer per symbol, with the release that introduced it.
use crate::types::*;
use std::ffi::{c_char, c_int, c_uint, c_ulonglong, c_void};

/// A call to a function that the loaded library does not have.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{symbol} is not in {library} (NCCL {version}); it came with NCCL {since}")]
pub struct Missing {
    /// The absent symbol.
    pub symbol: &'static str,
    /// The release whose user guide first has it.
    pub since: &'static str,
    /// The loaded library's own version, as text.
    pub version: String,
    /// Where the library came from.
    pub library: String,
}

macro_rules! table {
    ($($(#[$doc:meta])* $since:literal fn $name:ident($($arg:ident: $ty:ty),* $(,)?) -> $ret:ty;)*) => {
        /// NCCL's functions. An entry is `None` where the library lacks the symbol.
        #[allow(non_snake_case, missing_docs)]
        #[derive(Clone)]
        pub struct Nccl {
            /// Where the table came from: a path, or the name of a built-in library.
            pub library: String,
            $($(#[$doc])* pub $name: Option<unsafe extern "C" fn($($arg: $ty),*) -> $ret>,)*
        }

        impl Nccl {
            /// Every symbol with the release that introduced it (`"-"` for extensions of the software library).
            pub const SYMBOLS: &'static [(&'static str, &'static str)] = &[$((stringify!($name), $since)),*];

            /// A table without any function.
            pub fn empty(library: impl Into<String>) -> Self {
                Self { library: library.into(), $($name: None),* }
            }

            /// The names of the entries this table has.
            pub fn present(&self) -> Vec<&'static str> {
                let mut names = Vec::new();
                $(if self.$name.is_some() { names.push(stringify!($name)); })*
                names
            }
        }
    };
}

table! {
    "2.0" fn ncclGetVersion(version: *mut c_int) -> ncclResult_t;
    "2.0" fn ncclGetUniqueId(id: *mut ncclUniqueId) -> ncclResult_t;
    "2.0" fn ncclCommInitRank(comm: *mut ncclComm_t, nranks: c_int, id: ncclUniqueId, rank: c_int) -> ncclResult_t;
    "2.14" fn ncclCommInitRankConfig(comm: *mut ncclComm_t, nranks: c_int, id: ncclUniqueId, rank: c_int, config: *mut ncclConfig_t) -> ncclResult_t;
    "2.0" fn ncclCommInitAll(comms: *mut ncclComm_t, ndev: c_int, devlist: *const c_int) -> ncclResult_t;
    "2.18" fn ncclCommSplit(comm: ncclComm_t, color: c_int, key: c_int, newcomm: *mut ncclComm_t, config: *mut ncclConfig_t) -> ncclResult_t;
    "2.14" fn ncclCommFinalize(comm: ncclComm_t) -> ncclResult_t;
    "2.0" fn ncclCommDestroy(comm: ncclComm_t) -> ncclResult_t;
    "2.4" fn ncclCommAbort(comm: ncclComm_t) -> ncclResult_t;
    "2.4" fn ncclCommGetAsyncError(comm: ncclComm_t, result: *mut ncclResult_t) -> ncclResult_t;
    "2.13" fn ncclGetLastError(comm: ncclComm_t) -> *const c_char;
    "2.0" fn ncclGetErrorString(result: ncclResult_t) -> *const c_char;
    "2.0" fn ncclCommCount(comm: ncclComm_t, count: *mut c_int) -> ncclResult_t;
    "2.0" fn ncclCommCuDevice(comm: ncclComm_t, device: *mut c_int) -> ncclResult_t;
    "2.0" fn ncclCommUserRank(comm: ncclComm_t, rank: *mut c_int) -> ncclResult_t;
    "2.0" fn ncclGroupStart() -> ncclResult_t;
    "2.0" fn ncclGroupEnd() -> ncclResult_t;
    "2.0" fn ncclAllReduce(send: *const c_void, recv: *mut c_void, count: usize, dtype: ncclDataType_t, op: ncclRedOp_t, comm: ncclComm_t, stream: cudaStream_t) -> ncclResult_t;
    "2.0" fn ncclReduce(send: *const c_void, recv: *mut c_void, count: usize, dtype: ncclDataType_t, op: ncclRedOp_t, root: c_int, comm: ncclComm_t, stream: cudaStream_t) -> ncclResult_t;
    "2.2" fn ncclBroadcast(send: *const c_void, recv: *mut c_void, count: usize, dtype: ncclDataType_t, root: c_int, comm: ncclComm_t, stream: cudaStream_t) -> ncclResult_t;
    "2.0" fn ncclBcast(buff: *mut c_void, count: usize, dtype: ncclDataType_t, root: c_int, comm: ncclComm_t, stream: cudaStream_t) -> ncclResult_t;
    "2.0" fn ncclAllGather(send: *const c_void, recv: *mut c_void, count: usize, dtype: ncclDataType_t, comm: ncclComm_t, stream: cudaStream_t) -> ncclResult_t;
    "2.0" fn ncclReduceScatter(send: *const c_void, recv: *mut c_void, count: usize, dtype: ncclDataType_t, op: ncclRedOp_t, comm: ncclComm_t, stream: cudaStream_t) -> ncclResult_t;
    "2.28" fn ncclAlltoAll(send: *const c_void, recv: *mut c_void, count: usize, dtype: ncclDataType_t, comm: ncclComm_t, stream: cudaStream_t) -> ncclResult_t;
    "2.28" fn ncclGather(send: *const c_void, recv: *mut c_void, count: usize, dtype: ncclDataType_t, root: c_int, comm: ncclComm_t, stream: cudaStream_t) -> ncclResult_t;
    "2.28" fn ncclScatter(send: *const c_void, recv: *mut c_void, count: usize, dtype: ncclDataType_t, root: c_int, comm: ncclComm_t, stream: cudaStream_t) -> ncclResult_t;
    "2.7" fn ncclSend(send: *const c_void, count: usize, dtype: ncclDataType_t, peer: c_int, comm: ncclComm_t, stream: cudaStream_t) -> ncclResult_t;
    "2.7" fn ncclRecv(recv: *mut c_void, count: usize, dtype: ncclDataType_t, peer: c_int, comm: ncclComm_t, stream: cudaStream_t) -> ncclResult_t;
    "2.11" fn ncclRedOpCreatePreMulSum(op: *mut ncclRedOp_t, scalar: *mut c_void, dtype: ncclDataType_t, residence: ncclScalarResidence_t, comm: ncclComm_t) -> ncclResult_t;
    "2.11" fn ncclRedOpDestroy(op: ncclRedOp_t, comm: ncclComm_t) -> ncclResult_t;
    /// From now on, operations enqueued on this communicator count under `tag`.
    "-" fn collspecMark(comm: ncclComm_t, tag: c_uint) -> ncclResult_t;
    /// What this communicator's rank counted under `tag`, over finished and unfinished operations.
    "-" fn collspecTraffic(comm: ncclComm_t, tag: c_uint, traffic: *mut collspecTraffic_t) -> ncclResult_t;
    /// A consistent look at what runs, waits and is pending in the whole process.
    "-" fn collspecCensus(census: *mut collspecCensus_t) -> ncclResult_t;
    /// Sets the function called, outside all locks, whenever the software device or library falls idle or a host thread blocks in it.
    "-" fn collspecIdleHook(hook: Option<extern "C" fn()>) -> ncclResult_t;
    /// Writes up to `len` bytes of text saying who waits for whom; answers how many bytes there are.
    "-" fn collspecWhoWaits(text: *mut c_char, len: c_ulonglong) -> c_ulonglong;
}
