//! The judge on right observations, and on observations that were tampered with.
mod as_expected;
mod blame;
mod case_fault;
mod changes;
mod corpus;
mod deaths;
mod messages;
mod speed;
mod tamper;
mod undefined;
mod windows;
