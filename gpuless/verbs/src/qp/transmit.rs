//! How a request leaves: its header and data, and what a fault makes of them.

use crate::fabric::frame::{Header, Kind, flag};
use crate::fabric::{self, Unreached};
use crate::faults::{self, Strike};
use crate::layout::{access, status};
use crate::lock::lock;
use crate::memory;
use crate::qp::{Inner, QueuePair, Request};
use crate::region::{Range, Region};
use libc::c_int;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// After this time a process with too many waiting connections is tried again.
const BUSY: Duration = Duration::from_millis(10);
/// A write that should be overtaken arrives after this time if nothing overtakes it.
const OVERTAKEN: Duration = Duration::from_millis(50);

/// Why a request is not sent now.
pub enum Hindrance {
    Until(Instant),
    /// The connection has enough to do, and will call.
    Crowd,
    /// Nobody answers.
    Silence,
    /// It fails here.
    Local(c_int),
}

/// The process that a queue pair is in.
pub fn process_of(pair: u32) -> u32 {
    pair >> fabric::PAIR_BITS
}

/// What keeps a request from being sent, as far as this process decides.
pub fn hindrance(pair: &QueuePair, inner: &Inner, request: &Request) -> Result<(), Hindrance> {
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

/// Sends a request.
pub fn transmit(pair: &Arc<QueuePair>, inner: &mut Inner, index: usize) -> Result<(), Hindrance> {
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
