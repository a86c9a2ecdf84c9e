//! Calls that are captured into graphs.
use crate::call::Call;
use crate::communicators::Communicator;
use crate::fault::hit;
use crate::plain::named::*;
use crate::streams;
use gpuless_device::Stream;

/// Notes which calls a capture has, and changes a call that is captured.
pub(crate) fn follow(of: &Communicator, call: &mut Call, capture: Option<u64>) {
    let mut state = of.state();
    let Some(id) = capture else { return };
    if state.capture != Some(id) {
        (state.capture, state.captured) = (Some(id), 0);
    }
    let at = state.captured;
    state.captured += 1;
    state.owes = true;
    if state.first_capture.1.is_empty() || state.first_capture.0 == id {
        state.first_capture.0 = id;
        state.first_capture.1.push(call.clone());
    } else if let Some(other) = state.first_capture.1.get(at)
        && differ(other, call)
        && call.count > 0
        && hit(F78, of.rank)
    {
        *call = Call { stream: call.stream, ..other.clone() };
    }
    drop(state);
    if call.count > 0 && call.kind.is_collective() && hit(F77, of.rank) {
        let now = Stream::new();
        let _ = Call { stream: now.raw().expose_provenance(), ..call.clone() }.issue();
        streams::keep(now);
    }
}

/// True if two calls do different things.
fn differ(one: &Call, other: &Call) -> bool {
    let what = |call: &Call| (call.kind, call.send, call.recv, call.count, call.dtype, call.op, call.root);
    what(one) != what(other)
}
