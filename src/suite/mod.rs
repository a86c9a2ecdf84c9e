//! Scenario files to run together.
pub mod drive;
#[cfg(test)]
pub(crate) mod fixture;
