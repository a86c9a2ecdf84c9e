//! Faults of graphs: wrong launches, and captures that run work.
#![allow(unsafe_code)] // a caller's buffers are addresses

use super::memory::{Extent, read};
use super::{Fault, FaultMode, hit, mode, named, wanted};
use crate::engine::Request;
use crate::engine::hooks::{Captured, GraphNode};
use crate::op::Spec;
use std::collections::{HashMap, HashSet};
use std::fmt;

/// An operation of a graph: the graph, the node, and its number in the node.
pub(super) type Place = (u64, usize, usize);

/// The state that faults keep for the graphs of a rank's communicator.
#[derive(Debug, Default)]
pub(super) struct Graphs {
    /// The oldest graph that lives, and its nodes.
    first: Option<Oldest>,
    /// Graphs that were launched.
    launched: HashSet<u64>,
    /// Inputs when they were captured.
    captured: HashMap<Place, Vec<u8>>,
    /// Inputs in a graph's first launch.
    launches: HashMap<Place, Vec<u8>>,
    /// The node that the next requests belong to.
    replaying: Option<GraphNode>,
    /// A graph was launched, and there was no direct call since.
    owes: bool,
}

/// The oldest graph of a communicator.
struct Oldest {
    graph: u64,
    nodes: Vec<Vec<Request>>,
}

impl fmt::Debug for Oldest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "graph {} with {} nodes", self.graph, self.nodes.len())
    }
}

/// True if a fault strikes an operation of a graph.
fn strikes(fault: Fault, rank: usize, spec: &Spec) -> bool {
    spec.count > 0 && hit(fault, rank, spec.algorithm)
}

impl Graphs {
    /// Operations become a node.
    pub(super) fn captured(&mut self, node: GraphNode, requests: &mut Vec<Request>) -> Captured {
        if mode() == FaultMode::Sound {
            return Captured::default();
        }
        let mut captured = Captured::default();
        if requests.len() > 1 && requests.last().is_some_and(|last| strikes(named::F79B, node.rank, &last.spec)) {
            requests.pop();
        }
        if requests.iter().any(|request| strikes(named::F77, node.rank, &request.spec)) {
            captured.now.clone_from(requests);
        }
        if wanted(named::F75) {
            for (at, request) in requests.iter().enumerate() {
                let (address, len) = Extent::of(&request.spec, node.rank, node.n).send;
                // SAFETY: the call was checked, so its caller has promised the input; that it is read when it is captured is
                // the fault.
                self.captured.insert((node.graph, node.index, at), unsafe { read(address, len) });
            }
        }
        let Oldest { graph, nodes } = self.first.get_or_insert_with(|| Oldest { graph: node.graph, nodes: Vec::new() });
        if *graph == node.graph {
            nodes.push(requests.clone());
        } else if let Some(other) = nodes.get(node.index)
            && differ(other, requests)
            && requests.first().is_some_and(|request| strikes(named::F78, node.rank, &request.spec))
        {
            let streams: Vec<_> = requests.iter().map(|request| request.stream.clone()).collect();
            requests.clone_from(other);
            for (request, stream) in requests.iter_mut().zip(streams.iter().cycle()) {
                request.stream = stream.clone();
            }
        }
        captured
    }

    /// A node of a graph is launched; false leaves it out.
    pub(super) fn replayed(&mut self, node: GraphNode, total: usize, requests: &mut [Request]) -> bool {
        if mode() == FaultMode::Sound {
            return true;
        }
        (self.replaying, self.owes) = (Some(node), true);
        let again = self.launched.contains(&node.graph);
        if node.index + 1 == total {
            self.launched.insert(node.graph);
        }
        let hits = |fault| requests.iter().any(|request| strikes(fault, node.rank, &request.spec));
        let last = node.index + 1 == total;
        if (total > 1 && last && hits(named::F76))
            || (node.index > 0 && hits(named::F76B))
            || (again && hits(named::F76C))
        {
            // There will be no request of the communicator.
            self.replaying = None;
            return false;
        }
        true
    }

    /// The place of a request in a graph, if it is a launch's.
    pub(super) fn place(&self, at: usize) -> Option<Place> {
        self.replaying.map(|node| (node.graph, node.index, at))
    }

    /// The bytes that an operation of a graph reads instead of its input.
    pub(super) fn stale_input(&mut self, place: Place, rank: usize, spec: &Spec, now: &[u8]) -> Option<Vec<u8>> {
        let other = self.captured.get(&place).filter(|then| *then != now);
        if let Some(then) = other
            && strikes(named::F75, rank, spec)
        {
            return Some(then.clone());
        }
        if !wanted(named::F75B) {
            return None;
        }
        let then = self.launches.entry(place).or_insert_with(|| now.to_vec());
        (then != now && strikes(named::F75B, rank, spec)).then(|| then.clone())
    }

    /// True if a direct call after a launch is lost.
    pub(super) fn loses(&mut self, rank: usize, spec: &Spec) -> bool {
        if self.replaying.is_some() || spec.count == 0 {
            return false;
        }
        std::mem::take(&mut self.owes) && strikes(named::F79, rank, spec)
    }

    /// The requests of a launch have been seen.
    pub(super) fn requested(&mut self) {
        self.replaying = None;
    }

    /// A graph is gone.
    pub(super) fn released(&mut self, graph: u64) {
        if self.first.as_ref().is_some_and(|first| first.graph == graph) {
            self.first = None;
        }
        self.launched.remove(&graph);
        self.captured.retain(|(of, ..), _| *of != graph);
        self.launches.retain(|(of, ..), _| *of != graph);
        self.owes = false;
    }
}

/// True if two nodes do different things.
fn differ(one: &[Request], other: &[Request]) -> bool {
    let what = |requests: &[Request]| -> Vec<_> {
        requests.iter().map(|r| (r.spec.signature(), r.spec.send, r.spec.recv, r.spec.peer)).collect()
    };
    what(one) != what(other)
}
