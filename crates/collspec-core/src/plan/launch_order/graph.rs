//! A directed graph of required orders, and its shortest cycles.
use std::collections::VecDeque;

pub type Vertex = usize;

/// Vertices by number, with the edges that leave them.
#[derive(Default)]
pub struct Graph {
    next: Vec<Vec<Vertex>>,
}

impl Graph {
    pub fn vertex(&mut self) -> Vertex {
        self.next.push(Vec::new());
        self.next.len() - 1
    }

    pub fn edge(&mut self, from: Vertex, to: Vertex) {
        self.next[from].push(to);
    }

    /// A cycle that is as short as possible for some vertex on it; in time linear in the graph's size.
    pub fn cycle(&self) -> Option<Vec<Vertex>> {
        let left = self.after_cycles();
        let mut before = vec![None; self.next.len()];
        for from in (0..self.next.len()).filter(|vertex| left[*vertex]) {
            self.next[from].iter().for_each(|to| before[*to] = Some(from));
        }
        // Every remaining vertex has a remaining vertex before it, so that going back ends in a cycle.
        let mut seen = vec![false; self.next.len()];
        let mut at = left.iter().position(|left| *left)?;
        while !std::mem::replace(&mut seen[at], true) {
            at = before[at]?;
        }
        self.shortest(at)
    }

    /// The vertices that can be reached from a cycle, or are on one.
    fn after_cycles(&self) -> Vec<bool> {
        let mut open = vec![0usize; self.next.len()];
        self.next.iter().flatten().for_each(|to| open[*to] += 1);
        let mut free: Vec<Vertex> = (0..open.len()).filter(|vertex| open[*vertex] == 0).collect();
        while let Some(from) = free.pop() {
            for to in &self.next[from] {
                open[*to] -= 1;
                if open[*to] == 0 {
                    free.push(*to);
                }
            }
        }
        open.into_iter().map(|count| count > 0).collect()
    }

    /// The shortest path from a vertex back to it.
    fn shortest(&self, start: Vertex) -> Option<Vec<Vertex>> {
        let mut from = vec![None; self.next.len()];
        let mut queue = VecDeque::from([start]);
        while let Some(at) = queue.pop_front() {
            for to in &self.next[at] {
                if from[*to].is_none() {
                    from[*to] = Some(at);
                    queue.push_back(*to);
                }
            }
            if from[start].is_some() {
                break;
            }
        }
        let mut way = vec![start];
        let mut at = from[start]?;
        while at != start {
            way.push(at);
            at = from[at]?;
        }
        way.reverse();
        Some(way)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_cycle_is_found_where_the_closure_has_one(edges in prop::collection::vec((0usize..8, 0usize..8), 0..16)) {
            let mut graph = Graph::default();
            (0..8).for_each(|_| _ = graph.vertex());
            let mut reach = [[false; 8]; 8];
            for (from, to) in &edges {
                graph.edge(*from, *to);
                reach[*from][*to] = true;
            }
            for (via, from, to) in (0..512).map(|n| (n / 64, n / 8 % 8, n % 8)) {
                reach[from][to] |= reach[from][via] && reach[via][to];
            }
            let cycle = graph.cycle();
            prop_assert_eq!(cycle.is_some(), (0..8).any(|vertex| reach[vertex][vertex]));
            for (at, vertex) in cycle.iter().flat_map(|cycle| cycle.iter().enumerate()) {
                let next = cycle.as_ref().map_or(*vertex, |cycle| cycle[(at + 1) % cycle.len()]);
                prop_assert!(edges.contains(&(*vertex, next)));
            }
        }
    }
}
