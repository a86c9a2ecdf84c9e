//! Case to plan: buffers and where they lie, communicators, every rank's calls, what each call means, what can be
//! foreseen, and how much memory it takes.
mod types;

pub use types::*;
