//! What an NCCL library costs a process and changes in it, measured in child processes: seconds of its first calls, memory on
//! device and host, threads, descriptors, processors and variables, what a communicator leaves behind, which algorithm each
//! size takes, and its parameters.
//!
//! | file | what it does |
//! |---|---|
//! | `ask` | starts a child and hears what it measured |
//! | `measure` | the child's side: what is done, and in which order |
//! | `rank` | a rank of the child: a thread that makes communicators and calls collectives |
//! | `process` | the state of a process, as the kernel tells it |
//! | `log` | what NCCL's log says of initialisation and of algorithms |
//! | `growth` | what stays behind with each communicator |
//! | `summary` | the measurements of several processes as one |
mod ask;
mod growth;
mod log;
mod measure;
mod process;
mod rank;
mod summary;

pub use ask::{Request, ask, enter_if_asked};
pub use growth::Growth;
#[cfg(test)]
pub use log::Choice;
pub use log::choices_in_words;
pub use measure::Measurement;
pub use summary::Footprint;
