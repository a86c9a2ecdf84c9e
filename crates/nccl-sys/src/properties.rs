//! The properties that `ncclCommQueryProperties` returns for a communicator (2.29).
use crate::config::{NCCL_CONFIG_MAGIC, NCCL_LAYOUT_VERSION};
use std::ffi::{c_int, c_uint};
use std::mem::offset_of;

/// Properties of a communicator, as of 2.31. Later releases have more after these; a library writes those that belong to
/// the version the caller names.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ncclCommProperties_t {
    /// Size of this structure in bytes.
    pub size: usize,
    /// [`NCCL_CONFIG_MAGIC`].
    pub magic: c_uint,
    /// The version whose layout the caller has.
    pub version: c_uint,
    /// The calling rank's number in the communicator.
    pub rank: c_int,
    /// Number of ranks.
    pub n_ranks: c_int,
    /// The rank's device, as CUDA numbers it.
    pub cuda_dev: c_int,
    /// The rank's device, as NVML numbers it.
    pub nvml_dev: c_int,
    /// Not 0 if kernels can use the communicator.
    pub device_api_support: u8,
    /// Not 0 if ranks that reach each other's memory can use multicast.
    pub multimem_support: u8,
    /// The way kernels reach the network; 0 if they cannot.
    pub gin_type: c_int,
    /// Number of sets of ranks that reach each other's memory (2.29.7).
    pub n_lsa_teams: c_int,
    /// Not 0 if one-sided calls of the host work.
    pub host_rma_support: u8,
    /// The way kernels reach the network along rails; 0 if they cannot (2.29.7).
    pub railed_gin_type: c_int,
    /// A number that all ranks of the communicator share (2.31).
    pub comm_hash: u64,
    /// The smallest stride between ranks that kernels may reach over the network (2.31).
    pub gin_min_stride: c_int,
    /// The connection of that kind.
    pub gin_connection_type: c_int,
    /// The kinds that are supported.
    pub gin_support: [u8; 64],
    /// Size of the structure that kernels get.
    pub dev_comm_runtime_version_size: usize,
}

/// The last release whose properties end where [`ncclCommProperties_t`] ends.
const PROPERTIES_VERSION: c_uint = 23199;

impl ncclCommProperties_t {
    /// The size of the documented properties of a release, given its version code, in bytes.
    pub const fn size_in(version: c_uint) -> usize {
        match version {
            // ends are rounded up to the alignment
            ..22907 => (offset_of!(Self, gin_type) + size_of::<c_int>()).next_multiple_of(align_of::<Self>()),
            22907..23100 => offset_of!(Self, comm_hash),
            23100.. => size_of::<Self>(),
        }
    }

    /// Properties to be filled in. The version named is never newer than those properties that this crate knows.
    pub fn unset(version: c_uint) -> Self {
        let version = version.min(PROPERTIES_VERSION).min(NCCL_LAYOUT_VERSION);
        Self {
            size: Self::size_in(version),
            magic: NCCL_CONFIG_MAGIC,
            version,
            rank: c_int::MIN,
            n_ranks: c_int::MIN,
            cuda_dev: c_int::MIN,
            nvml_dev: c_int::MIN,
            device_api_support: 0,
            multimem_support: 0,
            gin_type: 0,
            n_lsa_teams: 0,
            host_rma_support: 0,
            railed_gin_type: 0,
            comm_hash: 0,
            gin_min_stride: 0,
            gin_connection_type: 0,
            gin_support: [0; 64],
            dev_comm_runtime_version_size: 0,
        }
    }
}
