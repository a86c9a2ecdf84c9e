//! The states of a queue pair, what each change of state needs, and what it is asked for later.

use crate::fabric;
use crate::layout::{QpAttr, QpInitAttr, mask, state};
use crate::lock::lock;
use crate::qp::responder::welcome;
use crate::qp::{QueuePair, requester};
use libc::c_int;
use std::sync::Arc;

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
