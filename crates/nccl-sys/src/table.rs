//! The function table: one optional pointer per symbol, with the release that introduced it.
use crate::call_config::*;
use crate::config::*;
use crate::enums::*;
use crate::properties::ncclCommProperties_t;
use crate::types::*;
use crate::version::version_text;
use std::ffi::{c_char, c_int, c_uint, c_ulonglong, c_void};

/// The maker of a library, as far as its exports show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Maker {
    /// NVIDIA, the maker of NCCL.
    Nvidia,
    /// This project's software library, alone or under a C interface; it behaves as NVIDIA's does.
    Collspec,
    /// Another make, such as RCCL.
    #[default]
    Other,
}

impl Maker {
    /// A name that only this project's stand-in exports.
    const COLLSPEC: &'static str = "collspecStandin";
    /// NVIDIA's libraries export a twin of every function, for profilers.
    const TWINS: [&'static str; 2] = ["pncclGetVersion", "pncclAllReduce"];
    /// Public functions that NVIDIA's libraries never had, from libraries that have the twins as well: RCCL's.
    const OTHERS: [&'static str; 3] = ["ncclAllToAllv", "mscclLoadAlgo", "mscclRunAlgo"];

    /// Decides by the names that the library exports.
    pub(crate) fn of(exports: impl Fn(&str) -> bool) -> Self {
        if exports(Self::COLLSPEC) {
            Self::Collspec
        } else if Self::TWINS.into_iter().all(&exports) && !Self::OTHERS.into_iter().any(exports) {
            Self::Nvidia
        } else {
            Self::Other
        }
    }

    /// The maker in words, for messages.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Nvidia => "NVIDIA's",
            Self::Collspec => "collspec's stand-in",
            Self::Other => "of another make than NVIDIA's",
        }
    }
}

/// A call to a function that the loaded library does not have.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{symbol} is not in {library} (NCCL {version}); {}", origin(since))]
pub struct Missing {
    /// The symbol that the library does not have.
    pub symbol: &'static str,
    /// The release whose user guide first has it.
    pub since: &'static str,
    /// The loaded library's own version, as text.
    pub version: String,
    /// The library's path or built-in name.
    pub library: String,
}

fn origin(since: &str) -> String {
    if since == "-" { "only the software library has it".to_owned() } else { format!("it came with NCCL {since}") }
}

macro_rules! table {
    ($($(#[$doc:meta])* $since:literal fn $name:ident($($arg:ident: $ty:ty),* $(,)?) -> $ret:ty;)*) => {
        /// NCCL's functions. An entry is `None` where the library lacks the symbol.
        #[allow(non_snake_case, missing_docs)]
        #[derive(Clone)]
        pub struct Nccl {
            /// The source of the table: a path, or the name of a built-in library.
            pub library: String,
            /// The maker of the library.
            pub maker: Maker,
            $($(#[$doc])* pub $name: Option<unsafe extern "C" fn($($arg: $ty),*) -> $ret>,)*
        }

        impl Nccl {
            /// Every symbol with the release (or if a later patch brought it, the version) that introduced it (`"-"` for extensions of the
            /// software library).
            pub const SYMBOLS: &'static [(&'static str, &'static str)] = &[$((stringify!($name), $since)),*];

            /// A table without any function.
            pub fn empty(library: impl Into<String>) -> Self {
                Self { library: library.into(), maker: Maker::default(), $($name: None),* }
            }

            /// Fills the table with the exports of a library. The handle must stay open as long as any copy of the table lives.
            pub(crate) fn fill(&mut self, library: &libloading::os::unix::Library) {
                $(
                    // SAFETY: looking a name up runs no code. NCCL's interface promises that the function with this name has
                    // this signature, and callers of the entry rely on it.
                    let found = unsafe {
                        library.get::<unsafe extern "C" fn($($arg: $ty),*) -> $ret>(concat!(stringify!($name), "\0").as_bytes())
                    };
                    self.$name = found.ok().map(|symbol| *symbol);
                )*
                self.maker = Maker::of(|name| {
                    // SAFETY: the address is compared and never called.
                    unsafe { library.get::<*const c_void>(name.as_bytes()) }.is_ok()
                });
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

impl Nccl {
    /// Functions of NCCL that are known by name only, with the release that introduced them. They have no entry in the
    /// table: their parameters are not in the user guide, or include a structure whose layout the user guide leaves to NCCL's
    /// own headers (the set-up of device communicators), or they serve kernels and not hosts.
    pub const NAMED_ONLY: &'static [(&'static str, &'static str)] = &[
        ("ncclResetDebugInit", "2.24"),
        ("ncclResetDebugInitInternal", "2.28"),
        ("ncclDevCommCreate", "2.28"),
        ("ncclDevCommDestroy", "2.28"),
        ("ncclGetMultimemDevicePointer", "2.29"),
        ("ncclGinBarrierCreateRequirement", "2.28.7"),
        ("ncclGinInboxA2ACreateRequirement", "2.29.7"),
        ("ncclGinOutboxCreateRequirement", "2.29.7"),
        ("ncclLLA2ACalcSlots", "2.28"),
        ("ncclLLA2ACreateRequirement", "2.28"),
        ("ncclLsaBarrierCreateRequirement", "2.28"),
        ("ncclTeamLsa", "2.28"),
        ("ncclTeamRail", "2.28"),
        ("ncclTeamRankToLsa", "2.28"),
        ("ncclTeamRankToWorld", "2.28"),
        ("ncclTeamWorld", "2.28"),
        ("ncclGetCftDeviceLeInfo", "2.31"),
        ("ncclGetPeerDeviceLeInfo", "2.31"),
        ("ncclGetMultimemDeviceLeInfo", "2.31"),
        ("ncclTeamCft", "2.31"),
        ("ncclTeamCftMultimem", "2.31"),
    ];

    /// NCCL's functions that this table lacks, with the release that introduced each.
    pub fn lacks(&self) -> Vec<(&'static str, &'static str)> {
        let present = self.present();
        Self::SYMBOLS.iter().filter(|(name, since)| *since != "-" && !present.contains(name)).copied().collect()
    }

    /// The error of a call to an entry that is not there, in a library of the given version code.
    pub fn missing(&self, symbol: &'static str, version: c_int) -> Missing {
        let since = Self::SYMBOLS.iter().find(|(name, _)| *name == symbol).map_or("?", |(_, since)| since);
        Missing { symbol, since, version: version_text(version), library: self.library.clone() }
    }
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
    "2.19" fn ncclMemAlloc(ptr: *mut *mut c_void, size: usize) -> ncclResult_t;
    "2.19" fn ncclMemFree(ptr: *mut c_void) -> ncclResult_t;
    "2.19" fn ncclCommRegister(comm: ncclComm_t, buff: *mut c_void, size: usize, handle: *mut *mut c_void) -> ncclResult_t;
    "2.19" fn ncclCommDeregister(comm: ncclComm_t, handle: *mut c_void) -> ncclResult_t;
    "2.22" fn ncclGroupSimulateEnd(info: *mut ncclSimInfo_t) -> ncclResult_t;
    "2.23" fn ncclCommInitRankScalable(comm: *mut ncclComm_t, nranks: c_int, rank: c_int, nids: c_int, ids: *mut ncclUniqueId, config: *mut ncclConfig_t) -> ncclResult_t;
    "2.27" fn ncclCommShrink(comm: ncclComm_t, exclude: *mut c_int, count: c_int, newcomm: *mut ncclComm_t, config: *mut ncclConfig_t, flags: c_int) -> ncclResult_t;
    "2.27" fn ncclCommWindowRegister(comm: ncclComm_t, buff: *mut c_void, size: usize, window: *mut ncclWindow_t, flags: c_int) -> ncclResult_t;
    "2.27" fn ncclCommWindowDeregister(comm: ncclComm_t, window: ncclWindow_t) -> ncclResult_t;
    "2.28.7" fn ncclCommRevoke(comm: ncclComm_t, flags: c_int) -> ncclResult_t;
    "2.29" fn ncclCommGetUniqueId(comm: ncclComm_t, id: *mut ncclUniqueId) -> ncclResult_t;
    "2.29" fn ncclCommGrow(comm: ncclComm_t, nranks: c_int, id: *const ncclUniqueId, rank: c_int, newcomm: *mut ncclComm_t, config: *mut ncclConfig_t) -> ncclResult_t;
    "2.29.7" fn ncclCommSuspend(comm: ncclComm_t, flags: c_int) -> ncclResult_t;
    "2.29.7" fn ncclCommResume(comm: ncclComm_t) -> ncclResult_t;
    "2.29.7" fn ncclCommMemStats(comm: ncclComm_t, stat: ncclCommMemStat_t, value: *mut u64) -> ncclResult_t;
    "2.29" fn ncclWinGetUserPtr(comm: ncclComm_t, window: ncclWindow_t, ptr: *mut *mut c_void) -> ncclResult_t;
    "2.29" fn ncclGetLsaDevicePointer(window: ncclWindow_t, offset: usize, rank: c_int, ptr: *mut *mut c_void) -> ncclResult_t;
    "2.29" fn ncclGetLsaMultimemDevicePointer(window: ncclWindow_t, offset: usize, ptr: *mut *mut c_void) -> ncclResult_t;
    "2.29" fn ncclGetPeerDevicePointer(window: ncclWindow_t, offset: usize, peer: c_int, ptr: *mut *mut c_void) -> ncclResult_t;
    "2.29" fn ncclPutSignal(send: *const c_void, count: usize, dtype: ncclDataType_t, peer: c_int, window: ncclWindow_t, offset: usize, signal: c_int, ctx: c_int, flags: c_uint, comm: ncclComm_t, stream: cudaStream_t) -> ncclResult_t;
    "2.29" fn ncclSignal(peer: c_int, signal: c_int, ctx: c_int, flags: c_uint, comm: ncclComm_t, stream: cudaStream_t) -> ncclResult_t;
    "2.29" fn ncclWaitSignal(count: c_int, signals: *mut ncclWaitSignalDesc_t, comm: ncclComm_t, stream: cudaStream_t) -> ncclResult_t;
    "2.30" fn ncclParamBind(handle: *mut ncclParamHandle_t, key: *const c_char) -> ncclResult_t;
    "2.30" fn ncclParamGetI8(handle: ncclParamHandle_t, out: *mut i8) -> ncclResult_t;
    "2.30" fn ncclParamGetI16(handle: ncclParamHandle_t, out: *mut i16) -> ncclResult_t;
    "2.30" fn ncclParamGetI32(handle: ncclParamHandle_t, out: *mut i32) -> ncclResult_t;
    "2.30" fn ncclParamGetI64(handle: ncclParamHandle_t, out: *mut i64) -> ncclResult_t;
    "2.30" fn ncclParamGetU8(handle: ncclParamHandle_t, out: *mut u8) -> ncclResult_t;
    "2.30" fn ncclParamGetU16(handle: ncclParamHandle_t, out: *mut u16) -> ncclResult_t;
    "2.30" fn ncclParamGetU32(handle: ncclParamHandle_t, out: *mut u32) -> ncclResult_t;
    "2.30" fn ncclParamGetU64(handle: ncclParamHandle_t, out: *mut u64) -> ncclResult_t;
    /// The text lives until this thread's next call of the function.
    "2.30" fn ncclParamGetStr(handle: ncclParamHandle_t, out: *mut *const c_char) -> ncclResult_t;
    "2.30" fn ncclParamGet(handle: ncclParamHandle_t, out: *mut c_void, room: c_int, len: *mut c_int) -> ncclResult_t;
    /// The text lives until this thread's next call of the function.
    "2.30" fn ncclParamGetParameter(key: *const c_char, value: *mut *const c_char, len: *mut c_int) -> ncclResult_t;
    /// The list lives until this thread's next call of the function.
    "2.30" fn ncclParamGetAllParameterKeys(keys: *mut *mut *const c_char, len: *mut c_int) -> ncclResult_t;
    "2.30" fn ncclParamDumpAll() -> ();
    "2.29" fn ncclCommQueryProperties(comm: ncclComm_t, properties: *mut ncclCommProperties_t) -> ncclResult_t;
    "2.31" fn ncclAllReduceConfig(send: *const c_void, recv: *mut c_void, count: usize, dtype: ncclDataType_t, op: ncclRedOp_t, comm: ncclComm_t, stream: cudaStream_t, config: *const ncclCollConfig_t) -> ncclResult_t;
    "2.31" fn ncclReduceConfig(send: *const c_void, recv: *mut c_void, count: usize, dtype: ncclDataType_t, op: ncclRedOp_t, root: c_int, comm: ncclComm_t, stream: cudaStream_t, config: *const ncclCollConfig_t) -> ncclResult_t;
    "2.31" fn ncclBroadcastConfig(send: *const c_void, recv: *mut c_void, count: usize, dtype: ncclDataType_t, root: c_int, comm: ncclComm_t, stream: cudaStream_t, config: *const ncclCollConfig_t) -> ncclResult_t;
    "2.31" fn ncclAllGatherConfig(send: *const c_void, recv: *mut c_void, count: usize, dtype: ncclDataType_t, comm: ncclComm_t, stream: cudaStream_t, config: *const ncclCollConfig_t) -> ncclResult_t;
    "2.31" fn ncclReduceScatterConfig(send: *const c_void, recv: *mut c_void, count: usize, dtype: ncclDataType_t, op: ncclRedOp_t, comm: ncclComm_t, stream: cudaStream_t, config: *const ncclCollConfig_t) -> ncclResult_t;
    "2.31" fn ncclAlltoAllConfig(send: *const c_void, recv: *mut c_void, count: usize, dtype: ncclDataType_t, comm: ncclComm_t, stream: cudaStream_t, config: *const ncclCollConfig_t) -> ncclResult_t;
    "2.31" fn ncclGatherConfig(send: *const c_void, recv: *mut c_void, count: usize, dtype: ncclDataType_t, root: c_int, comm: ncclComm_t, stream: cudaStream_t, config: *const ncclCollConfig_t) -> ncclResult_t;
    "2.31" fn ncclScatterConfig(send: *const c_void, recv: *mut c_void, count: usize, dtype: ncclDataType_t, root: c_int, comm: ncclComm_t, stream: cudaStream_t, config: *const ncclCollConfig_t) -> ncclResult_t;
    "2.32" fn ncclSetEncryption(config: *const ncclEncryptionConfig_t) -> ncclResult_t;
    /// Operations called on this communicator from now on count under `tag`.
    "-" fn collspecMark(comm: ncclComm_t, tag: c_uint) -> ncclResult_t;
    /// The traffic that this communicator's rank counted under `tag`, over finished and unfinished operations.
    "-" fn collspecTraffic(comm: ncclComm_t, tag: c_uint, traffic: *mut collspecTraffic_t) -> ncclResult_t;
    /// Gives the communicator a number by which `collspecWhoWaits` calls it, as in `communicator #3`.
    "-" fn collspecLabel(comm: ncclComm_t, label: c_uint) -> ncclResult_t;
    /// A consistent look at what runs, waits and is pending in the whole process.
    "-" fn collspecCensus(census: *mut collspecCensus_t) -> ncclResult_t;
    /// Waits until the communicator's non-blocking calls are over; how they ended, `ncclCommGetAsyncError` says.
    "-" fn collspecAwait(comm: ncclComm_t) -> ncclResult_t;
    /// Sets the function called, outside all locks, whenever the software device or library falls idle or a host thread blocks in it.
    "-" fn collspecIdleHook(hook: Option<extern "C" fn()>) -> ncclResult_t;
    /// Writes up to `len` bytes of text saying who waits for whom; answers how many bytes there are.
    "-" fn collspecWhoWaits(text: *mut c_char, len: c_ulonglong) -> c_ulonglong;
    /// Asks for a fault (`F07,rank=1`, or `trace`) in what comes next; an empty text leaves it to the environment.
    "-" fn collspecFault(fault: *const c_char) -> ncclResult_t;
    /// Writes which faults struck, or would have, since the last call: a bit each, 64 to a word.
    "-" fn collspecReached(words: *mut c_ulonglong, len: c_ulonglong) -> ncclResult_t;
}

/// Passes NCCL's collectives of one call to the macro `then`, a line each: name, function, the function with a configuration of
/// the call, its parameters besides buffers, count, type, communicator and stream (`reduction`, `root`), and the ranks whose
/// receive buffer it writes (`all`, or the `root`).
#[macro_export]
macro_rules! collectives {
    ($then:ident) => {
        $then! {
            AllReduce ncclAllReduce ncclAllReduceConfig (reduction) all;
            Reduce ncclReduce ncclReduceConfig (reduction, root) root;
            Broadcast ncclBroadcast ncclBroadcastConfig (root) all;
            AllGather ncclAllGather ncclAllGatherConfig () all;
            ReduceScatter ncclReduceScatter ncclReduceScatterConfig (reduction) all;
            AlltoAll ncclAlltoAll ncclAlltoAllConfig () all;
            Gather ncclGather ncclGatherConfig (root) root;
            Scatter ncclScatter ncclScatterConfig (root) all;
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_maker_is_known_by_what_the_library_exports() {
        let of = |names: &[&str]| Maker::of(|name| names.contains(&name));
        let twins = Maker::TWINS;
        assert_eq!(of(&twins), Maker::Nvidia);
        assert_eq!(of(&["ncclGetVersion", "ncclAllReduce"]), Maker::Other);
        assert_eq!(of(&[twins[0], twins[1], "mscclLoadAlgo"]), Maker::Other);
        assert_eq!(of(&[twins[0], twins[1], Maker::COLLSPEC]), Maker::Collspec);
    }
}
