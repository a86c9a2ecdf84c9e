//! Rings and chains: ranks in the order of their numbers, each hears its predecessor and talks to its successor.
//!
//! Collectives without a root cut the data in passes of n parts and send every part once around; each rank adds its own
//! contribution to what came in. Rooted ones run along the chain that ends, or begins, at the root.
use super::{Chunks, Link, Operand, Part, Script, Step};

/// The neighbours of a rank.
#[derive(Clone, Copy)]
struct Around {
    rank: usize,
    n: usize,
}

impl Around {
    fn of(part: Part) -> Self {
        Self { rank: part.rank, n: part.n }
    }

    fn next(self) -> Link {
        Link { lane: 0, peer: (self.rank + 1) % self.n }
    }

    fn previous(self) -> Link {
        Link { lane: 0, peer: (self.rank + self.n - 1) % self.n }
    }

    /// Which part step `phase` deals with: the rank sends its predecessor's part first and holds its own, complete,
    /// after n - 1 steps.
    fn part(self, phase: usize) -> usize {
        (self.rank + 2 * self.n - 1 - phase) % self.n
    }
}

/// Cuts `count` elements in passes of at most n chunks.
#[derive(Clone, Copy)]
struct Passes {
    count: usize,
    n: usize,
    chunk: usize,
}

impl Passes {
    /// Offset and length of a part in a pass; `None` behind the last pass. Parts at the end may be empty: their messages
    /// travel all the same, so that every pass has the same steps.
    fn part(self, pass: u64, index: usize) -> Option<(usize, usize)> {
        let whole = self.n.saturating_mul(self.chunk);
        let base = usize::try_from(pass).ok()?.checked_mul(whole)?;
        if base >= self.count {
            return None;
        }
        let size = whole.min(self.count - base);
        let each = size.div_ceil(self.n);
        let offset = (index * each).min(size);
        Some((base + offset, each.min(size - offset)))
    }
}

fn split(cursor: u64, steps: usize) -> (u64, usize) {
    let steps = steps as u64;
    (cursor / steps, (cursor % steps) as usize)
}

/// n - 1 steps of adding, n - 1 of copying.
pub(super) struct AllReduce {
    around: Around,
    passes: Passes,
}

impl AllReduce {
    pub(super) fn new(count: usize, part: Part) -> Self {
        Self { around: Around::of(part), passes: Passes { count, n: part.n, chunk: part.chunk } }
    }
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
pub(super) struct ReduceScatter {
    around: Around,
    block: usize,
    chunks: Chunks,
}

impl ReduceScatter {
    pub(super) fn new(count: usize, part: Part) -> Self {
        Self { around: Around::of(part), block: count, chunks: Chunks { start: 0, end: count, size: part.chunk } }
    }
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
pub(super) struct AllGather {
    around: Around,
    block: usize,
    chunks: Chunks,
}

impl AllGather {
    pub(super) fn new(count: usize, part: Part) -> Self {
        Self { around: Around::of(part), block: count, chunks: Chunks { start: 0, end: count, size: part.chunk } }
    }
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
pub(super) struct Reduce {
    around: Around,
    /// Operand in the chain, the root being the last.
    position: usize,
    chunks: Chunks,
}

impl Reduce {
    pub(super) fn new(count: usize, root: usize, part: Part) -> Self {
        let position = (part.rank + 2 * part.n - root - 1) % part.n;
        Self { around: Around::of(part), position, chunks: Chunks { start: 0, end: count, size: part.chunk } }
    }
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
pub(super) struct Broadcast {
    around: Around,
    /// Operand in the chain, the root being the first.
    position: usize,
    chunks: Chunks,
}

impl Broadcast {
    pub(super) fn new(count: usize, root: usize, part: Part) -> Self {
        let position = (part.rank + part.n - root) % part.n;
        Self { around: Around::of(part), position, chunks: Chunks { start: 0, end: count, size: part.chunk } }
    }
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
