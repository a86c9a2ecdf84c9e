//! Executes a plan's events in order and tracks the contents of every allocation. Where a reduction has several right
//! results a [`Resolver`] chooses the one to continue with.
use super::ColumnReduction;
use super::memory::{Certainty, Memory, PieceRun, TrackedBytes};
use super::reduced_buffer::{ReducedBuffer, reduce_contents};
pub(crate) use super::regions::region_bytes;
use crate::expr::BLOCK;
use crate::expr::map::{BlockMap, MapInput, map_element};
use crate::image::contents::Contents;
use crate::num::put_element;
use crate::ops::Rule;
use crate::plan::cost::KEPT_RESULTS;
use crate::plan::{CollectiveEvent, Event, Placed, Plan, RankMap, Region, StepId, Write, some_ranks};
use std::cell::Cell;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// An event whose result cannot be computed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Uncomputable {
    /// Index of the event.
    pub event: usize,
    /// The step of the event.
    pub step: StepId,
    /// World rank, if the error concerns only one.
    pub rank: Option<usize>,
    /// The reason, in words that do not name the rank, so that they are the same on every rank with the same mistake.
    pub message: String,
}

impl Uncomputable {
    /// The reason, with the ranks that it holds for.
    pub fn text(&self, ranks: &[usize]) -> String {
        if ranks.is_empty() { self.message.clone() } else { format!("{}: {}", some_ranks(ranks), self.message) }
    }
}

/// A reduction's result for one rank that has elements with several right values.
pub(crate) struct AmbiguousResult<'a> {
    /// Index of the event.
    pub event: usize,
    /// Position of the write among the event's writes.
    pub write: usize,
    /// The write of the result.
    pub target: &'a Write,
    /// The result of the whole reduction.
    pub reduced: &'a ReducedBuffer,
    /// The operation that computes it.
    pub reduction: &'a ColumnReduction,
    /// Inputs by rank of the communicator.
    pub inputs: &'a [&'a [u8]],
    /// First element of the reduction that this rank receives.
    pub first: usize,
    /// Bytes to continue with unless the resolver chooses others.
    pub canonical: &'a [u8],
}

/// Chooses the values of ambiguous results, and receives events.
pub(crate) trait ResultResolver {
    /// Bytes of the same length to continue with; `None` for the canonical ones.
    fn resolve(&mut self, choice: &AmbiguousResult<'_>) -> Option<Vec<u8>>;
    /// Called after each event with the memory that it left.
    fn after_event(&mut self, _number: usize, _memory: &[Memory]) {}
    /// Called for an event that cannot be computed; its results are undefined from then on.
    fn uncomputable(&mut self, fault: Uncomputable);
}

/// The state of executing a plan's events.
pub(crate) struct Interpreter<'p> {
    plan: &'p Plan,
    /// Memory contents by allocation.
    pub memory: Vec<Memory>,
    messages: HashMap<usize, TrackedBytes>,
    /// Writes of ambiguous results, as event and position among its writes.
    pub observed_writes: Vec<(usize, usize)>,
    /// For each of them, true if it is read or overwritten later.
    pub reused_writes: Vec<bool>,
    /// Results of reductions with known inputs, by event; they are the same in every run. Results beyond [`KEPT_RESULTS`]
    /// bytes are computed again.
    pub known_results: HashMap<usize, Arc<ReducedBuffer>>,
    kept_bytes: usize,
    /// Number of [`MemoryRun`](super::memory::MemoryRun)s of all allocations.
    run_count: usize,
    /// Work of judging the ambiguous elements.
    pub ambiguous_work: u64,
    /// Event and allocation of results that later events overwrite, in the order of the overwriting.
    pub overwritten: Vec<(usize, usize)>,
    /// For each allocation, the first writes to bytes that held poison, with their first byte; `None` when a run is judged.
    pub first_written: Option<Vec<Vec<(u64, Contents)>>>,
}

impl<'p> Interpreter<'p> {
    /// The state before the first event.
    pub fn new(plan: &'p Plan, memory: Vec<Memory>) -> Self {
        let (origins, reused) = (Vec::new(), Vec::new());
        let (known, overwritten) = (HashMap::new(), Vec::new());
        let messages = HashMap::new();
        let (kept, stretches, soft_work, first_written) = (0, 0, 0, None);
        Self {
            plan,
            memory,
            messages,
            observed_writes: origins,
            reused_writes: reused,
            known_results: known,
            kept_bytes: kept,
            run_count: stretches,
            ambiguous_work: soft_work,
            overwritten,
            first_written,
        }
    }

    /// Executes the events of a range.
    pub fn run(&mut self, events: Range<usize>, resolver: &mut dyn ResultResolver) {
        let plan = self.plan;
        for (number, event) in plan.events.iter().enumerate().take(events.end).skip(events.start) {
            let done = self.execute(number, event, resolver);
            if done.is_ok() {
                resolver.after_event(number, &self.memory);
            }
            if let Err((rank, message)) = done {
                resolver.uncomputable(Uncomputable { event: number, step: event.step(), rank, message });
                for write in event.writes().into_iter().flatten() {
                    self.set_undefined(number, &write);
                }
            }
        }
    }

    fn execute(&mut self, number: usize, event: &Event, resolver: &mut dyn ResultResolver) -> Result<(), RankError> {
        match event {
            Event::Collective(collective) => {
                let sent = collective.sends().map(|s| s.map(|r| self.read(r)).transpose());
                let sent = sent.collect::<Result<Vec<_>, _>>()?;
                match &collective.reduction {
                    Some(kind) => {
                        let members = self.plan.comms.get(collective.comm()).map(|c| c.members.len());
                        let n = members.unwrap_or(collective.calls.len());
                        let reduction = super::reduced_buffer::reduction_of(collective.dtype(), kind, n);
                        self.execute_reduction(number, collective, &reduction, sent, resolver)
                    }
                    None => self.execute_movement(number, collective, &sent),
                }
            }
            Event::Sent { message, call } => {
                let data = self.read(call.op.memory)?;
                self.messages.insert(*message, data);
                Ok(())
            }
            Event::Received { message, call } => {
                let data =
                    self.messages.remove(message).ok_or((None, "a message arrives that no rank has sent".into()))?;
                let received = self.write(number, call.op.memory, data.without_origin());
                if received.is_err() && self.plan.undefined.is_some() {
                    // The message has another size than its receiver expects.
                    self.set_undefined(number, &call.received());
                    return Ok(());
                }
                received
            }
            Event::Map(call) => {
                let data = self.execute_map(&call.op)?;
                self.write(number, call.op.out, data)
            }
            Event::Undefined { out, .. } => {
                for write in out {
                    self.set_undefined(number, write);
                }
                Ok(())
            }
        }
    }

    fn execute_reduction(
        &mut self,
        number: usize,
        collective: &CollectiveEvent,
        reduction: &ColumnReduction,
        sent: Vec<Option<TrackedBytes>>,
        resolver: &mut dyn ResultResolver,
    ) -> Result<(), RankError> {
        let sent: Vec<TrackedBytes> =
            sent.into_iter().map(|p| p.ok_or_else(missing_input)).collect::<Result<_, _>>()?;
        let least_certain = sent.iter().filter_map(TrackedBytes::least_certain).max();
        if least_certain == Some(Certainty::Undefined) {
            collective.recvs().flatten().for_each(|write| self.set_undefined(number, &write));
            return Ok(());
        }
        let size = reduction.dtype.size();
        let reduced = match self.known_results.get(&number) {
            Some(found) => found.clone(),
            None => {
                let ambiguous = ambiguous_elements(&sent, size);
                let inputs: Vec<&Contents> = sent.iter().map(|p| &p.bytes).collect();
                let reduced = reduce_contents(reduction, &inputs, ambiguous, self.has_observed_values());
                let reduced = Arc::new(reduced.map_err(|m| (None, m))?);
                let size = reduced.memory_bytes();
                if least_certain != Some(Certainty::Ambiguous)
                    && self.kept_bytes.saturating_add(size) <= KEPT_RESULTS as usize
                {
                    self.kept_bytes += size;
                    self.known_results.insert(number, reduced.clone());
                }
                // A pass over every rank's value, then a search or a bound.
                let each = 32 + 12 * sent.len() as u64;
                self.ambiguous_work =
                    self.ambiguous_work.saturating_add(reduced.ambiguous_count().saturating_mul(each));
                reduced
            }
        };
        // The judge looks at single columns; results that do not round do not need inputs.
        let inputs: Vec<_> = if reduced.ambiguous_count() > 0 {
            sent.iter().filter_map(|p| p.bytes.get(0..p.bytes.len())).collect()
        } else {
            Vec::new()
        };
        let inputs: Vec<&[u8]> = inputs.iter().map(|bytes| &**bytes).collect();
        for (rank, write) in collective.recvs().enumerate() {
            let Some(write) = write else { continue };
            let elements = write.region.len as usize;
            let first = if collective.op().rule == Rule::ReducedBlock { rank * elements } else { 0 };
            let bytes = first * size..(first + elements) * size;
            let mut data = TrackedBytes::new(reduced.bytes.slice(bytes.clone()).ok_or_else(invalid_region)?);
            if reduced.any_ambiguous(first..first + elements) {
                let origin = self.observed_writes.len() as u32;
                self.observed_writes.push((number, rank));
                if self.reused_writes.len() < self.observed_writes.len() {
                    self.reused_writes.push(false);
                }
                mark_elements(&mut data, &reduced, first..first + elements, size, origin);
                let (target, inputs) = (&write, inputs.as_slice());
                let bytes = reduced.bytes.get(bytes).ok_or_else(invalid_region)?;
                let choice = AmbiguousResult {
                    event: number,
                    write: rank,
                    target,
                    reduced: &reduced,
                    reduction,
                    inputs,
                    first,
                    canonical: &bytes,
                };
                if let Some(chosen) = resolver.resolve(&choice).filter(|chosen| chosen.len() == bytes.len()) {
                    data.bytes = chosen.into();
                }
            } else {
                data.push_run(PieceRun { end: bytes.len() as u64, certainty: Certainty::Known, origin: None });
            }
            self.write(number, write.region, data)?;
        }
        Ok(())
    }

    fn execute_movement(
        &mut self,
        number: usize,
        collective: &CollectiveEvent,
        sent: &[Option<TrackedBytes>],
    ) -> Result<(), RankError> {
        // All inputs were read before the first write, so in-place calls do not need special treatment.
        let root = sent.iter().flatten().next();
        let ranks = collective.calls.len();
        // The same for all ranks, which share its memory.
        let mut concatenated: Option<TrackedBytes> = None;
        for (rank, write) in collective.recvs().enumerate() {
            let Some(write) = write else { continue };
            let bytes = self.bytes(write.region)?;
            let len = (bytes.1.end - bytes.1.start) as usize;
            let data = match collective.op().rule {
                Rule::RootCopy => root.ok_or_else(missing_input)?.clone(),
                Rule::RootBlock => {
                    root.ok_or_else(missing_input)?.slice(rank * len..(rank + 1) * len).ok_or_else(invalid_region)?
                }
                Rule::Concat => match &concatenated {
                    Some(all) => all.clone(),
                    None => {
                        let all = sent.iter().try_fold(TrackedBytes::new(Vec::new()), |mut all, p| {
                            all.append(p.as_ref().ok_or_else(missing_input)?);
                            Ok::<_, RankError>(all)
                        })?;
                        concatenated.insert(all).clone()
                    }
                },
                Rule::Transpose => sent.iter().try_fold(TrackedBytes::new(Vec::new()), |mut all, p| {
                    let block = len / ranks.max(1);
                    let part = p.as_ref().ok_or_else(missing_input)?.slice(rank * block..(rank + 1) * block);
                    all.append(&part.ok_or_else(invalid_region)?);
                    Ok::<_, RankError>(all)
                })?,
                Rule::Reduced | Rule::ReducedBlock => return Err((None, "a reduction without its operator".into())),
            };
            self.write(number, write.region, data.without_origin())?;
        }
        Ok(())
    }

    fn execute_map(&mut self, map: &RankMap<Placed>) -> Result<TrackedBytes, RankError> {
        let plan = self.plan;
        let RankMap { expr, names, reads, out, .. } = map;
        let places = reads.iter().map(|region| self.bytes(*region)).collect::<Result<Vec<_>, _>>()?;
        let mut held = Vec::with_capacity(reads.len());
        for (region, (alloc, range)) in reads.iter().zip(&places) {
            let bytes = self.memory[*alloc].data.get(range.start as usize..range.end as usize);
            let buffer = &plan.buffers[region.buf];
            held.push((&buffer.name, buffer.dtype, bytes.ok_or_else(invalid_region)?));
        }
        let inputs: Vec<_> = held.iter().map(|(name, dtype, bytes)| MapInput { name, dtype: *dtype, bytes }).collect();
        let dtype = plan.buffers[out.buf].dtype;
        let size = dtype.size();
        let mut bytes = vec![0; out.len as usize * size];
        let mut data = TrackedBytes::new(Vec::new());
        let least_certain = Cell::new(Certainty::Known);
        let unwritten: Cell<Option<(usize, usize)>> = Cell::new(None);
        // An input that an index reads, and the event that leaves it undefined.
        let undefined_index: Cell<Option<(usize, Option<u32>)>> = Cell::new(None);
        let in_index = expr.names_in_indices();
        let in_index: Vec<bool> = inputs.iter().map(|input| in_index.contains(&input.name)).collect();
        let touched = std::cell::RefCell::new(Vec::new());
        let blocks = BlockMap::new(expr, names, &inputs, dtype);
        let is_known = |elements: &Range<u64>, input: &usize| {
            let (Some((alloc, range)), Some(read)) = (places.get(*input), inputs.get(*input)) else { return false };
            let byte = |element: u64| range.start + element * read.dtype.size() as u64;
            let mut runs = self.memory[*alloc].runs_in(byte(elements.start)..byte(elements.end));
            runs.all(|(_, run)| run.certainty == Certainty::Known && run.origin.is_none())
        };
        let mut next = 0;
        while next < out.len {
            let i = next;
            if i.is_multiple_of(BLOCK as u64)
                && let Some(blocks) = &blocks
            {
                let block = i..out.len.min(i + BLOCK as u64);
                let place = &mut bytes[block.start as usize * size..block.end as usize * size];
                if blocks.reads().iter().all(|input| is_known(&block, input)) && blocks.put(&inputs, i, place) {
                    let end = block.end * size as u64;
                    data.push_run(PieceRun { end, certainty: Certainty::Known, origin: None });
                    next = block.end;
                    continue;
                }
            }
            next += 1;
            least_certain.set(Certainty::Known);
            let watch = |input: usize, element: usize| {
                let (Some((alloc, range)), Some(read)) = (places.get(input), inputs.get(input)) else { return };
                let at = range.start + (element * read.dtype.size()) as u64;
                for (_, run) in self.memory[*alloc].runs_in(at..at + read.dtype.size() as u64) {
                    if run.certainty == Certainty::Unwritten && unwritten.get().is_none() {
                        unwritten.set(Some((input, element)));
                    }
                    if run.certainty == Certainty::Undefined && in_index.get(input) == Some(&true) {
                        undefined_index.set(Some((input, run.writer)));
                    }
                    if let Some(origin) = run.origin {
                        let mut touched = touched.borrow_mut();
                        if touched.last() != Some(&origin) {
                            touched.push(origin);
                        }
                    }
                    least_certain.set(least_certain.get().max(run.certainty));
                }
            };
            let result = map_element(expr, names, &inputs, dtype, i, &watch);
            if let Some((input, element)) = unwritten.get() {
                let name = inputs.get(input).map_or("?", |r| r.name);
                return Err((Some(out.rank), format!("`{name}[{element}]` is read, but no step has written it")));
            }
            if let (Some((input, writer)), false) = (undefined_index.get(), self.has_observed_values()) {
                let name = inputs.get(input).map_or("?", |r| r.name);
                let step = writer.and_then(|event| plan.events.get(event as usize)).map(Event::step);
                let step = step.and_then(|step| plan.steps.get(step as usize));
                let by = step.map_or("an earlier step", |step| step.label.as_str());
                let text = format!(
                    "the index is read from `{name}`, which {by} leaves undefined: it may lie outside of its buffer"
                );
                return Err((Some(out.rank), text));
            }
            match result {
                Ok(bits) => put_element(dtype, &mut bytes, i as usize, bits),
                // The run may have other values here; they are judged at that time.
                Err(_) if least_certain.get() >= Certainty::Ambiguous && !self.has_observed_values() => {}
                Err(_) if least_certain.get() == Certainty::Undefined => {}
                Err(error) => {
                    return Err((Some(out.rank), format!("`{}` for element {i}: {error}", expr.text)));
                }
            }
            data.push_run(PieceRun { end: (i + 1) * size as u64, certainty: least_certain.get(), origin: None });
            if data.runs.len() > MAX_RUNS && !self.has_observed_values() {
                return Err(too_many_runs(Some(out.rank)));
            }
        }
        for origin in touched.into_inner() {
            self.mark_reused(Some(origin));
        }
        data.bytes = bytes.into();
        Ok(data)
    }

    /// True if ambiguous values come from a run.
    fn has_observed_values(&self) -> bool {
        self.first_written.is_none()
    }

    /// The allocation and the bytes of its payload.
    ///
    /// # Errors
    ///
    /// The region does not exist in the plan's memory.
    pub fn bytes(&self, region: Region) -> Result<(usize, Range<u64>), RankError> {
        region_bytes(self.plan, region).filter(|(alloc, _)| *alloc < self.memory.len()).ok_or_else(invalid_region)
    }

    fn read(&mut self, region: Region) -> Result<TrackedBytes, RankError> {
        let (alloc, range) = self.bytes(region)?;
        let data = self.memory[alloc].read(range.clone()).ok_or_else(invalid_region)?;
        if data.least_certain() == Some(Certainty::Known) && data.runs.len() == 1 {
            return Ok(data);
        }
        let unwritten =
            self.memory[alloc].runs_in(range.clone()).find(|(_, run)| run.certainty == Certainty::Unwritten);
        if let Some((part, _)) = unwritten {
            let buffer = &self.plan.buffers[region.buf];
            let element = region.start + (part.start - range.start) / buffer.dtype.size() as u64;
            let writes_it = |event: &&Event| {
                event.writes().iter().flatten().map(|write| write.region).any(|r| {
                    (r.buf, r.rank) == (region.buf, region.rank) && (r.start..r.start + r.len).contains(&element)
                })
            };
            // Such as one that is captured and not launched yet.
            let later = self.plan.events.iter().find(writes_it).and_then(|e| self.plan.steps.get(e.step() as usize));
            let later = later.map_or_else(String::new, |step| format!(": {} runs later", step.label));
            let name = &buffer.name;
            let message = format!("`{name}[{element}]` is read, but no step has written it{later}");
            return Err((Some(region.rank), message));
        }
        for mark in &data.runs {
            self.mark_reused(mark.origin);
        }
        Ok(data)
    }

    fn write(&mut self, event: usize, region: Region, data: TrackedBytes) -> Result<(), RankError> {
        let (alloc, range) = self.bytes(region)?;
        if range.end - range.start != data.bytes.len() as u64 {
            return Err(invalid_region());
        }
        let old: Vec<_> = self.memory[alloc].runs_in(range.clone()).collect();
        for (part, run) in old {
            self.mark_reused(run.origin);
            if let (Certainty::Known | Certainty::Ambiguous, Some(writer), None) =
                (run.certainty, run.writer, run.origin)
                && self.overwritten.last() != Some(&(writer as usize, alloc))
            {
                self.overwritten.push((writer as usize, alloc));
            }
            if let (Certainty::Unwritten, Some(first)) = (run.certainty, &mut self.first_written) {
                let from = (part.start - range.start) as usize;
                let new = data.bytes.slice(from..from + (part.end - part.start) as usize);
                if let (Some(list), Some(new)) = (first.get_mut(alloc), new) {
                    list.push((part.start, new));
                }
            }
        }
        let memory = &mut self.memory[alloc];
        let before = memory.runs().len();
        memory.write(range.start, &data, Some(event as u32)).ok_or_else(invalid_region)?;
        self.run_count = (self.run_count + memory.runs().len()).saturating_sub(before);
        if self.run_count > MAX_RUNS && !self.has_observed_values() {
            Err(too_many_runs(Some(region.rank)))
        } else {
            Ok(())
        }
    }

    fn set_undefined(&mut self, event: usize, write: &Write) {
        let Ok((alloc, range)) = self.bytes(write.region) else { return };
        if let Some(mut data) = self.memory[alloc].read(range) {
            data.runs = vec![PieceRun { end: data.bytes.len() as u64, certainty: Certainty::Undefined, origin: None }];
            // The region was found, so this fits.
            let _ = self.write(event, write.region, data);
        }
    }

    fn mark_reused(&mut self, origin: Option<u32>) {
        if let Some(flag) = origin.and_then(|o| self.reused_writes.get_mut(o as usize)) {
            *flag = true;
        }
    }
}

type RankError = (Option<usize>, String);

/// Limit on the [`MemoryRun`](super::memory::MemoryRun)s; each takes dozens of bytes.
const MAX_RUNS: usize = 1 << 21;

fn too_many_runs(rank: Option<usize>) -> RankError {
    let text = format!(
        "the results in memory have more than {MAX_RUNS} pieces of different origin or certainty; use fewer elements, or whole buffers"
    );
    (rank, text)
}

fn missing_input() -> RankError {
    (None, "the plan has no input for a rank".into())
}

fn invalid_region() -> RankError {
    (None, "the plan names memory that does not exist or does not fit".into())
}

impl TrackedBytes {
    fn slice(&self, range: Range<usize>) -> Option<Self> {
        let mut part = Self::new(self.bytes.slice(range.clone())?);
        for mark in self.runs.iter().filter(|m| m.end as usize > range.start) {
            let end = (mark.end as usize).min(range.end) - range.start;
            if end > 0 {
                part.push_run(PieceRun { end: end as u64, ..*mark });
            }
        }
        Some(part)
    }
    /// The same bytes as a copy: ambiguous bytes stay ambiguous, but are not the observed write itself.
    fn without_origin(mut self) -> Self {
        for mark in std::mem::take(&mut self.runs) {
            self.push_run(PieceRun { origin: None, ..mark });
        }
        self
    }
}

/// True for elements with an ambiguous input; empty if no element has one.
fn ambiguous_elements(sent: &[TrackedBytes], size: usize) -> Vec<bool> {
    let mut ambiguous = Vec::new();
    for data in sent.iter().filter(|p| p.least_certain() >= Some(Certainty::Ambiguous)) {
        ambiguous.resize(data.bytes.len() / size, false);
        let mut from = 0;
        for mark in &data.runs {
            let end = (mark.end as usize).div_ceil(size).min(ambiguous.len());
            if mark.certainty == Certainty::Ambiguous {
                ambiguous[from / size..end].fill(true);
            }
            from = mark.end as usize;
        }
    }
    ambiguous
}

/// Sets the certainty of each element. In long results all elements become ambiguous, which is right but less precise.
fn mark_elements(data: &mut TrackedBytes, reduced: &ReducedBuffer, elements: Range<usize>, size: usize, origin: u32) {
    let fine = elements.len() <= 4096;
    let ambiguous = PieceRun { end: data.bytes.len() as u64, certainty: Certainty::Ambiguous, origin: Some(origin) };
    if !fine {
        return data.push_run(ambiguous);
    }
    for (i, element) in elements.enumerate() {
        let end = ((i + 1) * size) as u64;
        match reduced.is_ambiguous(element) {
            true => data.push_run(PieceRun { end, ..ambiguous }),
            false => data.push_run(PieceRun { end, certainty: Certainty::Known, origin: None }),
        }
    }
}
