//! The structures of `<infiniband/verbs.h>` as callers have compiled them in, for 64-bit Linux. Callers read and write their fields
//! without a call, so every size and offset is part of the interface.
//!
//! Fields that the kernel's drivers use and callers do not are kept as room (`_..`), so that what follows has its place.

use libc::{c_char, c_int, c_void};

/// `union ibv_gid`.
pub type Gid = [u8; 16];

/// What a queue pair can do, by `enum ibv_qp_state`.
pub mod state {
    use libc::c_int;
    pub const RESET: c_int = 0;
    pub const INIT: c_int = 1;
    pub const RTR: c_int = 2;
    pub const RTS: c_int = 3;
    pub const SQD: c_int = 4;
    pub const ERR: c_int = 6;
}

/// `enum ibv_wc_status`, those that occur here.
pub mod status {
    use libc::c_int;
    pub const SUCCESS: c_int = 0;
    pub const LOC_LEN_ERR: c_int = 1;
    pub const LOC_PROT_ERR: c_int = 4;
    pub const WR_FLUSH_ERR: c_int = 5;
    pub const REM_INV_REQ_ERR: c_int = 9;
    pub const REM_ACCESS_ERR: c_int = 10;
    pub const REM_OP_ERR: c_int = 11;
    pub const RETRY_EXC_ERR: c_int = 12;
    pub const RNR_RETRY_EXC_ERR: c_int = 13;
}

/// `enum ibv_wc_opcode`.
pub mod completed {
    use libc::c_int;
    pub const SEND: c_int = 0;
    pub const WRITE: c_int = 1;
    pub const READ: c_int = 2;
    pub const COMPARE_SWAP: c_int = 3;
    pub const FETCH_ADD: c_int = 4;
    pub const RECV: c_int = 128;
    pub const RECV_WITH_IMM: c_int = 129;
}

/// `enum ibv_event_type`.
pub mod event {
    use libc::c_int;
    pub const CQ_ERR: c_int = 0;
    pub const QP_FATAL: c_int = 1;
    pub const QP_REQ_ERR: c_int = 2;
    pub const QP_ACCESS_ERR: c_int = 3;
    pub const DEVICE_FATAL: c_int = 8;
    pub const PORT_ACTIVE: c_int = 9;
    pub const PORT_ERR: c_int = 10;
}

/// `enum ibv_access_flags`.
pub mod access {
    pub const LOCAL_WRITE: u32 = 1;
    pub const REMOTE_WRITE: u32 = 2;
    pub const REMOTE_READ: u32 = 4;
    pub const REMOTE_ATOMIC: u32 = 8;
    pub const ZERO_BASED: u32 = 32;
}

/// `enum ibv_send_flags`.
pub mod send_flags {
    use libc::c_int;
    pub const SIGNALED: c_int = 2;
    pub const SOLICITED: c_int = 4;
    pub const INLINE: c_int = 8;
}

/// `enum ibv_qp_attr_mask`.
pub mod mask {
    use libc::c_int;
    pub const STATE: c_int = 1;
    pub const ACCESS_FLAGS: c_int = 1 << 3;
    pub const PKEY_INDEX: c_int = 1 << 4;
    pub const PORT: c_int = 1 << 5;
    pub const AV: c_int = 1 << 7;
    pub const PATH_MTU: c_int = 1 << 8;
    pub const TIMEOUT: c_int = 1 << 9;
    pub const RETRY_CNT: c_int = 1 << 10;
    pub const RNR_RETRY: c_int = 1 << 11;
    pub const RQ_PSN: c_int = 1 << 12;
    pub const MAX_QP_RD_ATOMIC: c_int = 1 << 13;
    pub const MIN_RNR_TIMER: c_int = 1 << 15;
    pub const SQ_PSN: c_int = 1 << 16;
    pub const MAX_DEST_RD_ATOMIC: c_int = 1 << 17;
    pub const DEST_QPN: c_int = 1 << 20;
}

pub const PORT_DOWN: c_int = 1;
pub const PORT_ACTIVE: c_int = 4;
pub const LINK_INFINIBAND: u8 = 1;
pub const LINK_ETHERNET: u8 = 2;
pub const QPT_RC: c_int = 2;
pub const QPT_UC: c_int = 3;
/// `IBV_WC_WITH_IMM`.
pub const WITH_IMM: u32 = 2;

/// `pthread_mutex_t` and `pthread_cond_t` of the structures, which only libibverbs itself would use.
type MutexRoom = [u64; 5];
type ConditionRoom = [u64; 6];

#[repr(C)]
pub struct Device {
    pub _ops: [usize; 2],
    pub node_type: c_int,
    pub transport_type: c_int,
    pub name: [c_char; 64],
    pub dev_name: [c_char; 64],
    pub dev_path: [c_char; 256],
    pub ibdev_path: [c_char; 256],
}

#[repr(C)]
pub struct Context {
    pub device: *mut Device,
    pub _before_poll_cq: [usize; 11],
    pub poll_cq: usize,
    pub req_notify_cq: usize,
    pub _before_post_send: [usize; 12],
    pub post_send: usize,
    pub post_recv: usize,
    pub _after_post_recv: [usize; 5],
    pub cmd_fd: c_int,
    pub async_fd: c_int,
    pub num_comp_vectors: c_int,
    pub _mutex: MutexRoom,
    /// Null: there is no extended context in front of this one.
    pub abi_compat: *mut c_void,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct DeviceAttr {
    pub fw_ver: [c_char; 64],
    pub node_guid: u64,
    pub sys_image_guid: u64,
    pub max_mr_size: u64,
    pub page_size_cap: u64,
    pub vendor_id: u32,
    pub vendor_part_id: u32,
    pub hw_ver: u32,
    pub max_qp: c_int,
    pub max_qp_wr: c_int,
    pub device_cap_flags: c_int,
    pub max_sge: c_int,
    pub max_sge_rd: c_int,
    pub max_cq: c_int,
    pub max_cqe: c_int,
    pub max_mr: c_int,
    pub max_pd: c_int,
    pub max_qp_rd_atom: c_int,
    pub max_ee_rd_atom: c_int,
    pub max_res_rd_atom: c_int,
    pub max_qp_init_rd_atom: c_int,
    pub max_ee_init_rd_atom: c_int,
    pub atomic_cap: c_int,
    pub _unused_limits: [c_int; 11],
    pub max_srq: c_int,
    pub max_srq_wr: c_int,
    pub max_srq_sge: c_int,
    pub max_pkeys: u16,
    pub local_ca_ack_delay: u8,
    pub phys_port_cnt: u8,
}

/// The first 48 bytes, which is all that `ibv_query_port` may write: later versions of the header have more.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct PortAttr {
    pub state: c_int,
    pub max_mtu: c_int,
    pub active_mtu: c_int,
    pub gid_tbl_len: c_int,
    pub port_cap_flags: u32,
    pub max_msg_sz: u32,
    pub bad_pkey_cntr: u32,
    pub qkey_viol_cntr: u32,
    pub pkey_tbl_len: u16,
    pub lid: u16,
    pub sm_lid: u16,
    pub lmc: u8,
    pub max_vl_num: u8,
    pub sm_sl: u8,
    pub subnet_timeout: u8,
    pub init_type_reply: u8,
    pub active_width: u8,
    pub active_speed: u8,
    pub phys_state: u8,
    pub link_layer: u8,
    pub flags: u8,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct GidEntry {
    pub gid: Gid,
    pub gid_index: u32,
    pub port_num: u32,
    pub gid_type: u32,
    pub ndev_ifindex: u32,
}

#[repr(C)]
pub struct Pd {
    pub context: *mut Context,
    pub handle: u32,
}

#[repr(C)]
pub struct Mr {
    pub context: *mut Context,
    pub pd: *mut Pd,
    pub addr: *mut c_void,
    pub length: usize,
    pub handle: u32,
    pub lkey: u32,
    pub rkey: u32,
}

#[repr(C)]
pub struct CompChannel {
    pub context: *mut Context,
    pub fd: c_int,
    pub refcnt: c_int,
}

#[repr(C)]
pub struct Cq {
    pub context: *mut Context,
    pub channel: *mut CompChannel,
    pub cq_context: *mut c_void,
    pub handle: u32,
    pub cqe: c_int,
    pub _mutex: MutexRoom,
    pub _cond: ConditionRoom,
    pub comp_events_completed: u32,
    pub async_events_completed: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct QpCap {
    pub max_send_wr: u32,
    pub max_recv_wr: u32,
    pub max_send_sge: u32,
    pub max_recv_sge: u32,
    pub max_inline_data: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct QpInitAttr {
    pub qp_context: *mut c_void,
    pub send_cq: *mut Cq,
    pub recv_cq: *mut Cq,
    pub srq: *mut c_void,
    pub cap: QpCap,
    pub qp_type: c_int,
    pub sq_sig_all: c_int,
}

#[repr(C)]
pub struct Qp {
    pub context: *mut Context,
    pub qp_context: *mut c_void,
    pub pd: *mut Pd,
    pub send_cq: *mut Cq,
    pub recv_cq: *mut Cq,
    pub srq: *mut c_void,
    pub handle: u32,
    pub qp_num: u32,
    pub state: c_int,
    pub qp_type: c_int,
    pub _mutex: MutexRoom,
    pub _cond: ConditionRoom,
    pub events_completed: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct AhAttr {
    pub dgid: [u64; 2],
    pub flow_label: u32,
    pub sgid_index: u8,
    pub hop_limit: u8,
    pub traffic_class: u8,
    pub dlid: u16,
    pub sl: u8,
    pub src_path_bits: u8,
    pub static_rate: u8,
    pub is_global: u8,
    pub port_num: u8,
}

/// The first 136 bytes, which every version of the header has.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct QpAttr {
    pub qp_state: c_int,
    pub cur_qp_state: c_int,
    pub path_mtu: c_int,
    pub path_mig_state: c_int,
    pub qkey: u32,
    pub rq_psn: u32,
    pub sq_psn: u32,
    pub dest_qp_num: u32,
    pub qp_access_flags: c_int,
    pub cap: QpCap,
    pub ah_attr: AhAttr,
    pub alt_ah_attr: AhAttr,
    pub pkey_index: u16,
    pub alt_pkey_index: u16,
    pub en_sqd_async_notify: u8,
    pub sq_draining: u8,
    pub max_rd_atomic: u8,
    pub max_dest_rd_atomic: u8,
    pub min_rnr_timer: u8,
    pub port_num: u8,
    pub timeout: u8,
    pub retry_cnt: u8,
    pub rnr_retry: u8,
    pub alt_port_num: u8,
    pub alt_timeout: u8,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sge {
    pub addr: u64,
    pub length: u32,
    pub lkey: u32,
}

/// As far as queue pairs of the kinds RC and UC use it.
#[repr(C)]
pub struct SendWr {
    pub wr_id: u64,
    pub next: *mut SendWr,
    pub sg_list: *mut Sge,
    pub num_sge: c_int,
    pub opcode: c_int,
    pub send_flags: c_int,
    pub imm_data: u32,
    /// The union `wr`: `rdma` has the key in the low half of the second word, `atomic` in that of the fourth.
    pub remote_addr: u64,
    pub rkey_or_compare_add: u64,
    pub swap: u64,
    pub atomic_rkey: u32,
}

#[repr(C)]
pub struct RecvWr {
    pub wr_id: u64,
    pub next: *mut RecvWr,
    pub sg_list: *mut Sge,
    pub num_sge: c_int,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wc {
    pub wr_id: u64,
    pub status: c_int,
    pub opcode: c_int,
    pub vendor_err: u32,
    pub byte_len: u32,
    pub imm_data: u32,
    pub qp_num: u32,
    pub src_qp: u32,
    pub wc_flags: u32,
    pub pkey_index: u16,
    pub slid: u16,
    pub sl: u8,
    pub dlid_path_bits: u8,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AsyncEvent {
    /// The union `element`: the address of a queue pair or completion queue, or a port.
    pub element: u64,
    pub event_type: c_int,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ece {
    pub vendor_id: u32,
    pub options: u32,
    pub comp_mask: u32,
}

const _: () = {
    use std::mem::{offset_of, size_of};
    assert!(size_of::<Device>() == 664 && offset_of!(Device, name) == 24 && offset_of!(Device, dev_name) == 88);
    assert!(
        size_of::<Context>() == 328 && offset_of!(Context, abi_compat) == 320 && offset_of!(Context, cmd_fd) == 264
    );
    assert!(offset_of!(Context, poll_cq) == 96 && offset_of!(Context, req_notify_cq) == 104);
    assert!(offset_of!(Context, post_send) == 208 && offset_of!(Context, post_recv) == 216);
    assert!(size_of::<DeviceAttr>() == 232 && offset_of!(DeviceAttr, max_srq) == 212);
    assert!(size_of::<PortAttr>() == 48 && offset_of!(PortAttr, lid) == 34 && offset_of!(PortAttr, active_width) == 43);
    assert!(offset_of!(PortAttr, active_speed) == 44 && offset_of!(PortAttr, link_layer) == 46);
    assert!(size_of::<GidEntry>() == 32);
    assert!(size_of::<Mr>() == 48 && offset_of!(Mr, lkey) == 36 && offset_of!(Mr, rkey) == 40);
    assert!(size_of::<CompChannel>() == 16 && offset_of!(CompChannel, fd) == 8);
    assert!(size_of::<Cq>() == 128 && offset_of!(Cq, cq_context) == 16 && offset_of!(Cq, handle) == 24);
    assert!(size_of::<QpInitAttr>() == 64 && offset_of!(QpInitAttr, cap) == 32);
    assert!(size_of::<Qp>() == 160 && offset_of!(Qp, qp_context) == 8);
    assert!(offset_of!(Qp, qp_num) == 52 && offset_of!(Qp, state) == 56);
    assert!(size_of::<AhAttr>() == 32);
    assert!(size_of::<QpAttr>() == 136 && offset_of!(QpAttr, dest_qp_num) == 28);
    assert!(offset_of!(QpAttr, ah_attr) + offset_of!(AhAttr, dlid) == 80);
    assert!(offset_of!(QpAttr, ah_attr) + offset_of!(AhAttr, is_global) == 85);
    assert!(size_of::<Sge>() == 16 && size_of::<RecvWr>() == 32);
    assert!(offset_of!(SendWr, opcode) == 28 && offset_of!(SendWr, imm_data) == 36);
    assert!(offset_of!(SendWr, rkey_or_compare_add) == 48 && offset_of!(SendWr, atomic_rkey) == 64);
    assert!(size_of::<Wc>() == 48 && offset_of!(Wc, imm_data) == 24 && offset_of!(Wc, qp_num) == 28);
    assert!(size_of::<AsyncEvent>() == 16 && size_of::<Ece>() == 12);
};
