//! The types of NCCL's interface, laid out as the user guide documents them.
use std::ffi::{c_char, c_int, c_ulonglong, c_void};

/// A communicator handle: opaque, owned by the library that made it.
pub type ncclComm_t = *mut c_void;
/// A CUDA stream, opaque to us.
pub type cudaStream_t = *mut c_void;

/// A CUDA event, opaque to us.
pub type cudaEvent_t = *mut c_void;

/// The 128 bytes that ranks share to find each other.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ncclUniqueId {
    /// The id's bytes, whose format is private to the library.
    pub internal: [c_char; 128],
}

/// A registered window of memory, opaque.
pub type ncclWindow_t = *mut c_void;
/// A parameter of the library, opaque; never freed by the caller.
pub type ncclParamHandle_t = *mut c_void;

/// One sender whose signals a rank waits for (2.29).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ncclWaitSignalDesc_t {
    /// The number of signals.
    pub op_cnt: c_int,
    /// The rank that sends them.
    pub peer: c_int,
    /// Index of the signal.
    pub sig_idx: c_int,
    /// Number of the context.
    pub ctx: c_int,
}

/// The colour of a rank that joins no new communicator.
pub const NCCL_SPLIT_NOCOLOR: c_int = -1;
/// Window flag: offsets into the window may differ by rank.
pub const NCCL_WIN_DEFAULT: c_int = 0;
/// Window flag: every rank uses equal offsets.
pub const NCCL_WIN_COLL_SYMMETRIC: c_int = 1;
/// Window flag: the network keeps the order of operations on the window.
pub const NCCL_WIN_STRICT_ORDERING: c_int = 2;
/// A window's address must be a multiple of this.
pub const NCCL_WIN_REQUIRED_ALIGNMENT: usize = 4096;
/// CTA policy: fastest.
pub const NCCL_CTA_POLICY_DEFAULT: c_int = 0;
/// CTA policy: few thread blocks.
pub const NCCL_CTA_POLICY_EFFICIENCY: c_int = 1;
/// CTA policy: no thread blocks wherever that is possible.
pub const NCCL_CTA_POLICY_ZERO: c_int = 2;
/// Shrink flag: the parent has nothing to do.
pub const NCCL_SHRINK_DEFAULT: c_int = 0;
/// Shrink flag: operations of the parent are aborted first.
pub const NCCL_SHRINK_ABORT: c_int = 1;
/// Revoke flag: the only one there is.
pub const NCCL_REVOKE_DEFAULT: c_int = 0;
/// Value of `hostCftMode`: addresses of the fabric are available for host queries (2.31).
pub const NCCL_HOST_CFT_ENABLE: c_int = 1;
/// Value of `hostCftMode`: they are not.
pub const NCCL_HOST_CFT_DISABLE: c_int = 2;
/// Value of `hostCftMode`: they are, where that is possible.
pub const NCCL_HOST_CFT_FALLBACK: c_int = 3;
/// Value of `nvlsHostMode`: everything of the NVLink switch is used (2.32).
pub const NCCL_NVLS_HOST_MODE_ENABLE: c_int = 0;
/// Flag of `nvlsHostMode`: algorithms do not use the NVLink switch.
pub const NCCL_NVLS_HOST_MODE_DISABLE_TRANSPORT: c_int = 1;
/// Flag of `nvlsHostMode`: symmetric-memory kernels and copy engines do not use it.
pub const NCCL_NVLS_HOST_MODE_DISABLE_SYMMETRIC_MULTIMEM: c_int = 2;
/// Value of `nvlsHostMode`: nothing uses it.
pub const NCCL_NVLS_HOST_MODE_DISABLE: c_int = c_int::MAX;
/// Suspend flag: releases the communicator's dynamic device memory.
pub const NCCL_SUSPEND_MEM: c_int = 1;

/// The traffic that a rank's communicator counted since [`crate::Nccl::collspecMark`] (an extension of the software library).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct collspecTraffic_t {
    /// Messages in the longest chain that led to what this rank received, added up over calls (the calls of one group
    /// run in parallel and count once).
    pub rounds: c_ulonglong,
    /// Elements sent to other ranks.
    pub sent: c_ulonglong,
    /// Elements received from other ranks.
    pub received: c_ulonglong,
    /// Trees in which the rank is an inner node (has a child), 0 for rings.
    pub inner: c_ulonglong,
}

/// A look at the whole software device and library at one moment (an extension; see soft-nccl's `census`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct collspecCensus_t {
    /// Grows with every change of state; if two readings have equal epochs, nothing moved in between.
    pub epoch: c_ulonglong,
    /// 1 while something executes or could execute now.
    pub busy: c_int,
    /// Host threads that wait inside the device or the library for something that has not happened.
    pub blocked_hosts: c_int,
    /// Operations enqueued and not finished.
    pub pending: c_ulonglong,
}
