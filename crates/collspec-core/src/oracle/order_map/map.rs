//! The order map of a result: runs of elements, each with the order, rounding and scale that explain it.
use serde::{Deserialize, Serialize};

/// The order map of one result of a case, with the place of the result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResultOrder {
    /// Label of the step, for instance `step 2 (all_reduce)`.
    pub step: String,
    /// The buffer that received the result.
    pub buffer: String,
    /// World ranks that have it, ascending: each the whole result, or for a reduce_scatter each its block.
    pub ranks: Vec<usize>,
    /// The map of the result.
    pub map: OrderMap,
}

/// The order of ranks in which each element was summed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrderMap {
    /// The common name of the map, for instance `ring 0,1,2,3 (chunks of 32,768)`.
    pub name: String,
    /// The kind of map.
    pub pattern: Pattern,
    /// Number of elements of the result.
    pub elements: u64,
    /// Number of elements that the map had to explain, because rounding matters to them.
    pub telling: u64,
    /// The explanations that `runs` refer to.
    pub explanations: Vec<Explanation>,
    /// The runs by ascending start, at most the first 4,096; empty if there is no map.
    pub runs: Vec<OrderRun>,
    /// Number of all runs.
    pub run_count: u64,
    /// A hash of all runs with their explanations, in hexadecimal.
    pub hash: String,
}

/// The kind of map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pattern {
    /// Every order that is tried explains all elements, so the order is unknown.
    AnyOrder,
    /// One order for all elements.
    OneOrder,
    /// Successive rotations of one ring.
    Ring,
    /// One tree for the first part, its counterpart for the rest.
    DoubleTree,
    /// Runs without a known pattern.
    Runs,
    /// No map explains the result.
    NotExplained,
}

/// A run of elements with one explanation.
///
/// The boundary between two runs is known only up to the elements that both explain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrderRun {
    /// Index of the first element.
    pub start: u64,
    /// Number of elements in the run.
    pub elements: u64,
    /// The lowest element at which the run may begin: from there on its explanation holds.
    pub earliest_start: u64,
    /// The highest element at which the run may begin: up to there the explanation of the previous run holds.
    pub latest_start: u64,
    /// Index of its explanation.
    pub explanation: u32,
    /// Indices of other explanations that fit, at most the first 8.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<u32>,
}

/// An order, and the way it was computed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Explanation {
    /// The order's name: `chain 3,2,1,0`.
    pub order: String,
    /// A text that is equal for equal orders: the additions, with operands in a fixed order because addition commutes.
    pub additions: String,
    /// Rounding and scale, for instance `each step`, or `once in f32, scaled after in f32`.
    pub computing: String,
}

/// The word for the additions if the order is unknown.
pub(super) const ANY: &str = "any";

impl Explanation {
    /// True if every order that is tried explains the run.
    pub fn is_any_order(&self) -> bool {
        self.additions == ANY
    }
}

impl OrderMap {
    /// True if a map explains the result.
    pub fn is_explained(&self) -> bool {
        self.pattern != Pattern::NotExplained
    }

    /// The explanation of a run; `None` for an index that the map lacks.
    pub fn explanation(&self, index: u32) -> Option<&Explanation> {
        self.explanations.get(index as usize)
    }
}
