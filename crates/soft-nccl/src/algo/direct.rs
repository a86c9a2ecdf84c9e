//! Operations in which data go straight from their owner to their reader.
use super::{Chunks, Lane, Link, Operand, Part, Script, Step};
use crate::op::{Kind, Spec};

pub(super) fn lanes(spec: &Spec, part: Part) -> Vec<Lane> {
    let Part { rank, n, chunk, .. } = part;
    let count = spec.count;
    let root = spec.peer == rank;
    let blocks = |dir, peers, by_peer| Box::new(Blocks { rank, n, chunk, count, dir, peers, by_peer });
    match spec.kind {
        Kind::Send => {
            vec![blocks(Dir::Send, Peers::One(spec.peer), false)]
        }
        Kind::Recv => {
            vec![blocks(Dir::Recv, Peers::One(spec.peer), false)]
        }
        Kind::Gather if root => {
            vec![Box::new(OwnBlock { count, chunk, from: 0, to: rank * count }), blocks(Dir::Recv, Peers::Others, true)]
        }
        Kind::Scatter if root => {
            vec![Box::new(OwnBlock { count, chunk, from: rank * count, to: 0 }), blocks(Dir::Send, Peers::Others, true)]
        }
        Kind::Gather => {
            vec![blocks(Dir::Send, Peers::One(spec.peer), false)]
        }
        Kind::Scatter => {
            vec![blocks(Dir::Recv, Peers::One(spec.peer), false)]
        }
        _ => vec![
            Box::new(OwnBlock { count, chunk, from: rank * count, to: rank * count }),
            blocks(Dir::Send, Peers::Others, true),
            blocks(Dir::Recv, Peers::Others, true),
        ],
    }
}

/// A one-sided operation: its data, if any, goes from the caller's buffer to the place that the engine determines.
pub(super) fn one_sided(spec: &Spec, part: Part) -> Lane {
    let count = if spec.kind == Kind::Put { spec.count } else { 0 };
    Box::new(OwnBlock { count, chunk: part.chunk, from: 0, to: 0 })
}

/// A communicator of one rank: the input, scaled where the operation scales, is the output.
pub(super) struct Copy {
    pub(super) count: usize,
    pub(super) chunk: usize,
}

impl Script for Copy {
    fn step(&self, cursor: u64) -> Option<Step> {
        let (offset, count) = Chunks { start: 0, end: self.count, size: self.chunk }.get(cursor)?;
        let (source, target) = (Some(Operand::In(offset)), Some(Operand::Out(offset)));
        Some(Step { source, own: true, last: true, target, count, fresh: true, ..Step::default() })
    }
}

/// The copy of a rank's block to itself.
struct OwnBlock {
    count: usize,
    chunk: usize,
    from: usize,
    to: usize,
}

impl Script for OwnBlock {
    fn step(&self, cursor: u64) -> Option<Step> {
        let (offset, count) = Chunks { start: 0, end: self.count, size: self.chunk }.get(cursor)?;
        let (source, target) = (Some(Operand::In(self.from + offset)), Some(Operand::Out(self.to + offset)));
        Some(Step { source, target, count, fresh: true, ..Step::default() })
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Dir {
    Send,
    Recv,
}

#[derive(Clone, Copy)]
enum Peers {
    One(usize),
    /// All but the rank itself: senders begin at their successor, receivers at their predecessor, so that in round k
    /// every rank sends to the rank k places after it and receives from the one k places before it.
    Others,
}

/// Whole blocks to or from one peer after the other.
struct Blocks {
    rank: usize,
    n: usize,
    chunk: usize,
    count: usize,
    dir: Dir,
    peers: Peers,
    /// True if the buffer holds a block for every rank, including the peer.
    by_peer: bool,
}

impl Script for Blocks {
    fn step(&self, cursor: u64) -> Option<Step> {
        // An empty message is still a message: it tells the receiver that the sender has reached the operation.
        let per_peer = self.count.div_ceil(self.chunk).max(1) as u64;
        let (round, index) = (cursor / per_peer, cursor % per_peer);
        let n = self.n;
        let peer = match self.peers {
            Peers::One(peer) if round == 0 => peer,
            Peers::One(_) => return None,
            Peers::Others => {
                let round = usize::try_from(round).ok()? + 1;
                if round >= n {
                    return None;
                }
                match self.dir {
                    Dir::Send => (self.rank + round) % n,
                    Dir::Recv => (self.rank + n - round) % n,
                }
            }
        };
        let chunks = Chunks { start: 0, end: self.count, size: self.chunk };
        let (offset, count) = if self.count == 0 { (0, 0) } else { chunks.get(index)? };
        let at = offset + if self.by_peer { peer * self.count } else { 0 };
        let link = Some(Link { lane: 0, peer });
        let close = index + 1 == per_peer && matches!(self.peers, Peers::Others);
        let step = Step { count, fresh: true, close, ..Step::default() };
        Some(match self.dir {
            Dir::Send => Step { source: Some(Operand::In(at)), send: link, ..step },
            Dir::Recv => Step { recv: link, target: Some(Operand::Out(at)), ..step },
        })
    }
}
