//! Multicast memory: addresses that stand for memory of several devices.
use std::fmt::Debug;

/// Knows what the multicast addresses of kernels stand for.
pub trait Multicast: Debug + Send + Sync {
    /// Calls `f` with the address of a byte in each member's memory, in a fixed order, if from there on `len` bytes are in all of them. They
    /// are readable and writable, as memory that [`super::Memory::map`] was given, until the kernels that run now have ended. False if they are not.
    fn with_members(&self, address: u64, len: u64, f: &mut dyn FnMut(&[u64])) -> bool;
}
