//! A call in its surroundings.
use crate::call::Call;
use crate::communicators::Communicator;
use gpuless_device::Stream;

/// A call with what is known about its surroundings.
pub(crate) struct Placed<'a> {
    pub of: &'a Communicator,
    pub call: &'a Call,
    pub stream: &'a Stream,
    /// The capture that it becomes part of.
    pub capture: Option<u64>,
}
