//! Completion queues and channels.
#![allow(unsafe_code)] // pointers of callers of a C interface

use super::answers::{code_of, functions, minus_one, null};
use crate::completion::{CHANNELS, Channel, QUEUES, Queue};
use crate::device::Context;
use crate::layout;
use crate::qp;
use libc::{c_int, c_uint, c_void};
use std::sync::Arc;

/// As many completions as a ConnectX's queue holds.
const MOST_COMPLETIONS: u32 = (1 << 22) - 1;

/// `ibv_poll_cq`, which callers reach through their context.
pub unsafe extern "C" fn poll(queue: *mut layout::Cq, most: c_int, into: *mut layout::Wc) -> c_int {
    let (Some(queue), Ok(most)) = (QUEUES.find(queue as usize), usize::try_from(most)) else { return -libc::EINVAL };
    // SAFETY: the caller's room for so many.
    let count = queue.poll(most, |index, completion| unsafe { into.add(index).write(completion) });
    c_int::try_from(count).unwrap_or(c_int::MAX)
}

/// `ibv_req_notify_cq`, which callers reach through their context.
pub unsafe extern "C" fn notify(queue: *mut layout::Cq, solicited_only: c_int) -> c_int {
    let Some(queue) = QUEUES.find(queue as usize) else { return libc::EINVAL };
    queue.notify_next(solicited_only != 0);
    0
}

functions! {
    fn ibv_create_comp_channel(context: *mut layout::Context) -> *mut layout::CompChannel {
        let Some(context) = Context::find(context) else { return null(libc::EINVAL) };
        match Channel::create(&context) {
            Ok(channel) => channel.shared.pointer(),
            Err(error) => null(code_of(&error)),
        }
    }

    fn ibv_destroy_comp_channel(channel: *mut layout::CompChannel) -> c_int {
        let Some(channel) = CHANNELS.find(channel as usize) else { return libc::EINVAL };
        if QUEUES.any(|queue| queue.channel.as_ref().is_some_and(|of| Arc::ptr_eq(of, &channel))) {
            return libc::EBUSY;
        }
        CHANNELS.remove(channel.shared.address());
        0
    }

    fn ibv_create_cq(
        context: *mut layout::Context, wanted: c_int, user: *mut c_void, channel: *mut layout::CompChannel, vector: c_int,
    ) -> *mut layout::Cq {
        let Some(context) = Context::find(context) else { return null(libc::EINVAL) };
        let wanted = u32::try_from(wanted).ok().filter(|wanted| (1..=MOST_COMPLETIONS).contains(wanted) && vector == 0);
        let Some(wanted) = wanted else { return null(libc::EINVAL) };
        let known = if channel.is_null() { None } else { CHANNELS.find(channel as usize) };
        if known.is_none() && !channel.is_null() {
            return null(libc::EINVAL);
        }
        if context.device.is_dead() {
            return null(libc::EIO);
        }
        Queue::create(&context, wanted, known, |queue| queue.cq_context = user).shared.pointer()
    }

    fn ibv_resize_cq(_queue: *mut layout::Cq, _wanted: c_int) -> c_int {
        libc::EOPNOTSUPP
    }

    fn ibv_destroy_cq(queue: *mut layout::Cq) -> c_int {
        let Some(queue) = QUEUES.find(queue as usize) else { return libc::EINVAL };
        let uses = |pair: &qp::QueuePair| Arc::ptr_eq(&pair.send_queue, &queue) || Arc::ptr_eq(&pair.receive_queue, &queue);
        if qp::BY_ADDRESS.any(uses) {
            return libc::EBUSY;
        }
        queue.remove();
        0
    }

    fn ibv_get_cq_event(
        channel: *mut layout::CompChannel, queue: *mut *mut layout::Cq, user: *mut *mut c_void,
    ) -> c_int {
        let Some(channel) = CHANNELS.find(channel as usize) else { return minus_one(libc::EINVAL) };
        if queue.is_null() || user.is_null() {
            return minus_one(libc::EINVAL);
        }
        match channel.next_event() {
            Ok(told) => {
                // SAFETY: the caller's places; a queue's structure lives as long as the queue.
                unsafe {
                    queue.write(told.shared.pointer());
                    user.write((*told.shared.pointer()).cq_context);
                }
                0
            }
            Err(error) => minus_one(code_of(&error)),
        }
    }

    fn ibv_ack_cq_events(_queue: *mut layout::Cq, _count: c_uint) {}
}
