//! Decides if any ring, or any tree, explains a result: only if none does has another algorithm run.
use super::computing::{Computing, prepare};
use super::named_orders::{all_chains, grouped_orders, named_orders};
use super::shapes::{Order, Step};
use super::trial::{Columns, Spent, Trial};
use crate::oracle::answer::ColumnReduction;
use std::collections::HashMap;

/// Number of ranks up to which all rings and all trees are enumerated.
const MOST_RANKS: u32 = 8;
/// Number of ranks up to which every tree of additions is tried; beyond, every chain and the trees with a name.
const ALL_TREES_RANKS: u32 = 7;
/// Number of additions that the decision may take.
const ADDITIONS: u64 = 400_000_000;
/// Number of elements, evenly spread, on which pairs of trees are tried first: a bit for each.
const SAMPLES: usize = 64;

/// A group of algorithms with similar orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    /// Every element is summed along a rotation of one cycle.
    Ring,
    /// Every element is summed in one of two orders.
    Tree,
}

/// True if a member of the family gives exactly these bits, or if this is unknown.
pub(crate) fn may_explain(family: Family, reduction: &ColumnReduction, columns: Columns<'_>) -> bool {
    let columns = &columns.without_certain_nans(&reduction.kind);
    let Some(ranks) = u32::try_from(reduction.ranks).ok().filter(|ranks| *ranks <= MOST_RANKS) else { return true };
    let prepared = prepare(reduction);
    let mut trial = Trial::new(columns, &prepared.scalars, ADDITIONS);
    Computing::all(&prepared).iter().any(|computing| {
        let explained = match family {
            // A ring does not round partial sums separately on the way around.
            Family::Ring if computing.grouped => Ok(false),
            Family::Ring => a_ring_explains(&mut trial, computing, ranks),
            Family::Tree => two_orders_explain(&mut trial, computing, &tree_orders(computing, ranks)),
        };
        explained.unwrap_or(true)
    })
}

/// True if rotations of one cycle explain all telling elements.
fn a_ring_explains(trial: &mut Trial<'_>, computing: &Computing, ranks: u32) -> Result<bool, Spent> {
    // Each cycle once: those chains that begin with rank 0.
    let from_zero = all_chains(ranks, false).into_iter().map(|order| order.chain()).filter(|chain| chain[0] == 0);
    let rotations = |cycle: Vec<u32>| -> Vec<Order> {
        let rotated = |by: usize| cycle[by..].iter().chain(&cycle[..by]).copied().collect();
        (0..cycle.len()).map(|by| Order::Chain(rotated(by))).collect()
    };
    'cycles: for orders in from_zero.map(rotations) {
        for index in 0..trial.columns.telling.len() {
            let mut explained = false;
            for order in &orders {
                explained = explained || trial.explains(index, computing, order)?;
            }
            if !explained {
                continue 'cycles;
            }
        }
        return Ok(true);
    }
    Ok(false)
}

/// True if, for some two of these orders, one or the other explains each telling element.
fn two_orders_explain(trial: &mut Trial<'_>, computing: &Computing, orders: &[Order]) -> Result<bool, Spent> {
    let telling = trial.columns.telling.len();
    let samples: Vec<usize> = (0..telling).step_by(telling.div_ceil(SAMPLES).max(1)).collect();
    // The orders by the samples that they explain, a bit for each.
    let mut by_samples: HashMap<u64, Vec<&Order>> = HashMap::new();
    for order in orders {
        let mut explained = 0;
        for (bit, index) in samples.iter().enumerate() {
            explained |= u64::from(trial.explains(*index, computing, order)?) << bit;
        }
        by_samples.entry(explained).or_default().push(order);
    }
    let all = u64::MAX >> (64 - samples.len().clamp(1, SAMPLES));
    let groups: Vec<(u64, Vec<&Order>)> = by_samples.into_iter().collect();
    for (at, (explained, first)) in groups.iter().enumerate() {
        for (_, second) in groups[at..].iter().filter(|(other, _)| explained | other == all) {
            for (a, b) in first.iter().flat_map(|a| second.iter().map(move |b| (a, b))) {
                if one_of_two_explains_each(trial, computing, a, b)? {
                    return Ok(true);
                }
            }
        }
    }
    Ok(false)
}

fn one_of_two_explains_each(trial: &mut Trial<'_>, computing: &Computing, a: &Order, b: &Order) -> Result<bool, Spent> {
    for index in 0..trial.columns.telling.len() {
        if !trial.explains(index, computing, a)? && !trial.explains(index, computing, b)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The orders that trees may have.
fn tree_orders(computing: &Computing, ranks: u32) -> Vec<Order> {
    if computing.grouped {
        return grouped_orders(ranks);
    }
    let fused = computing.is_fused();
    if !fused && ranks <= ALL_TREES_RANKS {
        let name = String::new;
        return all_trees((1 << ranks) - 1).into_iter().map(|steps| Order::Tree { steps, name: name() }).collect();
    }
    let mut all = all_chains(ranks, !fused);
    all.extend(named_orders(ranks, fused));
    all
}

/// Every way to add up the ranks of a set; each bit is a rank.
fn all_trees(set: u32) -> Vec<Vec<Step>> {
    if set.count_ones() == 1 {
        return vec![vec![Step::Input(set.trailing_zeros())]];
    }
    let lowest = set & set.wrapping_neg();
    let mut all = Vec::new();
    // Addition commutes, so the lowest rank may always be in the first part.
    let mut second = set & !lowest;
    let others = second;
    while second > 0 {
        let parts = (all_trees(set & !second), all_trees(second));
        all.extend(parts.0.iter().flat_map(|a| parts.1.iter().map(move |b| joined(a, b))));
        second = (second - 1) & others;
    }
    all
}

fn joined(a: &[Step], b: &[Step]) -> Vec<Step> {
    match (a, b) {
        (a, [Step::Input(rank)]) | ([Step::Input(rank)], a) => [a, &[Step::AddInput(*rank)]].concat(),
        (a, b) => [a, b, &[Step::Add]].concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_tree_of_additions_is_there_once() {
        for (ranks, number) in [(2, 1), (3, 3), (4, 15), (5, 105), (6, 945)] {
            let trees = all_trees((1 << ranks) - 1).into_iter().map(|steps| Order::Tree { steps, name: String::new() });
            let additions: HashSet<String> = trees.map(|order| order.additions(false, false)).collect();
            assert_eq!(additions.len(), number);
            let chains = all_chains(ranks, true);
            assert!(chains.iter().all(|chain| additions.contains(&chain.additions(false, false))));
        }
    }
}
