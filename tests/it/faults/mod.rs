//! Faults on demand: each makes a small scenario fail that passes without it.
mod algorithms;
mod communicators;
mod deaths;
mod ending;
mod graphs;
mod numbers;
mod order;
mod shown;
mod situations;
mod structure;
mod transport;
mod windows;

pub use ending::example;
