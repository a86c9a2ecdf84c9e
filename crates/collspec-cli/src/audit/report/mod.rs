//! Reports of audits as text and as JSON lines.
pub mod advice;
pub mod own;
pub mod table;
