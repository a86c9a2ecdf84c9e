//! Why a job stands still: which rank left the others, at which call, and what all ranks wait for.
//!
//! The programs of the ranks are compared, and never run. What cannot be told from them is said to be a guess.
mod job;
mod sequences;
mod departure;
mod parting;
mod waits;
mod old;
mod history;
mod diagnosis;
mod sentence;
mod look;
mod circle;
mod diagnose;
mod inputs;
mod markdown;
mod text;
#[cfg(test)]
mod tests;

pub use diagnose::diagnose;
pub use inputs::{Evidence, Kind, read};
pub use job::Job;
pub use markdown::markdown;
pub use text::text;
