//! The side of a queue pair that sends requests and completes them when they are answered.
//!
//! Requests stay in the queue until they are answered, and their data in the caller's memory. So whatever was refused, or was lost with a
//! port, is sent again from the oldest on, as a card does.

use crate::device::Device;
use crate::fabric;
use crate::fabric::frame::{Header, Kind};
use crate::faults::{self, Strike};
use crate::layout::{event, state, status};
use crate::lock::lock;
use crate::qp::responder::welcome;
use crate::qp::times::{receive_time, retry_time};
use crate::qp::transmit::{Hindrance, hindrance, process_of, transmit};
use crate::qp::{BY_ADDRESS, Inner, QueuePair, Request, numbered, opcode_of};
use crate::region;
use libc::c_int;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Sends what waits in the queue, as far as nothing hinders it.
pub fn send(pair: &Arc<QueuePair>, inner: &mut Inner) {
    while inner.state == state::RTS {
        let sent = inner.sending.sent;
        let Some(request) = inner.sending.requests.get(sent) else { return };
        let hindrance = match request.failure {
            Some(status) => Some(Hindrance::Local(status)),
            None => hindrance(pair, inner, request).err().or_else(|| transmit(pair, inner, sent).err()),
        };
        match hindrance {
            None => {}
            // A message of an unreliable queue pair is lost, and nobody is told.
            Some(Hindrance::Silence) if !pair.is_reliable => {}
            Some(Hindrance::Silence) => {
                return wait_for_answer(pair, inner, retry_time(&inner.attr), status::RETRY_EXC_ERR);
            }
            Some(Hindrance::Until(time)) => return send_at(pair, inner, time),
            Some(Hindrance::Crowd) => return,
            Some(Hindrance::Local(status)) => {
                // Those in front of it are completed first; the last of them comes back here.
                if sent == 0 {
                    pair.fail(inner, status);
                } else if let Some(request) = inner.sending.requests.get_mut(sent) {
                    request.failure = Some(status);
                }
                return;
            }
        }
        inner.sending.sent += 1;
        if !pair.is_reliable {
            complete_oldest(pair, inner);
        }
    }
}

/// Queue pairs go on whose connection had enough to do.
pub fn go_on(numbers: &[u32]) {
    for pair in numbers.iter().filter_map(|number| numbered(*number)) {
        send(&pair, &mut lock(&pair.inner));
    }
}

/// Sends again at a time.
fn send_at(pair: &Arc<QueuePair>, inner: &mut Inner, time: Instant) {
    if std::mem::replace(&mut inner.sending.has_timer, true) {
        return;
    }
    let (pair, life) = (Arc::clone(pair), inner.life);
    fabric::later(time, move || {
        let mut inner = lock(&pair.inner);
        if inner.life == life {
            inner.sending.has_timer = false;
            send(&pair, &mut inner);
        }
    });
}

/// The oldest request fails with `status` after a time, unless something is answered before.
fn wait_for_answer(pair: &Arc<QueuePair>, inner: &mut Inner, time: Option<Duration>, status: c_int) {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let Some(time) = time else { return };
    if inner.sending.trouble.is_some() {
        return;
    }
    let (pair, life, number) = (Arc::clone(pair), inner.life, NEXT.fetch_add(1, Ordering::Relaxed));
    inner.sending.trouble = Some(number);
    fabric::after(time, move || {
        let mut inner = lock(&pair.inner);
        if inner.life == life && inner.sending.trouble == Some(number) {
            pair.fail(&mut inner, status);
        }
    });
}

fn complete_oldest(pair: &Arc<QueuePair>, inner: &mut Inner) {
    let sending = &mut inner.sending;
    let Some(request) = sending.requests.pop_front() else { return };
    sending.sent = sending.sent.saturating_sub(1);
    if let Some(Strike { kind: faults::Kind::LateCompletion { time }, .. }) = request.strike {
        sending.held.get_or_insert_default();
        let (pair, life) = (Arc::clone(pair), inner.life);
        fabric::after(time, move || {
            let mut inner = lock(&pair.inner);
            let held = if inner.life == life { inner.sending.held.take() } else { None };
            held.into_iter().flatten().for_each(|completion| pair.send_queue.push(completion, false));
        });
    }
    if request.is_signaled {
        let completion = pair.completion(request.wr_id, status::SUCCESS, opcode_of(request.kind), request.len);
        pair.complete_send(&mut inner.sending, completion);
    }
}

/// The queue pair that an answer is for, if the answer is to its oldest request.
fn is_to_oldest(inner: &Inner, header: &Header) -> bool {
    let oldest = inner.sending.requests.front().filter(|_| inner.sending.sent > 0);
    inner.state != state::ERR
        && inner.life == header.life
        && oldest.is_some_and(|oldest| oldest.number == header.number)
}

/// Whether an answer's data has a place.
pub fn wants(header: &Header) -> bool {
    let Some(pair) = numbered(header.to) else { return false };
    let inner = lock(&pair.inner);
    let fits = |oldest: &Request| oldest.kind.fetches() && oldest.len == header.len;
    is_to_oldest(&inner, header) && inner.sending.requests.front().is_some_and(fits)
}

/// An answer has arrived.
pub fn answer(header: &Header, body: Option<&[u8]>) {
    let Some(pair) = numbered(header.to) else { return };
    let mut inner = lock(&pair.inner);
    let inner = &mut *inner;
    if !pair.is_reliable || inner.attr.dest_qp_num != header.from {
        return;
    }
    if header.kind == Kind::GoOn {
        if inner.life == header.life && inner.state == state::RTS {
            (inner.sending.trouble, inner.sending.sent) = (None, 0);
            send(&pair, inner);
        }
        return;
    }
    if !is_to_oldest(inner, header) {
        return;
    }
    match header.kind {
        Kind::Done => {
            inner.sending.trouble = None;
            if !store_fetched(&pair, inner, body) {
                return pair.fail(inner, status::LOC_PROT_ERR);
            }
            complete_oldest(&pair, inner);
            send(&pair, inner);
        }
        Kind::Failed => {
            let known = [status::REM_INV_REQ_ERR, status::REM_ACCESS_ERR, status::REM_OP_ERR];
            let status = known.into_iter().find(|known| *known == c_int::from(header.status));
            pair.fail(inner, status.unwrap_or(status::REM_OP_ERR));
        }
        Kind::Refused => wait_for_answer(&pair, inner, retry_time(&inner.attr), status::RETRY_EXC_ERR),
        Kind::NoReceive => {
            inner.sending.trouble = None;
            let time = receive_time(&inner.attr, header.status);
            wait_for_answer(&pair, inner, time, status::RNR_RETRY_EXC_ERR);
        }
        Kind::Again => {
            inner.sending.sent = 0;
            send(&pair, inner);
        }
        _ => {}
    }
}

/// Stores what the oldest request has fetched. False: its memory is no longer registered for that.
fn store_fetched(pair: &QueuePair, inner: &Inner, body: Option<&[u8]>) -> bool {
    let Some(oldest) = inner.sending.requests.front().filter(|oldest| oldest.kind.fetches()) else { return true };
    region::scatter(&oldest.gather, &pair.pd, body.unwrap_or_default()).is_ok()
}

/// The connection to a process has ended: nobody answers what waits.
pub fn lost(process: u32) {
    for pair in BY_ADDRESS.all(|pair| pair.is_reliable) {
        let mut inner = lock(&pair.inner);
        let waits = inner.state == state::RTS && inner.sending.sent > 0;
        if waits && process_of(inner.attr.dest_qp_num) == process {
            let time = retry_time(&inner.attr);
            wait_for_answer(&pair, &mut inner, time, status::RETRY_EXC_ERR);
        }
    }
}

/// A port is up again: what waited for it goes on, on both sides.
pub fn port_is_up(device: &Device) {
    for pair in BY_ADDRESS.all(|pair| pair.context.device.index == device.index) {
        let mut inner = lock(&pair.inner);
        send(&pair, &mut inner);
        welcome(&mut inner);
    }
}

/// A card fails: all that was opened on it is told, and its queue pairs are in error.
pub fn device_fails(device: &Device) {
    device.dead.store(true, Ordering::SeqCst);
    device.tell(event::DEVICE_FATAL, 0);
    for pair in BY_ADDRESS.all(|pair| pair.context.device.index == device.index) {
        pair.fail(&mut lock(&pair.inner), status::WR_FLUSH_ERR);
    }
}
