//! Order maps: the order of ranks that summed each run of a result's elements, by name.
//!
//! | file | purpose |
//! |---|---|
//! | `shapes` | orders of summation, step by step, with their names |
//! | `named_orders` | the orders that are tried |
//! | `computing` | roundings, types of partial results, and scales |
//! | `trial` | tries an order on elements, within a budget |
//! | `ring` | finds rings |
//! | `family` | decides if any ring or tree explains a result |
//! | `find` | finds the map of a result |
//! | `write` | builds the map with its name and the precision of its boundaries |
//! | `map` | the map as stored in verdicts, reports and records |
//! | `elements` | the map of single elements, of which only some are known |
//! | `compare` | the change between two maps of the same result |
mod compare;
mod computing;
mod elements;
mod family;
mod find;
mod map;
mod named_orders;
mod ring;
mod shapes;
#[cfg(test)]
mod tests;
mod trial;
mod write;

pub use compare::{OrderChange, compare, describe_change};
pub use elements::of_elements;
pub(crate) use family::{Family, may_explain};
pub(crate) use find::{MapBudget, has_order, order_map};
pub use map::{Explanation, OrderMap, OrderRun, Pattern, ResultOrder};
pub(crate) use trial::Columns;
