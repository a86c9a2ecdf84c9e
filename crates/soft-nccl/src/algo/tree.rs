//! Trees: sums go up, results come down, chunk by chunk; a node computes ((own + child 0) + child 1), and
//! likewise for further children.
//!
//! Below the root, the direction up and the direction down are two lanes, so that chunks travel in both directions at once.
use super::channels::shares;
use super::{Algorithm, Chunks, Lane, Link, Operand, Part, Script, Step, topology};
use crate::op::{Kind, Spec};

/// The direction in which data travels.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Up,
    Down,
    /// The root of an all_reduce: up, and straight down again.
    Turn,
}

struct TreeLane {
    node: topology::Node,
    direction: Direction,
    /// Number of the channel, whose links are 2c (up) and 2c + 1 (down).
    channel: u8,
    chunks: Chunks,
}

pub(super) fn lanes(spec: &Spec, part: Part) -> (Vec<Lane>, u64) {
    let (rank, n) = (part.rank, part.n);
    let nodes = match (spec.algorithm, spec.kind) {
        (Algorithm::Tree, _) => vec![topology::double(rank, n, 0), topology::double(rank, n, 1)],
        (_, Kind::AllReduce) => vec![topology::single(rank, n, 0)],
        _ => vec![topology::single(rank, n, spec.peer)],
    };
    let shares = shares(spec.count, part.channels.unwrap_or(nodes.len()));
    let per_tree = shares.len().div_ceil(nodes.len());
    let mut lanes: Vec<Lane> = Vec::new();
    let mut used = vec![false; nodes.len()];
    for (channel, share) in shares.into_iter().enumerate() {
        // The first channels use the first tree.
        let tree = channel / per_tree;
        let node = &nodes[tree];
        used[tree] = true;
        let directions: &[Direction] = match (spec.kind, node.parent) {
            (Kind::Reduce, _) => &[Direction::Up],
            (Kind::Broadcast, _) => &[Direction::Down],
            (_, None) => &[Direction::Turn],
            (_, Some(_)) => &[Direction::Up, Direction::Down],
        };
        for direction in directions {
            let (node, chunks) = (node.clone(), share.chunks(part.chunk));
            lanes.push(Box::new(TreeLane { node, direction: *direction, channel: channel as u8, chunks }));
        }
    }
    let inner = nodes.iter().zip(used).filter(|(node, used)| *used && !node.children.is_empty()).count() as u64;
    (lanes, inner)
}

impl TreeLane {
    fn up(&self, peer: usize) -> Link {
        Link { lane: 2 * self.channel, peer }
    }

    fn down(&self, peer: usize) -> Link {
        Link { lane: 2 * self.channel + 1, peer }
    }

    /// Steps for one chunk: one per child where sums come up, one per child where results go down; the last of the
    /// first kind and the first of the second are one step.
    fn steps(&self) -> usize {
        let children = self.node.children.len().max(1);
        if self.direction == Direction::Turn { 2 * children - 1 } else { children }
    }

    fn rising(&self, index: usize, offset: usize) -> Step {
        let children = &self.node.children;
        let last = index + 1 == children.len().max(1);
        let root = self.node.parent.is_none();
        Step {
            recv: children.get(index).map(|child| self.up(*child)),
            source: Some(if index == 0 { Operand::In(offset) } else { Operand::Scratch }),
            own: index == 0,
            last: last && root,
            target: match (last, root) {
                (false, _) => Some(Operand::Scratch),
                (true, true) => Some(Operand::Out(offset)),
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
                target: Some(Operand::Out(offset)),
                send,
                fresh: true,
                ..Step::default()
            },
            (0, None) => {
                let (source, target) = (Some(Operand::In(offset)), Some(Operand::Out(offset)));
                Step { source, target, send, fresh: true, ..Step::default() }
            }
            _ => Step { source: Some(Operand::Out(offset)), send, ..Step::default() },
        }
    }
}

impl Script for TreeLane {
    fn step(&self, cursor: u64) -> Option<Step> {
        let steps = self.steps() as u64;
        let (offset, count) = self.chunks.get(cursor / steps)?;
        let index = (cursor % steps) as usize;
        let children = self.node.children.len().max(1);
        let step = match self.direction {
            Direction::Up => self.rising(index, offset),
            Direction::Down => self.falling(index, offset),
            Direction::Turn if index + 1 < children => self.rising(index, offset),
            Direction::Turn if index + 1 == children => {
                let send = self.node.children.first().map(|child| self.down(*child));
                Step { send, ..self.rising(index, offset) }
            }
            Direction::Turn => self.falling(index + 1 - children, offset),
        };
        Some(Step { count, ..step })
    }
}
