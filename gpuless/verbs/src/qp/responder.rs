//! The side of a queue pair that carries out the requests of its peer.
#![allow(unsafe_code)] // memory that callers have registered

use crate::fabric;
use crate::fabric::frame::{Header, Kind, flag};
use crate::fabric::link::Link;
use crate::faults;
use crate::layout::{WITH_IMM, Wc, access, completed, event, state, status};
use crate::lock::lock;
use crate::memory;
use crate::qp::{Inner, QueuePair, Receive, numbered};
use crate::region::{self, Range};
use libc::c_int;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Decision {
    Run,
    /// It is dropped without a word, as an unreliable message.
    Drop,
    /// It is not this request's turn, or not this queue pair's. Whether the peer hears later when it is.
    Refuse {
        tells_later: bool,
    },
    NoReceive,
    Again,
    /// The peer, and this queue pair, get an error; a receive completes with a status of its own.
    Fail {
        status: c_int,
        event: Option<c_int>,
        receive: Option<c_int>,
    },
}

const fn fails(status: c_int, event: c_int) -> Decision {
    Decision::Fail { status, event: Some(event), receive: None }
}

const NO_ACCESS: Decision = fails(status::REM_ACCESS_ERR, event::QP_ACCESS_ERR);
const INVALID: Decision = fails(status::REM_INV_REQ_ERR, event::QP_REQ_ERR);

/// What a request needs of the memory that it names.
fn uses_of(kind: Kind) -> u32 {
    match kind {
        Kind::Read => access::REMOTE_READ,
        kind if kind.is_atomic() => access::REMOTE_ATOMIC,
        _ => access::REMOTE_WRITE,
    }
}

fn decide(pair: &QueuePair, inner: &Inner, header: &Header) -> Decision {
    let works = matches!(inner.state, state::RTR | state::RTS | state::SQD) && inner.attr.dest_qp_num == header.from;
    if !works || !pair.context.device.is_up() || pair.is_reliable == header.is_unreliable() && !header.is_stray() {
        return Decision::Refuse { tells_later: true };
    }
    if header.sent_at < inner.since {
        return Decision::Again;
    }
    if pair.is_reliable && !header.is_stray() && header.number != inner.receiving.done.wrapping_add(1) {
        // An earlier one of its life was refused and will come first, or the two sides were not reset together.
        return Decision::Refuse { tells_later: false };
    }
    if (header.kind.is_write() && header.len > 0) || header.kind.fetches() {
        let uses = uses_of(header.kind);
        if header.kind.is_atomic() && (header.len != 8 || !header.address.is_multiple_of(8)) {
            return INVALID;
        }
        if inner.attr.qp_access_flags.cast_unsigned() & uses != uses {
            return NO_ACCESS;
        }
        if !region::allows(header.rkey, &pair.pd, header.address, u64::from(header.len), uses) {
            return NO_ACCESS;
        }
    }
    if !header.kind.takes_receive() || header.is_stray() {
        return Decision::Run;
    }
    let Some(receive) = inner.receiving.posted.front() else { return Decision::NoReceive };
    let room: u64 = receive.scatter.iter().map(|piece| u64::from(piece.length)).sum();
    if header.kind.is_send() && room < u64::from(header.len) {
        return Decision::Fail { status: status::REM_INV_REQ_ERR, event: None, receive: Some(status::LOC_LEN_ERR) };
    }
    Decision::Run
}

/// True if the network does not connect the sender of a request with this process.
fn is_separated(header: &Header) -> bool {
    let process = |pair: u32| pair >> fabric::PAIR_BITS;
    faults::is_alone() && process(header.from) != process(header.to)
}

/// Whether the data of a request will be used, as far as can be told in front of it.
pub fn wants(header: &Header) -> bool {
    let Some(pair) = numbered(header.to).filter(|_| !is_separated(header)) else { return false };
    let inner = lock(&pair.inner);
    decide(&pair, &inner, header) == Decision::Run
}

/// Tells a requester that was refused that it may send again.
pub fn welcome(inner: &mut Inner) {
    if let Some((link, header)) = inner.receiving.waiter.take() {
        fabric::go_on(&link, &header);
    }
}

/// A request has arrived.
pub fn request(link: &Arc<Link>, header: &Header, body: Option<&[u8]>) {
    let reply = |answer: Header| {
        if !header.is_unreliable() {
            link.send_later(&answer);
        }
    };
    let Some(pair) = numbered(header.to).filter(|_| !is_separated(header)) else {
        return reply(header.answer(Kind::Refused));
    };
    let mut inner = lock(&pair.inner);
    let inner = &mut *inner;
    let mut decision = decide(&pair, inner, header);
    if decision == Decision::Run && header.body() > 0 && body.is_none() {
        // It was not wanted when it came, and is now.
        decision = Decision::Again;
    }
    if header.is_unreliable() && !matches!(decision, Decision::Run | Decision::Fail { receive: Some(_), .. }) {
        decision = Decision::Drop;
    }
    if decision == Decision::Run {
        match run(link, &pair, inner, header, body.unwrap_or_default()) {
            Ok(()) => return,
            Err(failed) => decision = failed,
        }
    }
    match decision {
        Decision::Run | Decision::Drop => {}
        Decision::Again => reply(header.answer(Kind::Again)),
        Decision::NoReceive => {
            inner.receiving.waiter = Some((Arc::clone(link), *header));
            reply(Header { status: inner.attr.min_rnr_timer, ..header.answer(Kind::NoReceive) });
        }
        Decision::Refuse { tells_later } => {
            if tells_later {
                inner.receiving.waiter = Some((Arc::clone(link), *header));
            }
            reply(header.answer(Kind::Refused));
        }
        Decision::Fail { status, event, receive } => {
            let posted = receive.and_then(|_| inner.receiving.posted.pop_front());
            if let (Some(posted), Some(status)) = (posted, receive) {
                pair.receive_queue.push(pair.completion(posted.wr_id, status, completed::RECV, 0), true);
            }
            pair.fail(inner, status::WR_FLUSH_ERR);
            if let Some(event) = event {
                pair.context.tell(event, pair.shared.address() as u64);
            }
            reply(Header { status: u8::try_from(status).unwrap_or(0), ..header.answer(Kind::Failed) });
        }
    }
}

/// Carries a request out and answers it.
fn run(link: &Arc<Link>, pair: &QueuePair, inner: &mut Inner, header: &Header, body: &[u8]) -> Result<(), Decision> {
    let on_memory = |f: &mut dyn FnMut(Range)| {
        let uses = uses_of(header.kind);
        region::with(header.rkey, &pair.pd, header.address, u64::from(header.len), uses, f).map_err(|_| NO_ACCESS)
    };
    let answer = header.answer(Kind::Done);
    match header.kind {
        Kind::Write | Kind::WriteWithImm if header.len > 0 && header.flags & flag::HOLLOW == 0 => {
            // SAFETY: the region is registered for this, and its pages are there.
            on_memory(&mut |range| unsafe { memory::store_arriving(range.start, body) })?;
        }
        // A connection that has ended has nobody who waits for the data.
        Kind::Read => on_memory(&mut |range| _ = link.send(&Header { len: header.len, ..answer }, &[range]))?,
        Kind::CompareSwap | Kind::FetchAdd => {
            let mut old = 0;
            on_memory(&mut |range| old = change(range, header))?;
            let bytes = old.to_ne_bytes();
            let part = Range { start: bytes.as_ptr().cast_mut(), len: bytes.len() };
            _ = link.send(&Header { len: 8, ..answer }, &[part]);
        }
        _ => {}
    }
    if header.is_stray() {
        return Ok(());
    }
    if header.kind.takes_receive()
        && let Some(receive) = inner.receiving.posted.pop_front()
    {
        receive_message(pair, header, &receive, body)?;
    }
    inner.receiving.done = header.number;
    if !header.kind.fetches() && !header.is_unreliable() {
        link.send_later(&answer);
    }
    Ok(())
}

/// An atomic operation on an aligned word; what was there.
fn change(range: Range, header: &Header) -> u64 {
    // SAFETY: the region is registered for this, its pages are there, and `decide` has checked the alignment of what requests name.
    let word = unsafe { range.start.cast::<u64>().is_aligned().then(|| AtomicU64::from_ptr(range.start.cast())) };
    let Some(word) = word else { return 0 };
    if header.kind == Kind::FetchAdd {
        return word.fetch_add(header.compare_add, Ordering::SeqCst);
    }
    let swapped = word.compare_exchange(header.compare_add, header.swap, Ordering::SeqCst, Ordering::SeqCst);
    swapped.unwrap_or_else(|other| other)
}

/// Puts a message into the memory of a receive, and completes it.
fn receive_message(pair: &QueuePair, header: &Header, receive: &Receive, body: &[u8]) -> Result<(), Decision> {
    let message = if header.kind.is_send() { body } else { &[] };
    if region::scatter(&receive.scatter, &pair.pd, message).is_err() {
        let failed = pair.completion(receive.wr_id, status::LOC_PROT_ERR, completed::RECV, 0);
        pair.receive_queue.push(failed, true);
        return Err(Decision::Fail { status: status::REM_OP_ERR, event: None, receive: None });
    }
    let opcode = if header.kind.is_send() { completed::RECV } else { completed::RECV_WITH_IMM };
    let with_imm = if header.kind.has_imm() { WITH_IMM } else { 0 };
    let plain = pair.completion(receive.wr_id, status::SUCCESS, opcode, header.len);
    let completion = Wc { imm_data: header.imm, wc_flags: with_imm, src_qp: header.from, ..plain };
    pair.receive_queue.push(completion, header.flags & flag::SOLICITED != 0);
    Ok(())
}
