//! Stores to global memory as an observer sees them, who can make one of them go wrong.
use super::lanes::{Lanes, Mask};
use std::fmt::Debug;

/// What happens at a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strike {
    /// Nothing but the store.
    None,
    /// The store does not happen in these lanes.
    Lost(Mask),
    /// Just before the store a bit of a byte in global memory changes. Nothing changes if kernels cannot reach the byte any more.
    Flip {
        /// The byte's address.
        address: u64,
        /// The bit's number, 0 to 7.
        bit: u32,
    },
}

/// Learns of every store instruction of a warp that reaches global memory, before it happens. Atomics and bulk copies are not reported.
pub trait Stores: Debug + Send + Sync {
    /// The lanes in the mask are about to store `bytes` bytes each.
    fn before(&self, addresses: &Lanes<u64>, lanes: Mask, bytes: u64) -> Strike;
}
