//! The side of a queue pair that sends requests and completes them when they are answered.
//!
//! Requests stay in the queue until they are answered, and their data in the caller's memory. So whatever was refused, or was lost with a
//! port, is sent again from the oldest on, as a card does.

use crate::device::Device;
use crate::fabric::frame::{Header, Kind, flag};
use crate::fabric::{self, Unreached};
use crate::faults::{self, Strike};
use crate::layout::{access, event, state, status};
use crate::lock::lock;
use crate::memory;
use crate::qp::responder::welcome;
use crate::qp::times::{receive_time, retry_time};
use crate::qp::{BY_ADDRESS, Inner, QueuePair, Request, numbered, opcode_of};
use crate::region::{self, Range, Region};
use libc::c_int;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// After this time a process with too many waiting connections is tried again.
const BUSY: Duration = Duration::from_millis(10);
/// A write that should be overtaken arrives after this time if nothing overtakes it.
const OVERTAKEN: Duration = Duration::from_millis(50);

/// Why a request is not sent now.
enum Hindrance {
    Until(Instant),
    /// The connection has enough to do, and will call.
    Crowd,
    /// Nobody answers.
    Silence,
    /// It fails here.
    Local(c_int),
}

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

fn process_of(pair: u32) -> u32 {
    pair >> fabric::PAIR_BITS
}

fn hindrance(pair: &QueuePair, inner: &Inner, request: &Request) -> Result<(), Hindrance> {
    let device = pair.context.device;
    let is_abroad = process_of(inner.attr.dest_qp_num) != process_of(pair.number);
    if !device.is_up() || (is_abroad && faults::is_alone()) {
        return Err(Hindrance::Silence);
    }
    if matches!(request.strike, Some(Strike { kind: faults::Kind::RetryExceeded, .. })) {
        return Err(Hindrance::Silence);
    }
    match request.not_before.filter(|time| *time > Instant::now()) {
        Some(time) => Err(Hindrance::Until(time)),
        None => faults::take_time(device, request.len).map_err(Hindrance::Until),
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

/// The memory that a request's data is read from or, for what it fetches, written to.
fn local_ranges(pair: &QueuePair, request: &Request, uses: u32) -> Option<(Vec<Range>, Vec<Arc<Region>>)> {
    let mut found = (Vec::with_capacity(request.gather.len()), Vec::new());
    for piece in request.gather.iter().filter(|piece| piece.length > 0) {
        let region = Region::by_key(piece.lkey)?;
        found.0.push(region.range(&pair.pd, piece.addr, u64::from(piece.length), uses).ok()?);
        found.1.push(region);
    }
    Some(found)
}

fn transmit(pair: &Arc<QueuePair>, inner: &mut Inner, index: usize) -> Result<(), Hindrance> {
    let peer = inner.attr.dest_qp_num;
    let Some(request) = inner.sending.requests.get(index) else { return Ok(()) };
    let mut header = Header {
        kind: request.kind,
        flags: if pair.is_reliable { 0 } else { flag::UNRELIABLE },
        status: 0,
        to: peer,
        from: pair.number,
        life: inner.life,
        rkey: request.rkey,
        number: request.number,
        sent_at: fabric::clock(),
        address: request.remote,
        compare_add: request.compare_add,
        swap: request.swap,
        len: request.len,
        imm: request.imm,
    };
    if request.is_solicited {
        header.flags |= flag::SOLICITED;
    }
    // The regions stay until the kernel has taken the data.
    let uses = if request.kind.fetches() { access::LOCAL_WRITE } else { 0 };
    let (mut ranges, _regions) = match &request.inline {
        Some(bytes) => (vec![of(bytes)], Vec::new()),
        None => local_ranges(pair, request, uses).ok_or(Hindrance::Local(status::LOC_PROT_ERR))?,
    };
    if request.kind.fetches() {
        ranges.clear();
    }
    let link = match fabric::joined().ok_or(Unreached::Gone).and_then(|fabric| fabric.link(process_of(peer))) {
        Ok(link) => link,
        Err(Unreached::Busy) => return Err(Hindrance::Until(Instant::now() + BUSY)),
        Err(Unreached::Gone) => return Err(Hindrance::Silence),
    };
    if !link.takes_requests(pair.number) {
        return Err(Hindrance::Crowd);
    }
    // At once, on another connection: if the process is gone, there is none.
    let broken = || {
        if let Some(fabric) = fabric::joined() {
            fabric.forget(&link);
        }
        Hindrance::Until(Instant::now())
    };
    let changed = request.strike.map(|strike| (strike, collect(&ranges)));
    let mut again = None;
    match changed {
        Some((Strike { kind: faults::Kind::FlippedBit, seed }, mut bytes)) => {
            let bit = faults::flipped(seed, bytes.len());
            if let Some(byte) = bytes.get_mut(bit / 8) {
                *byte ^= 1 << (bit % 8);
            }
            let sent = link.send(&header, &[of(&bytes)]);
            return sent.map_err(|_| broken());
        }
        Some((Strike { kind: faults::Kind::LostWrite, .. }, _)) => {
            header.flags |= flag::HOLLOW;
            ranges.clear();
        }
        Some((Strike { kind: faults::Kind::RepeatedWrite { after }, .. }, bytes)) => again = Some((Some(after), bytes)),
        Some((Strike { kind: faults::Kind::ReorderedWrites, .. }, bytes)) => {
            again = Some((None, bytes));
            header.flags |= flag::HOLLOW;
            ranges.clear();
        }
        _ => {}
    }
    link.send(&header, &ranges).map_err(|_| broken())?;
    send_overtaken(inner);
    if let Some((after, bytes)) = again {
        let stray = Header { kind: Kind::Write, flags: flag::STRAY | flag::UNRELIABLE, ..header };
        match after {
            Some(after) => fabric::after(after, move || send_stray(&stray, &bytes)),
            None => {
                inner.sending.overtaken = Some((stray, bytes));
                let (pair, life) = (Arc::clone(pair), inner.life);
                fabric::after(OVERTAKEN, move || {
                    let mut inner = lock(&pair.inner);
                    if inner.life == life {
                        send_overtaken(&mut inner);
                    }
                });
            }
        }
    }
    Ok(())
}

fn of(bytes: &[u8]) -> Range {
    Range { start: bytes.as_ptr().cast_mut(), len: bytes.len() }
}

#[allow(unsafe_code)]
fn collect(ranges: &[Range]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for range in ranges {
        // SAFETY: `local_ranges` has found it usable, or it is this library's own.
        unsafe { memory::load(range.start, range.len, &mut bytes) };
    }
    bytes
}

fn send_overtaken(inner: &mut Inner) {
    if let Some((stray, bytes)) = inner.sending.overtaken.take() {
        send_stray(&stray, &bytes);
    }
}

/// Sends a write's data outside of its queue pair's order.
fn send_stray(stray: &Header, bytes: &[u8]) {
    let stray = Header { sent_at: fabric::clock(), ..*stray };
    if let Some(link) = fabric::joined().and_then(|fabric| fabric.link(process_of(stray.to)).ok()) {
        // If it cannot be sent, this fault has no effect.
        _ = link.send(&stray, &[of(bytes)]);
    }
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
#[allow(unsafe_code)]
fn store_fetched(pair: &QueuePair, inner: &Inner, body: Option<&[u8]>) -> bool {
    let Some(oldest) = inner.sending.requests.front().filter(|oldest| oldest.kind.fetches()) else { return true };
    let mut rest = body.unwrap_or_default();
    for piece in &oldest.gather {
        let part = rest.split_off(..rest.len().min(piece.length as usize)).unwrap_or_default();
        if part.is_empty() {
            continue;
        }
        let stored = region::with(piece.lkey, &pair.pd, piece.addr, part.len() as u64, access::LOCAL_WRITE, |range| {
            // SAFETY: the region is registered for this, and its pages are there.
            unsafe { memory::store(range.start, part) };
        });
        if stored.is_err() {
            return false;
        }
    }
    true
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
