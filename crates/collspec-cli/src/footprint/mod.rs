//! Measures, in child processes, what an NCCL library costs a process and changes in it: seconds of its first calls, memory on
//! device and host, threads, descriptors, processors and variables, leaks per communicator and call, the algorithm for each size,
//! and its parameters.
//!
//! | file | purpose |
//! |---|---|
//! | `ask` | starts a child and receives its measurements |
//! | `measure` | the child's side: the sequence of measurements |
//! | `rank` | a rank of the child: a thread that creates communicators and calls collectives |
//! | `process` | the state of a process, as reported by the kernel |
//! | `log` | NCCL's log on initialisation and algorithms |
//! | `growth` | the resources that remain after each communicator, and after many calls |
//! | `summary` | the measurements of several processes combined |
mod ask;
mod growth;
mod log;
mod measure;
mod process;
mod rank;
mod summary;

pub use ask::{Request, ask, enter_if_asked};
pub use growth::Growth;
pub use log::{Choice, choices, choices_in_words, size_in_words};
pub use measure::{CALLS, Measurement, OPERATIONS, load};
pub use process::processors_in_words;
pub use rank::{Order, Ranks};
pub use summary::Footprint;
