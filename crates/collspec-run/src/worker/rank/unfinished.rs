//! Tracks the call of each stream that the device has not finished: while a rank waits, its step word names the first of them, so that
//! the place of a hang is where the device is, not where the host is. The software library reports its stuck operations itself.
use super::{Halt, Rank};
use crate::backend::DeviceEvent;
use crate::job::CallKind;
use crate::job::arena::Step;
use std::collections::{BTreeMap, VecDeque};

/// Calls of a stream that are marked at most: the first of them counts.
const MOST_MARKS: usize = 1024;

/// An event after each call that may not be finished, by stream.
#[derive(Default)]
pub(super) struct Unfinished {
    marks: BTreeMap<u32, VecDeque<(u32, DeviceEvent)>>,
    /// The first call of the open group on each stream.
    grouped: BTreeMap<u32, u32>,
}

impl Unfinished {
    /// The first call that is not finished.
    fn first(&mut self) -> Option<u32> {
        self.marks.values_mut().filter_map(first_of).min()
    }

    /// All calls of the stream are finished.
    pub fn finished(&mut self, stream: u32) {
        self.marks.remove(&stream);
    }
}

fn first_of(marks: &mut VecDeque<(u32, DeviceEvent)>) -> Option<u32> {
    while let Some((index, event)) = marks.front() {
        // An event that cannot be asked is of a stream that has failed.
        if !event.is_reached().unwrap_or(false) {
            return Some(*index);
        }
        marks.pop_front();
    }
    None
}

/// The stream on which the call puts work that may hang.
fn stream_of(kind: &CallKind) -> Option<u32> {
    use CallKind::*;
    match kind {
        Collective { stream, .. } | Send { stream, .. } | Recv { stream, .. } | Map { stream, .. } => Some(*stream),
        Launch { stream, .. } | Put { stream, .. } | Signal { stream, .. } | WaitSignal { stream, .. } => Some(*stream),
        _ => None,
    }
}

impl Rank<'_> {
    /// Notes that the program has put a call's work on its stream, or with the end of a group that of all its calls.
    pub(super) fn mark(&mut self, index: u32, kind: &CallKind) -> Result<(), Halt> {
        let device = self.run.backend.device;
        if self.job().timed.is_some() || !device.has_events_to_ask() {
            return Ok(());
        }
        let unfinished = self.unfinished.get_mut();
        if let Some(stream) = stream_of(kind) {
            unfinished.grouped.entry(stream).or_insert(index);
        }
        if self.depth > 0 {
            return Ok(());
        }
        for (stream, index) in std::mem::take(&mut unfinished.grouped) {
            let marks = self.unfinished.get_mut().marks.entry(stream).or_default();
            if marks.len() >= MOST_MARKS {
                first_of(marks);
            }
            if marks.len() < MOST_MARKS {
                let event = device.event()?;
                self.stream(stream)?.record(&event)?;
                self.unfinished.get_mut().marks.entry(stream).or_default().push_back((index, event));
            }
        }
        Ok(())
    }

    /// Lets the step word name the first call that is not finished.
    pub(super) fn show_unfinished(&self) {
        if let Some(first) = self.unfinished.borrow_mut().first() {
            self.run.step(self.rank, Step::Running(first));
        }
    }
}
