//! The states of a queue pair, what each change of state needs, and what it is asked for later.

use crate::fabric;
use crate::layout::{QpAttr, QpInitAttr, mask, state};
use crate::lock::lock;
use crate::qp::{Inner, QueuePair, requester};
use crate::settings::settings;
use libc::c_int;
use std::sync::Arc;
use std::time::Duration;

/// Whether a change of state exists, and the attributes that must come with it. The kernel refuses what has fewer.
fn required(from: c_int, to: c_int, is_reliable: bool) -> Option<c_int> {
    let only_reliable = |attributes| if is_reliable { attributes } else { 0 };
    match (from, to) {
        (_, state::RESET | state::ERR)
        | (state::INIT, state::INIT)
        | (state::RTS, state::RTS | state::SQD)
        | (state::SQD, state::SQD | state::RTS) => Some(0),
        (state::RESET, state::INIT) => Some(mask::PKEY_INDEX | mask::PORT | mask::ACCESS_FLAGS),
        (state::INIT, state::RTR) => {
            let basic = mask::AV | mask::PATH_MTU | mask::DEST_QPN | mask::RQ_PSN;
            Some(basic | only_reliable(mask::MAX_DEST_RD_ATOMIC | mask::MIN_RNR_TIMER))
        }
        (state::RTR, state::RTS) => {
            let reliable = mask::TIMEOUT | mask::RETRY_CNT | mask::RNR_RETRY | mask::MAX_QP_RD_ATOMIC;
            Some(mask::SQ_PSN | only_reliable(reliable))
        }
        _ => None,
    }
}

fn copy(to: &mut QpAttr, from: &QpAttr, given: c_int) {
    let set = |bit| given & bit != 0;
    if set(mask::ACCESS_FLAGS) {
        to.qp_access_flags = from.qp_access_flags;
    }
    if set(mask::PKEY_INDEX) {
        to.pkey_index = from.pkey_index;
    }
    if set(mask::PORT) {
        to.port_num = from.port_num;
    }
    if set(mask::AV) {
        to.ah_attr = from.ah_attr;
    }
    if set(mask::PATH_MTU) {
        to.path_mtu = from.path_mtu;
    }
    if set(mask::TIMEOUT) {
        to.timeout = from.timeout;
    }
    if set(mask::RETRY_CNT) {
        to.retry_cnt = from.retry_cnt;
    }
    if set(mask::RNR_RETRY) {
        to.rnr_retry = from.rnr_retry;
    }
    if set(mask::RQ_PSN) {
        to.rq_psn = from.rq_psn;
    }
    if set(mask::SQ_PSN) {
        to.sq_psn = from.sq_psn;
    }
    if set(mask::MAX_QP_RD_ATOMIC) {
        to.max_rd_atomic = from.max_rd_atomic;
    }
    if set(mask::MAX_DEST_RD_ATOMIC) {
        to.max_dest_rd_atomic = from.max_dest_rd_atomic;
    }
    if set(mask::MIN_RNR_TIMER) {
        to.min_rnr_timer = from.min_rnr_timer;
    }
    if set(mask::DEST_QPN) {
        to.dest_qp_num = from.dest_qp_num & 0xff_ffff;
    }
}

/// `ibv_modify_qp`.
///
/// # Errors
///
/// The error number: ETIMEDOUT while the port is down, as with a card whose firmware gets no answer.
pub fn modify(pair: &Arc<QueuePair>, attr: &QpAttr, given: c_int) -> Result<(), c_int> {
    let device = pair.context.device;
    let mut inner = lock(&pair.inner);
    let inner = &mut *inner;
    let from = inner.state;
    let to = if given & mask::STATE == 0 { from } else { attr.qp_state };
    let needs = required(from, to, pair.is_reliable).ok_or(libc::EINVAL)?;
    if given & needs != needs || (given & mask::PORT != 0 && attr.port_num != 1) {
        return Err(libc::EINVAL);
    }
    let connects = matches!((from, to), (state::INIT, state::RTR) | (state::RTR, state::RTS));
    if device.is_dead() && !matches!(to, state::RESET | state::ERR) {
        return Err(libc::EIO);
    }
    if connects && !device.is_up() {
        return Err(libc::ETIMEDOUT);
    }
    copy(&mut inner.attr, attr, given);
    match to {
        state::RESET => pair.reset(inner),
        state::ERR => pair.fail(inner, crate::layout::status::WR_FLUSH_ERR),
        _ => pair.set_state(inner, to),
    }
    match (from, to) {
        (state::RESET, state::INIT) => inner.since = fabric::clock(),
        (state::INIT, state::RTR) => welcome(inner),
        (_, state::RTS) => requester::send(pair, inner),
        _ => {}
    }
    Ok(())
}

/// Tells a requester that was refused that it may send again.
pub fn welcome(inner: &mut Inner) {
    if let Some((link, header)) = inner.receiving.waiter.take() {
        fabric::go_on(&link, &header);
    }
}

/// `ibv_query_qp`.
pub fn query(pair: &QueuePair) -> (QpAttr, QpInitAttr) {
    let inner = lock(&pair.inner);
    let attr = QpAttr { qp_state: inner.state, cur_qp_state: inner.state, cap: pair.cap, ..inner.attr };
    let init = QpInitAttr {
        qp_context: pair.user_context as *mut libc::c_void,
        send_cq: pair.send_queue.shared.pointer(),
        recv_cq: pair.receive_queue.shared.pointer(),
        srq: std::ptr::null_mut(),
        cap: pair.cap,
        qp_type: if pair.is_reliable { crate::layout::QPT_RC } else { crate::layout::QPT_UC },
        sq_sig_all: c_int::from(pair.signals_all),
    };
    (attr, init)
}

/// How long a requester tries without an answer: 4.096 µs * 2^timeout for each of its tries. None: for ever.
pub fn retry_time(attr: &QpAttr) -> Option<Duration> {
    let timeout = attr.timeout & 31;
    let tries = u32::from(attr.retry_cnt & 7) + 1;
    let by_attributes = (timeout != 0).then(|| Duration::from_nanos(4096 << timeout).saturating_mul(tries));
    settings().retry_time.or(by_attributes)
}

/// How long a requester waits for a receive, with the target's RNR timer. None: for ever.
pub fn receive_time(attr: &QpAttr, timer: u8) -> Option<Duration> {
    const FOR_EVER: u8 = 7;
    /// By the code of the timer, in hundredths of milliseconds.
    const TIMES: [u64; 32] = [
        65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072,
        4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
    ];
    let tries = attr.rnr_retry & 7;
    let pause = Duration::from_micros(TIMES.get(usize::from(timer & 31)).copied().unwrap_or(1) * 10);
    (tries != FOR_EVER).then(|| pause * u32::from(tries))
}
