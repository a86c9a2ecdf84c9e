//! Executes a step's effects on memory. This is the only module of the engine that touches a caller's buffer.
#![allow(unsafe_code)] // a caller's buffers are addresses

use super::arithmetic::OtherArithmetic;
use super::task::Task;
use crate::algo::{Operand, Step};
use crate::arith;
use crate::op::Reduction;
use crate::settings::settings;

/// Bytes that are read and combined at a time: whole elements that stay in the fastest cache.
const BLOCK: usize = 16 << 10;

/// Runs a step outside the lock: `message` came in, `spare` is a buffer to fill where nothing did. Answers the value, or
/// the buffer it was in; `None` if the message does not have the step's length, which no correct peer sends.
pub(super) fn perform(
    task: &mut Task,
    step: &Step,
    message: Option<Vec<u8>>,
    spare: Option<Vec<u8>>,
) -> Option<Vec<u8>> {
    let other = OtherArithmetic::of(settings().manner, &task.spec, task.n);
    let other = other.as_ref();
    let bytes = step.count * task.spec.ty.size();
    let mut value = match message {
        Some(mut data) => {
            if data.len() != bytes && other.is_none_or(|other| data.len() != step.count * other.partial()) {
                return None;
            }
            if let Some(place) = step.source {
                combine(task, other, step, place, &mut data, bytes);
            }
            data
        }
        None => {
            let mut data = spare.unwrap_or_default();
            match step.source {
                Some(place) => load(task, other, step, place, &mut data, bytes),
                None => data.clear(),
            }
            data
        }
    };
    if step.last {
        match other {
            Some(other) => other.finish(&mut value),
            None if task.spec.reduction == Some(Reduction::Average) => arith::divide(task.spec.ty, &mut value, task.n),
            None => {}
        }
    }
    match step.target {
        Some(Operand::Scratch) => std::mem::swap(&mut task.scratch, &mut value),
        // The engine sends it to the other process.
        Some(Operand::Out(_)) if task.elsewhere.is_some() => {}
        Some(Operand::Out(at)) => store(task, task.spec.recv, at, &value),
        Some(Operand::In(at)) => store(task, task.spec.send, at, &value),
        None => {}
    }
    Some(value)
}

/// Combines a message with local data, or with the result combined so far.
fn combine(
    task: &mut Task,
    other: Option<&OtherArithmetic>,
    step: &Step,
    place: Operand,
    data: &mut [u8],
    bytes: usize,
) {
    let ty = task.spec.ty;
    let operator = task.spec.reduction.map_or(arith::Combine::Sum, Reduction::combine);
    let join = |message: &mut [u8], local: &[u8]| match other {
        Some(other) => other.combine(operator, message, local),
        None => arith::combine(ty, operator, message, local),
    };
    if place == Operand::Scratch {
        join(data, &task.scratch);
        return;
    }
    let mut own = std::mem::take(&mut task.own);
    if other.is_some() {
        // Partial results may be wider than elements, so a part of one is not the same part of the other.
        load(task, other, step, place, &mut own, bytes);
        join(data, &own);
    } else {
        for (number, part) in data.chunks_mut(BLOCK).enumerate() {
            let place = place.behind(number * BLOCK / ty.size());
            load(task, other, step, place, &mut own, part.len());
            join(part, &own);
        }
    }
    task.own = own;
}

/// Copies a place's elements into `data`, pre-multiplied if they are the rank's own contribution.
fn load(task: &Task, other: Option<&OtherArithmetic>, step: &Step, place: Operand, data: &mut Vec<u8>, bytes: usize) {
    data.clear();
    let (base, at) = match place {
        Operand::In(at) => (task.spec.send, at),
        Operand::Out(at) => (task.spec.recv, at),
        Operand::Scratch => {
            data.extend_from_slice(&task.scratch);
            return;
        }
    };
    if bytes > 0 {
        let address = base.wrapping_add(at * task.spec.ty.size());
        data.reserve(bytes);
        // SAFETY: a task exists only while its operation's buffers exist (see `Task::new`), and the script stays inside
        // them; `reserve` made room, and the copied bytes are initialised.
        unsafe {
            std::ptr::copy_nonoverlapping(address as *const u8, data.as_mut_ptr(), bytes);
            data.set_len(bytes);
        }
    }
    if step.own {
        match (other, &task.premul) {
            (Some(other), scalar) => other.widen_and_scale(*scalar, data),
            (None, Some(scalar)) => arith::scale(task.spec.ty, data, scalar),
            (None, None) => {}
        }
    }
}

fn store(task: &Task, base: usize, at: usize, data: &[u8]) {
    let address = base.wrapping_add(at * task.spec.ty.size());
    if task.past_caches {
        // SAFETY: as below.
        unsafe { stream(address, data) };
    } else if !data.is_empty() {
        // SAFETY: a task exists only while its operation's buffers exist (see `Task::new`), and the script stays inside
        // them.
        unsafe { write(address, data) };
    }
}

/// Writes to a caller's memory.
///
/// # Safety
/// `address` lies in a buffer that the caller of a running operation has promised, with room for the data.
pub(super) unsafe fn write(address: usize, data: &[u8]) {
    // SAFETY: the caller vouches for the target; the library's own buffers never overlap it.
    unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), address as *mut u8, data.len()) };
}

/// Like [`write`], bypassing the caches: for amounts of data that would have left them before anyone reads it. Cache lines that are
/// written completely need not be read first.
///
/// # Safety
/// Same as [`write`].
#[cfg(target_arch = "x86_64")]
unsafe fn stream(address: usize, data: &[u8]) {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_sfence, _mm_stream_si128};
    const LINE: usize = 64;
    let (head, rest) = data.split_at((address.wrapping_neg() % LINE).min(data.len()));
    let (lines, tail) = rest.as_chunks::<LINE>();
    let start = address + head.len();
    // SAFETY: the caller vouches for these parts of the target.
    unsafe { (write(address, head), write(start + LINE * lines.len(), tail)) };
    for (number, line) in lines.iter().enumerate() {
        let (from, to) = (line.as_ptr().cast::<__m128i>(), (start + LINE * number) as *mut __m128i);
        for part in 0..LINE / size_of::<__m128i>() {
            // SAFETY: the part lies inside the line, and its target, which the caller vouches for, is aligned as a line.
            unsafe { _mm_stream_si128(to.wrapping_add(part), _mm_loadu_si128(from.wrapping_add(part))) };
        }
    }
    // SAFETY: every x86-64 processor has it. Releasing a lock does not order such stores.
    unsafe { _mm_sfence() };
}

#[cfg(not(target_arch = "x86_64"))]
unsafe fn stream(address: usize, data: &[u8]) {
    // SAFETY: the caller's promise is the same.
    unsafe { write(address, data) };
}
