//! Queue pairs: their two queues, and the states in which they work.

mod times;
mod responder;
mod transmit;
mod requester;
pub mod attributes;
pub mod post;
pub mod network;

use crate::completion::{Queue, vendor_code};
use crate::device::Context;
use crate::fabric::link::Link;
use crate::fabric::{self, frame};
use crate::faults::Strike;
use crate::layout::{self, QpAttr, QpCap, Sge, Wc, completed, state, status};
use crate::lock::lock;
use crate::region::Pd;
use crate::shared::Shared;
use crate::table::Table;
use libc::c_int;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Instant;

pub struct QueuePair {
    pub shared: Shared<layout::Qp>,
    pub number: u32,
    pub context: Arc<Context>,
    pub pd: Arc<Pd>,
    pub send_queue: Arc<Queue>,
    pub receive_queue: Arc<Queue>,
    /// RC, not UC.
    pub is_reliable: bool,
    pub signals_all: bool,
    pub cap: QpCap,
    /// The caller's own pointer.
    pub user_context: usize,
    /// Held while a request is carried out at its target, so that after a reset nothing of an earlier life is still at work.
    pub inner: Mutex<Inner>,
}

/// What changes in a queue pair.
pub struct Inner {
    pub attr: QpAttr,
    pub ece: layout::Ece,
    pub state: c_int,
    /// How many times it was reset.
    pub life: u32,
    /// When this life began; what was sent earlier is for an earlier one.
    pub since: u64,
    pub sending: Sending,
    pub receiving: Receiving,
}

#[derive(Default)]
pub struct Sending {
    /// Requests that are not completed, the oldest first.
    pub requests: VecDeque<Request>,
    /// How many of them have been sent.
    pub sent: usize,
    /// The number of the last one.
    pub last: u64,
    /// Set while nobody answers; the timer that ends the wait belongs to this number.
    pub trouble: Option<u64>,
    /// A timer will send what waits.
    pub has_timer: bool,
    /// Completions that a fault delays.
    pub held: Option<Vec<Wc>>,
    /// A write whose data a fault sends behind the next message.
    pub overtaken: Option<(frame::Header, Vec<u8>)>,
}

#[derive(Default)]
pub struct Receiving {
    pub posted: VecDeque<Receive>,
    /// How many requests of the peer are done in this life.
    pub done: u64,
    /// The requester that was refused, with the connection that it waits at.
    pub waiter: Option<(Arc<Link>, frame::Header)>,
}

/// A work request of the send queue.
pub struct Request {
    pub wr_id: u64,
    pub number: u64,
    pub kind: frame::Kind,
    pub is_signaled: bool,
    pub is_solicited: bool,
    pub gather: Vec<Sge>,
    /// Copied when it was posted.
    pub inline: Option<Vec<u8>>,
    pub len: u32,
    pub imm: u32,
    pub remote: u64,
    pub rkey: u32,
    pub compare_add: u64,
    pub swap: u64,
    /// It fails here, with this status, once those in front of it are done.
    pub failure: Option<c_int>,
    pub strike: Option<Strike>,
    pub not_before: Option<Instant>,
}

/// A work request of the receive queue.
pub struct Receive {
    pub wr_id: u64,
    pub scatter: Vec<Sge>,
}

/// By the address that the caller knows, and by the number that the network knows.
pub static BY_ADDRESS: Table<QueuePair> = Table::new();
pub static BY_NUMBER: Table<QueuePair> = Table::new();

pub fn find(pair: *const layout::Qp) -> Option<Arc<QueuePair>> {
    BY_ADDRESS.find(pair as usize)
}

pub fn numbered(number: u32) -> Option<Arc<QueuePair>> {
    BY_NUMBER.find(number as usize)
}

/// A number that no queue pair of this process has. They rotate, and begin anywhere, so that late messages for one that is gone, perhaps in
/// an earlier process of the same number, find none.
pub fn give_number(process: u32, make: impl Fn(u32) -> QueuePair) -> Option<Arc<QueuePair>> {
    /// Smaller ones are special in InfiniBand.
    const FIRST: u32 = 16;
    const END: u32 = 1 << fabric::PAIR_BITS;
    static NEXT: Mutex<Option<u32>> = Mutex::new(None);
    let mut next = lock(&NEXT);
    let mut low = next.unwrap_or_else(|| FIRST + (fabric::clock() >> 10) as u32 % (END - FIRST));
    for _ in FIRST..END {
        let number = process << fabric::PAIR_BITS | low;
        low = if low + 1 == END { FIRST } else { low + 1 };
        *next = Some(low);
        if !BY_NUMBER.has(number as usize) {
            let pair = Arc::new(make(number));
            BY_NUMBER.insert(number as usize, Arc::clone(&pair));
            BY_ADDRESS.insert(pair.shared.address(), Arc::clone(&pair));
            return Some(pair);
        }
    }
    None
}

impl QueuePair {
    /// Sets the state, also where the caller reads it.
    pub fn set_state(&self, inner: &mut Inner, state: c_int) {
        inner.state = state;
        self.publish(state);
    }

    #[allow(unsafe_code)]
    fn publish(&self, state: c_int) {
        // SAFETY: the structure lives as long as the queue pair; callers only read the field.
        unsafe { (&raw mut (*self.shared.pointer()).state).write_volatile(state) };
    }

    pub fn completion(&self, wr_id: u64, status: c_int, opcode: c_int, byte_len: u32) -> Wc {
        let vendor_err = vendor_code(status);
        Wc { wr_id, status, opcode, vendor_err, byte_len, qp_num: self.number, ..Wc::default() }
    }

    /// Gives the completion of a request to the caller, behind those that a fault delays.
    pub fn complete_send(&self, sending: &mut Sending, completion: Wc) {
        match &mut sending.held {
            Some(held) => held.push(completion),
            None => self.send_queue.push(completion, false),
        }
    }

    /// The queue pair goes into the error state: the oldest request completes with `status`, all others and the posted receives are flushed.
    pub fn fail(&self, inner: &mut Inner, status: c_int) {
        if inner.state == state::RESET {
            return;
        }
        self.set_state(inner, state::ERR);
        let sending = &mut inner.sending;
        let mut status = status;
        for request in std::mem::take(&mut sending.requests) {
            let opcode = opcode_of(request.kind);
            let completion = self.completion(request.wr_id, status, opcode, 0);
            self.complete_send(sending, completion);
            status = status::WR_FLUSH_ERR;
        }
        (sending.sent, sending.trouble, sending.overtaken) = (0, None, None);
        self.flush_receives(inner);
    }

    fn flush_receives(&self, inner: &mut Inner) {
        for receive in std::mem::take(&mut inner.receiving.posted) {
            let flushed = self.completion(receive.wr_id, status::WR_FLUSH_ERR, completed::RECV, 0);
            self.receive_queue.push(flushed, false);
        }
    }

    /// Forgets everything that was posted, sent and received.
    pub fn reset(&self, inner: &mut Inner) {
        self.set_state(inner, state::RESET);
        inner.life = inner.life.wrapping_add(1);
        inner.sending = Sending::default();
        // A requester that was refused in an earlier life is told when there is a next one.
        let waiter = inner.receiving.waiter.take();
        inner.receiving = Receiving { waiter, ..Receiving::default() };
        self.send_queue.forget(self.number);
        self.receive_queue.forget(self.number);
    }

    /// Ends the queue pair: its numbers name nothing any more.
    pub fn remove(&self) {
        BY_ADDRESS.remove(self.shared.address());
        BY_NUMBER.remove(self.number as usize);
        self.reset(&mut lock(&self.inner));
        self.context.forget(self.shared.address());
    }
}

/// `enum ibv_wc_opcode` of a request's completion.
pub fn opcode_of(kind: frame::Kind) -> c_int {
    match kind {
        frame::Kind::Read => completed::READ,
        frame::Kind::CompareSwap => completed::COMPARE_SWAP,
        frame::Kind::FetchAdd => completed::FETCH_ADD,
        kind if kind.is_send() => completed::SEND,
        _ => completed::WRITE,
    }
}
