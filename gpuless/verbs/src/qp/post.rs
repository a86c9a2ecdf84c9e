//! Work requests, from the caller's lists into the queues.
#![allow(unsafe_code)] // lists that callers build

use crate::device::MAX_MESSAGE;
use crate::fabric::{self, frame::Kind};
use crate::faults::{self, Message};
use crate::layout::{self, Sge, completed, event, send_flags, state, status};
use crate::lock::lock;
use crate::qp::responder::welcome;
use crate::qp::{Inner, QueuePair, Receive, Request, opcode_of, requester};
use libc::c_int;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Copies a list of memory pieces. None: there are more than the queue pair was made for.
///
/// # Safety
///
/// A count that is not zero is that of the list.
unsafe fn pieces(list: *const Sge, count: c_int, most: u32) -> Option<Vec<Sge>> {
    let count = u32::try_from(count).ok().filter(|count| *count <= most)? as usize;
    if count == 0 {
        return Some(Vec::new());
    }
    // SAFETY: as the caller says.
    (!list.is_null()).then(|| unsafe { std::slice::from_raw_parts(list, count) }.to_vec())
}

/// `ibv_post_send`.
///
/// # Safety
///
/// The work requests are a list that ends with null, and each names as many pieces as it says. The pieces of inline ones are readable.
///
/// # Errors
///
/// The request that was not taken, and why; those in front of it were.
pub unsafe fn send(pair: &Arc<QueuePair>, first: *mut layout::SendWr) -> Result<(), (*mut layout::SendWr, c_int)> {
    let mut inner = lock(&pair.inner);
    let mut next = first;
    // SAFETY: null or a work request, as the caller says.
    while let Some(work) = unsafe { next.as_ref() } {
        // SAFETY: as the caller says.
        let request = unsafe { read(pair, &inner, work) }.map_err(|error| (next, error))?;
        take(pair, &mut inner, request);
        next = work.next;
    }
    Ok(())
}

/// # Safety
///
/// As for [`send`].
unsafe fn read(pair: &QueuePair, inner: &Inner, work: &layout::SendWr) -> Result<Request, c_int> {
    if !matches!(inner.state, state::RTS | state::SQD | state::ERR) {
        return Err(libc::EINVAL);
    }
    if inner.sending.requests.len() >= pair.cap.max_send_wr as usize {
        return Err(libc::ENOMEM);
    }
    let kind = Kind::of_opcode(work.opcode).ok_or(libc::EINVAL)?;
    // SAFETY: as the caller says.
    let gather = unsafe { pieces(work.sg_list, work.num_sge, pair.cap.max_send_sge) }.ok_or(libc::EINVAL)?;
    let is_inline = work.send_flags & send_flags::INLINE != 0;
    let whole: u64 = gather.iter().map(|piece| u64::from(piece.length)).sum();
    if (is_inline && (kind.fetches() || whole > u64::from(pair.cap.max_inline_data)))
        || (kind.fetches() && !pair.is_reliable)
    {
        return Err(libc::EINVAL);
    }
    let fits = if kind.is_atomic() { whole == 8 } else { whole <= u64::from(MAX_MESSAGE) };
    let inline = is_inline.then(|| {
        let mut bytes = Vec::with_capacity(usize::try_from(whole).unwrap_or(0));
        for piece in gather.iter().filter(|piece| piece.length > 0) {
            // SAFETY: as the caller says; it waits for this call.
            bytes.extend_from_slice(unsafe {
                std::slice::from_raw_parts(piece.addr as *const u8, piece.length as usize)
            });
        }
        bytes
    });
    let (rkey, compare_add, swap) = if kind.is_atomic() {
        (work.atomic_rkey, work.rkey_or_compare_add, work.swap)
    } else {
        (work.rkey_or_compare_add as u32, 0, 0)
    };
    Ok(Request {
        wr_id: work.wr_id,
        number: 0,
        kind,
        is_signaled: pair.signals_all || work.send_flags & send_flags::SIGNALED != 0,
        is_solicited: work.send_flags & send_flags::SOLICITED != 0,
        gather,
        inline,
        len: if fits { u32::try_from(whole).unwrap_or(0) } else { 0 },
        imm: work.imm_data,
        remote: work.remote_addr,
        rkey,
        compare_add,
        swap,
        failure: (!fits).then_some(status::LOC_LEN_ERR),
        strike: None,
        not_before: None,
    })
}

/// Puts a request into the queue, and sends it if it can be.
fn take(pair: &Arc<QueuePair>, inner: &mut Inner, mut request: Request) {
    if inner.state == state::ERR {
        let flushed = pair.completion(request.wr_id, status::WR_FLUSH_ERR, opcode_of(request.kind), 0);
        return pair.complete_send(&mut inner.sending, flushed);
    }
    inner.sending.last += 1;
    request.number = inner.sending.last;
    let to_itself = inner.attr.dest_qp_num == pair.number;
    if request.len > 0 && !request.kind.fetches() && !to_itself && request.failure.is_none() {
        let message = Message {
            device: pair.context.device,
            qp_num: pair.number,
            bytes: request.len,
            is_write: request.kind.is_write(),
        };
        request.strike = faults::count(&message);
    }
    let strike = request.strike.map(|strike| strike.kind);
    if let Some(faults::Kind::LateSend { time }) = strike {
        // A time that no clock reaches is one at which nobody waits any more.
        const LONG: Duration = Duration::from_secs(1 << 32);
        request.not_before = Some(Instant::now() + time.min(LONG));
    }
    inner.sending.requests.push_back(request);
    if let Some(kind) = strike {
        strike_around(pair, inner, kind);
    }
    requester::send(pair, inner);
}

/// What a fault does to more than the message that it strikes.
fn strike_around(pair: &QueuePair, inner: &mut Inner, kind: faults::Kind) {
    let device = pair.context.device;
    match kind {
        faults::Kind::PortDown { time } => {
            device.set_port(false);
            if let Some(time) = time {
                fabric::after(time, || {
                    device.set_port(true);
                    requester::port_is_up(device);
                });
            }
        }
        faults::Kind::QueuePairFatal => {
            pair.context.tell(event::QP_FATAL, pair.shared.address() as u64);
            pair.fail(inner, status::WR_FLUSH_ERR);
        }
        faults::Kind::CompletionQueueError => pair.send_queue.fail(),
        // On the delivery thread, because it takes the locks of other queue pairs.
        faults::Kind::DeviceFatal => fabric::after(Duration::ZERO, || requester::device_fails(device)),
        faults::Kind::SlowNic { bytes_per_second } => faults::slow_down(device, bytes_per_second),
        faults::Kind::Unreachable => faults::separate(),
        _ => {}
    }
}

/// `ibv_post_recv`.
///
/// # Safety
///
/// The work requests are a list that ends with null, and each names as many pieces as it says.
///
/// # Errors
///
/// The request that was not taken, and why; those in front of it were.
pub unsafe fn receive(pair: &QueuePair, first: *mut layout::RecvWr) -> Result<(), (*mut layout::RecvWr, c_int)> {
    let mut inner = lock(&pair.inner);
    let mut next = first;
    let mut outcome = Ok(());
    // SAFETY: null or a work request, as the caller says.
    while let Some(work) = unsafe { next.as_ref() } {
        // SAFETY: as the caller says.
        let taken = unsafe { take_receive(pair, &mut inner, work) };
        if let Err(error) = taken {
            outcome = Err((next, error));
            break;
        }
        next = work.next;
    }
    if matches!(inner.state, state::RTR | state::RTS | state::SQD) {
        welcome(&mut inner);
    }
    outcome
}

/// # Safety
///
/// As for [`receive`].
unsafe fn take_receive(pair: &QueuePair, inner: &mut Inner, work: &layout::RecvWr) -> Result<(), c_int> {
    if inner.state == state::RESET {
        return Err(libc::EINVAL);
    }
    // SAFETY: as the caller says.
    let scatter = unsafe { pieces(work.sg_list, work.num_sge, pair.cap.max_recv_sge) }.ok_or(libc::EINVAL)?;
    if inner.state == state::ERR {
        let flushed = pair.completion(work.wr_id, status::WR_FLUSH_ERR, completed::RECV, 0);
        pair.receive_queue.push(flushed, false);
        return Ok(());
    }
    if inner.receiving.posted.len() >= pair.cap.max_recv_wr as usize {
        return Err(libc::ENOMEM);
    }
    inner.receiving.posted.push_back(Receive { wr_id: work.wr_id, scatter });
    Ok(())
}
