//! NCCL's interface in software: real messages between ranks, which live in one process or in up to 64, by ring, tree
//! and double binary tree.
//!
//! [`table`] gives the functions, as a table that a run-time-loaded library would fill. They speak NCCL's C interface:
//! handles are numbers that are looked up and never followed, a panic becomes an internal error, and streams are those of
//! `gpuless-device`, or of a CUDA driver that the process has loaded (see [`device`]).
//!
//! Intended differences from NCCL:
//! - Every operation ends only when its messages were taken, so a program that needs buffering does not end (set
//!   COLLSPEC_SOFT_EAGER to give sends some).
//! - Operations on which ranks disagree (count, type, reduction, root, order) never exchange a byte and never end; the
//!   [activity](activity::activity) proves it and [`activity::who_waits`] lists the requests of each rank.
//! - Without NCCL_ALGO every operation that has a choice takes the ring. `SingleTree` is a further word.
//! - A window is a place to which puts may write; registering memory is recorded and has no other effect. With NCCL_WIN_ENABLE=0 or
//!   NCCL_P2P_DISABLE=1 there are no windows. A put with a byte outside its window writes nothing.
//! - The data of all protocols travels alike. Ranks that ask for different ones never exchange a byte.
//! - Rings, trees, channels and chunks are its own, so that small cases need few messages.
//! - Aborting a rank leaves its peers waiting for messages that never come. A process that ends, however it ends,
//!   without having given up its ranks, is a remote error for the others.
//! - NCCL_COMM_ID is ignored: processes meet by a unique id alone.
//! - COLLSPEC_SOFT_ARITHMETIC makes it compute in other correct ways: wider partial results, averages that divide,
//!   the other zero of min and max.
//! - The proof of a standstill covers communicators whose ranks all live in this process; an operation that waits for another
//!   process counts as busy.
#![deny(unsafe_code)]

mod arith;
mod failure;
mod route;
mod op;
mod algo;
mod settings;
pub mod device;
mod transport;
mod engine;
pub mod activity;
mod group;
mod ffi;

pub use algo::{Algorithm, Algorithms, Protocol, Protocols};
pub use arith::manner::{Average, Manner, NoManner, Zero};
pub use engine::{MOST_TRACED_MESSAGES, schedule};
pub use ffi::VERSION;
pub use settings::{AlreadyRead, Connect, Settings, set_settings_for_process};

/// The library's functions, as a table that a run-time-loaded library would fill.
pub fn table() -> nccl_sys::Nccl {
    ffi::table()
}
