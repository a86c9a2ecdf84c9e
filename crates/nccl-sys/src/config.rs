//! Structures that begin with their own size, a magic word and a version, and grow at their end from release to release.
use std::ffi::{c_char, c_float, c_int, c_uint};
use std::mem::offset_of;

/// First word of a valid configuration, of a communicator, a collective or of encryption, and of a communicator's properties.
pub const NCCL_CONFIG_MAGIC: c_uint = 0xcafe_beef;
/// First word of a valid [`ncclSimInfo_t`].
pub const NCCL_SIM_INFO_MAGIC: c_uint = 0x7468_5283;
/// The value of an integer field that is not set.
pub const NCCL_CONFIG_UNDEF_INT: c_int = c_int::MIN;
/// The value of a floating-point field that is not set.
pub const NCCL_UNDEF_FLOAT: c_float = -1.0;
/// The newest version whose structures this crate knows.
pub const NCCL_LAYOUT_VERSION: c_uint = 23203;

/// Communicator configuration, as 2.32 has it. A library reads only the fields that its own version knows: the layout of
/// each release is a prefix of the next one's, and `size` and `version` say how much the caller has.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ncclConfig_t {
    /// Size of this structure in bytes.
    pub size: usize,
    /// [`NCCL_CONFIG_MAGIC`].
    pub magic: c_uint,
    /// The version whose layout the caller has.
    pub version: c_uint,
    /// 0 makes calls non-blocking (2.14).
    pub blocking: c_int,
    /// Thread blocks per cluster (2.17).
    pub cga_cluster_size: c_int,
    /// Fewest thread blocks (2.17).
    pub min_ctas: c_int,
    /// Most thread blocks (2.17).
    pub max_ctas: c_int,
    /// Network module by name (2.17).
    pub net_name: *const c_char,
    /// 1 shares resources with the parent at split (2.18).
    pub split_share: c_int,
    /// Traffic class of the network (2.26).
    pub traffic_class: c_int,
    /// Name of the communicator (2.27).
    pub comm_name: *const c_char,
    /// 1 lets the network reduce (2.27).
    pub collnet_enable: c_int,
    /// `NCCL_CTA_POLICY_*` (2.27).
    pub cta_policy: c_int,
    /// 1 shares resources with the parent at shrink (2.27).
    pub shrink_share: c_int,
    /// Thread blocks of NVLink-switch kernels (2.27).
    pub nvls_ctas: c_int,
    /// Network channels per pair of ranks (2.28).
    pub n_channels_per_net_peer: c_int,
    /// 1 schedules for NVLink first (2.28).
    pub nvlink_centric_sched: c_int,
    /// 0 no CUDA graphs, 1 one graph, 2 several or mixed (2.29).
    pub graph_usage_mode: c_int,
    /// Contexts of one-sided operations (2.29).
    pub num_rma_ctx: c_int,
    /// Most peers a rank talks to at a time (2.30).
    pub max_p2p_peers: c_int,
    /// 0 leaves the order of captured kernels to the caller (2.30).
    pub graph_stream_ordering: c_int,
    /// 1 lets the library order the launches of several communicators of a device (2.31).
    pub launch_order_implicit: c_int,
    /// Signal indexes of each context of one-sided operations (2.31).
    pub num_rma_sig: c_int,
    /// 1 sets signals up when the communicator is made, not at the first window (2.31).
    pub rma_eager_init: c_int,
    /// `NCCL_HOST_CFT_*` (2.31).
    pub host_cft_mode: c_int,
    /// `NCCL_NVLS_HOST_MODE_*` (2.32).
    pub nvls_host_mode: c_int,
}

/// A field of [`ncclConfig_t`] that a caller may set.
#[derive(Clone, Copy, Debug)]
pub struct ConfigField {
    /// The field's name in NCCL.
    pub name: &'static str,
    /// The release that introduced it, such as `2.17`.
    pub since: &'static str,
    /// The access to the field.
    pub access: ConfigAccess,
}

/// Access to a field, by its type.
#[derive(Clone, Copy, Debug)]
pub enum ConfigAccess {
    /// A field with a number.
    Int(fn(&mut ncclConfig_t) -> &mut c_int),
    /// A field with a zero-terminated text.
    Text(fn(&mut ncclConfig_t) -> &mut *const c_char),
}

impl ConfigField {
    const fn int(name: &'static str, since: &'static str, access: fn(&mut ncclConfig_t) -> &mut c_int) -> Self {
        Self { name, since, access: ConfigAccess::Int(access) }
    }

    const fn text(
        name: &'static str,
        since: &'static str,
        access: fn(&mut ncclConfig_t) -> &mut *const c_char,
    ) -> Self {
        Self { name, since, access: ConfigAccess::Text(access) }
    }

    /// The field with NCCL's name.
    pub fn find(name: &str) -> Option<&'static Self> {
        ncclConfig_t::FIELDS.iter().find(|field| field.name == name)
    }
}

impl ncclConfig_t {
    /// Every field that a caller may set.
    pub const FIELDS: &'static [ConfigField] = &[
        ConfigField::int("blocking", "2.14", |config| &mut config.blocking),
        ConfigField::int("cgaClusterSize", "2.17", |config| &mut config.cga_cluster_size),
        ConfigField::int("minCTAs", "2.17", |config| &mut config.min_ctas),
        ConfigField::int("maxCTAs", "2.17", |config| &mut config.max_ctas),
        ConfigField::text("netName", "2.17", |config| &mut config.net_name),
        ConfigField::int("splitShare", "2.18", |config| &mut config.split_share),
        ConfigField::int("trafficClass", "2.26", |config| &mut config.traffic_class),
        ConfigField::text("commName", "2.27", |config| &mut config.comm_name),
        ConfigField::int("collnetEnable", "2.27", |config| &mut config.collnet_enable),
        ConfigField::int("CTAPolicy", "2.27", |config| &mut config.cta_policy),
        ConfigField::int("shrinkShare", "2.27", |config| &mut config.shrink_share),
        ConfigField::int("nvlsCTAs", "2.27", |config| &mut config.nvls_ctas),
        ConfigField::int("nChannelsPerNetPeer", "2.28", |config| &mut config.n_channels_per_net_peer),
        ConfigField::int("nvlinkCentricSched", "2.28", |config| &mut config.nvlink_centric_sched),
        ConfigField::int("graphUsageMode", "2.29", |config| &mut config.graph_usage_mode),
        ConfigField::int("numRmaCtx", "2.29", |config| &mut config.num_rma_ctx),
        ConfigField::int("maxP2pPeers", "2.30", |config| &mut config.max_p2p_peers),
        ConfigField::int("graphStreamOrdering", "2.30", |config| &mut config.graph_stream_ordering),
        ConfigField::int("launchOrderImplicit", "2.31", |config| &mut config.launch_order_implicit),
        ConfigField::int("numRmaSig", "2.31", |config| &mut config.num_rma_sig),
        ConfigField::int("rmaEagerInit", "2.31", |config| &mut config.rma_eager_init),
        ConfigField::int("hostCftMode", "2.31", |config| &mut config.host_cft_mode),
        ConfigField::int("nvlsHostMode", "2.32", |config| &mut config.nvls_host_mode),
    ];

    /// The size of the structure in a release, given its version code, in bytes. For releases newer than this crate it is the
    /// size that this crate knows.
    pub const fn size_in(version: c_uint) -> usize {
        // ends are rounded up to the alignment, so a field may fill what an older release had as padding
        match version {
            ..21700 => offset_of!(Self, min_ctas),
            21700..21800 => offset_of!(Self, split_share),
            21800..22700 => offset_of!(Self, comm_name),
            22700..22800 => offset_of!(Self, n_channels_per_net_peer),
            22800..22900 => offset_of!(Self, graph_usage_mode),
            22900..23000 => offset_of!(Self, max_p2p_peers),
            23000..23100 => offset_of!(Self, launch_order_implicit),
            23100..23200 => offset_of!(Self, nvls_host_mode),
            23200.. => size_of::<Self>(),
        }
    }

    /// A configuration with no field set, as a caller built for the release of that version code would pass it. For newer
    /// libraries it has the newest layout that this crate knows.
    pub fn unset(version: c_uint) -> Self {
        let u = NCCL_CONFIG_UNDEF_INT;
        let version = version.min(NCCL_LAYOUT_VERSION);
        Self {
            size: Self::size_in(version),
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
            n_channels_per_net_peer: u,
            nvlink_centric_sched: u,
            graph_usage_mode: u,
            num_rma_ctx: u,
            max_p2p_peers: u,
            graph_stream_ordering: u,
            launch_order_implicit: u,
            num_rma_sig: u,
            rma_eager_init: u,
            host_cft_mode: u,
            nvls_host_mode: u,
        }
    }
}

/// The answer of `ncclGroupSimulateEnd` (2.22).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ncclSimInfo_t {
    /// Size of this structure in bytes.
    pub size: usize,
    /// [`NCCL_SIM_INFO_MAGIC`].
    pub magic: c_uint,
    /// The version whose layout the caller has.
    pub version: c_uint,
    /// The estimated time of the group.
    pub estimated_time: c_float,
}

impl ncclSimInfo_t {
    /// One with nothing estimated yet.
    pub fn unset(version: c_uint) -> Self {
        Self {
            size: size_of::<Self>(),
            magic: NCCL_SIM_INFO_MAGIC,
            version: version.min(NCCL_LAYOUT_VERSION),
            estimated_time: NCCL_UNDEF_FLOAT,
        }
    }
}
