//! Binary trees over ranks: one in heap order, and the pair in which every rank has children at most once.

/// A rank's neighbours in one tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Node {
    pub parent: Option<usize>,
    pub children: Vec<usize>,
}

/// The tree of heap order (children of i: 2i + 1 and 2i + 2), with the ranks turned so that `root` comes first.
pub(super) fn single(rank: usize, n: usize, root: usize) -> Node {
    let place = (rank + n - root) % n;
    let back = |place: usize| (place + root) % n;
    Node {
        parent: (place > 0).then(|| back((place - 1) / 2)),
        children: [2 * place + 1, 2 * place + 2].into_iter().filter(|child| *child < n).map(back).collect(),
    }
}

/// The rank's node in tree 0 or 1 of the double tree of this library, which has the shape of [`in_order`].
pub(super) fn double(rank: usize, n: usize, tree: usize) -> Node {
    paired(rank, n, tree, in_order, 1)
}

/// The rank's node in tree 0 or 1 of NCCL's double tree, which has the shape of [`binary`].
pub(super) fn double_binary(rank: usize, n: usize, tree: usize) -> Node {
    paired(rank, n, tree, binary, n - 1)
}

/// The rank's node in a tree or its counterpart, which turns (odd n, by `turn` places) or mirrors (even n) the ranks. That swaps
/// the parity of places, so a node with children in one tree is a leaf of the other (except NCCL's root, which has one child).
fn paired(rank: usize, n: usize, tree: usize, shape: fn(usize, usize) -> Node, turn: usize) -> Node {
    let mirror = |place: usize| n - 1 - place;
    let (place, back): (usize, Box<dyn Fn(usize) -> usize>) = match (tree, n.is_multiple_of(2)) {
        (0, _) => (rank, Box::new(|place| place)),
        (_, true) => (mirror(rank), Box::new(mirror)),
        (_, false) => ((rank + turn) % n, Box::new(|place| (place + n - turn) % n)),
    };
    let node = shape(place, n);
    Node { parent: node.parent.map(&back), children: node.children.into_iter().map(&back).collect() }
}

/// NCCL's tree over places 0..n: place 0 is the root, and a place with lowest set bit b has its children b/2 to both sides; where
/// the right one lies outside, the next smaller step that leads inside counts. The root has one child, the largest power of two.
fn binary(place: usize, n: usize) -> Node {
    if place == 0 {
        return Node { parent: None, children: (1..n).rev().find(|at| at.is_power_of_two()).into_iter().collect() };
    }
    let low = place & place.wrapping_neg();
    let above = (place ^ low) | (low << 1);
    let mut children = Vec::new();
    if low > 1 {
        children.push(place - low / 2);
        let steps = std::iter::successors(Some(low / 2), |step| Some(step / 2)).take_while(|step| *step > 0);
        children.extend(steps.map(|step| place + step).find(|child| *child < n));
    }
    Node { parent: Some(if above < n { above } else { place ^ low }), children }
}

/// The balanced search tree over places 0..n. Counted from 1, a place with lowest set bit b has its children b/2 to both
/// sides; where the right one lies outside, the next smaller one on its left line that is inside takes its place.
fn in_order(place: usize, n: usize) -> Node {
    let number = place + 1;
    let low = number & number.wrapping_neg();
    let mut children = Vec::new();
    if low > 1 {
        children.push(number - low / 2 - 1);
        let mut step = low / 2;
        while step > 0 && number + step > n {
            step /= 2;
        }
        if step > 0 {
            children.push(number + step - 1);
        }
    }
    let mut parent = None;
    let mut at = number;
    let highest = 1usize << n.ilog2();
    while at != highest {
        let bit = at & at.wrapping_neg();
        at = (at ^ bit) | (bit << 1);
        if at <= n {
            parent = Some(at - 1);
            break;
        }
    }
    Node { parent, children }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(nodes: &[Node]) {
        let n = nodes.len();
        let roots: Vec<usize> = (0..n).filter(|r| nodes[*r].parent.is_none()).collect();
        assert_eq!(roots.len(), 1, "{nodes:?}");
        let mut seen = vec![false; n];
        let mut level = roots;
        let mut depth = 0;
        while !level.is_empty() {
            let mut next = Vec::new();
            for rank in level {
                assert!(!std::mem::replace(&mut seen[rank], true));
                assert!(nodes[rank].children.len() <= 2);
                for child in &nodes[rank].children {
                    assert_eq!(nodes[*child].parent, Some(rank));
                    next.push(*child);
                }
            }
            level = next;
            depth += 1;
        }
        assert!(seen.iter().all(|s| *s), "{nodes:?}");
        // NCCL's root has one child.
        assert!(depth <= n.ilog2() as usize + 2, "{depth} levels for {n}");
    }

    #[test]
    fn nccls_trees_have_rank_0_and_its_counterpart_at_the_top() {
        let nodes = |n: usize, tree| -> Vec<(Option<usize>, Vec<usize>)> {
            (0..n).map(|rank| double_binary(rank, n, tree)).map(|node| (node.parent, node.children)).collect()
        };
        let even = [(None, vec![2]), (Some(2), vec![]), (Some(0), vec![1, 3]), (Some(2), vec![])];
        assert_eq!(nodes(4, 0), even);
        let mirrored = [(Some(1), vec![]), (Some(3), vec![2, 0]), (Some(1), vec![]), (None, vec![1])];
        assert_eq!(nodes(4, 1), mirrored);
        let odd = nodes(5, 0);
        assert_eq!((&odd[0], &odd[4], &odd[2]), (&(None, vec![4]), &(Some(0), vec![2]), &(Some(4), vec![1, 3])));
        let turned = nodes(5, 1);
        assert_eq!(
            (&turned[1], &turned[0], &turned[3]),
            (&(None, vec![0]), &(Some(1), vec![3]), &(Some(0), vec![2, 4]))
        );
        for n in 2..300 {
            for tree in [0, 1] {
                check(&(0..n).map(|rank| double_binary(rank, n, tree)).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn all_are_trees_and_no_rank_has_children_in_both() {
        for n in 2..300 {
            let first: Vec<Node> = (0..n).map(|r| double(r, n, 0)).collect();
            let second: Vec<Node> = (0..n).map(|r| double(r, n, 1)).collect();
            check(&first);
            check(&second);
            for r in 0..n {
                assert!(first[r].children.is_empty() || second[r].children.is_empty(), "rank {r} of {n}");
            }
            for root in [0, n / 2, n - 1] {
                let one: Vec<Node> = (0..n).map(|r| single(r, n, root)).collect();
                check(&one);
                assert_eq!(one[root].parent, None);
            }
        }
    }
}
