//! What an allocation holds at a moment of the walk, and how surely that is known.
use std::ops::Range;

/// How surely bytes are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Certainty {
    /// Nobody has written them: poison.
    Blank,
    /// Bit for bit.
    Known,
    /// Several values may be right; the data is one of them.
    Soft,
    /// Nobody can say, and nobody judges.
    Undefined,
}

/// A stretch of bytes with one history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// One past its last byte; it starts where the run before ends.
    pub end: u64,
    /// How surely it is known.
    pub sure: Certainty,
    /// The event that wrote it; `None` before the first step.
    pub writer: Option<u32>,
    /// Which observed write it comes straight from.
    pub origin: Option<u32>,
}

/// Part of a piece of data that is equally sure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// One past its last byte in the piece.
    pub end: u64,
    /// How surely it is known.
    pub sure: Certainty,
    /// Which observed write it comes straight from.
    pub origin: Option<u32>,
}

/// Data on its way from one place to another.
#[derive(Clone, Debug, Default)]
pub struct Piece {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// How surely they are known; covers all of them.
    pub marks: Vec<Mark>,
}

impl Piece {
    /// Bytes that are all equally sure.
    pub fn plain(bytes: Vec<u8>, sure: Certainty) -> Self {
        let marks = vec![Mark { end: bytes.len() as u64, sure, origin: None }];
        Self { bytes, marks }
    }
    /// Puts more behind it.
    pub fn append(&mut self, other: &Self) {
        let before = self.bytes.len() as u64;
        self.bytes.extend_from_slice(&other.bytes);
        for mark in &other.marks {
            self.mark(Mark { end: before + mark.end, ..*mark });
        }
    }
    /// Says how sure the bytes up to `mark.end` are, from the end of the last mark on.
    pub fn mark(&mut self, mark: Mark) {
        match self.marks.last_mut() {
            Some(last) if last.end >= mark.end => {}
            Some(last) if (last.sure, last.origin) == (mark.sure, mark.origin) => last.end = mark.end,
            _ => self.marks.push(mark),
        }
    }
    /// The least sure part, if there is any part.
    pub fn worst(&self) -> Option<Certainty> {
        self.marks.iter().map(|m| m.sure).max()
    }
}

/// The payload of one allocation.
#[derive(Clone, Debug)]
pub struct Memory {
    /// The bytes. Those of a [`Certainty::Blank`] run have no meaning.
    pub data: Vec<u8>,
    runs: Vec<Run>,
}

impl Memory {
    /// Nothing written yet.
    pub fn blank(len: usize) -> Self {
        Self::new(vec![0; len], vec![Run { end: len as u64, sure: Certainty::Blank, writer: None, origin: None }])
    }
    /// As described; the runs must cover the data.
    pub fn new(data: Vec<u8>, runs: Vec<Run>) -> Self {
        Self { data, runs }
    }
    /// Its history.
    pub fn runs(&self) -> &[Run] {
        &self.runs
    }
    /// The parts of a range, each within one run.
    pub fn over(&self, range: Range<u64>) -> impl Iterator<Item = (Range<u64>, Run)> + '_ {
        let first = self.runs.partition_point(|r| r.end <= range.start);
        let mut from = range.start;
        self.runs[first..].iter().take_while(move |_| range.start < range.end).map_while(move |run| {
            let part = from..run.end.min(range.end);
            from = run.end;
            (part.start < part.end).then_some((part, *run))
        })
    }
    /// A copy of a range. `None` beyond the end.
    pub fn read(&self, range: Range<u64>) -> Option<Piece> {
        let bytes = self.data.get(range.start as usize..range.end as usize)?.to_vec();
        let mut piece = Piece { bytes, marks: Vec::new() };
        for (part, run) in self.over(range.clone()) {
            piece.mark(Mark { end: part.end - range.start, sure: run.sure, origin: run.origin });
        }
        Some(piece)
    }
    /// Writes a piece. `None` beyond the end.
    pub fn write(&mut self, at: u64, piece: &Piece, writer: Option<u32>) -> Option<()> {
        let end = at.checked_add(piece.bytes.len() as u64)?;
        self.data.get_mut(at as usize..end as usize)?.copy_from_slice(&piece.bytes);
        if at == end {
            return Some(());
        }
        let new = |m: &Mark| Run { end: at + m.end, sure: m.sure, writer, origin: m.origin };
        let first = self.runs.partition_point(|r| r.end <= at);
        let last = self.runs.partition_point(|r| r.end < end);
        let mut middle = Vec::with_capacity(piece.marks.len() + 2);
        let before = first.checked_sub(1).map_or(0, |i| self.runs[i].end);
        if before < at {
            middle.push(Run { end: at, ..self.runs[first] });
        }
        for run in piece.marks.iter().map(new) {
            push(&mut middle, run);
        }
        let mut until = last;
        if let Some(rest) = self.runs.get(last) {
            push(&mut middle, *rest);
            until += 1;
        }
        self.runs.splice(first..until, middle);
        Some(())
    }
}

/// Adds a run, joined with the one before if they are alike.
fn push(runs: &mut Vec<Run>, run: Run) {
    match runs.last_mut() {
        Some(last) if last.end >= run.end => {}
        Some(last) if Run { end: run.end, ..*last } == run => last.end = run.end,
        _ => runs.push(run),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against the obvious model: one entry per byte.
        #[test]
        fn runs_agree_with_bytes(writes in prop::collection::vec((0u64..40, 0u64..24, 0u32..3), 0..12)) {
            let mut memory = Memory::blank(40);
            let mut model: Vec<(u8, Option<u32>, Certainty)> = vec![(0, None, Certainty::Blank); 40];
            for (number, (at, len, writer)) in writes.into_iter().enumerate() {
                let bytes = vec![number as u8 + 1; len as usize];
                let sure = if len % 2 == 0 { Certainty::Known } else { Certainty::Soft };
                let fits = at + len <= 40;
                prop_assert_eq!(memory.write(at, &Piece::plain(bytes, sure), Some(writer)).is_some(), fits);
                if fits {
                    model[at as usize..(at + len) as usize].fill((number as u8 + 1, Some(writer), sure));
                }
            }
            let mut flat = Vec::new();
            for (part, run) in memory.over(0..40) {
                for byte in part { flat.push((memory.data[byte as usize], run.writer, run.sure)); }
            }
            prop_assert_eq!(&flat, &model);
            for from in 0..40 {
                let piece = memory.read(from..40).expect("inside");
                let worst = model[from as usize..].iter().map(|m| m.2).max();
                prop_assert_eq!(piece.worst(), worst);
            }
        }
    }
}
