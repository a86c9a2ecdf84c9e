//! The judge against observations that are right, and against every way of tampering with them.
pub(crate) mod bench;
mod corpus;
mod flaws;
mod speed;
mod tamper;
mod words;
