//! Checks that the sums of a call that asks for an algorithm have an order which this algorithm can produce.
//!
//! A ring adds each part of the result along a rotation of one cycle, so its orders are chains; a tree has at most two orders, one
//! for each of its halves. An order that both can produce proves nothing and is not reported; nor is one for which any member of
//! the requested family gives the same bits.
use super::findings::{FindingCollector, Priority};
use super::order_maps::{EventOrder, OrderMaps};
use super::{Lane, message};
use crate::oracle::order_map::{Family, OrderMap, OrderRun, Pattern};
use crate::plan::{Event, Plan};
use nccl_sys::AlgorithmName;
use std::collections::HashSet;

/// Limit on the other explanations kept for a run.
const MOST_OTHERS: usize = 8;

/// Number of elements that must depend on the order: a wrong order may explain fewer by chance.
const FEWEST_TELLING: u64 = 16;

/// The family shared by all names that a call admits.
fn family_of(names: &[&AlgorithmName]) -> Option<Family> {
    let all = |start: &str| !names.is_empty() && names.iter().all(|name| name.name.starts_with(start));
    if all("RING_") { Some(Family::Ring) } else { all("TREE_").then_some(Family::Tree) }
}

/// The evidence in a map against a family, if any. It is not a proof: a member of the family may give the same bits.
pub(super) fn contradiction(family: Family, map: &OrderMap) -> Option<&'static str> {
    match family {
        Family::Ring if map.pattern == Pattern::DoubleTree && map.runs.iter().all(|run| tells(map, run)) => {
            Some("a double tree's")
        }
        Family::Ring if map.runs.iter().any(|run| tells(map, run) && is_no_chain(map, run)) => Some("no ring's"),
        Family::Tree if map.pattern == Pattern::Ring && orders(map) > 2 => Some("a ring's"),
        Family::Ring | Family::Tree => None,
    }
}

/// True if enough elements of a run depend on the order, by the map's share of them, to rule out chance.
fn tells(map: &OrderMap, run: &OrderRun) -> bool {
    u128::from(run.elements) * u128::from(map.telling) >= u128::from(FEWEST_TELLING) * u128::from(map.elements)
}

/// Number of orders that are not arbitrary.
fn orders(map: &OrderMap) -> usize {
    let runs = map.runs.iter().filter(|run| tells(map, run));
    let explanations = runs.filter_map(|run| map.explanation(run.explanation));
    let telling = explanations.filter(|explanation| !explanation.is_any_order());
    telling.map(|explanation| explanation.additions.as_str()).collect::<HashSet<_>>().len()
}

/// True if only orders that add two partial sums explain the run.
fn is_no_chain(map: &OrderMap, run: &OrderRun) -> bool {
    let all = std::iter::once(&run.explanation).chain(&run.others);
    let branches = |index: &u32| {
        map.explanation(*index)
            .is_some_and(|explanation| !explanation.is_any_order() && adds_partial_sums(&explanation.additions))
    };
    run.others.len() < MOST_OTHERS && all.into_iter().all(branches)
}

/// True if an addition, written with parentheses around each, has partial sums on both sides.
fn adds_partial_sums(additions: &str) -> bool {
    // for each open operand, true if it is a sum
    let mut operands: Vec<bool> = Vec::new();
    let mut in_number = false;
    for c in additions.chars() {
        if c.is_ascii_digit() {
            if !in_number {
                operands.push(false);
            }
            in_number = true;
            continue;
        }
        in_number = false;
        if c == ')' {
            match (operands.pop(), operands.pop()) {
                (Some(true), Some(true)) => return true,
                _ => operands.push(true),
            }
        }
    }
    false
}

/// True if a step of the plan asks for an algorithm whose order of sums can be recognised.
pub(super) fn is_asked_for(plan: &Plan) -> bool {
    plan.events.iter().any(|event| asked(plan, event).is_some())
}

/// The family that an event's call must belong to, and the selection that requires it.
pub(super) fn asked<'p>(plan: &Plan, event: &'p Event) -> Option<(Family, &'p str)> {
    let Event::Collective(collective) = event else { return None };
    let algorithm = collective.first.op.algorithm.as_ref().filter(|algorithm| algorithm.choice.force)?;
    let named = |name: &str| plan.case.env.iter().any(|var| var.name.value == name);
    // The file's own variables take precedence over the call.
    if !algorithm.by_variables && (named("NCCL_ALGO") || named("NCCL_PROTO")) {
        return None;
    }
    let names = algorithm.choice.admitted(collective.op().call).ok()?;
    Some((family_of(&names)?, &algorithm.choice.selection))
}

/// Reports calls whose sums cannot come from the algorithm that they requested.
pub(super) fn check(plan: &Plan, maps: &OrderMaps, collector: &mut FindingCollector) {
    for EventOrder { event: number, order, contradiction } in maps.by_event() {
        let number = *number;
        let Some((_, selection)) = plan.events.get(number).and_then(|event| asked(plan, event)) else { continue };
        collector.count_checked(Lane::Invariants, 1);
        let Some(is) = contradiction else { continue };
        let text = format!(
            "{}: the call asks for the algorithm {selection}, but the order in which `{}` was summed is {is}: {}",
            order.step, order.buffer, order.map.name
        );
        let mut finding =
            message::without_element(Lane::Invariants, text, selection.to_owned(), order.map.name.clone());
        finding.rank = order.ranks.first().copied();
        finding.buffer = Some(order.buffer.clone());
        let step = plan.events.get(number).and_then(|event| plan.steps.get(event.step() as usize));
        finding.span = step.map(|step| step.span);
        collector.add(Priority::Invariant(number), finding);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::oracle::order_map::Explanation;

    fn map(pattern: Pattern, orders: &[&str]) -> OrderMap {
        let explanation = |additions: &&str| Explanation {
            order: String::new(),
            additions: (*additions).to_owned(),
            computing: "each step".into(),
        };
        let run = |at: usize| OrderRun {
            start: at as u64,
            elements: 100,
            earliest_start: at as u64,
            latest_start: at as u64,
            explanation: at as u32,
            others: Vec::new(),
        };
        OrderMap {
            name: "a map".into(),
            pattern,
            elements: 100 * orders.len() as u64,
            telling: 50 * orders.len() as u64,
            explanations: orders.iter().map(explanation).collect(),
            runs: (0..orders.len()).map(run).collect(),
            run_count: orders.len() as u64,
            hash: String::new(),
        }
    }

    #[test]
    fn a_map_contradicts_an_algorithm_only_where_it_cannot_be_its() {
        let (chain, tree) = ("(3+(2+(0+1)))", "((0+1)+(2+3))");
        let said = |family: Family, pattern, orders: &[&str]| contradiction(family, &map(pattern, orders)).is_some();
        assert!(said(Family::Ring, Pattern::DoubleTree, &[chain, "(1+(0+(2+3)))"]));
        assert!(said(Family::Ring, Pattern::OneOrder, &[tree]));
        assert!(said(Family::Ring, Pattern::Runs, &[chain, tree]));
        assert!(!said(Family::Ring, Pattern::OneOrder, &[chain]));
        assert!(!said(Family::Ring, Pattern::AnyOrder, &["any"]));
        let rotations = [chain, "(0+(3+(1+2)))", "(1+(0+(2+3)))"];
        assert!(said(Family::Tree, Pattern::Ring, &rotations));
        assert!(!said(Family::Tree, Pattern::Ring, &rotations[..2]));
        assert!(!said(Family::Tree, Pattern::OneOrder, &[chain]));
        assert!(!said(Family::Tree, Pattern::Runs, &rotations));
        // Any order explains few elements by chance.
        let few = OrderMap { telling: 4, ..map(Pattern::OneOrder, &[tree]) };
        assert_eq!(contradiction(Family::Ring, &few), None);
    }

    #[test]
    fn chains_are_told_from_trees() {
        for chain in ["(0+1)", "(3+(2+(0+1)))", "(2*(0*1))", "((0+1)*2)", "(10+(2+11))", "[(0+1)]"] {
            assert!(!adds_partial_sums(chain), "{chain}");
        }
        for tree in ["((0+1)+(2+3))", "([(0+1)]+[(2+3)])", "(4+((0+1)+(2+3)))"] {
            assert!(adds_partial_sums(tree), "{tree}");
        }
    }
}
