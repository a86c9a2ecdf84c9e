//! Compares the final image of every allocation byte for byte with the expected memory.
use super::changes::{Change, Readers};
use super::findings::{FindingCollector, NO_EVENT, Priority, RankEvent};
use super::indices::{Indices, MAX_WRONG_RANGES};
use super::lanes::payload_range;
use super::message::{self, WrongElements};
use super::pattern::{self, Patterns};
use super::{Finding, Lane};
use crate::image::contents::Contents;
use crate::job::Observation;
use crate::num::get_element;
use crate::oracle::Forecast;
use crate::oracle::interpreter::region_bytes;
use crate::oracle::memory::{Certainty, Memory, MemoryRun};
use crate::oracle::undefined::is_in;
use crate::plan::{Event, Plan, Region};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;

/// Bytes of an allocation's final image; `None` if it was not read or does not have them.
pub(crate) fn image_bytes<'a>(
    forecast: &'a Forecast,
    observation: &'a Observation,
    alloc: usize,
    range: Range<usize>,
) -> Option<Cow<'a, [u8]>> {
    if observation.is_as_expected(alloc) {
        return forecast.only_last_bytes(alloc, range);
    }
    observation.images.get(alloc)?.get(range).map(Cow::Borrowed)
}

/// An allocation's final image, guards included; `None` if it was not read.
pub fn final_image(plan: &Plan, forecast: &Forecast, observation: &Observation, alloc: usize) -> Option<Vec<u8>> {
    let len = match observation.is_as_expected(alloc) {
        true => plan.allocs.get(alloc)?.image() as usize,
        false => observation.images.get(alloc)?.len(),
    };
    image_bytes(forecast, observation, alloc, 0..len).map(Cow::into_owned)
}

/// Compares the images of all allocations with the expected memory `last`.
pub(crate) fn compare(
    plan: &Plan,
    forecast: &Forecast,
    last: &[Memory],
    observation: &Observation,
    collector: &mut FindingCollector,
) {
    let mut patterns = Patterns::new(plan, forecast, observation);
    let readers = Readers::new(plan);
    for (alloc, memory) in last.iter().enumerate() {
        let empty = Vec::new();
        let image = observation.images.get(alloc).unwrap_or(&empty);
        let Some(initial) = forecast.initial.get(alloc) else { continue };
        let spec = &plan.allocs[alloc];
        if observation.is_as_expected(alloc) {
            collector.count_checked(Lane::Invariants, initial.len() as u64 - spec.payload);
            count_checked_bytes(plan, memory, collector);
            continue;
        }
        let Some((start, end)) = payload_range(plan, alloc, image).filter(|_| image.len() == initial.len()) else {
            let text = format!("rank {}: the memory of `{}` was not returned by the worker", spec.rank, spec.label);
            let finding = message::without_element(Lane::Invariants, text, "an image".into(), "none".into());
            collector.add(Priority::Invariant(NO_EVENT), Finding { rank: Some(spec.rank), ..finding });
            continue;
        };
        collector.count_checked(Lane::Invariants, (image.len() - (end - start)) as u64);
        count_checked_bytes(plan, memory, collector);
        check_guards(plan, alloc, initial, image, (start, end), collector);
        if memory.data != image[start..end] {
            let (actual, expected) = (&image[start..end], memory.data.get(0..memory.data.len()).unwrap_or_default());
            WrongPayload { plan, forecast, readers: &readers, alloc, memory, expected: &expected, actual }
                .add_findings(&mut patterns, collector);
        }
    }
}

/// Counts the compared data: elements that steps wrote, and bytes that must not change. Elements that only the observation
/// decides were counted when they were judged.
fn count_checked_bytes(plan: &Plan, memory: &Memory, collector: &mut FindingCollector) {
    let mut from = 0;
    let (mut exact, mut kept) = (0, 0);
    for run in memory.runs() {
        let bytes = run.end - from;
        from = run.end;
        match (run.certainty, run.writer) {
            (Certainty::Known | Certainty::Ambiguous, Some(event)) if run.origin.is_none() => {
                let writes = plan.events.get(event as usize).map(Event::writes).unwrap_or_default();
                let region = writes.into_iter().flatten().next().map(|w| w.region);
                let size = region.and_then(|r| plan.buffers.get(r.buf)).map_or(1, |b| b.dtype.size());
                exact += bytes / size as u64;
            }
            (Certainty::Unwritten, _) | (Certainty::Known, None) => kept += bytes,
            _ => {}
        }
    }
    for (lane, number) in [(Lane::Exact, exact), (Lane::Invariants, kept)] {
        if number > 0 {
            collector.count_checked(lane, number);
        }
    }
}

fn check_guards(
    plan: &Plan,
    alloc: usize,
    initial: &Contents,
    image: &[u8],
    (start, end): (usize, usize),
    collector: &mut FindingCollector,
) {
    let spec = &plan.allocs[alloc];
    for (before, range) in [(true, 0..start), (false, end..image.len())] {
        let Some(guard) = initial.get(range.clone()).filter(|guard| **guard != image[range.clone()]) else { continue };
        let byte = |i: usize| guard[i - range.start];
        let mut differ = range.clone().filter(|i| byte(*i) != image[*i]);
        let Some(first) = (if before { differ.next_back() } else { differ.next() }) else { continue };
        let wrong = differ.count() as u64 + 1;
        // Counted from the payload's edge: the last byte before it is -1, the first after it +0.
        let at = if before { first as i64 - start as i64 } else { (first - end) as i64 };
        let finding = message::guard_overwritten(spec.rank, &spec.label, before, at, wrong, byte(first), image[first]);
        collector.add(Priority::Invariant(NO_EVENT), finding);
    }
}

/// A payload that differs from the expected memory.
struct WrongPayload<'a, 'p> {
    plan: &'p Plan,
    forecast: &'p Forecast,
    readers: &'a Readers<'p>,
    alloc: usize,
    memory: &'a Memory,
    expected: &'a [u8],
    actual: &'a [u8],
}

/// The owner of wrong bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum ByteOwner {
    /// A write: numbers of the event and of the write in it.
    Write(usize, usize),
    /// A buffer that no event has written.
    Unwritten(usize),
    /// Bytes outside every buffer.
    NoBuffer,
}

impl<'p> WrongPayload<'_, 'p> {
    fn add_findings(&self, patterns: &mut Patterns<'_>, collector: &mut FindingCollector) {
        let mut by_owner: BTreeMap<ByteOwner, OwnedWrong> = BTreeMap::new();
        let mut from = 0;
        for run in self.memory.runs() {
            let range = from..run.end;
            from = run.end;
            if run.certainty == Certainty::Undefined || self.is_right(&range) {
                continue;
            }
            let owners = self.owners(run);
            for wrong in self.wrong_bytes(range) {
                collector.mark_wrong_bytes(self.alloc, wrong.clone());
                let mut from = wrong.start;
                while from < wrong.end {
                    let owner = owners.iter().find(|(bytes, _)| bytes.contains(&from));
                    // No other owner begins or ends before that.
                    let edges = owners.iter().flat_map(|(bytes, _)| [bytes.start, bytes.end]);
                    let to = edges.filter(|edge| *edge > from).min().map_or(wrong.end, |edge| edge.min(wrong.end));
                    let owner = owner.map_or(ByteOwner::NoBuffer, |(_, owner)| *owner);
                    by_owner.entry(owner).or_insert_with(|| self.nothing_wrong(owner)).add(from..to);
                    from = to;
                }
            }
        }
        for (owner, wrong) in by_owner {
            self.report(owner, wrong, patterns, collector);
        }
    }

    /// Adds the finding of an owner's wrong bytes.
    fn report(
        &self,
        owner: ByteOwner,
        wrong: OwnedWrong,
        patterns: &mut Patterns<'_>,
        collector: &mut FindingCollector,
    ) {
        let spec = &self.plan.allocs[self.alloc];
        let OwnedWrong { at, bytes: wrong, elements, .. } = wrong;
        let (expected, actual) = (self.expected[at as usize], self.actual[at as usize]);
        match owner {
            ByteOwner::Write(event, write) if !spec.scrap => {
                self.report_write((event, write), elements, patterns, collector)
            }
            _ if spec.scrap => {
                let finding = message::scrap_written(spec.rank, &spec.label, at, wrong, expected, actual);
                collector.add(Priority::Invariant(NO_EVENT), finding);
            }
            ByteOwner::NoBuffer | ByteOwner::Write(..) => {
                let finding = message::written_beyond(spec.rank, &spec.label, at, wrong, expected, actual);
                collector.add(Priority::Invariant(NO_EVENT), finding);
            }
            ByteOwner::Unwritten(buf) => self.report_unwritten(buf, elements, collector),
        }
    }

    /// The ranges of bytes that differ.
    fn wrong_bytes(&self, range: Range<u64>) -> impl Iterator<Item = Range<u64>> {
        let part = range.start as usize..range.end as usize;
        let (actual, expected) = (&self.actual[part.clone()], &self.expected[part.clone()]);
        let mut from = 0;
        std::iter::from_fn(move || {
            let mut differs = actual[from..].iter().zip(&expected[from..]).map(|(a, b)| a != b);
            let first = from + differs.position(|differs| differs)?;
            from = differs.position(|differs| !differs).map_or(actual.len(), |more| first + 1 + more);
            Some((part.start + first) as u64..(part.start + from) as u64)
        })
    }

    /// An empty record of an owner's wrong bytes: where its elements begin and how large they are.
    fn nothing_wrong(&self, owner: ByteOwner) -> OwnedWrong {
        let plan = self.plan;
        let rank = plan.allocs[self.alloc].rank;
        let place = match owner {
            ByteOwner::Write(event, write) => {
                let write = plan.events.get(event).and_then(|event| event.writes().get(write).copied().flatten());
                write.and_then(|write| Some((write.region.buf, region_bytes(plan, write.region)?.1.start)))
            }
            ByteOwner::Unwritten(buf) => plan.buffers[buf].places.get(rank).copied().flatten().map(|p| (buf, p.offset)),
            ByteOwner::NoBuffer => None,
        };
        let (from, size) = place.map_or((0, 1), |(buf, from)| (from, plan.buffers[buf].dtype.size() as u64));
        OwnedWrong { from, size, at: 0, bytes: 0, elements: Indices::with_limit(MAX_WRONG_RANGES) }
    }

    fn is_right(&self, range: &Range<u64>) -> bool {
        let range = range.start as usize..range.end as usize;
        self.actual[range.clone()] == self.expected[range]
    }

    /// Candidates for the owner of a run's bytes; of those that contain a byte the first owns it.
    fn owners(&self, run: &MemoryRun) -> Vec<(Range<u64>, ByteOwner)> {
        let rank = self.plan.allocs[self.alloc].rank;
        let mut owners = Vec::new();
        let mut add = |region: Region, owner| match region_bytes(self.plan, region) {
            Some((alloc, range)) if alloc == self.alloc => owners.push((range, owner)),
            _ => {}
        };
        if let Some(event) = run.writer.map(|w| w as usize) {
            let writes = self.plan.events.get(event).map(Event::writes).unwrap_or_default();
            for (number, write) in writes.into_iter().enumerate().filter_map(|(i, w)| Some((i, w?))) {
                add(write.region, ByteOwner::Write(event, number));
            }
        }
        // In place, an input and an output are the same memory; contents known at the beginning get the input's name.
        let mut bufs: Vec<usize> = (0..self.plan.buffers.len()).collect();
        bufs.sort_by_key(|b| self.plan.buffers[*b].input.is_none() == (run.certainty == Certainty::Known));
        for buf in bufs {
            if let Some(place) = self.plan.buffers[buf].places.get(rank).copied().flatten() {
                add(Region { buf, rank, start: 0, len: place.count }, ByteOwner::Unwritten(buf));
            }
        }
        owners
    }

    fn report_write(
        &self,
        (event, write): (usize, usize),
        elements: Indices,
        patterns: &mut Patterns<'_>,
        collector: &mut FindingCollector,
    ) {
        let plan = self.plan;
        let writes = plan.events[event].writes();
        let Some(region) = writes.get(write).copied().flatten().map(|w| w.region) else { return };
        let Some((_, range)) = region_bytes(plan, region) else { return };
        let buffer = &plan.buffers[region.buf];
        let slice = range.start as usize..range.end as usize;
        let (expected, actual) = (&self.expected[slice.clone()], &self.actual[slice]);
        let Some(first) = elements.first() else { return };
        let rank = region.rank;
        if self.forecast.checkpoint(event, write).is_some()
            && !collector.is_wrong_after(RankEvent { event, rank })
            && self.memory.runs_in(range.clone()).all(|(_, run)| run.certainty != Certainty::Undefined)
        {
            let change = Change { write: Some(event), region, was: expected, is: actual, wrong: &elements };
            return change.report(plan, self.readers, plan.events.len(), collector);
        }
        let site = pattern::WrongWrite { event, write, region, expected, actual, wrong: &elements };
        let bits = |bytes: &[u8]| get_element(buffer.dtype, bytes, first as usize);
        let (right, is) = message::value_texts(buffer.dtype, bits(expected), bits(actual));
        let finding = WrongElements {
            lane: Lane::Exact,
            rank,
            buffer: message::buffer_label(buffer),
            element: region.start + first,
            expected: right,
            actual: is,
            wrong: &elements,
            of: region.len,
            pattern: patterns.recognise(collector, &site),
        };
        let step = plan.events[event].step();
        collector.add(Priority::Data(event), message::wrong_elements(plan, finding, Some(step), None));
    }

    fn report_unwritten(&self, buf: usize, elements: Indices, collector: &mut FindingCollector) {
        let plan = self.plan;
        let buffer = &plan.buffers[buf];
        let rank = plan.allocs[self.alloc].rank;
        let Some(place) = buffer.places.get(rank).copied().flatten() else { return };
        let part = place.offset as usize..;
        let (was, is) = (&self.expected[part.clone()], &self.actual[part]);
        let region = Region { buf, rank, start: 0, len: place.count };
        Change { write: None, region, was, is, wrong: &elements }.report(
            plan,
            self.readers,
            plan.events.len(),
            collector,
        );
    }
}

/// The wrong bytes of an owner.
struct OwnedWrong {
    /// The byte at which its elements begin.
    from: u64,
    /// Bytes of an element.
    size: u64,
    /// The first wrong byte.
    at: u64,
    /// Number of wrong bytes.
    bytes: u64,
    /// The elements that contain a wrong byte.
    elements: Indices,
}

impl OwnedWrong {
    /// Adds wrong bytes after those already present.
    fn add(&mut self, bytes: Range<u64>) {
        if self.bytes == 0 {
            self.at = bytes.start;
        }
        self.bytes += bytes.end - bytes.start;
        let element = |byte: u64| byte.saturating_sub(self.from) / self.size;
        self.elements.add(element(bytes.start)..element(bytes.end - 1) + 1);
    }
}

/// Compares a run with the first one: they must agree bit for bit, except where `memory` is undefined.
pub(crate) fn compare_runs(
    plan: &Plan,
    forecast: &Forecast,
    memory: &[Memory],
    first: &Observation,
    other: &Observation,
    number: usize,
    collector: &mut FindingCollector,
) {
    let len = |alloc: usize| match first.is_as_expected(alloc) {
        true => plan.allocs.get(alloc).map_or(0, |spec| spec.image()),
        false => first.images.get(alloc).map_or(0, |image| image.len() as u64),
    };
    collector.count_checked(Lane::Invariants, (0..first.images.len()).map(len).sum());
    for alloc in 0..first.images.len().min(other.images.len()) {
        let spec = &plan.allocs[alloc];
        if first.is_as_expected(alloc) && other.is_as_expected(alloc) {
            continue;
        }
        let whole = |run| {
            let len =
                if Observation::is_as_expected(run, alloc) { spec.image() as usize } else { run.images[alloc].len() };
            image_bytes(forecast, run, alloc, 0..len).unwrap_or_default()
        };
        let (a, b) = (whole(first), whole(other));
        if a == b {
            continue;
        }
        let start = spec.start() as usize;
        let undefined: Vec<_> = memory.get(alloc).map_or_else(Vec::new, |memory| {
            let undefined = memory.runs_in(0..spec.payload).filter(|(_, run)| run.certainty == Certainty::Undefined);
            undefined.map(|(bytes, _)| start + bytes.start as usize..start + bytes.end as usize).collect()
        });
        let counts = |at: usize| a[at] != b[at] && !is_in(&undefined, at);
        let Some(at) = (0..a.len().min(b.len())).find(|at| counts(*at)) else { continue };
        let found = plan.buffers.iter().find_map(|buffer| {
            let place = buffer.places.get(spec.rank).copied().flatten().filter(|p| p.alloc == alloc)?;
            let size = buffer.dtype.size();
            let element = at.checked_sub(start + place.offset as usize)? / size;
            ((element as u64) < place.count).then(|| {
                let from = start + place.offset as usize + element * size;
                let bits = |image: &[u8]| get_element(buffer.dtype, &image[from..], 0);
                let (was, is) = message::value_texts(buffer.dtype, bits(&a), bits(&b));
                (message::buffer_label(buffer), element as u64, was, is)
            })
        });
        let (name, element, was, is) = found.unwrap_or((&spec.label, 0, "other bytes".into(), "other bytes".into()));
        let run = match plan.case.repeat as usize {
            repeat if number > repeat => "the run after `before` differs from the run without it".to_owned(),
            repeat => format!("run {number} of {repeat} differs from run 1"),
        };
        let text = format!("rank {}: {run}: `{name}[{element}]` is {is}, was {was}", spec.rank);
        let mut finding = message::without_element(Lane::Invariants, text, was, is);
        (finding.rank, finding.buffer, finding.element) = (Some(spec.rank), Some(name.into()), Some(element));
        collector.add(Priority::Invariant(NO_EVENT), finding);
    }
}
