//! Completion queues, and the channels that wake threads when something is in them.

use crate::descriptor::Counter;
use crate::device::Context;
use crate::layout::{self, Wc, event, status};
use crate::lock::lock;
use crate::shared::Shared;
use crate::table::Table;
use libc::c_int;
use std::collections::VecDeque;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex};

/// Tells a program, through a descriptor, which of several queues got a completion.
#[derive(Debug)]
pub struct Channel {
    pub shared: Shared<layout::CompChannel>,
    events: Mutex<VecDeque<Arc<Queue>>>,
    ready: Counter,
}

pub static CHANNELS: Table<Channel> = Table::new();

impl Channel {
    /// # Errors
    ///
    /// The process has no free file descriptor left.
    pub fn create(context: &Context) -> io::Result<Arc<Self>> {
        let ready = Counter::new(libc::EFD_SEMAPHORE)?;
        let shared = layout::CompChannel { context: context.shared.pointer(), fd: ready.as_raw_fd(), refcnt: 0 };
        let channel = Arc::new(Self { shared: Shared::new(shared), events: Mutex::default(), ready });
        CHANNELS.insert(channel.shared.address(), Arc::clone(&channel));
        Ok(channel)
    }

    fn tell(&self, queue: &Arc<Queue>) {
        lock(&self.events).push_back(Arc::clone(queue));
        self.ready.add();
    }

    /// Waits for the next queue that got a completion after it was asked to say so.
    ///
    /// # Errors
    ///
    /// There is none and the caller has set the descriptor not to block, or a signal came.
    pub fn next_event(&self) -> io::Result<Arc<Queue>> {
        loop {
            self.ready.take()?;
            // An event of a queue that was destroyed meanwhile is counted and gone.
            if let Some(queue) = lock(&self.events).pop_front() {
                return Ok(queue);
            }
        }
    }

    fn forget(&self, queue: &Queue) {
        lock(&self.events).retain(|told| told.shared.address() != queue.shared.address());
    }
}

/// When a queue tells its channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Notify {
    No,
    Solicited,
    Next,
}

#[derive(Debug)]
struct Contents {
    completions: VecDeque<Wc>,
    notify: Notify,
    /// After more completions than it holds, or a fault, a queue takes no more.
    failed: bool,
}

/// A completion queue.
#[derive(Debug)]
pub struct Queue {
    pub shared: Shared<layout::Cq>,
    pub context: Arc<Context>,
    pub channel: Option<Arc<Channel>>,
    pub capacity: usize,
    contents: Mutex<Contents>,
}

pub static QUEUES: Table<Queue> = Table::new();

impl Queue {
    /// The queue holds at least `wanted` completions: as many as fit with one to spare into a power of two, as on a ConnectX.
    pub fn create(
        context: &Arc<Context>,
        wanted: u32,
        channel: Option<Arc<Channel>>,
        fill: impl FnOnce(&mut layout::Cq),
    ) -> Arc<Self> {
        let capacity = wanted.saturating_add(1).next_power_of_two() - 1;
        let mut shared = layout::Cq {
            context: context.shared.pointer(),
            channel: channel.as_ref().map_or(std::ptr::null_mut(), |channel| channel.shared.pointer()),
            cq_context: std::ptr::null_mut(),
            handle: crate::region::next_handle(),
            cqe: capacity.cast_signed(),
            _mutex: [0; 5],
            _cond: [0; 6],
            comp_events_completed: 0,
            async_events_completed: 0,
        };
        fill(&mut shared);
        let contents = Contents { completions: VecDeque::new(), notify: Notify::No, failed: false };
        let queue = Arc::new(Self {
            shared: Shared::new(shared),
            context: Arc::clone(context),
            channel,
            capacity: capacity as usize,
            contents: Mutex::new(contents),
        });
        QUEUES.insert(queue.shared.address(), Arc::clone(&queue));
        queue
    }

    pub fn push(self: &Arc<Self>, completion: Wc, solicited: bool) {
        let mut contents = lock(&self.contents);
        if contents.failed {
            return;
        }
        if contents.completions.len() >= self.capacity {
            contents.failed = true;
            drop(contents);
            return self.context.tell(event::CQ_ERR, self.shared.address() as u64);
        }
        contents.completions.push_back(completion);
        let tells = match contents.notify {
            Notify::No => false,
            Notify::Solicited => solicited || completion.status != status::SUCCESS,
            Notify::Next => true,
        };
        if tells {
            contents.notify = Notify::No;
            if let Some(channel) = &self.channel {
                channel.tell(self);
            }
        }
    }

    pub fn poll(&self, most: usize, mut take: impl FnMut(usize, Wc)) -> usize {
        let mut contents = lock(&self.contents);
        let count = most.min(contents.completions.len());
        for (index, completion) in contents.completions.drain(..count).enumerate() {
            take(index, completion);
        }
        count
    }

    pub fn notify_next(&self, solicited_only: bool) {
        lock(&self.contents).notify = if solicited_only { Notify::Solicited } else { Notify::Next };
    }

    /// The queue's error, after which it takes no completions.
    pub fn fail(&self) {
        lock(&self.contents).failed = true;
        self.context.tell(event::CQ_ERR, self.shared.address() as u64);
    }

    /// Removes the completions of a queue pair that was reset or destroyed, as a driver does.
    pub fn forget(&self, qp_num: u32) {
        lock(&self.contents).completions.retain(|completion| completion.qp_num != qp_num);
    }

    pub fn remove(&self) {
        QUEUES.remove(self.shared.address());
        self.context.forget(self.shared.address());
        if let Some(channel) = &self.channel {
            channel.forget(self);
        }
    }
}

/// The driver's own code of an error, as a ConnectX gives it.
pub fn vendor_code(status: c_int) -> u32 {
    match status {
        status::SUCCESS => 0,
        status::WR_FLUSH_ERR => 0xf5,
        status::RETRY_EXC_ERR => 0x81,
        status::RNR_RETRY_EXC_ERR => 0x87,
        status::REM_ACCESS_ERR => 0x88,
        status::REM_INV_REQ_ERR => 0x8a,
        status::REM_OP_ERR => 0x89,
        _ => 0x51,
    }
}
