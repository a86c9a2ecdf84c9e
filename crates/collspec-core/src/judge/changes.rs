//! Memory that was right and was changed by a call that must only read it.
use super::Lane;
use super::findings::{FindingCollector, NO_EVENT, Priority, RankEvent};
use super::indices::{Indices, MAX_WRONG_RANGES};
use super::message::{self, Changed, WrongElements};
use super::pattern::positions_pattern;
use crate::job::{DIGEST, digest};
use crate::num::get_element;
use crate::oracle::Forecast;
use crate::oracle::interpreter::region_bytes;
use crate::oracle::memory::{Certainty, Memory, MemoryRun};
use crate::plan::{Event, Plan, PlanStep, Region};
use std::cell::OnceCell;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

/// The reads of all events except those of maps, which the library does not execute.
pub(crate) struct Readers<'a> {
    plan: &'a Plan,
    /// For each allocation, the events in order with the bytes that they read; collected for the first finding.
    reads: OnceCell<Reads>,
}

type Reads = HashMap<usize, Vec<(usize, Range<u64>)>>;

impl<'a> Readers<'a> {
    /// The reads of a plan.
    pub fn new(plan: &'a Plan) -> Self {
        Self { plan, reads: OnceCell::new() }
    }

    fn reads(&self) -> Reads {
        let plan = self.plan;
        let mut reads = Reads::new();
        for (number, event) in plan.events.iter().enumerate().filter(|(_, event)| !matches!(event, Event::Map(_))) {
            for (alloc, range) in event.reads().into_iter().filter_map(|region| region_bytes(plan, region)) {
                reads.entry(alloc).or_default().push((number, range));
            }
        }
        reads
    }

    /// The events from this one on that read any of these bytes of an allocation.
    pub fn events(&self, from: usize, alloc: usize, bytes: Range<u64>) -> impl Iterator<Item = usize> {
        let reads = self.reads.get_or_init(|| self.reads()).get(&alloc).map(Vec::as_slice).unwrap_or_default();
        let later = &reads[reads.partition_point(|(event, _)| *event < from)..];
        later
            .iter()
            .filter(move |(_, range)| range.start < bytes.end && bytes.start < range.end)
            .map(|(event, _)| *event)
    }

    /// The steps of these events, each once.
    pub fn steps(&self, events: impl Iterator<Item = usize>) -> Vec<&'a PlanStep> {
        let mut steps: Vec<&PlanStep> = Vec::new();
        for step in events.filter_map(|event| self.plan.steps.get(self.plan.events.get(event)?.step() as usize)) {
            if !steps.iter().any(|known| known.label == step.label) {
                steps.push(step);
            }
        }
        steps
    }
}

/// Elements of a region that have changed since they were written.
pub(crate) struct Change<'a> {
    /// The event that wrote them; `None` before the first step.
    pub write: Option<usize>,
    /// The region that changed.
    pub region: Region,
    /// The bytes before the change.
    pub was: &'a [u8],
    /// The bytes after the change.
    pub is: &'a [u8],
    /// The changed elements, from the region's start.
    pub wrong: &'a Indices,
}

impl Change<'_> {
    /// Adds the finding, with the steps before event `until` that have read the region.
    pub fn report(&self, plan: &Plan, readers: &Readers<'_>, until: usize, collector: &mut FindingCollector) {
        let Self { region, wrong, .. } = *self;
        let Some(first) = wrong.first() else { return };
        let buffer = &plan.buffers[region.buf];
        let bits = |bytes: &[u8]| get_element(buffer.dtype, bytes, first as usize);
        let (was, is) = message::value_texts(buffer.dtype, bits(self.was), bits(self.is));
        let finding = WrongElements {
            lane: Lane::Invariants,
            rank: region.rank,
            buffer: message::buffer_label(buffer),
            element: region.start + first,
            expected: was,
            actual: is,
            wrong,
            of: region.len,
            pattern: positions_pattern(wrong, region.len),
        };
        let mut finding = message::modified(finding, self.changed(plan), &self.readers(plan, readers, until));
        finding.span = finding.span.or_else(|| Some(self.writer(plan)?.span)).or(Some(buffer.span));
        collector.add(Priority::Invariant(NO_EVENT), finding);
    }

    /// Adds the finding for a region known only by its digest.
    pub fn report_digest(&self, plan: &Plan, readers: &Readers<'_>, until: usize, collector: &mut FindingCollector) {
        let Self { region, .. } = *self;
        let buffer = &plan.buffers[region.buf];
        let place = (region.rank, message::buffer_label(buffer), region.len);
        let bytes = region.len * buffer.dtype.size() as u64;
        let mut finding =
            message::modified_digest(place, bytes, self.changed(plan), &self.readers(plan, readers, until));
        finding.span = finding.span.or_else(|| Some(self.writer(plan)?.span)).or(Some(buffer.span));
        collector.add(Priority::Invariant(NO_EVENT), finding);
    }

    fn writer<'p>(&self, plan: &'p Plan) -> Option<&'p PlanStep> {
        plan.steps.get(plan.events.get(self.write?)?.step() as usize)
    }

    fn changed<'p>(&self, plan: &'p Plan) -> Changed<'p> {
        match self.writer(plan) {
            Some(step) => Changed::Result(&step.label),
            None if plan.buffers[self.region.buf].input.is_some() => Changed::Input,
            None => Changed::Untouched,
        }
    }

    fn readers<'p>(&self, plan: &Plan, readers: &Readers<'p>, until: usize) -> Vec<&'p PlanStep> {
        let from = self.write.map_or(0, |event| event + 1);
        let place = region_bytes(plan, self.region);
        let events = place.map(|(alloc, bytes)| readers.events(from, alloc, bytes).take_while(|event| *event < until));
        readers.steps(events.into_iter().flatten())
    }
}

/// The copy or digest that a run kept of a region after the last library call that read it.
pub(crate) struct KeptRead<'a> {
    /// The event that read it.
    pub event: usize,
    pub region: Region,
    /// True if `kept` is only a digest.
    pub digest: bool,
    pub kept: &'a [u8],
}

impl KeptRead<'_> {
    /// Compares it with the contents before the event.
    pub fn compare(&self, plan: &Plan, memory: &[Memory], readers: &Readers<'_>, collector: &mut FindingCollector) {
        let Self { event, region, digest: only_digest, kept } = *self;
        let Some((alloc, range)) = region_bytes(plan, region) else { return };
        let Some(memory) = memory.get(alloc) else { return };
        collector.count_checked(Lane::Invariants, region.len);
        let runs: Vec<(Range<u64>, MemoryRun)> = memory.runs_in(range.clone()).collect();
        if runs.iter().any(|(_, run)| run.certainty == Certainty::Undefined) {
            return;
        }
        let was = memory.data.get(range.start as usize..range.end as usize).unwrap_or_default();
        let was = &*was;
        let (dtype, rank) = (plan.buffers[region.buf].dtype, region.rank);
        if kept.len() != if only_digest { DIGEST } else { was.len() } {
            let name = message::buffer_label(&plan.buffers[region.buf]);
            let text = format!("rank {rank}: no data came back for `{name}`");
            let finding = message::without_element(Lane::Invariants, text, "a copy".into(), "none".into());
            return collector.add(Priority::Data(event), finding);
        }
        let is_right = if only_digest { digest(was) == kept } else { was == kept };
        if is_right {
            return;
        }
        // Bytes that have been wrong since they were written are reported for the event that wrote them.
        let is_known = |(_, run): &&(Range<u64>, MemoryRun)| match run.writer.map(|event| event as usize) {
            Some(event) => !collector.is_wrong_after(RankEvent { event, rank }),
            None => true,
        };
        if only_digest {
            let write = runs.first().and_then(|(_, run)| run.writer).map(|event| event as usize);
            if runs.iter().all(|run| is_known(&run)) {
                let change = Change { write, region, was, is: &[], wrong: &Indices::with_limit(0) };
                change.report_digest(plan, readers, event + 1, collector);
            }
            return;
        }
        let size = dtype.size() as u64;
        let differs = |i: &u64| get_element(dtype, was, *i as usize) != get_element(dtype, kept, *i as usize);
        let mut by_writer: BTreeMap<Option<u32>, Indices> = BTreeMap::new();
        for (part, run) in runs.iter().filter(is_known) {
            let elements = (part.start - range.start) / size..(part.end - range.start).div_ceil(size);
            let wrong = by_writer.entry(run.writer).or_insert_with(|| Indices::with_limit(MAX_WRONG_RANGES));
            elements.filter(differs).for_each(|at| wrong.add(at..at + 1));
        }
        for (writer, wrong) in by_writer {
            let change = Change { write: writer.map(|event| event as usize), region, was, is: kept, wrong: &wrong };
            change.report(plan, readers, event + 1, collector);
        }
    }
}

/// Lists, for each wrong result that was checked only at the end, the steps that read it: one of them may have changed it. A
/// finding that follows from the result shows that it was already wrong when it was read.
pub(crate) fn name_later_readers(plan: &Plan, forecast: &Forecast, collector: &mut FindingCollector) {
    let readers = Readers::new(plan);
    let is_result = |lane: Lane| matches!(lane, Lane::Exact | Lane::Admissible | Lane::Bounded);
    for found in collector.findings_mut() {
        let finding = &mut found.finding;
        if !matches!(found.priority, Priority::Data(_)) || finding.element.is_none() || !is_result(finding.lane) {
            continue;
        }
        let mut events: Vec<usize> = Vec::new();
        for RankEvent { event, rank } in &found.events {
            let writes = plan.events.get(*event).map(Event::writes).unwrap_or_default();
            for (number, write) in writes.into_iter().enumerate() {
                let region = write.map(|write| write.region).filter(|region| region.rank == *rank);
                let place = region.filter(|_| forecast.checkpoint(*event, number).is_none());
                if let Some((alloc, bytes)) = place.and_then(|region| region_bytes(plan, region)) {
                    events.extend(readers.events(event + 1, alloc, bytes));
                }
            }
        }
        events.sort_unstable();
        events.dedup();
        let follows = |step: &&PlanStep| finding.consequences.iter().any(|line| line.contains(&step.label));
        let steps: Vec<&PlanStep> =
            readers.steps(events.into_iter()).into_iter().take_while(|step| !follows(step)).collect();
        let labels: Vec<&str> = steps.iter().map(|step| step.label.as_str()).collect();
        if let (Some(labels), Some(buffer)) = (message::listed(&labels), &finding.buffer) {
            finding.advice = Some(format!("or `{buffer}` was right and was changed by {labels}, which read it"));
        }
    }
}
