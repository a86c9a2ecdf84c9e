//! Reports of audits as text and as JSON lines.
pub mod comparison;
pub mod table;
