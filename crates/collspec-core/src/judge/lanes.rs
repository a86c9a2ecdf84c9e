//! Judges the observed results of reductions that have several right values, and continues with the observed ones.
use super::Lane;
use super::changes::{KeptRead, Readers};
use super::findings::{FindingCollector, Priority};
use super::images::image_bytes;
use super::indices::Indices;
use super::message::{self, WrongElements};
use super::order_maps::OrderMaps;
use super::pattern::{self, Patterns};
use crate::job::{Observation, digest};
use crate::num::{DType, get_element};
use crate::oracle::interpreter::{AmbiguousResult, ResultResolver, Uncomputable, region_bytes};
use crate::oracle::memory::{Certainty, Memory};
use crate::oracle::reduced_buffer::column;
use crate::oracle::rounding_elements::RoundingElements;
use crate::oracle::{self, Budget, Fingerprint, Forecast, JudgedElement, Ruling};
use crate::plan::{Event, GUARD, Plan, Region};

/// Judges each observed result while an [`Interpreter`](crate::oracle::interpreter::Interpreter) goes through the plan's events.
pub(crate) struct ResultJudge<'a> {
    pub plan: &'a Plan,
    pub forecast: &'a Forecast,
    pub observation: &'a Observation,
    pub collector: &'a mut FindingCollector,
    pub budget: &'a mut Budget,
    /// Budget for the right values that messages name, kept separate so that messages do not use up the verdict's budget.
    pub message_budget: &'a mut Budget,
    /// Collects the families that explain the results, if they are wanted.
    pub fingerprint: Option<&'a mut Fingerprint>,
    /// Collects order maps, if they are wanted.
    pub order_maps: Option<&'a mut OrderMaps>,
    /// Recognises the kind of error.
    pub patterns: Patterns<'a>,
    /// Finds the steps that read what has changed.
    pub readers: Readers<'a>,
    /// The result of the first rank of the same event.
    pub first: Option<FirstRankResult>,
}

/// The observed result of an event's first rank, and its wrong elements.
pub(crate) struct FirstRankResult {
    event: usize,
    from: usize,
    rank: usize,
    bytes: Vec<u8>,
    wrong: Vec<WrongElement>,
}

#[derive(Clone, Debug)]
struct WrongElement {
    index: usize,
    /// The lane that found it.
    lane: Lane,
    /// The right value as text, if a message may name it.
    right: Option<String>,
}

/// Number of elements checked at once for having only one right value.
const COPIED: usize = 1024;

/// The observed bytes of a write, and true if they come from a checkpoint. Otherwise they come from the final image, with
/// the right value in every element that has only one: [`super::images`] compares those.
pub(crate) fn observed_bytes(
    plan: &Plan,
    forecast: &Forecast,
    observation: &Observation,
    choice: &AmbiguousResult<'_>,
) -> Option<(Vec<u8>, bool)> {
    if let Some(number) = forecast.checkpoint(choice.event, choice.write) {
        let bytes = observation.checkpoints.get(number).filter(|bytes| bytes.len() == choice.canonical.len())?;
        return Some((bytes.clone(), true));
    }
    let (alloc, range) = region_bytes(plan, choice.target.region)?;
    let start = plan.allocs[alloc].start();
    let part = (start + range.start) as usize..(start + range.end) as usize;
    let mut bytes = image_bytes(forecast, observation, alloc, part)?.into_owned();
    let size = choice.reduction.dtype.size();
    let mut element = 0;
    for (places, right) in bytes.chunks_mut(COPIED * size).zip(choice.canonical.chunks(COPIED * size)) {
        let first = choice.first + element;
        element += places.len() / size;
        if choice.reduced.all_ambiguous(first..choice.first + element) {
            continue;
        }
        for (i, (place, right)) in places.chunks_mut(size).zip(right.chunks(size)).enumerate() {
            if !choice.reduced.is_ambiguous(first + i) {
                place.copy_from_slice(right);
            }
        }
    }
    Some((bytes, false))
}

impl ResultResolver for ResultJudge<'_> {
    fn resolve(&mut self, choice: &AmbiguousResult<'_>) -> Option<Vec<u8>> {
        let region = choice.target.region;
        let buffer = &self.plan.buffers[region.buf];
        let Some((bytes, checkpoint)) = observed_bytes(self.plan, self.forecast, self.observation, choice) else {
            let text = format!("rank {}: no data came back for `{}`", region.rank, message::buffer_label(buffer));
            let finding = message::without_element(Lane::Invariants, text, "a copy".into(), "none".into());
            self.collector.add(Priority::Data(choice.event), finding);
            return None;
        };
        let alike = self.first.take().filter(|f| f.event == choice.event && f.from == choice.first);
        let wrong = match &alike {
            Some(first) if first.bytes == bytes => {
                self.collector.count_checked(Lane::Invariants, region.len);
                first.wrong.clone()
            }
            _ => self.judge_elements(choice, &bytes, checkpoint),
        };
        if let Some(first) = alike.as_ref().filter(|f| f.bytes != bytes) {
            self.report_unequal_ranks(choice, first, &bytes);
        }
        wrong.iter().for_each(|element| self.collector.fail_lane(element.lane));
        if !wrong.is_empty() {
            self.report(choice, &bytes, &wrong, checkpoint);
        }
        if let (Some(maps), true) = (&mut self.order_maps, wrong.is_empty()) {
            maps.add(self.plan, choice, &bytes, alike.as_ref().is_some_and(|first| first.bytes == bytes));
        }
        let (event, from) = (choice.event, choice.first);
        self.first = alike.or_else(|| {
            Some(FirstRankResult { event, from, rank: region.rank, bytes: bytes.clone(), wrong: wrong.clone() })
        });
        Some(bytes)
    }

    fn after_event(&mut self, number: usize, memory: &[Memory]) {
        for (write, target) in self.plan.events[number].writes().into_iter().enumerate() {
            if let (Some(target), Some(checkpoint)) = (target, self.forecast.checkpoint(number, write)) {
                self.compare_checkpoint(number, write, target.region, checkpoint, memory);
            }
        }
        for index in self.forecast.read_checks(number) {
            let Some(checkpoint) = self.forecast.checkpoints.get(*index) else { continue };
            let kept = self.observation.checkpoints.get(*index).map(Vec::as_slice).unwrap_or_default();
            let read = KeptRead { event: number, region: checkpoint.write.region, digest: checkpoint.digest, kept };
            read.compare(self.plan, memory, &self.readers, self.collector);
        }
    }

    fn uncomputable(&mut self, fault: Uncomputable) {
        let text = fault.text(fault.rank.as_slice());
        let text = match self.plan.steps.get(fault.step as usize) {
            Some(step) => format!("{}: {text}", step.label),
            None => text,
        };
        let mut finding = message::without_element(Lane::Exact, text, "a value".into(), "none".into());
        finding.rank = fault.rank;
        finding.span = self.plan.steps.get(fault.step as usize).map(|s| s.span);
        self.collector.add(Priority::Data(fault.event), finding);
    }
}

impl ResultJudge<'_> {
    /// Compares a write's checkpoint with the expected memory, unless its elements were judged one by one.
    fn compare_checkpoint(&mut self, event: usize, write: usize, region: Region, checkpoint: usize, memory: &[Memory]) {
        let Some((alloc, range)) = region_bytes(self.plan, region) else { return };
        let Some(memory) = memory.get(alloc) else { return };
        if memory.runs_in(range.clone()).any(|(_, run)| run.origin.is_some() || run.certainty == Certainty::Undefined) {
            return;
        }
        let expected = memory.data.get(range.start as usize..range.end as usize).unwrap_or_default();
        let expected = &*expected;
        let actual = self.observation.checkpoints.get(checkpoint).map(Vec::as_slice).unwrap_or_default();
        self.collector.count_checked(Lane::Exact, region.len);
        let buffer = &self.plan.buffers[region.buf];
        let mut found = None;
        if self.forecast.checkpoints.get(checkpoint).is_some_and(|checkpoint| checkpoint.digest) && !actual.is_empty() {
            if digest(expected) == actual {
                return;
            }
            // Most wrong results are the old contents: then every byte of them is known.
            found = self.patterns.bytes_before(event, region).filter(|before| digest(before) == actual);
            if found.is_none() {
                return self.report_digest(event, region);
            }
        }
        let actual = found.as_deref().unwrap_or(actual);
        if expected == actual {
            return;
        }
        if expected.len() != actual.len() {
            let text = format!("rank {}: no data came back for `{}`", region.rank, message::buffer_label(buffer));
            let finding = message::without_element(Lane::Invariants, text, "a copy".into(), "none".into());
            return self.collector.add(Priority::Data(event), finding);
        }
        let differs = |i: &u64| {
            get_element(buffer.dtype, expected, *i as usize) != get_element(buffer.dtype, actual, *i as usize)
        };
        let elements: Indices = (0..region.len).filter(differs).collect();
        let Some(first) = elements.first() else { return };
        let bits = |bytes: &[u8]| get_element(buffer.dtype, bytes, first as usize);
        let (right, is) = message::value_texts(buffer.dtype, bits(expected), bits(actual));
        let site = pattern::WrongWrite { event, write, region, expected, actual, wrong: &elements };
        let finding = WrongElements {
            lane: Lane::Exact,
            rank: region.rank,
            buffer: message::buffer_label(buffer),
            element: region.start + first,
            expected: right,
            actual: is,
            wrong: &elements,
            of: region.len,
            pattern: self.patterns.recognise(self.collector, &site),
        };
        let step = self.plan.events[event].step();
        self.collector.add(Priority::Data(event), message::wrong_elements(self.plan, finding, Some(step), None));
    }

    /// Reports a wrong result of which only the digest is known.
    fn report_digest(&mut self, event: usize, region: Region) {
        let buffer = &self.plan.buffers[region.buf];
        let step = self.plan.events.get(event).and_then(|event| self.plan.steps.get(event.step() as usize));
        let by = step.map(|step| format!(" after {}", step.label)).unwrap_or_default();
        let (name, bytes) = (message::buffer_label(buffer), region.len * buffer.dtype.size() as u64);
        let text = format!(
            "rank {}: `{name}`{by} is not what must come out; of its {bytes} bytes, which a later step overwrites, only a digest was kept",
            region.rank
        );
        let mut finding = message::without_element(Lane::Exact, text, "other bytes".into(), "other bytes".into());
        (finding.rank, finding.buffer, finding.of) = (Some(region.rank), Some(name.into()), region.len);
        (finding.step, finding.span) = (step.map(|step| step.label.clone()), step.map(|step| step.span));
        self.collector.add(Priority::Data(event), finding);
    }

    /// Judges every element with several right values; for a checkpoint, all elements. Returns the wrong ones.
    fn judge_elements(&mut self, choice: &AmbiguousResult<'_>, bytes: &[u8], checkpoint: bool) -> Vec<WrongElement> {
        let dtype = choice.reduction.dtype;
        let (elements, size) = (choice.target.region.len as usize, dtype.size());
        let mut tally = Tally { dtype, counts: [0; 3], unable: None, wrong: Vec::new(), note: None };
        let mut values = Vec::with_capacity(choice.inputs.len());
        let mut i = 0;
        while i < elements {
            let rounding = choice.reduced.rounding_run(choice.first + i..choice.first + elements);
            if rounding > 0 {
                let from = (choice.first + i) * size;
                let inputs = choice.inputs.iter().map(|input| input.get(from..).unwrap_or_default()).collect();
                let observed = bytes.get(i * size..(i + rounding) * size).unwrap_or_default();
                let run = RoundingElements { reduction: choice.reduction, inputs, observed };
                let mut fingerprint = self.fingerprint.as_deref_mut();
                let explained = run.judge(self.budget, |element, judged| {
                    let is_foreseen = !choice.reduced.has_ambiguous_inputs(choice.first + i + element);
                    tally.add(i + element, judged, is_foreseen, fingerprint.as_deref_mut());
                });
                tally.counts[1] += explained;
                if let Some(fingerprint) = fingerprint {
                    fingerprint.add_untold(explained);
                }
                i += rounding;
                continue;
            }
            let actual = get_element(dtype, bytes, i);
            if choice.reduced.is_ambiguous(choice.first + i) {
                column(dtype, choice.inputs, choice.first + i, &mut values);
                let judged = choice.reduction.judge(&values, actual, self.budget);
                let is_foreseen = !choice.reduced.has_ambiguous_inputs(choice.first + i);
                tally.add(i, judged, is_foreseen, self.fingerprint.as_deref_mut());
            } else if checkpoint {
                tally.counts[0] += 1;
                let right = get_element(dtype, choice.canonical, i);
                if actual != right {
                    tally.add_wrong(i, Lane::Exact, || Some(message::value_text(dtype, right)));
                }
            }
            i += 1;
        }
        let Tally { counts, unable, mut wrong, note, .. } = tally;
        if let Some(first @ WrongElement { right: None, .. }) = wrong.first_mut() {
            first.right = self.right_text(choice, first.index);
        }
        if let Some(note) = note {
            self.collector.note_on_lane(Lane::Bounded, note.into());
        }
        if let Some((count, why)) = unable {
            // The plan could not foresee this: the inputs are observed results of earlier steps, and these values do not have a bound.
            let buffer = &self.plan.buffers[choice.target.region.buf];
            let (name, rank) = (message::buffer_label(buffer), choice.target.region.rank);
            self.collector.note(format!("{count} elements of `{name}` on rank {rank} were not judged: {why}"));
        }
        for (lane, count) in LANES.into_iter().zip(counts).filter(|(_, count)| *count > 0) {
            self.collector.count_checked(lane, count);
        }
        wrong
    }

    /// The right value of an element as text, computed for it alone; `None` if it is not shown.
    fn right_text(&mut self, choice: &AmbiguousResult<'_>, element: usize) -> Option<String> {
        if self.collector.pass_or_fail_only {
            return None;
        }
        let dtype = choice.reduction.dtype;
        if !choice.reduced.is_ambiguous(choice.first + element) {
            return Some(message::value_text(dtype, get_element(dtype, choice.canonical, element)));
        }
        let mut values = Vec::new();
        column(dtype, choice.inputs, choice.first + element, &mut values);
        Some(match choice.reduction.right_results(&values, self.message_budget) {
            Ok(right) => right.text(dtype),
            Err(why) => cannot_be_judged(&why),
        })
    }

    fn report(&mut self, choice: &AmbiguousResult<'_>, bytes: &[u8], wrong: &[WrongElement], checkpoint: bool) {
        let Some(first) = wrong.first() else { return };
        let expected = first.right.clone().or_else(|| self.right_text(choice, first.index)).unwrap_or_default();
        let region = choice.target.region;
        let buffer = &self.plan.buffers[region.buf];
        let dtype = choice.reduction.dtype;
        let elements: Indices = wrong.iter().map(|element| element.index as u64).collect();
        let site = pattern::WrongWrite {
            event: choice.event,
            write: choice.write,
            region,
            expected: choice.canonical,
            actual: bytes,
            wrong: &elements,
        };
        let pattern = self.patterns.recognise(self.collector, &site);
        let finding = WrongElements {
            lane: first.lane,
            rank: region.rank,
            buffer: message::buffer_label(buffer),
            element: region.start + first.index as u64,
            expected,
            actual: message::value_text(dtype, get_element(dtype, bytes, first.index)),
            wrong: &elements,
            of: region.len,
            pattern,
        };
        let step = self.plan.events[choice.event].step();
        self.collector.add(Priority::Data(choice.event), message::wrong_elements(self.plan, finding, Some(step), None));
        if let (false, Some((alloc, range))) = (checkpoint, region_bytes(self.plan, region)) {
            let size = dtype.size() as u64;
            for i in elements.iter() {
                self.collector.mark_wrong_bytes(alloc, range.start + i * size..range.start + (i + 1) * size);
            }
        }
    }

    /// Reports a rank whose result has other bits than the first rank's.
    fn report_unequal_ranks(&mut self, choice: &AmbiguousResult<'_>, first: &FirstRankResult, bytes: &[u8]) {
        let region = choice.target.region;
        let dtype = choice.reduction.dtype;
        let size = dtype.size();
        let differ = first
            .bytes
            .chunks(size)
            .zip(bytes.chunks(size))
            .enumerate()
            .filter(|(_, (a, b))| {
                a != b && !choice.reduction.may_differ_between_ranks(get_element(dtype, a, 0), get_element(dtype, b, 0))
            })
            .map(|(i, _)| i as u64)
            .collect::<Indices>();
        let Some(element) = differ.first().map(|element| element as usize) else { return };
        let name = message::buffer_label(&self.plan.buffers[region.buf]);
        let bits = |bytes: &[u8]| get_element(dtype, bytes, element);
        let (ours, theirs) = message::value_texts(dtype, bits(bytes), bits(&first.bytes));
        let step = self.plan.events.get(choice.event).and_then(|event| self.plan.steps.get(event.step() as usize));
        let after = step.map(|step| format!(" after {}", step.label)).unwrap_or_default();
        let mut finding = message::without_element(
            Lane::Invariants,
            format!(
                "rank {}: `{name}`{after} differs from rank {}'s in {} of {} elements, first in {}: {theirs} there, {ours} here",
                region.rank,
                first.rank,
                differ.count(),
                region.len,
                region.start + element as u64,
            ),
            theirs,
            ours,
        );
        (finding.rank, finding.buffer) = (Some(region.rank), Some(name.into()));
        (finding.step, finding.span) = (step.map(|step| step.label.clone()), step.map(|step| step.span));
        finding.element = Some(region.start + element as u64);
        (finding.wrong, finding.wrong_elements, finding.of) = (differ.count(), differ.digest(), region.len);
        self.collector.add(Priority::Invariant(choice.event), finding);
    }
}

/// True if a later event writes where this one did.
pub(crate) fn overwritten(plan: &Plan, event: usize, region: Region) -> bool {
    let Some((alloc, bytes)) = region_bytes(plan, region) else { return false };
    let later = plan.events.iter().skip(event + 1).flat_map(Event::writes).flatten();
    let mut places = later.filter_map(|write| region_bytes(plan, write.region));
    places.any(|(other, range)| other == alloc && range.start < bytes.end && bytes.start < range.end)
}

/// Running totals for a result's elements.
struct Tally {
    dtype: DType,
    /// Elements judged by each of [`LANES`].
    counts: [u64; 3],
    /// Number of elements that could not be judged, and the reason for the first.
    unable: Option<(u64, String)>,
    wrong: Vec<WrongElement>,
    /// The first note on the bounded lane.
    note: Option<&'static str>,
}

impl Tally {
    /// Counts an element; `is_foreseen` is true if its inputs were known before the run.
    fn add(&mut self, element: usize, judged: JudgedElement, is_foreseen: bool, fingerprint: Option<&mut Fingerprint>) {
        let lane = match judged.lane {
            oracle::ElementLane::Exact => 0,
            oracle::ElementLane::Admissible => 1,
            oracle::ElementLane::Bounded => 2,
        };
        if let (Ruling::Unable { why }, false) = (&judged.ruling, is_foreseen) {
            self.unable.get_or_insert((0, why.clone())).0 += 1;
            return;
        }
        self.counts[lane] += 1;
        if lane == 2 {
            self.note = self.note.or(judged.note);
        }
        if let Some(fingerprint) = fingerprint {
            fingerprint.add(&judged);
        }
        let dtype = self.dtype;
        match judged.ruling {
            Ruling::Accept { .. } => {}
            Ruling::Reject { answer } => {
                self.add_wrong(element, LANES[lane], || answer.map(|answer| answer.text(dtype)));
            }
            Ruling::Unable { why } => self.add_wrong(element, LANES[lane], || Some(cannot_be_judged(&why))),
        }
    }

    /// Adds a wrong element. A message names the first one, so the right value is kept as text only for that one.
    fn add_wrong(&mut self, index: usize, lane: Lane, right: impl FnOnce() -> Option<String>) {
        let right = if self.wrong.is_empty() { right() } else { None };
        self.wrong.push(WrongElement { index, lane, right });
    }
}

fn cannot_be_judged(why: &str) -> String {
    format!("cannot be judged: {why}")
}

const LANES: [Lane; 3] = [Lane::Exact, Lane::Admissible, Lane::Bounded];

/// Continues with the observed results without judging them.
pub(crate) struct Replay<'a> {
    pub plan: &'a Plan,
    pub forecast: &'a Forecast,
    pub observation: &'a Observation,
}

impl ResultResolver for Replay<'_> {
    fn resolve(&mut self, choice: &AmbiguousResult<'_>) -> Option<Vec<u8>> {
        observed_bytes(self.plan, self.forecast, self.observation, choice).map(|(bytes, _)| bytes)
    }
    fn uncomputable(&mut self, _: Uncomputable) {}
}

/// Start and end of the payload in an image; `None` if the image does not have the planned length.
pub(crate) fn payload_range(plan: &Plan, alloc: usize, image: &[u8]) -> Option<(usize, usize)> {
    let alloc = plan.allocs.get(alloc)?;
    let start = alloc.start() as usize;
    let end = start + alloc.payload as usize;
    (image.len() == end + GUARD as usize).then_some((start, end))
}
