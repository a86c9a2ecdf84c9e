//! Sets: the elements that only one of them has, and few sets that have all elements.
use std::collections::{BTreeMap, BTreeSet};

/// For each set, the elements that are not in any other set.
pub fn unique_elements<T: Ord + Copy>(sets: &[BTreeSet<T>]) -> Vec<BTreeSet<T>> {
    let mut holders: BTreeMap<T, usize> = BTreeMap::new();
    for element in sets.iter().flatten() {
        *holders.entry(*element).or_default() += 1;
    }
    sets.iter().map(|set| set.iter().copied().filter(|element| holders[element] == 1).collect()).collect()
}

/// Indices of sets that together have all elements, none of which could be left out. The set that adds most comes next; of
/// equal ones the cheapest and then the first; finally the sets that later ones made redundant are dropped.
pub fn minimal_cover<T: Ord + Copy>(sets: &[BTreeSet<T>], costs: &[usize]) -> Vec<usize> {
    let cost = |at: usize| costs.get(at).copied().unwrap_or(0);
    let mut left: BTreeSet<T> = sets.iter().flatten().copied().collect();
    let mut chosen: Vec<usize> = Vec::new();
    while !left.is_empty() {
        let adds = |at: &usize| sets[*at].intersection(&left).count();
        let best = (0..sets.len()).max_by_key(|at| (adds(at), std::cmp::Reverse((cost(*at), *at))));
        let Some(best) = best else { break };
        left.retain(|element| !sets[best].contains(element));
        chosen.push(best);
    }
    let mut at = 0;
    while at < chosen.len() {
        let others = || chosen.iter().enumerate().filter(|(other, _)| *other != at).map(|(_, set)| &sets[*set]);
        if sets[chosen[at]].iter().all(|element| others().any(|set| set.contains(element))) {
            chosen.remove(at);
        } else {
            at += 1;
        }
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sets(lists: &[&[u8]]) -> Vec<BTreeSet<u8>> {
        lists.iter().map(|list| list.iter().copied().collect()).collect()
    }

    #[test]
    fn what_one_alone_has() {
        let alone = unique_elements(&sets(&[&[1, 2], &[2, 3], &[], &[2]]));
        assert_eq!(alone, sets(&[&[1], &[3], &[], &[]]));
    }

    #[test]
    fn few_sets_hold_what_all_hold() {
        assert_eq!(minimal_cover(&sets(&[&[1], &[1, 2, 3], &[3]]), &[1, 1, 1]), [1]);
        assert_eq!(minimal_cover(&sets(&[&[1, 2], &[1, 2]]), &[5, 2]), [1], "the cheaper of equals");
        assert_eq!(minimal_cover(&sets(&[&[1, 2], &[1, 2]]), &[2, 2]), [0], "the first of equals");
        assert_eq!(minimal_cover(&sets(&[&[], &[]]), &[]), [] as [usize; 0]);
        // the largest comes first here, but the two others have everything it has
        assert_eq!(minimal_cover(&sets(&[&[2, 3, 4, 5], &[1, 2, 3], &[4, 5, 6]]), &[1, 1, 1]), [1, 2]);
    }

    proptest! {
        #[test]
        fn none_of_the_few_can_be_left_out(lists in prop::collection::vec(prop::collection::btree_set(0u8..12, 0..6), 0..9)) {
            let chosen = minimal_cover(&lists, &[]);
            let held = |without: Option<usize>| -> BTreeSet<u8> {
                chosen.iter().filter(|at| Some(**at) != without).flat_map(|at| lists[*at].iter().copied()).collect()
            };
            let all: BTreeSet<u8> = lists.iter().flatten().copied().collect();
            prop_assert_eq!(&held(None), &all);
            for at in &chosen {
                prop_assert_ne!(&held(Some(*at)), &all);
            }
        }
    }
}
