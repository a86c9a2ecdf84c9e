//! Queue pairs, and the functions that callers reach through their context.
#![allow(unsafe_code)] // pointers of callers of a C interface

use super::answers::{code, code_of, functions, null, put};
use super::queues;
use crate::completion::QUEUES;
use crate::layout::{self, Ece, QPT_RC, QPT_UC, QpAttr, QpCap, QpInitAttr, state};
use crate::lock::lock;
use crate::qp::{self, Inner, QueuePair, Receiving, Sending, attributes, network, post};
use crate::region::{PDS, next_handle};
use crate::shared::Shared;
use libc::c_int;
use std::sync::{Arc, Mutex};

const MOST_REQUESTS: u32 = 32768;
const MOST_PIECES: u32 = 30;
/// Bytes that a request may carry in itself.
const MOST_INLINE: u32 = 1024;

/// What a ConnectX and its driver say about connection establishment: both ends take the smaller abilities of the two.
const ECE: Ece = Ece { vendor_id: 0x15b3, options: 0x3000_0002, comp_mask: 0 };

/// Puts the functions into a context that inline functions of the header call.
pub fn fill(context: &mut layout::Context) {
    context.poll_cq = queues::poll as *const () as usize;
    context.req_notify_cq = queues::notify as *const () as usize;
    context.post_send = post_send as *const () as usize;
    context.post_recv = post_recv as *const () as usize;
}

unsafe extern "C" fn post_send(
    pair: *mut layout::Qp,
    first: *mut layout::SendWr,
    bad: *mut *mut layout::SendWr,
) -> c_int {
    // SAFETY: the caller's list.
    let outcome = qp::find(pair).ok_or((first, libc::EINVAL)).and_then(|pair| unsafe { post::send(&pair, first) });
    // SAFETY: the caller's place.
    unsafe { report(outcome, bad) }
}

unsafe extern "C" fn post_recv(
    pair: *mut layout::Qp,
    first: *mut layout::RecvWr,
    bad: *mut *mut layout::RecvWr,
) -> c_int {
    // SAFETY: the caller's list.
    let outcome = qp::find(pair).ok_or((first, libc::EINVAL)).and_then(|pair| unsafe { post::receive(&pair, first) });
    // SAFETY: the caller's place.
    unsafe { report(outcome, bad) }
}

/// # Safety
///
/// The place is null or one for a pointer.
unsafe fn report<T>(outcome: Result<(), (*mut T, c_int)>, bad: *mut *mut T) -> c_int {
    let Err((refused, error)) = outcome else { return 0 };
    // SAFETY: as the caller says.
    _ = unsafe { put(bad, refused) };
    error
}

/// As a driver does, queues get a power of two of places: some programs use more than they asked for.
fn granted(wanted: QpCap) -> Option<QpCap> {
    let fits = wanted.max_send_wr <= MOST_REQUESTS
        && wanted.max_recv_wr <= MOST_REQUESTS
        && wanted.max_send_sge <= MOST_PIECES
        && wanted.max_recv_sge <= MOST_PIECES
        && wanted.max_inline_data <= MOST_INLINE;
    fits.then(|| QpCap {
        max_send_wr: wanted.max_send_wr.next_power_of_two(),
        max_recv_wr: wanted.max_recv_wr.next_power_of_two(),
        max_send_sge: wanted.max_send_sge.max(1),
        max_recv_sge: wanted.max_recv_sge.max(1),
        max_inline_data: wanted.max_inline_data,
    })
}

fn create(pd: *const layout::Pd, init: &QpInitAttr) -> Result<(Arc<QueuePair>, QpCap), c_int> {
    let pd = PDS.find(pd as usize).ok_or(libc::EINVAL)?;
    let queue = |queue: *mut layout::Cq| QUEUES.find(queue as usize).ok_or(libc::EINVAL);
    let (send_queue, receive_queue) = (queue(init.send_cq)?, queue(init.recv_cq)?);
    if !matches!(init.qp_type, QPT_RC | QPT_UC) || !init.srq.is_null() {
        return Err(libc::EOPNOTSUPP);
    }
    if pd.context.device.is_dead() {
        return Err(libc::EIO);
    }
    let cap = granted(init.cap).ok_or(libc::EINVAL)?;
    let process = network::join().map_err(|error| code_of(&error))?.process;
    let context = Arc::clone(&pd.context);
    let make = |number| QueuePair {
        shared: Shared::new(layout::Qp {
            context: context.shared.pointer(),
            qp_context: init.qp_context,
            pd: pd.shared.pointer(),
            send_cq: init.send_cq,
            recv_cq: init.recv_cq,
            srq: std::ptr::null_mut(),
            handle: next_handle(),
            qp_num: number,
            state: state::RESET,
            qp_type: init.qp_type,
            _mutex: [0; 5],
            _cond: [0; 6],
            events_completed: 0,
        }),
        number,
        context: Arc::clone(&context),
        pd: Arc::clone(&pd),
        send_queue: Arc::clone(&send_queue),
        receive_queue: Arc::clone(&receive_queue),
        is_reliable: init.qp_type == QPT_RC,
        signals_all: init.sq_sig_all != 0,
        cap,
        user_context: init.qp_context as usize,
        inner: Mutex::new(Inner {
            attr: QpAttr::default(),
            ece: ECE,
            state: state::RESET,
            life: 0,
            since: 0,
            sending: Sending::default(),
            receiving: Receiving::default(),
        }),
    };
    qp::give_number(process, make).map(|pair| (pair, cap)).ok_or(libc::ENOMEM)
}

functions! {
    fn ibv_create_qp(pd: *mut layout::Pd, init: *mut QpInitAttr) -> *mut layout::Qp {
        // SAFETY: the caller's structure, or null.
        let Some(init) = (unsafe { init.as_mut() }) else { return null(libc::EINVAL) };
        match create(pd, init) {
            Ok((pair, cap)) => {
                init.cap = cap;
                pair.shared.pointer()
            }
            Err(error) => null(error),
        }
    }

    fn ibv_modify_qp(pair: *mut layout::Qp, attr: *mut QpAttr, mask: c_int) -> c_int {
        // SAFETY: the caller's structure, or null.
        let (Some(pair), Some(attr)) = (qp::find(pair), unsafe { attr.as_ref() }) else { return libc::EINVAL };
        code(attributes::modify(&pair, attr, mask))
    }

    fn ibv_query_qp(pair: *mut layout::Qp, attr: *mut QpAttr, _mask: c_int, init: *mut QpInitAttr) -> c_int {
        let Some(pair) = qp::find(pair) else { return libc::EINVAL };
        let found = attributes::query(&pair);
        // SAFETY: the caller's places for them.
        code(unsafe { put(attr, found.0).and_then(|()| put(init, found.1)) })
    }

    fn ibv_destroy_qp(pair: *mut layout::Qp) -> c_int {
        let Some(pair) = qp::find(pair) else { return libc::EINVAL };
        pair.remove();
        0
    }

    fn ibv_query_ece(pair: *mut layout::Qp, ece: *mut Ece) -> c_int {
        let Some(pair) = qp::find(pair) else { return libc::EINVAL };
        let known = lock(&pair.inner).ece;
        // SAFETY: the caller's place for it.
        code(unsafe { put(ece, known) })
    }

    fn ibv_set_ece(pair: *mut layout::Qp, ece: *mut Ece) -> c_int {
        // SAFETY: the caller's structure, or null.
        let (Some(pair), Some(ece)) = (qp::find(pair), unsafe { ece.as_ref() }) else { return libc::EINVAL };
        // Options of another vendor mean nothing here, and are refused by a driver too.
        if ece.vendor_id != 0 && ece.vendor_id != ECE.vendor_id {
            return libc::EINVAL;
        }
        lock(&pair.inner).ece = *ece;
        0
    }

    /// Writes are stored in ascending order, unless the settings say otherwise.
    fn ibv_query_qp_data_in_order(_pair: *mut layout::Qp, _opcode: c_int, _flags: u32) -> c_int {
        0
    }
}
