//! What a step does to memory. This is the one place where the engine touches a caller's buffer, and where a fault can
//! be put into a primitive step.
use super::task::Task;
use crate::algo::{Place, Step};
use crate::arith;
use crate::fault::{Conduct, Other, Sound};
use crate::op::Reduction;
use crate::settings::settings;

/// Runs a step outside the lock: `message` came in, `spare` is a buffer to fill where nothing did. Answers the value, or
/// the buffer it was in; `None` if the message does not have the step's length, which no correct peer sends.
pub(super) fn perform(
    task: &mut Task,
    step: &Step,
    message: Option<Vec<u8>>,
    spare: Option<Vec<u8>>,
) -> Option<Vec<u8>> {
    let Some(mut site) = task.fault.take() else {
        return match Other::of(settings().manner, &task.spec, task.n) {
            Some(mut other) => run(task, &mut other, step, message, spare),
            None => run(task, &mut Sound, step, message, spare),
        };
    };
    let value = run(task, &mut *site, step, message, spare);
    task.fault = Some(site);
    value
}

fn run(
    task: &mut Task,
    conduct: &mut impl Conduct,
    step: &Step,
    message: Option<Vec<u8>>,
    spare: Option<Vec<u8>>,
) -> Option<Vec<u8>> {
    let step = &conduct.step(step);
    let bytes = step.count * task.spec.ty.size();
    let mut value = match message {
        Some(mut data) => {
            if data.len() != bytes && conduct.partial().is_none_or(|size| data.len() != step.count * size) {
                return None;
            }
            conduct.message(step, &mut data);
            if let Some(place) = step.source {
                combine(task, conduct, step, place, &mut data, bytes);
            }
            data
        }
        None => {
            let mut data = spare.unwrap_or_default();
            match step.source {
                Some(place) => load(task, conduct, step, place, &mut data, bytes),
                None => data.clear(),
            }
            data
        }
    };
    if step.last {
        conduct.finish(task.spec.ty, task.n, task.spec.reduction == Some(Reduction::Average), &mut value);
    }
    match step.target {
        Some(Place::Scratch) => std::mem::swap(&mut task.scratch, &mut value),
        Some(Place::Out(at)) => store(conduct, task, task.spec.recv, at, &value),
        Some(Place::In(at)) => store(conduct, task, task.spec.send, at, &value),
        None => {}
    }
    conduct.done(step, &value);
    Some(value)
}

fn combine(task: &mut Task, conduct: &mut impl Conduct, step: &Step, place: Place, data: &mut [u8], bytes: usize) {
    let operator = task.spec.reduction.map_or(arith::Combine::Sum, Reduction::combine);
    if place == Place::Scratch {
        conduct.combine(step, task.spec.ty, operator, data, &task.scratch);
        return;
    }
    let mut own = std::mem::take(&mut task.own);
    load(task, conduct, step, place, &mut own, bytes);
    conduct.combine(step, task.spec.ty, operator, data, &own);
    task.own = own;
}

/// Copies a place's elements into `data`, pre-multiplied if they are the rank's own contribution.
fn load(task: &Task, conduct: &mut impl Conduct, step: &Step, place: Place, data: &mut Vec<u8>, bytes: usize) {
    data.clear();
    let (base, at) = match place {
        Place::In(at) => (task.spec.send, at),
        Place::Out(at) => (task.spec.recv, at),
        Place::Scratch => {
            data.extend_from_slice(&task.scratch);
            return;
        }
    };
    if bytes > 0 {
        let address = conduct.base(base).wrapping_add(at * task.spec.ty.size());
        data.reserve(bytes);
        // SAFETY: the caller of the operation promised `count` elements at this buffer until its stream has passed the
        // operation, and the script stays inside them; `reserve` made room, and the copied bytes are initialised.
        unsafe {
            std::ptr::copy_nonoverlapping(address as *const u8, data.as_mut_ptr(), bytes);
            data.set_len(bytes);
        }
    }
    if step.own
        && let Some(scalar) = &conduct.scalar(step, task.premul)
    {
        conduct.scale(task.spec.ty, data, scalar);
    }
    conduct.loaded(step, data);
}

fn store(conduct: &mut impl Conduct, task: &Task, base: usize, at: usize, data: &[u8]) {
    if !data.is_empty() {
        let base = conduct.base(base);
        conduct.store(task.spec.ty, base, at, data);
    }
}

/// Writes to a caller's memory.
pub(crate) fn write(address: usize, data: &[u8]) {
    // SAFETY: the caller of the operation promised its elements at the buffer until its stream has passed the operation,
    // and the script stays inside them (a fault that is asked for may leave them by less than a guard's width). The
    // library's own buffer never overlaps the caller's.
    unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), address as *mut u8, data.len()) };
}
