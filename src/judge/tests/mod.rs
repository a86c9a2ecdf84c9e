//! The judge against observations that are right, and against every way of tampering with them.
mod bench;
mod corpus;
mod speed;
mod tamper;
mod words;
