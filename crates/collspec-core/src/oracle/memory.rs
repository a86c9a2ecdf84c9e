//! The contents of allocations between two events, with their certainty.
use crate::image::contents::Contents;
use std::ops::Range;

/// The certainty of the value of bytes. For bytes of several kinds the greatest certainty in this order decides, so bytes that
/// are partly written count as written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Certainty {
    /// The bytes were not written by any event: they contain poison.
    Unwritten,
    /// One value is right.
    Known,
    /// Several values are right; the data is one of them.
    Ambiguous,
    /// Any value is right; they are not judged.
    Undefined,
}

/// A range of an allocation's bytes with one history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryRun {
    /// One past its last byte; it starts at the end of the run before it.
    pub end: u64,
    /// The certainty of all its bytes.
    pub certainty: Certainty,
    /// The event that wrote it; `None` before the first step.
    pub writer: Option<u32>,
    /// Index of the ambiguous result that these bytes are, unless they are a copy or not ambiguous.
    pub origin: Option<u32>,
}

/// A range of tracked bytes with one certainty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PieceRun {
    /// One past its last byte.
    pub end: u64,
    /// The certainty of all its bytes.
    pub certainty: Certainty,
    /// Index of the ambiguous result that these bytes are, unless they are a copy or not ambiguous.
    pub origin: Option<u32>,
}

/// Bytes that are read or written, with their certainty.
#[derive(Clone, Debug)]
pub struct TrackedBytes {
    pub bytes: Contents,
    /// Their certainty; the runs cover all bytes.
    pub runs: Vec<PieceRun>,
}

impl TrackedBytes {
    /// Bytes whose certainty is not set yet.
    pub fn new(bytes: impl Into<Contents>) -> Self {
        Self { bytes: bytes.into(), runs: Vec::new() }
    }
    pub fn with_certainty(bytes: impl Into<Contents>, certainty: Certainty) -> Self {
        let bytes = bytes.into();
        let marks = vec![PieceRun { end: bytes.len() as u64, certainty, origin: None }];
        Self { bytes, runs: marks }
    }
    /// Appends other bytes to these.
    pub fn append(&mut self, other: &Self) {
        let before = self.bytes.len() as u64;
        self.bytes.append(&other.bytes);
        for mark in &other.runs {
            self.push_run(PieceRun { end: before + mark.end, ..*mark });
        }
    }
    /// Appends a run, from the end of the last one on, or extends the last one if it has the same certainty and origin.
    pub fn push_run(&mut self, run: PieceRun) {
        match self.runs.last_mut() {
            Some(last) if last.end >= run.end => {}
            Some(last) if (last.certainty, last.origin) == (run.certainty, run.origin) => last.end = run.end,
            _ => self.runs.push(run),
        }
    }
    /// The greatest [`Certainty`] of any part, which decides for all of them; `None` without bytes.
    pub fn least_certain(&self) -> Option<Certainty> {
        self.runs.iter().map(|m| m.certainty).max()
    }
}

/// The payload of one allocation.
#[derive(Clone, Debug)]
pub struct Memory {
    /// The bytes. Those of a [`Certainty::Unwritten`] run are meaningless.
    pub data: Contents,
    runs: Vec<MemoryRun>,
}

impl Memory {
    /// Memory that no event has written.
    pub fn unwritten(len: usize) -> Self {
        Self::new(
            Contents::zeros(len),
            vec![MemoryRun { end: len as u64, certainty: Certainty::Unwritten, writer: None, origin: None }],
        )
    }
    /// Memory with these contents; the runs must cover the data.
    pub fn new(data: Contents, runs: Vec<MemoryRun>) -> Self {
        Self { data, runs }
    }
    /// The ranges that make up the allocation.
    pub fn runs(&self) -> &[MemoryRun] {
        &self.runs
    }
    /// The parts of a range, each with its run.
    pub fn runs_in(&self, range: Range<u64>) -> impl Iterator<Item = (Range<u64>, MemoryRun)> + '_ {
        let first = self.runs.partition_point(|r| r.end <= range.start);
        let mut from = range.start;
        self.runs[first..].iter().take_while(move |_| range.start < range.end).map_while(move |run| {
            let part = from..run.end.min(range.end);
            from = run.end;
            (part.start < part.end).then_some((part, *run))
        })
    }
    /// A copy of a range. `None` beyond the end.
    pub fn read(&self, range: Range<u64>) -> Option<TrackedBytes> {
        let mut bytes = TrackedBytes::new(self.data.slice(range.start as usize..range.end as usize)?);
        for (part, run) in self.runs_in(range.clone()) {
            bytes.push_run(PieceRun { end: part.end - range.start, certainty: run.certainty, origin: run.origin });
        }
        Some(bytes)
    }
    /// Writes bytes. `None` beyond the end.
    pub fn write(&mut self, at: u64, bytes: &TrackedBytes, writer: Option<u32>) -> Option<()> {
        let end = at.checked_add(bytes.bytes.len() as u64)?;
        self.data.write(at as usize, &bytes.bytes)?;
        if at == end {
            return Some(());
        }
        let new = |m: &PieceRun| MemoryRun { end: at + m.end, certainty: m.certainty, writer, origin: m.origin };
        let first = self.runs.partition_point(|r| r.end <= at);
        let last = self.runs.partition_point(|r| r.end < end);
        let mut middle = Vec::with_capacity(bytes.runs.len() + 2);
        let before = first.checked_sub(1).map_or(0, |i| self.runs[i].end);
        if before < at {
            middle.push(MemoryRun { end: at, ..self.runs[first] });
        }
        for run in bytes.runs.iter().map(new) {
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

/// Appends a run, or extends the last one if it has the same history.
fn push(runs: &mut Vec<MemoryRun>, run: MemoryRun) {
    match runs.last_mut() {
        Some(last) if last.end >= run.end => {}
        Some(last) if MemoryRun { end: run.end, ..*last } == run => last.end = run.end,
        _ => runs.push(run),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Compares with the obvious model: one entry per byte.
        #[test]
        fn runs_agree_with_bytes(writes in prop::collection::vec((0u64..40, 0u64..24, 0u32..3), 0..12)) {
            let mut memory = Memory::unwritten(40);
            let mut model: Vec<(u8, Option<u32>, Certainty)> = vec![(0, None, Certainty::Unwritten); 40];
            for (number, (at, len, writer)) in writes.into_iter().enumerate() {
                let bytes = vec![number as u8 + 1; len as usize];
                let certainty = if len % 2 == 0 { Certainty::Known } else { Certainty::Ambiguous };
                let fits = at + len <= 40;
                prop_assert_eq!(memory.write(at, &TrackedBytes::with_certainty(bytes, certainty), Some(writer)).is_some(), fits);
                if fits {
                    model[at as usize..(at + len) as usize].fill((number as u8 + 1, Some(writer), certainty));
                }
            }
            let mut flat = Vec::new();
            for (part, run) in memory.runs_in(0..40) {
                for byte in part { flat.push((memory.data.byte(byte as usize), run.writer, run.certainty)); }
            }
            prop_assert_eq!(&flat, &model);
            for from in 0..40 {
                let bytes = memory.read(from..40).expect("inside");
                let least_certain = model[from as usize..].iter().map(|m| m.2).max();
                prop_assert_eq!(bytes.least_certain(), least_certain);
            }
        }
    }
}
