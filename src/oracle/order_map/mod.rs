//! Order maps: which order of ranks summed which run of a result's elements, by name.
//!
//! | file | what it does |
//! |---|---|
//! | `map` | the map, as verdicts, reports and records hold it |
//! | `compare` | two maps of the same result: what changed |
mod compare;
mod map;

pub use compare::{OrderChange, compare, describe_change};
pub use map::{Explanation, OrderMap, OrderRun, Pattern, ResultOrder};
