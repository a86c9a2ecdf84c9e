//! One end of a connection: a queue pair with memory and queues of its own.

use super::{PATIENCE, call};
use crate::layout::{
    AhAttr, AsyncEvent, CompChannel, Context, Cq, Device, Mr, Pd, Qp, QpAttr, QpCap, QpInitAttr, RecvWr, SendWr, Sge,
    Wc, access, mask, state,
};
use libc::{c_int, c_void};
use std::ptr::null_mut;
use std::time::{Duration, Instant};

pub const ALL: u32 = access::LOCAL_WRITE | access::REMOTE_WRITE | access::REMOTE_READ | access::REMOTE_ATOMIC;
pub use crate::layout::CompChannel as Channel;
pub const WRITE: c_int = 0;
pub const WRITE_IMM: c_int = 1;
pub const SEND: c_int = 2;
pub const SEND_IMM: c_int = 3;
pub const READ: c_int = 4;
pub const COMPARE_SWAP: c_int = 5;
pub const FETCH_ADD: c_int = 6;
pub const SIGNALED: c_int = 2;
pub const INLINE: c_int = 8;

pub struct End {
    pub context: *mut Context,
    pub pd: *mut Pd,
    pub send_cq: *mut Cq,
    pub recv_cq: *mut Cq,
    pub channel: *mut CompChannel,
    pub qp: *mut Qp,
    pub mr: *mut Mr,
    pub memory: *mut u8,
    pub len: usize,
}

// SAFETY: the library may be called from any thread.
unsafe impl Send for End {}
// SAFETY: as above.
unsafe impl Sync for End {}

#[derive(Clone, Copy)]
pub struct Options {
    pub nic: usize,
    pub bytes: usize,
    pub is_reliable: bool,
    pub access: u32,
    pub depth: u32,
    pub completions: c_int,
}

impl Default for Options {
    fn default() -> Self {
        Self { nic: 0, bytes: 1 << 16, is_reliable: true, access: ALL, depth: 64, completions: 1024 }
    }
}

pub fn map(len: usize) -> *mut u8 {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: new memory.
    let got = unsafe { libc::mmap(null_mut(), len, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
    assert_ne!(got, libc::MAP_FAILED);
    got.cast()
}

pub fn open(nic: usize) -> *mut Context {
    super::set_up();
    let mut count = 0;
    let list = call!(ibv_get_device_list: fn(*mut c_int) -> *mut *mut Device; &raw mut count);
    assert!(count as usize > nic);
    // SAFETY: the list has so many.
    let device = unsafe { *list.add(nic) };
    call!(ibv_free_device_list: fn(*mut *mut Device); list);
    let context = call!(ibv_open_device: fn(*mut Device) -> *mut Context; device);
    assert!(!context.is_null());
    context
}

impl End {
    pub fn new() -> Self {
        Self::with(Options::default())
    }

    pub fn with(options: Options) -> Self {
        let context = open(options.nic);
        let channel = call!(ibv_create_comp_channel: fn(*mut Context) -> *mut CompChannel; context);
        let cq = || {
            let create = call!(ibv_create_cq: fn(*mut Context, c_int, *mut c_void, *mut CompChannel, c_int) -> *mut Cq;
                context, options.completions, 77 as *mut c_void, channel, 0);
            assert!(!create.is_null());
            create
        };
        let (send_cq, recv_cq) = (cq(), cq());
        let pd = call!(ibv_alloc_pd: fn(*mut Context) -> *mut Pd; context);
        let memory = map(options.bytes);
        let mr = call!(ibv_reg_mr: fn(*mut Pd, *mut c_void, usize, c_int) -> *mut Mr;
            pd, memory.cast(), options.bytes, options.access as c_int);
        assert!(!mr.is_null());
        let mut init = QpInitAttr {
            qp_context: 99 as *mut c_void,
            send_cq,
            recv_cq,
            srq: null_mut(),
            cap: QpCap {
                max_send_wr: options.depth,
                max_recv_wr: options.depth,
                max_send_sge: 4,
                max_recv_sge: 4,
                max_inline_data: 256,
            },
            qp_type: if options.is_reliable { 2 } else { 3 },
            sq_sig_all: 0,
        };
        let qp = call!(ibv_create_qp: fn(*mut Pd, *mut QpInitAttr) -> *mut Qp; pd, &raw mut init);
        assert!(!qp.is_null());
        Self { context, pd, send_cq, recv_cq, channel, qp, mr, memory, len: options.bytes }
    }

    /// Two ends that are connected with each other.
    pub fn pair() -> (Self, Self) {
        Self::pair_with(Options::default())
    }

    pub fn pair_with(options: Options) -> (Self, Self) {
        let ends = (Self::with(options), Self::with(options));
        ends.0.connect(ends.1.number());
        ends.1.connect(ends.0.number());
        ends
    }

    pub fn number(&self) -> u32 {
        // SAFETY: the queue pair exists.
        unsafe { (*self.qp).qp_num }
    }

    pub fn state(&self) -> c_int {
        self.query().0.qp_state
    }

    pub fn key(&self) -> u32 {
        // SAFETY: the region exists.
        unsafe { (*self.mr).lkey }
    }

    pub fn modify(&self, attr: QpAttr, mask: c_int) -> c_int {
        let mut attr = attr;
        call!(ibv_modify_qp: fn(*mut Qp, *mut QpAttr, c_int) -> c_int; self.qp, &raw mut attr, mask)
    }

    pub fn query(&self) -> (QpAttr, QpInitAttr) {
        let mut attr = QpAttr::default();
        // SAFETY: numbers and pointers, which the call fills in.
        let mut init: QpInitAttr = unsafe { std::mem::zeroed() };
        let answer = call!(ibv_query_qp: fn(*mut Qp, *mut QpAttr, c_int, *mut QpInitAttr) -> c_int;
            self.qp, &raw mut attr, !0, &raw mut init);
        assert_eq!(answer, 0);
        (attr, init)
    }

    pub fn to_state(&self, qp_state: c_int) -> c_int {
        self.modify(QpAttr { qp_state, ..QpAttr::default() }, mask::STATE)
    }

    pub fn to_init(&self) -> c_int {
        self.to_init_with(ALL)
    }

    pub fn to_init_with(&self, access: u32) -> c_int {
        let attr = QpAttr { qp_state: state::INIT, port_num: 1, qp_access_flags: access as c_int, ..QpAttr::default() };
        self.modify(attr, mask::STATE | mask::PKEY_INDEX | mask::PORT | mask::ACCESS_FLAGS)
    }

    pub fn to_rtr(&self, dest_qp_num: u32) -> c_int {
        let ah_attr = AhAttr { dlid: 7, port_num: 1, ..AhAttr::default() };
        let attr = QpAttr {
            qp_state: state::RTR,
            path_mtu: 5,
            dest_qp_num,
            ah_attr,
            max_dest_rd_atomic: 1,
            min_rnr_timer: 12,
            ..QpAttr::default()
        };
        let common = mask::STATE | mask::AV | mask::PATH_MTU | mask::DEST_QPN | mask::RQ_PSN;
        self.modify(attr, common | mask::MAX_DEST_RD_ATOMIC | mask::MIN_RNR_TIMER)
    }

    pub fn to_rts(&self, rnr_retry: u8) -> c_int {
        let attr = QpAttr {
            qp_state: state::RTS,
            timeout: 14,
            retry_cnt: 7,
            rnr_retry,
            max_rd_atomic: 1,
            ..QpAttr::default()
        };
        let reliable = mask::TIMEOUT | mask::RETRY_CNT | mask::RNR_RETRY | mask::MAX_QP_RD_ATOMIC;
        self.modify(attr, mask::STATE | mask::SQ_PSN | reliable)
    }

    pub fn connect(&self, peer: u32) {
        assert_eq!((self.to_init(), self.to_rtr(peer), self.to_rts(7)), (0, 0, 0));
    }

    pub fn piece(&self, at: usize, len: usize) -> Sge {
        Sge { addr: self.memory as u64 + at as u64, length: len as u32, lkey: self.key() }
    }

    /// A request with one piece of this end's memory, for a place in the peer's.
    pub fn request(&self, opcode: c_int, at: usize, len: usize, remote: (u64, u32)) -> Work {
        Work { opcode, pieces: vec![self.piece(at, len)], remote, ..Work::default() }
    }

    pub fn remote(&self, at: usize) -> (u64, u32) {
        (self.memory as u64 + at as u64, self.key())
    }

    pub fn post(&self, work: &Work) -> c_int {
        let mut pieces = work.pieces.clone();
        let is_atomic = work.opcode >= COMPARE_SWAP;
        let mut wr = SendWr {
            wr_id: work.id,
            next: null_mut(),
            sg_list: pieces.as_mut_ptr(),
            num_sge: pieces.len() as c_int,
            opcode: work.opcode,
            send_flags: work.flags,
            imm_data: work.imm,
            remote_addr: work.remote.0,
            rkey_or_compare_add: if is_atomic { work.compare_add } else { work.remote.1.into() },
            swap: work.swap,
            atomic_rkey: work.remote.1,
        };
        let mut bad = null_mut();
        // SAFETY: the function of the context, as the header's inline function calls it.
        unsafe {
            let function: unsafe extern "C" fn(*mut Qp, *mut SendWr, *mut *mut SendWr) -> c_int =
                std::mem::transmute((*self.context).post_send);
            let answer = function(self.qp, &raw mut wr, &raw mut bad);
            assert!(answer == 0 || std::ptr::eq(bad, &raw const wr));
            answer
        }
    }

    pub fn receive(&self, wr_id: u64, pieces: &[Sge]) -> c_int {
        let mut pieces = pieces.to_vec();
        let (sg_list, num_sge) = (pieces.as_mut_ptr(), pieces.len() as c_int);
        let mut wr = RecvWr { wr_id, next: null_mut(), sg_list, num_sge };
        let mut bad = null_mut();
        // SAFETY: as in `post`.
        unsafe {
            let function: unsafe extern "C" fn(*mut Qp, *mut RecvWr, *mut *mut RecvWr) -> c_int =
                std::mem::transmute((*self.context).post_recv);
            function(self.qp, &raw mut wr, &raw mut bad)
        }
    }

    pub fn poll_now(&self, cq: *mut Cq) -> Option<Wc> {
        let mut wc = Wc::default();
        // SAFETY: as in `post`.
        let count = unsafe {
            let function: unsafe extern "C" fn(*mut Cq, c_int, *mut Wc) -> c_int =
                std::mem::transmute((*self.context).poll_cq);
            function(cq, 1, &raw mut wc)
        };
        assert!(count >= 0);
        (count == 1).then_some(wc)
    }

    pub fn wait(&self, cq: *mut Cq) -> Wc {
        let start = Instant::now();
        loop {
            if let Some(wc) = self.poll_now(cq) {
                return wc;
            }
            assert!(start.elapsed() < PATIENCE, "no completion");
            std::thread::sleep(Duration::from_micros(20));
        }
    }

    pub fn sent(&self) -> Wc {
        self.wait(self.send_cq)
    }

    pub fn received(&self) -> Wc {
        self.wait(self.recv_cq)
    }

    /// Nothing completes for a while.
    pub fn assert_quiet(&self) {
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!((self.poll_now(self.send_cq), self.poll_now(self.recv_cq)), (None, None));
    }

    pub fn event(&self) -> AsyncEvent {
        let mut event = AsyncEvent { element: 0, event_type: -1 };
        let answer =
            call!(ibv_get_async_event: fn(*mut Context, *mut AsyncEvent) -> c_int; self.context, &raw mut event);
        assert_eq!(answer, 0);
        event
    }

    /// True if an event can be fetched.
    pub fn has_event(&self) -> bool {
        // SAFETY: the context exists.
        let mut wanted = libc::pollfd { fd: unsafe { (*self.context).async_fd }, events: libc::POLLIN, revents: 0 };
        // SAFETY: one element of this frame.
        unsafe { libc::poll(&raw mut wanted, 1, 0) == 1 }
    }

    pub fn set(&self, at: usize, bytes: &[u8]) {
        assert!(at + bytes.len() <= self.len);
        // SAFETY: within the memory.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.memory.add(at), bytes.len()) };
    }

    pub fn bytes(&self, at: usize, len: usize) -> Vec<u8> {
        assert!(at + len <= self.len);
        // SAFETY: within the memory.
        unsafe { std::slice::from_raw_parts(self.memory.add(at), len) }.to_vec()
    }
}

impl Drop for End {
    fn drop(&mut self) {
        assert_eq!(call!(ibv_destroy_qp: fn(*mut Qp) -> c_int; self.qp), 0);
        for cq in [self.send_cq, self.recv_cq] {
            assert_eq!(call!(ibv_destroy_cq: fn(*mut Cq) -> c_int; cq), 0);
        }
        assert_eq!(call!(ibv_dereg_mr: fn(*mut Mr) -> c_int; self.mr), 0);
        assert_eq!(call!(ibv_dealloc_pd: fn(*mut Pd) -> c_int; self.pd), 0);
        assert_eq!(call!(ibv_destroy_comp_channel: fn(*mut CompChannel) -> c_int; self.channel), 0);
        assert_eq!(call!(ibv_close_device: fn(*mut Context) -> c_int; self.context), 0);
        // SAFETY: nothing uses it any more.
        unsafe { libc::munmap(self.memory.cast(), self.len) };
    }
}

#[derive(Clone, Debug)]
pub struct Work {
    pub id: u64,
    pub opcode: c_int,
    pub flags: c_int,
    pub pieces: Vec<Sge>,
    pub remote: (u64, u32),
    pub imm: u32,
    pub compare_add: u64,
    pub swap: u64,
}

impl Default for Work {
    fn default() -> Self {
        let (pieces, remote) = (Vec::new(), (0, 0));
        Self { id: 1, opcode: WRITE, flags: SIGNALED, pieces, remote, imm: 0, compare_add: 0, swap: 0 }
    }
}
