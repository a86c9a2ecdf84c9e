//! What came of audits, for people and as JSON lines.
pub mod table;
pub mod ways;
