//! Trees: sums go up, results come down, chunk by chunk; a node computes ((own + child 0) + child 1).
//!
//! Below the root, the way up and the way down are two lanes, so that chunks travel in both directions at once.
use super::{Algorithm, Chunks, Lane, Link, Part, Place, Script, Step, topology};
use crate::op::{Kind, Spec};

/// What travels.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Up,
    Down,
    /// The root of an all_reduce: up, and straight down again.
    Turn,
}

struct TreeLane {
    node: topology::Node,
    way: Way,
    /// Number of the tree; its channels have lanes 2t (up) and 2t + 1 (down).
    tree: u8,
    chunks: Chunks,
}

pub(super) fn lanes(spec: &Spec, part: Part) -> (Vec<Lane>, u64) {
    let (rank, n) = (part.rank, part.n);
    let nodes = match (spec.algorithm, spec.kind) {
        (Algorithm::Tree, _) => vec![topology::double(rank, n, 0), topology::double(rank, n, 1)],
        (_, Kind::AllReduce) => vec![topology::single(rank, n, 0)],
        _ => vec![topology::single(rank, n, spec.peer)],
    };
    let inner = nodes.iter().filter(|node| !node.children.is_empty()).count() as u64;
    let share = spec.count.div_ceil(nodes.len());
    let mut lanes: Vec<Lane> = Vec::new();
    for (tree, node) in nodes.into_iter().enumerate() {
        let start = (tree * share).min(spec.count);
        let chunks = Chunks { start, end: (start + share).min(spec.count), size: part.chunk };
        let ways: &[Way] = match (spec.kind, node.parent) {
            (Kind::Reduce, _) => &[Way::Up],
            (Kind::Broadcast, _) => &[Way::Down],
            (_, None) => &[Way::Turn],
            (_, Some(_)) => &[Way::Up, Way::Down],
        };
        for way in ways {
            lanes.push(Box::new(TreeLane { node: node.clone(), way: *way, tree: tree as u8, chunks }));
        }
    }
    (lanes, inner)
}

impl TreeLane {
    fn up(&self, peer: usize) -> Link {
        Link { lane: 2 * self.tree, peer }
    }

    fn down(&self, peer: usize) -> Link {
        Link { lane: 2 * self.tree + 1, peer }
    }

    /// Steps for one chunk: one per child where sums come up, one per child where results go down; the last of the
    /// first kind and the first of the second are one step.
    fn steps(&self) -> usize {
        let children = self.node.children.len().max(1);
        if self.way == Way::Turn { 2 * children - 1 } else { children }
    }

    fn rising(&self, index: usize, offset: usize) -> Step {
        let children = &self.node.children;
        let last = index + 1 == children.len().max(1);
        let root = self.node.parent.is_none();
        Step {
            recv: children.get(index).map(|child| self.up(*child)),
            source: Some(if index == 0 { Place::In(offset) } else { Place::Scratch }),
            own: index == 0,
            last: last && root,
            target: match (last, root) {
                (false, _) => Some(Place::Scratch),
                (true, true) => Some(Place::Out(offset)),
                (true, false) => None,
            },
            send: self.node.parent.filter(|_| last).map(|parent| self.up(parent)),
            fresh: index == 0,
            ..Step::default()
        }
    }

    fn falling(&self, index: usize, offset: usize) -> Step {
        let send = self.node.children.get(index).map(|child| self.down(*child));
        match (index, self.node.parent) {
            (0, Some(parent)) => Step {
                recv: Some(self.down(parent)),
                target: Some(Place::Out(offset)),
                send,
                fresh: true,
                ..Step::default()
            },
            (0, None) => {
                let (source, target) = (Some(Place::In(offset)), Some(Place::Out(offset)));
                Step { source, target, send, fresh: true, ..Step::default() }
            }
            _ => Step { source: Some(Place::Out(offset)), send, ..Step::default() },
        }
    }
}

impl Script for TreeLane {
    fn step(&self, cursor: u64) -> Option<Step> {
        let steps = self.steps() as u64;
        let (offset, count) = self.chunks.get(cursor / steps)?;
        let index = (cursor % steps) as usize;
        let children = self.node.children.len().max(1);
        let step = match self.way {
            Way::Up => self.rising(index, offset),
            Way::Down => self.falling(index, offset),
            Way::Turn if index + 1 < children => self.rising(index, offset),
            Way::Turn if index + 1 == children => {
                let send = self.node.children.first().map(|child| self.down(*child));
                Step { send, ..self.rising(index, offset) }
            }
            Way::Turn => self.falling(index + 1 - children, offset),
        };
        Some(Step { count, ..step })
    }
}
