//! A comparison as text and as JSON lines.
mod human;
mod json;

pub use human::write_human;
pub use json::write_json_lines;
