//! Words that several reports of a comparison share.
use collspec_core::printable::thousands;

/// A number of things: `1 case`, `2,000 cases`.
pub fn counted(count: usize, one: &str, many: &str) -> String {
    format!("{} {}", thousands(count as u64), if count == 1 { one } else { many })
}

/// A number of cases.
pub fn cases(count: usize) -> String {
    counted(count, "case", "cases")
}
