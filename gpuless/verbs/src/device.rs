//! Network cards: what identifies each, the state of its port, and the contexts that were opened on it.

use crate::descriptor::Counter;
use crate::layout::{self, Gid, event};
use crate::lock::lock;
use crate::settings::{LinkLayer, Nic, hash, settings};
use crate::shared::Shared;
use crate::table::Table;
use libc::{c_char, c_int};
use std::collections::VecDeque;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

/// Each node has its own range of this many LIDs, one for each card that it can have.
const LIDS_PER_NODE: u64 = 64;
/// LIDs from 0xc000 on are for multicast.
const LID_RANGES: u64 = 700;

/// The longest message, as on a ConnectX.
pub const MAX_MESSAGE: u32 = 1 << 30;

#[derive(Debug)]
pub struct Device {
    pub shared: Shared<layout::Device>,
    pub index: usize,
    pub nic: &'static Nic,
    pub guid: u64,
    port_up: AtomicBool,
    /// After a fatal error a card answers nothing any more.
    pub dead: AtomicBool,
}

/// The cards, which exist for as long as the process: a list of devices may be freed while they are in use.
pub fn devices() -> &'static [Device] {
    static DEVICES: OnceLock<Vec<Device>> = OnceLock::new();
    DEVICES.get_or_init(|| settings().nics.iter().enumerate().map(|(index, nic)| Device::new(index, nic)).collect())
}

/// The card that a pointer names.
pub fn at(device: *const layout::Device) -> Option<&'static Device> {
    devices().iter().find(|known| known.shared.address() == device as usize)
}

fn copy_text<const N: usize>(text: &str) -> [c_char; N] {
    let mut room = [0; N];
    for (to, from) in room.iter_mut().zip(text.bytes().take(N - 1)) {
        *to = from.cast_signed();
    }
    room
}

impl Device {
    fn new(index: usize, nic: &'static Nic) -> Self {
        let shared = layout::Device {
            _ops: [0; 2],
            node_type: 1,      // IBV_NODE_CA
            transport_type: 0, // IBV_TRANSPORT_IB
            name: copy_text(&nic.name),
            dev_name: copy_text(&format!("uverbs{index}")),
            dev_path: copy_text(&format!("/sys/class/infiniband_verbs/uverbs{index}")),
            ibdev_path: copy_text(&format!("/sys/class/infiniband/{}", nic.name)),
        };
        // The card's number in the last bytes keeps GUIDs of one node apart, which a hash would not promise.
        let guid = hash(&settings().node) & !0xffff | (index as u64 + 1) & 0xffff;
        let (port_up, dead) = (AtomicBool::new(true), AtomicBool::new(false));
        Self { shared: Shared::new(shared), index, nic, guid, port_up, dead }
    }

    pub fn is_up(&self) -> bool {
        self.port_up.load(Ordering::SeqCst) && !self.is_dead()
    }

    pub fn is_dead(&self) -> bool {
        self.dead.load(Ordering::SeqCst)
    }

    /// Changes the port's state, and tells every context of it.
    pub fn set_port(&self, up: bool) {
        self.port_up.store(up, Ordering::SeqCst);
        self.tell(if up { event::PORT_ACTIVE } else { event::PORT_ERR }, 1);
    }

    /// An event of the whole card goes to all its contexts.
    pub fn tell(&self, event_type: c_int, element: u64) {
        for context in CONTEXTS.all(|context| context.device.index == self.index) {
            context.tell(event_type, element);
        }
    }

    pub fn lid(&self) -> u16 {
        let range = hash(&settings().node) % LID_RANGES;
        let lid = 1 + range * LIDS_PER_NODE + self.index as u64 % LIDS_PER_NODE;
        if self.nic.link == LinkLayer::Ethernet { 0 } else { u16::try_from(lid).unwrap_or(1) }
    }

    /// The number of entries in the port's table of GIDs.
    pub fn gids(&self) -> usize {
        if self.nic.link == LinkLayer::Ethernet { 4 } else { 1 }
    }

    /// An entry of it: with RoCE the link-local address and an IPv4 address, each once for version 1 and once for version 2.
    pub fn gid(&self, index: usize) -> Option<Gid> {
        if index >= self.gids() {
            return None;
        }
        let mut gid = [0; 16];
        if index < 2 {
            gid[..2].copy_from_slice(&[0xfe, 0x80]);
            gid[8..].copy_from_slice(&self.guid.to_be_bytes());
        } else {
            let [.., high, low] = (hash(&settings().node) >> 16).to_be_bytes();
            let host = u8::try_from(self.index % 256).unwrap_or(0);
            gid[10..].copy_from_slice(&[0xff, 0xff, 10, host, high, low]);
        }
        Some(gid)
    }

    /// `enum ibv_gid_type` of an entry.
    pub fn gid_type(&self, index: usize) -> u32 {
        if self.nic.link == LinkLayer::InfiniBand { 0 } else { 1 + index as u32 % 2 }
    }

    /// Width and speed of a lane as the bits of `struct ibv_port_attr`, for the fastest link that is not faster than the port. A lane's
    /// field has eight bits, so what an 800 Gb/s port has in four lanes of XDR is said with eight of NDR.
    pub fn width_and_speed(&self) -> (u8, u8) {
        const WIDTHS: [(u8, u32); 3] = [(1, 1), (2, 4), (4, 8)];
        const LANES: [(u8, u32); 7] = [(1, 25), (2, 50), (4, 100), (16, 140), (32, 250), (64, 500), (128, 1000)];
        let links = WIDTHS.iter().flat_map(|(width, lanes)| LANES.map(|(speed, rate)| (lanes * rate, *width, speed)));
        let fitting = links.filter(|(rate, ..)| *rate <= self.nic.speed.saturating_mul(10));
        fitting.max_by_key(|(rate, width, _)| (*rate, *width == 2)).map_or((1, 1), |(_, width, speed)| (width, speed))
    }
}

/// An opened card.
#[derive(Debug)]
pub struct Context {
    pub shared: Shared<layout::Context>,
    pub device: &'static Device,
    events: Mutex<VecDeque<layout::AsyncEvent>>,
    /// Counts the events, and is what a caller's thread waits on.
    ready: Counter,
}

pub static CONTEXTS: Table<Context> = Table::new();

impl Context {
    /// # Errors
    ///
    /// The process has no free file descriptor left.
    pub fn open(device: &'static Device, fill: impl FnOnce(&mut layout::Context)) -> std::io::Result<Arc<Self>> {
        let ready = Counter::new(libc::EFD_SEMAPHORE)?;
        let mut shared = layout::Context {
            device: device.shared.pointer(),
            _before_poll_cq: [0; 11],
            poll_cq: 0,
            req_notify_cq: 0,
            _before_post_send: [0; 12],
            post_send: 0,
            post_recv: 0,
            _after_post_recv: [0; 5],
            cmd_fd: -1,
            async_fd: ready.as_raw_fd(),
            num_comp_vectors: 1,
            _mutex: [0; 5],
            abi_compat: std::ptr::null_mut(),
        };
        fill(&mut shared);
        let context = Arc::new(Self { shared: Shared::new(shared), device, events: Mutex::default(), ready });
        CONTEXTS.insert(context.shared.address(), Arc::clone(&context));
        Ok(context)
    }

    pub fn find(context: *const layout::Context) -> Option<Arc<Self>> {
        CONTEXTS.find(context as usize)
    }

    pub fn tell(&self, event_type: c_int, element: u64) {
        lock(&self.events).push_back(layout::AsyncEvent { element, event_type });
        self.ready.add();
    }

    /// Waits for the next event.
    ///
    /// # Errors
    ///
    /// There is none and the caller has set the descriptor not to block, or a signal came.
    pub fn next_event(&self) -> std::io::Result<layout::AsyncEvent> {
        loop {
            self.ready.take()?;
            if let Some(event) = lock(&self.events).pop_front() {
                return Ok(event);
            }
        }
    }

    /// What no longer exists must not be named by an event that is still to be fetched.
    pub fn forget(&self, element: usize) {
        lock(&self.events).retain(|event| event.element != element as u64);
    }
}
