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

/// The rank's node in tree 0 or 1 of a double tree of the shape of [`in_order`]. The second one turns (odd n) or mirrors (even n) the
/// ranks, which swaps the parity of places, so a node with children in one tree is a leaf of the other.
pub(super) fn double(rank: usize, n: usize, tree: usize) -> Node {
    let mirror = |place: usize| n - 1 - place;
    let (place, back): (usize, Box<dyn Fn(usize) -> usize>) = match (tree, n.is_multiple_of(2)) {
        (0, _) => (rank, Box::new(|place| place)),
        (_, true) => (mirror(rank), Box::new(mirror)),
        (_, false) => ((rank + 1) % n, Box::new(|place| (place + n - 1) % n)),
    };
    let node = in_order(place, n);
    Node { parent: node.parent.map(&back), children: node.children.into_iter().map(&back).collect() }
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
        assert!(depth <= n.ilog2() as usize + 1, "{depth} levels for {n}");
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
