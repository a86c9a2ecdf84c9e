//! Where a call's buffers are: in place or not, and how far after a boundary.
use super::super::call::properties;
use super::line::{Kind, LoggedCall};
use collspec_core::ops::InPlace;

/// Bytes to which the buffers of a scenario are aligned.
const BOUNDARY: u64 = 256;

/// The place of a call's buffers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    pub in_place: bool,
    /// Elements after a boundary.
    pub offset: u64,
    /// True if the buffer does not begin at a whole element.
    pub between_elements: bool,
    /// True if what is received, elsewhere, does not begin at a boundary.
    pub receives_after_boundary: bool,
}

/// The place of a collective's buffers on this rank of its communicator.
pub fn of_collective(op: &str, call: &LoggedCall, rank: usize) -> Place {
    let layout = properties(op).map_or(InPlace::Never, |properties| properties.in_place);
    let block = call.count.wrapping_mul(call.dtype.size() as u64).wrapping_mul(rank as u64);
    let (send, recv) = (call.send, call.recv);
    let in_place = send != 0
        && recv != 0
        && match layout {
            InPlace::Same => send == recv,
            InPlace::SendInRecv => send == recv.wrapping_add(block),
            InPlace::RecvInSend => recv == send.wrapping_add(block),
            InPlace::Never => false,
        };
    // In place, what begins at a boundary is the larger buffer.
    let start = if in_place && layout == InPlace::SendInRecv { recv } else { send };
    Place {
        in_place,
        receives_after_boundary: !in_place && !recv.is_multiple_of(BOUNDARY),
        ..after_boundary(start, call)
    }
}

/// The place of the buffer of a message, which NCCL logs as the one received into.
pub fn of_message(call: &LoggedCall) -> Place {
    let receives_after_boundary = call.kind == Kind::Recv && !call.recv.is_multiple_of(BOUNDARY);
    Place { receives_after_boundary, ..after_boundary(call.recv, call) }
}

fn after_boundary(start: u64, call: &LoggedCall) -> Place {
    let (bytes, size) = (start % BOUNDARY, call.dtype.size() as u64);
    let between_elements = bytes % size != 0;
    let offset = if between_elements { 0 } else { bytes / size };
    Place { offset, between_elements, ..Place::default() }
}
