//! The types of NCCL's interface, laid out as the user guide documents them.
use std::ffi::{c_char, c_int, c_uint, c_ulonglong, c_void};

/// A communicator handle: opaque, owned by the library that made it.
pub type ncclComm_t = *mut c_void;
/// A CUDA stream, opaque to us.
pub type cudaStream_t = *mut c_void;

/// The 128 bytes that ranks share to find each other.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ncclUniqueId {
    /// Opaque content.
    pub internal: [c_char; 128],
}

macro_rules! open_enum {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $value:expr, $text:expr;)* }) => {
        $(#[$doc])*
        #[repr(transparent)]
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub c_int);

        #[allow(non_upper_case_globals)]
        impl $name {
            $($(#[$vdoc])* pub const $variant: Self = Self($value);)*
            /// All values this crate has a name for.
            pub const KNOWN: &'static [Self] = &[$(Self::$variant),*];

            /// The scenario language's word for the value, `None` for a number without a name.
            pub const fn name(self) -> Option<&'static str> {
                match self { $(Self::$variant => Some($text),)* _ => None }
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match self.name() { Some(text) => f.write_str(text), None => write!(f, concat!(stringify!($name), "({})"), self.0) }
            }
        }
    };
}

open_enum! {
    /// What a call answers.
    ncclResult_t {
        /// Success.
        Success = 0, "ok";
        /// A CUDA call failed.
        UnhandledCudaError = 1, "unhandled_cuda_error";
        /// A system call failed.
        SystemError = 2, "system_error";
        /// A bug in the library.
        InternalError = 3, "internal_error";
        /// An argument is out of range.
        InvalidArgument = 4, "invalid_argument";
        /// The call is not allowed here.
        InvalidUsage = 5, "invalid_usage";
        /// A peer is gone.
        RemoteError = 6, "remote_error";
        /// Non-blocking work goes on.
        InProgress = 7, "in_progress";
        /// A limit of time passed.
        Timeout = 8, "timeout";
    }
}
open_enum! {
    /// Element types.
    ncclDataType_t {
        /// Signed 8 bits.
        Int8 = 0, "i8";
        /// Unsigned 8 bits.
        Uint8 = 1, "u8";
        /// Signed 32 bits.
        Int32 = 2, "i32";
        /// Unsigned 32 bits.
        Uint32 = 3, "u32";
        /// Signed 64 bits.
        Int64 = 4, "i64";
        /// Unsigned 64 bits.
        Uint64 = 5, "u64";
        /// IEEE half.
        Float16 = 6, "f16";
        /// IEEE single.
        Float32 = 7, "f32";
        /// IEEE double.
        Float64 = 8, "f64";
        /// bfloat16 (2.10).
        Bfloat16 = 9, "bf16";
        /// 8-bit float, 4 exponent bits (2.24).
        Float8e4m3 = 10, "f8e4m3";
        /// 8-bit float, 5 exponent bits (2.24).
        Float8e5m2 = 11, "f8e5m2";
    }
}
open_enum! {
    /// Reductions; numbers from 5 up are made by `ncclRedOpCreatePreMulSum`.
    ncclRedOp_t {
        /// Sum.
        Sum = 0, "sum";
        /// Product.
        Prod = 1, "prod";
        /// Maximum.
        Max = 2, "max";
        /// Minimum.
        Min = 3, "min";
        /// Average (2.10).
        Avg = 4, "avg";
    }
}
open_enum! {
    /// Where a pre-multiplier lies.
    ncclScalarResidence_t {
        /// In device memory, read when the operation runs.
        Device = 0, "device";
        /// In host memory, read before the call returns.
        HostImmediate = 1, "host";
    }
}

/// Communicator configuration. `size`, `magic` and `version` come first, so a library reads only the fields it knows;
/// the layout of each release is a prefix of the next one's.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ncclConfig_t {
    /// Size of this structure in bytes.
    pub size: usize,
    /// [`NCCL_CONFIG_MAGIC`].
    pub magic: c_uint,
    /// The caller's NCCL version code.
    pub version: c_uint,
    /// 0 makes calls non-blocking.
    pub blocking: c_int,
    /// Thread blocks per cluster.
    pub cga_cluster_size: c_int,
    /// Fewest thread blocks.
    pub min_ctas: c_int,
    /// Most thread blocks.
    pub max_ctas: c_int,
    /// Network module by name.
    pub net_name: *const c_char,
    /// 1 shares resources with the parent at split.
    pub split_share: c_int,
    /// Traffic class.
    pub traffic_class: c_int,
    /// Communicator name (2.27).
    pub comm_name: *const c_char,
    /// 1 shares resources at collnet (2.27).
    pub collnet_enable: c_int,
    /// CTA policy (2.27).
    pub cta_policy: c_int,
    /// 1 shares resources with the parent at shrink (2.27).
    pub shrink_share: c_int,
    /// CTAs of NVLS (2.27).
    pub nvls_ctas: c_int,
}

/// First word of a valid configuration.
pub const NCCL_CONFIG_MAGIC: c_uint = 0xcafe_beef;
/// An integer field nobody set.
pub const NCCL_CONFIG_UNDEF_INT: c_int = c_int::MIN;
/// The colour of a rank that joins no new communicator.
pub const NCCL_SPLIT_NOCOLOR: c_int = -1;

impl ncclConfig_t {
    /// A configuration with no field set, for a caller of the given version code.
    pub fn unset(version: c_uint) -> Self {
        let u = NCCL_CONFIG_UNDEF_INT;
        Self {
            size: size_of::<Self>(),
            magic: NCCL_CONFIG_MAGIC,
            version,
            blocking: u,
            cga_cluster_size: u,
            min_ctas: u,
            max_ctas: u,
            net_name: std::ptr::null(),
            split_share: u,
            traffic_class: u,
            comm_name: std::ptr::null(),
            collnet_enable: u,
            cta_policy: u,
            shrink_share: u,
            nvls_ctas: u,
        }
    }
}

/// What a rank's communicator counted since [`crate::Nccl::collspecMark`] (an extension of the software library).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct collspecTraffic_t {
    /// Messages in the longest chain that led to what this rank received, added up over calls (the calls of one group
    /// run beside each other and count once).
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
    /// Grows with every change of state; two looks with equal epochs saw nothing move in between.
    pub epoch: c_ulonglong,
    /// 1 while something executes or could execute now.
    pub busy: c_int,
    /// Host threads that wait inside the device or the library for something that has not happened.
    pub blocked_hosts: c_int,
    /// Operations enqueued and not finished.
    pub pending: c_ulonglong,
}
