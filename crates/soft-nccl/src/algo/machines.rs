//! Machines: which ranks of a communicator are on which one, and the ring and trees over them.
//!
//! The rules are NCCL's, for machines in which every rank reaches every other one equally well. A ring goes through the ranks
//! of a machine and on to the next machine. A tree is a chain in each machine, whose first rank is the machine's node in a tree
//! over machines.
use super::topology::{Node, double_binary};

/// The ranks of a communicator by machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Machines {
    /// Ranks along the ring: machine by machine in the order of their first ranks, and in each by number.
    ring: Vec<usize>,
    /// A rank's place in the ring.
    places: Vec<usize>,
    /// The position in the ring at which each machine's ranks begin, followed by the end of the last.
    starts: Vec<usize>,
}

impl Machines {
    /// The machines of ranks by the machine's number for each.
    pub(crate) fn of(numbers: &[u64]) -> Self {
        let mut machines: Vec<(u64, Vec<usize>)> = Vec::new();
        let mut known = std::collections::HashMap::new();
        for (rank, number) in numbers.iter().enumerate() {
            let at = *known.entry(*number).or_insert(machines.len());
            if at == machines.len() {
                machines.push((*number, Vec::new()));
            }
            machines[at].1.push(rank);
        }
        let mut all = Self { ring: Vec::new(), places: vec![0; numbers.len()], starts: vec![0] };
        for (_, ranks) in machines {
            for rank in ranks {
                all.places[rank] = all.ring.len();
                all.ring.push(rank);
            }
            all.starts.push(all.ring.len());
        }
        all
    }

    pub(super) fn count(&self) -> usize {
        self.starts.len() - 1
    }

    pub(super) fn ranks(&self) -> usize {
        self.ring.len()
    }

    /// A rank's place in the ring, in which rank 0 has place 0.
    pub(super) fn place(&self, rank: usize) -> usize {
        self.places[rank]
    }

    /// The rank at a place of the ring.
    pub(super) fn rank_at(&self, place: usize) -> usize {
        self.ring[place % self.ring.len()]
    }

    /// A rank's neighbours in the first or the second tree: its child in the machine comes before those in other machines.
    pub(super) fn node(&self, rank: usize, tree: usize) -> Node {
        let place = self.places[rank];
        let machine = self.starts.partition_point(|start| *start <= place) - 1;
        let (first, end) = (self.starts[machine], self.starts[machine + 1]);
        let mut node = Node { parent: None, children: Vec::new() };
        node.children.extend((place + 1 < end).then(|| self.ring[place + 1]));
        if place > first {
            node.parent = Some(self.ring[place - 1]);
            return node;
        }
        let head = |machine: usize| self.ring[self.starts[machine]];
        let over = double_binary(machine, self.count(), tree);
        node.parent = over.parent.map(head);
        node.children.extend(over.children.into_iter().map(head));
        node
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machines(ranks: usize, per_machine: usize) -> Machines {
        Machines::of(&(0..ranks).map(|rank| (rank / per_machine) as u64).collect::<Vec<_>>())
    }

    fn node(parent: Option<usize>, children: &[usize]) -> Node {
        Node { parent, children: children.to_vec() }
    }

    #[test]
    fn a_single_machine_is_a_chain_from_the_last_rank_to_the_first() {
        let machines = machines(4, 8);
        for tree in [0, 1] {
            let nodes: Vec<Node> = (0..4).map(|rank| machines.node(rank, tree)).collect();
            assert_eq!(nodes, [node(None, &[1]), node(Some(0), &[2]), node(Some(1), &[3]), node(Some(2), &[])]);
        }
    }

    /// As in the log of two machines with two GPUs each (nccl#1189, channels 0 and 4).
    #[test]
    fn the_first_rank_of_a_machine_has_its_neighbour_before_other_machines() {
        let machines = machines(4, 2);
        let tree = |number| -> Vec<Node> { (0..4).map(|rank| machines.node(rank, number)).collect() };
        assert_eq!(tree(0), [node(None, &[1, 2]), node(Some(0), &[]), node(Some(0), &[3]), node(Some(2), &[])]);
        assert_eq!(tree(1), [node(Some(2), &[1]), node(Some(0), &[]), node(None, &[3, 0]), node(Some(2), &[])]);
    }

    #[test]
    fn ranks_of_one_machine_are_neighbours_however_they_are_numbered() {
        let machines = Machines::of(&[7, 3, 7, 9, 3]);
        assert_eq!(machines.ring, [0, 2, 1, 4, 3]);
        assert_eq!((0..5).map(|rank| machines.place(rank)).collect::<Vec<_>>(), [0, 2, 1, 4, 3]);
        assert_eq!(machines.count(), 3);
        assert_eq!(machines.node(1, 0).children.first(), Some(&4));
        assert_eq!(machines.node(4, 0), node(Some(1), &[]));
    }

    #[test]
    fn every_rank_is_once_in_each_tree() {
        for (ranks, per_machine) in [(1, 1), (2, 1), (7, 1), (12, 1), (13, 1), (9, 2), (12, 3), (64, 8), (65, 8)] {
            let machines = machines(ranks, per_machine);
            for tree in [0, 1] {
                let nodes: Vec<Node> = (0..ranks).map(|rank| machines.node(rank, tree)).collect();
                assert_eq!(nodes.iter().filter(|node| node.parent.is_none()).count(), 1);
                let mut children: Vec<usize> = nodes.iter().flat_map(|node| node.children.clone()).collect();
                assert!(nodes.iter().all(|node| node.children.len() <= 3));
                for (rank, node) in nodes.iter().enumerate() {
                    assert!(node.children.iter().all(|child| nodes[*child].parent == Some(rank)), "{nodes:?}");
                }
                children.sort_unstable();
                children.dedup();
                assert_eq!(children.len(), ranks - 1);
            }
        }
    }
}
