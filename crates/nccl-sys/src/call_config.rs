//! The configuration of one collective call (2.31) and of encryption (2.32).
use crate::config::{NCCL_CONFIG_MAGIC, NCCL_CONFIG_UNDEF_INT, NCCL_LAYOUT_VERSION};
use crate::types::cudaEvent_t;
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::mem::offset_of;

/// One option of a library other than NVIDIA's, in a list; NVIDIA's reads none (2.31).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ncclConfigExt_t {
    /// The next option, null at the end.
    pub next: *mut ncclConfigExt_t,
    /// The maker of the library that understands the option: not zero, below 2^24.
    pub vendor_id: c_int,
    /// The option's number among those of the maker.
    pub option_id: c_int,
    /// Its value: a number, a text or an address, in the place of a pointer.
    pub value: *mut c_void,
}

/// The settings of a `nccl*Config` call besides its arguments, as of 2.32; the layout of 2.31 is a prefix. All ranks of a
/// collective must set the same.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ncclCollConfig_t {
    /// Size of this structure in bytes.
    pub size: usize,
    /// [`NCCL_CONFIG_MAGIC`].
    pub magic: c_uint,
    /// The version whose layout the caller has.
    pub version: c_uint,
    /// Options of other makers' libraries, null for none.
    pub ext: *mut ncclConfigExt_t,
    /// Fewest thread blocks of this call.
    pub min_ctas: c_int,
    /// Most thread blocks of this call.
    pub max_ctas: c_int,
    /// Thread blocks of NVLink-switch kernels of this call.
    pub nvls_ctas: c_int,
    /// Thread blocks per cluster; equal in all calls of a group.
    pub cga_cluster_size: c_int,
    /// The algorithms that the call may take, such as `ring,tree_ll`; null or empty leaves it to the library.
    pub alg_selection: *const c_char,
    /// 1 makes a selection that cannot be met an error, 0 leaves the choice to the library then.
    pub force_alg_selection: c_int,
    /// `NCCL_CTA_POLICY_*`, in place of the communicator's.
    pub cta_policy: c_int,
    /// A number for profilers; 0 means none.
    pub user_profiler_tag: u64,
    /// An event to record when the call's kernel has been launched, null for none (2.32).
    pub launch_completion_event: cudaEvent_t,
}

impl ncclCollConfig_t {
    /// The size of the structure in a release, given its version code, in bytes.
    pub const fn size_in(version: c_uint) -> usize {
        match version {
            ..23200 => offset_of!(Self, launch_completion_event),
            23200.. => size_of::<Self>(),
        }
    }

    /// A configuration that asks for nothing, as a caller built for the release of that version code would pass it.
    pub fn unset(version: c_uint) -> Self {
        let u = NCCL_CONFIG_UNDEF_INT;
        let version = version.min(NCCL_LAYOUT_VERSION);
        Self {
            size: Self::size_in(version),
            magic: NCCL_CONFIG_MAGIC,
            version,
            ext: std::ptr::null_mut(),
            min_ctas: u,
            max_ctas: u,
            nvls_ctas: u,
            cga_cluster_size: u,
            alg_selection: std::ptr::null(),
            force_alg_selection: 1,
            cta_policy: u,
            user_profiler_tag: 0,
            launch_completion_event: std::ptr::null_mut(),
        }
    }
}

/// The encryption of the library's own TCP connections (2.32). The numbers of the modes are not in the user guide, so this crate
/// has no constants for them.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ncclEncryptionConfig_t {
    /// Size of this structure in bytes.
    pub size: usize,
    /// [`NCCL_CONFIG_MAGIC`].
    pub magic: c_uint,
    /// The version whose layout the caller has.
    pub version: c_uint,
    /// The encryption mode.
    pub mode: c_int,
    /// The key that all processes share: a text of at least 32 bytes.
    pub psk: *const c_char,
}
