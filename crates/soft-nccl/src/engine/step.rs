//! What a step does to memory. This is the one place where the engine touches a caller's buffer, and where a fault can
//! be put into a primitive step.
use super::task::Task;
use crate::algo::{Place, Step};
use crate::arith;
use crate::op::Reduction;

/// Runs a step outside the lock: `message` came in, `spare` is a buffer to fill where nothing did. Answers the value, or
/// the buffer it was in; `None` if the message does not have the step's length, which no correct peer sends.
pub(super) fn perform(
    task: &mut Task,
    step: &Step,
    message: Option<Vec<u8>>,
    spare: Option<Vec<u8>>,
) -> Option<Vec<u8>> {
    let bytes = step.count * task.spec.ty.size();
    let mut value = match message {
        Some(mut data) => {
            if data.len() != bytes {
                return None;
            }
            if let Some(place) = step.source {
                combine(task, step, place, &mut data, bytes);
            }
            data
        }
        None => {
            let mut data = spare.unwrap_or_default();
            match step.source {
                Some(place) => load(task, place, step.own, &mut data, bytes),
                None => data.clear(),
            }
            data
        }
    };
    if step.last && task.spec.reduction == Some(Reduction::Average) {
        arith::divide(task.spec.ty, &mut value, task.n);
    }
    match step.target {
        Some(Place::Scratch) => std::mem::swap(&mut task.scratch, &mut value),
        Some(place) => store(task, place, &value),
        None => {}
    }
    Some(value)
}

fn combine(task: &mut Task, step: &Step, place: Place, data: &mut [u8], bytes: usize) {
    let operator = task.spec.reduction.map_or(arith::Combine::Sum, Reduction::combine);
    if place == Place::Scratch {
        arith::combine(task.spec.ty, operator, data, &task.scratch);
        return;
    }
    let mut own = std::mem::take(&mut task.own);
    load(task, place, step.own, &mut own, bytes);
    arith::combine(task.spec.ty, operator, data, &own);
    task.own = own;
}

/// Copies a place's elements into `data`, pre-multiplied if they are the rank's own contribution.
fn load(task: &Task, place: Place, own: bool, data: &mut Vec<u8>, bytes: usize) {
    data.clear();
    let Some(address) = address(task, place) else {
        data.extend_from_slice(&task.scratch);
        return;
    };
    if bytes > 0 {
        data.reserve(bytes);
        // SAFETY: the caller of the operation promised `count` elements at this buffer until its stream has passed the
        // operation, and the script stays inside them; `reserve` made room, and the copied bytes are initialised.
        unsafe {
            std::ptr::copy_nonoverlapping(address as *const u8, data.as_mut_ptr(), bytes);
            data.set_len(bytes);
        }
    }
    if own && let Some(scalar) = &task.premul {
        arith::scale(task.spec.ty, data, scalar);
    }
}

fn store(task: &Task, place: Place, data: &[u8]) {
    if let Some(address) = address(task, place)
        && !data.is_empty()
    {
        // SAFETY: as for `load`; the library's own buffer never overlaps the caller's.
        unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), address as *mut u8, data.len()) };
    }
}

/// The address of a place in the caller's memory.
fn address(task: &Task, place: Place) -> Option<usize> {
    let (base, offset) = match place {
        Place::In(offset) => (task.spec.send, offset),
        Place::Out(offset) => (task.spec.recv, offset),
        Place::Scratch => return None,
    };
    Some(base.wrapping_add(offset * task.spec.ty.size()))
}
