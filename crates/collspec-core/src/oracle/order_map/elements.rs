//! The order map of some elements, of which each rank's input is known one by one.
use super::find::{MapBudget, order_map};
use super::map::OrderMap;
use super::trial::Columns;
use crate::num::put_elements;
use crate::oracle::{Budget, ColumnReduction, RightResults};

/// The order map of results, each with its column of inputs by rank; `None` if no element depends on the order.
pub fn of_elements(
    reduction: &ColumnReduction,
    columns: &[Vec<u64>],
    results: &[u64],
    budget: &mut Budget,
) -> Option<OrderMap> {
    if columns.len() != results.len() || columns.iter().any(|column| column.len() != reduction.ranks) {
        return None;
    }
    let dtype = reduction.dtype;
    let buffer = |elements: &mut dyn Iterator<Item = u64>| {
        let mut bytes = vec![0; results.len() * dtype.size()];
        put_elements(dtype, &mut bytes, elements);
        bytes
    };
    let rank = |rank: usize| buffer(&mut columns.iter().map(|column| column.get(rank).copied().unwrap_or_default()));
    let inputs: Vec<Vec<u8>> = (0..reduction.ranks).map(rank).collect();
    let inputs: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
    let result = buffer(&mut results.iter().copied());
    let mut is_open = |column: &Vec<u64>| {
        !matches!(reduction.right_results(column, budget), Ok(RightResults::Bits(_) | RightResults::AnyNan))
    };
    let telling = columns.iter().zip(0..).filter(|(column, _)| is_open(column)).map(|(_, at)| at).collect();
    let columns = Columns { dtype, inputs: &inputs, result: &result, telling };
    order_map(reduction, columns, &mut MapBudget::default())
}
