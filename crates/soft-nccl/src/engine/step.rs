//! Executes a step's effects on memory. This is the only module of the engine that touches a caller's buffer.
#![allow(unsafe_code)] // a caller's buffers are addresses

use super::arithmetic::OtherArithmetic;
use super::hooks::{Sound, StepHooks};
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
    let Some(mut hooks) = task.hooks.take() else {
        return match OtherArithmetic::of(settings().manner, &task.spec, task.n) {
            Some(mut other) => run(task, &mut other, step, message, spare),
            None => run(task, &mut Sound, step, message, spare),
        };
    };
    let value = run(task, &mut *hooks, step, message, spare);
    task.hooks = Some(hooks);
    value
}

fn run(
    task: &mut Task,
    hooks: &mut (impl StepHooks + ?Sized),
    step: &Step,
    message: Option<Vec<u8>>,
    spare: Option<Vec<u8>>,
) -> Option<Vec<u8>> {
    let step = &hooks.step(step);
    let bytes = step.count * task.spec.ty.size();
    let mut value = match message {
        Some(mut data) => {
            if data.len() != bytes && hooks.partial().is_none_or(|size| data.len() != step.count * size) {
                return None;
            }
            hooks.message(step, &mut data);
            if let Some(place) = step.source {
                combine(task, hooks, step, place, &mut data, bytes);
            }
            data
        }
        None => {
            let mut data = spare.unwrap_or_default();
            match step.source {
                Some(place) => load(task, hooks, step, place, &mut data, bytes),
                None => data.clear(),
            }
            data
        }
    };
    if step.last {
        hooks.finish(task.spec.ty, task.n, task.spec.reduction == Some(Reduction::Average), &mut value);
    }
    match step.target {
        Some(Operand::Scratch) => std::mem::swap(&mut task.scratch, &mut value),
        // The engine sends it to the other process.
        Some(Operand::Out(_)) if task.elsewhere.is_some() => {}
        Some(Operand::Out(at)) => store(hooks, task, task.spec.recv, at, &value),
        Some(Operand::In(at)) => store(hooks, task, task.spec.send, at, &value),
        None => {}
    }
    hooks.done(step, &value);
    Some(value)
}

fn combine(
    task: &mut Task,
    hooks: &mut (impl StepHooks + ?Sized),
    step: &Step,
    place: Operand,
    data: &mut [u8],
    bytes: usize,
) {
    let operator = task.spec.reduction.map_or(arith::Combine::Sum, Reduction::combine);
    if place == Operand::Scratch {
        hooks.combine(step, task.spec.ty, operator, data, &task.scratch);
        return;
    }
    let mut own = std::mem::take(&mut task.own);
    if hooks.needs_whole_chunks() {
        load(task, hooks, step, place, &mut own, bytes);
        hooks.combine(step, task.spec.ty, operator, data, &own);
    } else {
        for (number, part) in data.chunks_mut(BLOCK).enumerate() {
            let place = place.behind(number * BLOCK / task.spec.ty.size());
            load(task, hooks, step, place, &mut own, part.len());
            hooks.combine(step, task.spec.ty, operator, part, &own);
        }
    }
    task.own = own;
}

/// Copies a place's elements into `data`, pre-multiplied if they are the rank's own contribution.
fn load(
    task: &Task,
    hooks: &mut (impl StepHooks + ?Sized),
    step: &Step,
    place: Operand,
    data: &mut Vec<u8>,
    bytes: usize,
) {
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
        let address = hooks.base(base).wrapping_add(at * task.spec.ty.size());
        data.reserve(bytes);
        // SAFETY: a task exists only while its operation's buffers exist (see `Task::new`), and the script stays inside
        // them; `reserve` made room, and the copied bytes are initialised.
        unsafe {
            std::ptr::copy_nonoverlapping(address as *const u8, data.as_mut_ptr(), bytes);
            data.set_len(bytes);
        }
    }
    if step.own
        && let Some(scalar) = &hooks.scalar(step, task.premul)
    {
        hooks.scale(task.spec.ty, data, scalar);
    }
    hooks.loaded(step, data);
}

fn store(hooks: &mut (impl StepHooks + ?Sized), task: &Task, base: usize, at: usize, data: &[u8]) {
    if task.past_caches {
        // SAFETY: as below.
        unsafe { stream(base.wrapping_add(at * task.spec.ty.size()), data) };
    } else if !data.is_empty() {
        let base = hooks.base(base);
        // SAFETY: a task exists only while its operation's buffers exist (see `Task::new`), and the script stays inside
        // them.
        unsafe { hooks.store(task.spec.ty, base, at, data) };
    }
}

/// Writes to a caller's memory.
///
/// # Safety
/// `address` lies in a buffer that the caller of a running operation has promised, with room for the data.
pub(crate) unsafe fn write(address: usize, data: &[u8]) {
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
