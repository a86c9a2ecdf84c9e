//! Rings and chains: ranks in the order of their numbers; each hears its predecessor and talks to its successor.
//!
//! Collectives without a root cut the data in passes of n parts and send every part once around; each rank adds its own
//! contribution to the incoming part. Rooted ones run along the chain that ends, or begins, at the root. Each channel does so with
//! its share of the data.
use super::channels::{Share, shares};
use super::stripes::Stripes;
use super::{Chunks, Lane, Link, Operand, Part, Script, Step};
use crate::op::{Kind, Spec};

/// The lanes of an operation that has a ring: one for each channel, or several stripes of it; none for others.
pub(super) fn lanes(spec: &Spec, part: Part) -> Option<Vec<Lane>> {
    let Part { rank, n, chunk, .. } = part;
    let steps = match spec.kind {
        Kind::AllReduce => 2 * n - 1,
        Kind::ReduceScatter | Kind::AllGather => n,
        Kind::Reduce | Kind::Broadcast => 1,
        _ => return None,
    };
    let lane = |channel: usize, share: Share| -> Lane {
        let around = Around { rank, n, channel: channel as u8 };
        let chunks = share.chunks(chunk);
        match spec.kind {
            Kind::AllReduce => Box::new(AllReduce { around, passes: Passes { share, n, chunk } }),
            Kind::ReduceScatter => Box::new(ReduceScatter { around, block: spec.count, chunks }),
            Kind::AllGather => Box::new(AllGather { around, block: spec.count, chunks }),
            Kind::Reduce => Box::new(Reduce { around, position: (rank + 2 * n - spec.peer - 1) % n, chunks }),
            _ => Box::new(Broadcast { around, position: (rank + n - spec.peer) % n, chunks }),
        }
    };
    let shares = shares(spec.count, part.channels.unwrap_or(1));
    let stripes = Stripes { number: part.stripes, channels: shares.len(), steps: steps as u64 };
    let lanes = shares.into_iter().enumerate().flat_map(|(channel, share)| {
        let pass = if spec.kind == Kind::AllReduce { n.saturating_mul(chunk) } else { chunk };
        stripes.deal(channel, share.len.div_ceil(pass.max(1)), || lane(channel, share))
    });
    Some(lanes.collect())
}

/// A rank's place in a ring.
struct Around {
    rank: usize,
    n: usize,
    channel: u8,
}

impl Around {
    fn next(&self) -> Link {
        Link { lane: self.channel, peer: (self.rank + 1) % self.n }
    }

    fn previous(&self) -> Link {
        Link { lane: self.channel, peer: (self.rank + self.n - 1) % self.n }
    }

    /// The part that step `phase` handles: the rank sends its predecessor's part first and holds its own, complete,
    /// after n - 1 steps.
    fn part(&self, phase: usize) -> usize {
        (self.rank + 2 * self.n - 1 - phase) % self.n
    }
}

/// Cuts a share in passes of at most n chunks.
#[derive(Clone, Copy)]
struct Passes {
    share: Share,
    n: usize,
    chunk: usize,
}

impl Passes {
    /// Offset and length of a part in a pass; `None` past the last pass. Parts at the end may be empty: their messages
    /// travel nevertheless, so that every pass has the same steps.
    fn part(self, pass: u64, index: usize) -> Option<(usize, usize)> {
        let whole = self.n.saturating_mul(self.chunk);
        let base = usize::try_from(pass).ok()?.checked_mul(whole)?;
        if base >= self.share.len {
            return None;
        }
        let size = whole.min(self.share.len - base);
        let each = size.div_ceil(self.n);
        let offset = (index * each).min(size);
        Some((self.share.start + base + offset, each.min(size - offset)))
    }
}

fn split(cursor: u64, steps: usize) -> (u64, usize) {
    let steps = steps as u64;
    (cursor / steps, (cursor % steps) as usize)
}

/// n - 1 steps of adding, n - 1 of copying.
struct AllReduce {
    around: Around,
    passes: Passes,
}

impl Script for AllReduce {
    fn step(&self, cursor: u64) -> Option<Step> {
        let n = self.around.n;
        let (pass, phase) = split(cursor, 2 * n - 1);
        let (offset, count) = self.passes.part(pass, self.around.part(phase))?;
        let adds = phase < n;
        let finished = phase >= n - 1;
        Some(Step {
            recv: (phase > 0).then(|| self.around.previous()),
            source: adds.then_some(Operand::In(offset)),
            own: adds,
            last: phase == n - 1,
            target: finished.then_some(Operand::Out(offset)),
            send: (phase < 2 * n - 2).then(|| self.around.next()),
            count,
            fresh: true,
            close: false,
        })
    }
}

/// The first half of [`AllReduce`]; passes run over each rank's block.
struct ReduceScatter {
    around: Around,
    block: usize,
    chunks: Chunks,
}

impl Script for ReduceScatter {
    fn step(&self, cursor: u64) -> Option<Step> {
        let n = self.around.n;
        let (pass, phase) = split(cursor, n);
        let (offset, count) = self.chunks.get(pass)?;
        let finished = phase == n - 1;
        Some(Step {
            recv: (phase > 0).then(|| self.around.previous()),
            source: Some(Operand::In(self.around.part(phase) * self.block + offset)),
            own: true,
            last: finished,
            target: finished.then_some(Operand::Out(offset)),
            send: (!finished).then(|| self.around.next()),
            count,
            fresh: true,
            close: false,
        })
    }
}

/// The second half of [`AllReduce`]; passes run over each rank's block.
struct AllGather {
    around: Around,
    block: usize,
    chunks: Chunks,
}

impl Script for AllGather {
    fn step(&self, cursor: u64) -> Option<Step> {
        let n = self.around.n;
        let (pass, phase) = split(cursor, n);
        let (offset, count) = self.chunks.get(pass)?;
        let owner = (self.around.rank + n - phase) % n;
        Some(Step {
            recv: (phase > 0).then(|| self.around.previous()),
            source: (phase == 0).then_some(Operand::In(offset)),
            target: Some(Operand::Out(owner * self.block + offset)),
            send: (phase < n - 1).then(|| self.around.next()),
            count,
            fresh: true,
            ..Step::default()
        })
    }
}

/// Along the chain that ends at the root.
struct Reduce {
    around: Around,
    /// Operand in the chain, the root being the last.
    position: usize,
    chunks: Chunks,
}

impl Script for Reduce {
    fn step(&self, cursor: u64) -> Option<Step> {
        let (offset, count) = self.chunks.get(cursor)?;
        let root = self.position == self.around.n - 1;
        Some(Step {
            recv: (self.position > 0).then(|| self.around.previous()),
            source: Some(Operand::In(offset)),
            own: true,
            last: root,
            target: root.then_some(Operand::Out(offset)),
            send: (!root).then(|| self.around.next()),
            count,
            fresh: true,
            close: false,
        })
    }
}

/// Along the chain that begins at the root.
struct Broadcast {
    around: Around,
    /// Operand in the chain, the root being the first.
    position: usize,
    chunks: Chunks,
}

impl Script for Broadcast {
    fn step(&self, cursor: u64) -> Option<Step> {
        let (offset, count) = self.chunks.get(cursor)?;
        Some(Step {
            recv: (self.position > 0).then(|| self.around.previous()),
            source: (self.position == 0).then_some(Operand::In(offset)),
            target: Some(Operand::Out(offset)),
            send: (self.position < self.around.n - 1).then(|| self.around.next()),
            count,
            fresh: true,
            ..Step::default()
        })
    }
}
