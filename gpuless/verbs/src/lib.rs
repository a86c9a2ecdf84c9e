//! libibverbs in software: programs written for InfiniBand or RoCE, NCCL's network transport among them, run between processes of one
//! machine that has no network card.
//!
//! | room | purpose |
//! |---|---|
//! | [`Settings`], [`configure`] | the network cards of a process, and the network that they are connected to |
//! | [`function`], [`LIBRARIES`] | the C functions, by name, for whoever stands in for the loader; a shared library of this crate exports them |
//! | [`files`] | the files of `/sys` that programs look at for network cards |
//! | [`faults`] | cards, ports and messages that fail on demand |
//! | `layout`, `names` | the structures, numbers and words of the C interface |
//! | `device`, `region`, `completion`, `qp` | cards; protection domains and memory regions; completion queues; queue pairs |
//! | `memory` | the order in which bytes become visible |
//! | `fabric` | connections between processes, and the thread that delivers |
//! | `exports` | the C functions |
//!
//! Queue pairs of the kinds RC and UC are here, with every operation that their work requests have; shared receive queues, datagrams,
//! multicast and memory windows are not.
#![deny(unsafe_code)]

mod descriptor;
mod lock;
#[allow(unsafe_code)]
mod shared;
mod table;
mod layout;
mod names;
mod settings;
mod memory;
mod device;
pub mod files;
mod region;
mod completion;
pub mod faults;
mod fabric;
mod qp;
mod exports;
#[cfg(test)]
mod tests;

pub use exports::function;
pub use settings::{AlreadyConfigured, Arrival, LinkLayer, Nic, Settings, configure, hash, set_arrival};

/// The names under which programs open libibverbs.
pub const LIBRARIES: [&str; 2] = ["libibverbs.so", "libibverbs.so.1"];
