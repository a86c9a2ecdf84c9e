//! The orders with a name: rotations of the rank order, NCCL's trees, pairs, and chains or trees between groups of ranks.
use super::shapes::{Order, Step};
use std::collections::HashSet;

/// With at most this many ranks every chain order is tried; beyond, only orders with a name.
pub(crate) const ALL_CHAINS_RANKS: usize = 8;
/// With at most this many ranks every rank is tried as the root of a tree; beyond, rank 0.
const ALL_ROOTS_RANKS: u32 = 16;
/// With at most this many ranks every rotation and group is tried; beyond, only where a ring or a chain usually begins.
const ALL_ROTATIONS_RANKS: u32 = 64;

/// The orders that are tried for a communicator of this many ranks, those that libraries use most first.
pub(super) fn named_orders(ranks: u32, fused: bool) -> Vec<Order> {
    let rotation = |start: u32, down| Order::Rotation { ranks, start: start % ranks, down };
    // Element 0 of a ring begins at rank 1; a chain to rank 0 inside a machine goes downwards.
    let mut all = vec![rotation(1, false), rotation(ranks - 1, true), rotation(0, false)];
    all.extend(trees(ranks));
    all.extend([pairs(ranks, false), pairs(ranks, true)].into_iter().flatten());
    if ranks <= ALL_ROTATIONS_RANKS {
        all.extend((2..ranks).map(|start| rotation(start, false)));
        all.extend((0..ranks - 1).map(|start| rotation(start, true)));
        all.extend(grouped_orders(ranks));
        all.extend(group_sizes(ranks).into_iter().flat_map(|size| spread_trees(ranks, size)));
    }
    if !fused {
        // A tree that adds one rank after the other is a chain, and is named like one.
        for order in &mut all {
            if let Some(chain) = order.as_chain() {
                *order = Order::Chain(chain);
            }
        }
    }
    let mut seen = HashSet::new();
    all.retain(|order| seen.insert(order.hash(fused, false)));
    all
}

/// Both trees of a double binary tree, in each known variant.
pub(super) fn double_trees(ranks: u32) -> Vec<[Order; 2]> {
    let named = |number: usize, parent_children: &dyn Fn(u32) -> Vec<u32>, root: u32, turn: &dyn Fn(u32) -> u32| {
        let mut steps = Vec::new();
        tree_steps(root, parent_children, turn, &mut steps);
        Order::Tree { steps, name: format!("{} tree of a double binary tree", ["first", "second"][number]) }
    };
    let nccl = |rank| nccl_children(rank, ranks);
    let balanced = |place| balanced_children(place, ranks);
    let root = (1u32 << ranks.ilog2()) - 1;
    let same = |rank: u32| rank;
    let mirrored = |rank: u32| ranks - 1 - rank;
    let up = |rank: u32| (rank + 1) % ranks;
    let down = |rank: u32| (rank + ranks - 1) % ranks;
    let turns: [&dyn Fn(u32) -> u32; 3] = [&mirrored, &up, &down];
    let mut all = Vec::new();
    for (children, root) in [(&nccl as &dyn Fn(u32) -> Vec<u32>, 0), (&balanced, root)] {
        for turn in turns {
            all.push([named(0, children, root, &same), named(1, children, root, turn)]);
        }
    }
    all
}

fn trees(ranks: u32) -> Vec<Order> {
    let mut all: Vec<Order> = double_trees(ranks).into_iter().flatten().collect();
    let roots = if ranks <= ALL_ROOTS_RANKS { ranks } else { 1 };
    for root in 0..roots {
        let children = |place: u32| (2 * place + 1..=2 * place + 2).filter(|child| *child < ranks).collect();
        let mut steps = Vec::new();
        tree_steps(0, &children, &|place| (place + root) % ranks, &mut steps);
        all.push(Order::Tree { steps, name: format!("binary tree with root {root}") });
    }
    all
}

/// A tree in which every node adds its children's sums to its own input, the first child first.
fn tree_steps(place: u32, children: &dyn Fn(u32) -> Vec<u32>, turn: &dyn Fn(u32) -> u32, into: &mut Vec<Step>) {
    let rank = turn(place);
    let mut own = false;
    for child in children(place) {
        tree_steps(child, children, turn, into);
        into.push(if own { Step::Add } else { Step::AddInput(rank) });
        own = true;
    }
    if !own {
        into.push(Step::Input(rank));
    }
}

/// NCCL's binary tree (src/graph/trees.cc): a rank with lowest set bit b has its children b/2 to both sides; rank 0 is the root
/// and has one child.
fn nccl_children(rank: u32, ranks: u32) -> Vec<u32> {
    if rank == 0 {
        let child = ranks.next_power_of_two() / 2;
        return if ranks > 1 { vec![child] } else { Vec::new() };
    }
    let mut half = (rank & rank.wrapping_neg()) / 2;
    if half == 0 {
        return Vec::new();
    }
    let mut children = vec![rank - half];
    while half > 0 && rank + half >= ranks {
        half /= 2;
    }
    children.extend((half > 0).then_some(rank + half));
    children
}

/// The same shape with the middle rank as its root.
fn balanced_children(place: u32, ranks: u32) -> Vec<u32> {
    nccl_children(place + 1, ranks + 1).into_iter().map(|child| child - 1).collect()
}

/// Pairs of partial results at distances 1, 2, 4, ... or the farthest first, as recursive doubling and halving add them.
fn pairs(ranks: u32, farthest_first: bool) -> Option<Order> {
    if !ranks.is_power_of_two() || ranks < 4 {
        return None;
    }
    let bits = ranks.ilog2();
    // In `place` order neighbours are added first.
    let rank = |place: u32| if farthest_first { place.reverse_bits() >> (32 - bits) } else { place };
    let mut steps = Vec::new();
    for place in (0..ranks).step_by(2) {
        steps.extend([Step::Input(rank(place)), Step::AddInput(rank(place + 1))]);
        steps.extend((1..(place + 2).trailing_zeros()).map(|_| Step::Add));
    }
    let which = if farthest_first { "farthest" } else { "neighbours" };
    Some(Order::Tree { steps, name: format!("pairs, {which} first") })
}

/// The sizes of equal groups to try.
fn group_sizes(ranks: u32) -> Vec<u32> {
    let mut sizes: Vec<u32> = [2, 4, 8, ranks / 2, ranks / 4].into_iter().collect();
    sizes.retain(|size| *size > 1 && *size < ranks && ranks.is_multiple_of(*size));
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

/// NCCL's trees over machines, where a machine's first rank is the parent's child and has one child machine itself, and its second
/// rank has the other (`treeToChild0` in src/graph/connect.cc): such children are added inside the machine's chain.
fn spread_trees(ranks: u32, size: u32) -> Vec<Order> {
    let groups = ranks / size;
    let children = |place: u32| {
        let (group, inside) = (place / size, place % size);
        let of_group = nccl_children(group, groups);
        // The root's only child counts as its second one.
        let of_second_rank = usize::from(group > 0);
        let (at_second, at_first) = of_group.split_at(of_second_rank.min(of_group.len()));
        let below = match inside {
            0 => at_first,
            1 => at_second,
            _ => &[],
        };
        let next = (inside + 1 < size).then_some(place + 1);
        next.into_iter().chain(below.iter().map(|group| group * size)).collect()
    };
    let tree = |number: &str, group_of: &dyn Fn(u32) -> u32| {
        let mut steps = Vec::new();
        tree_steps(0, &children, &|place| group_of(place / size) * size + place % size, &mut steps);
        let name = format!(
            "groups of {size}: chains downwards inside, {number} tree of a double binary tree between, \
             joined at first and second ranks"
        );
        Order::Tree { steps, name }
    };
    let second = |group| if groups.is_multiple_of(2) { groups - 1 - group } else { (group + 1) % groups };
    vec![tree("first", &|group| group), tree("second", &second)]
}

/// Sums of equal groups of ranks, and a sum of these.
pub(super) fn grouped_orders(ranks: u32) -> Vec<Order> {
    if ranks > ALL_ROTATIONS_RANKS {
        return Vec::new();
    }
    let mut all = Vec::new();
    for size in group_sizes(ranks) {
        for inside_down in [true, false] {
            let inside = if inside_down { "chains downwards" } else { "chains upwards" };
            for (steps, between) in between_groups(ranks / size) {
                let steps = steps.into_iter().flat_map(|step| match step {
                    Step::Input(group) => group_steps(group, size, inside_down),
                    Step::AddInput(group) => {
                        let mut steps = group_steps(group, size, inside_down);
                        steps.push(Step::AddNarrow);
                        steps
                    }
                    _ => vec![Step::AddNarrow],
                });
                let name = format!("groups of {size}: {inside} inside, {between} between");
                all.push(Order::Tree { steps: steps.collect(), name });
            }
        }
    }
    all
}

fn group_steps(group: u32, size: u32, down: bool) -> Vec<Step> {
    let chain = Order::Rotation { ranks: size, start: if down { size - 1 } else { 0 }, down };
    let mut steps = Vec::new();
    chain.for_each_step(|step| {
        steps.push(match step {
            Step::Input(rank) => Step::Input(group * size + rank),
            Step::AddInput(rank) => Step::AddInput(group * size + rank),
            other => other,
        });
    });
    steps.push(Step::Narrow);
    steps
}

/// Orders of groups, as steps over their numbers, with their names.
fn between_groups(groups: u32) -> Vec<(Vec<Step>, String)> {
    let mut orders = Vec::new();
    for down in [false, true] {
        orders.extend((0..groups).map(|start| Order::Rotation { ranks: groups, start, down }));
    }
    orders.extend(double_trees(groups).into_iter().flatten());
    orders.extend([pairs(groups, false), pairs(groups, true)].into_iter().flatten());
    let mut seen = HashSet::new();
    orders.retain(|order| seen.insert(order.hash(false, false)));
    let steps = |order: &Order| {
        let mut steps = Vec::new();
        order.for_each_step(|step| steps.push(step));
        steps
    };
    orders.iter().map(|order| (steps(order), order.name())).collect()
}

/// Every chain of up to [`ALL_CHAINS_RANKS`] ranks; where the first two commute, only with the lower one first.
pub(super) fn all_chains(ranks: u32, first_two_commute: bool) -> Vec<Order> {
    let mut all = Vec::new();
    let mut chain = Vec::with_capacity(ranks as usize);
    extend_chains(ranks, first_two_commute, &mut chain, &mut all);
    all
}

fn extend_chains(ranks: u32, ascending: bool, chain: &mut Vec<u32>, all: &mut Vec<Order>) {
    if chain.len() == ranks as usize {
        return all.push(Order::Chain(chain.clone()));
    }
    for rank in 0..ranks {
        if chain.contains(&rank) {
            continue;
        }
        if ascending && chain.len() == 1 && rank < chain[0] {
            continue;
        }
        chain.push(rank);
        extend_chains(ranks, ascending, chain, all);
        chain.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_complete(order: &Order, ranks: u32) {
        let (mut seen, mut depth) = (vec![false; ranks as usize], 0i64);
        order.for_each_step(|step| match step {
            Step::Input(rank) | Step::AddInput(rank) => {
                assert!(!std::mem::replace(&mut seen[rank as usize], true), "{order:?}");
                depth += i64::from(matches!(step, Step::Input(_)));
                assert!(depth > 0, "{order:?}");
            }
            Step::Add | Step::AddNarrow => depth -= 1,
            Step::Narrow => {}
        });
        assert!(depth == 1 && seen.iter().all(|seen| *seen), "{order:?}");
    }

    #[test]
    fn every_order_has_every_rank_once() {
        for ranks in 2..70 {
            for order in named_orders(ranks, false).iter().chain(&grouped_orders(ranks)) {
                is_complete(order, ranks);
            }
        }
    }

    #[test]
    fn orders_by_hand() {
        let additions = |order: &Order| order.additions(false, true);
        let [first, second] = &double_trees(4)[0];
        // Rank 0 has the child 2, which has 1 and 3.
        assert_eq!(additions(first), "(0+(3+(1+2)))");
        assert_eq!(additions(second), "(3+(0+(1+2)))");
        assert_eq!(additions(&pairs(4, false).unwrap()), "((0+1)+(2+3))");
        assert_eq!(additions(&pairs(4, true).unwrap()), "((0+2)+(1+3))");
        let grouped = grouped_orders(8);
        let of_two = grouped.iter().find(|order| order.name().starts_with("groups of 4: chains downwards")).unwrap();
        assert_eq!(additions(of_two), "([(0+(1+(2+3)))]+[(4+(5+(6+7)))])");
        // The trees that NCCL 2.27.5 logged on four machines of two ranks.
        let [first, second] = &spread_trees(8, 2)[..] else { panic!() };
        assert_eq!(additions(first), "((0+1)+((6+7)+(4+(5+(2+3)))))");
        assert_eq!(additions(second), "((6+7)+((0+1)+(2+(3+(4+5)))))");
        assert_eq!((all_chains(4, true).len(), all_chains(4, false).len()), (12, 24));
        assert_eq!(named_orders(3, false).len(), 3);
    }
}
