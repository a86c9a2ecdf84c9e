//! The forecast of a case before it runs: the initial image of every allocation, the results that need a checkpoint, and
//! the final contents.
use super::interpreter::{AmbiguousResult, Interpreter, ResultResolver, Uncomputable, region_bytes};
use super::memory::{Certainty, Memory, MemoryRun, TrackedBytes};
use super::read_checks::{ReadCheck, read_checks};
use super::reduced_buffer::ReducedBuffer;
use super::undefined;
use crate::image::contents::Contents;
use crate::image::held::Held;
use crate::image::poison;
use crate::job::{CallKind, DIGEST, Ptr, Red};
use crate::plan::inputs::InitialContents;
use crate::plan::{Event, GUARD, Plan, Region, StepId, Write, cost, expect};
use crate::scenario::{Diagnostic, dedupe};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

/// Limit on the copies of results with one right value that a later step overwrites, in bytes. Of further ones only a digest is kept.
const MAX_OVERWRITTEN_BYTES: u64 = 4 << 20;
/// Limit on the bytes of a case's long fills that are stored. Elements of further fills are computed on demand, several times
/// in each run, but take no memory.
const MAX_HELD_BYTES: usize = 32 << 20;

/// A copy that the run takes of a result, because it has several right values and is used again, or a later step overwrites
/// it; or of memory that an event has read and a later step overwrites.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// Index of the event that writes or reads it.
    pub event: usize,
    /// The region, with the stream on which a copy is ordered.
    pub write: Write,
    /// True if only a digest of the result is kept, not a copy.
    pub digest: bool,
}

/// Results that a later step overwrites and that cannot be kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotLookedAt {
    /// Number of results that were not kept.
    pub results: u64,
    /// Total bytes of these results.
    pub bytes: u64,
    /// The reason they were not kept.
    pub why: String,
}

impl std::fmt::Display for NotLookedAt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { results, bytes, why } = self;
        let (results, were) =
            if *results == 1 { ("1 result".into(), "was") } else { (format!("{results} results"), "were") };
        write!(f, "{results} ({bytes} bytes) {were} not looked at: {why}")
    }
}

/// The forecast of a case.
#[derive(Clone, Debug)]
pub struct Forecast {
    /// Initial images by allocation: guards, inputs, poison.
    pub initial: Vec<Contents>,
    /// The checkpoints, by number.
    pub checkpoints: Vec<Checkpoint>,
    /// Final contents by allocation: canonical where several values are right, poison where no event writes.
    pub(crate) final_memory: Vec<Memory>,
    /// Results that are overwritten before they can be kept.
    pub not_looked_at: Option<NotLookedAt>,
    /// True if some result has several right values or a checkpoint, so that a run's events are executed again.
    pub(crate) needs_observation: bool,
    initial_runs: Vec<Vec<MemoryRun>>,
    checkpoint_by_write: HashMap<(usize, usize), usize>,
    read_checks: HashMap<usize, Vec<usize>>,
    known_results: HashMap<usize, Arc<ReducedBuffer>>,
}

impl Forecast {
    /// Executes the plan; `seed` is the seed of the poison.
    ///
    /// # Errors
    ///
    /// A read of elements that no event has written, an expression without a value, a reduction that cannot be judged, an
    /// expectation of only undefined elements, or a cost above the plan's limits.
    pub fn new(plan: &Plan, seed: u64) -> Result<Self, Vec<Diagnostic>> {
        expect::check_elements(plan)?;
        let begin = memory_before_first_step(plan)?;
        let runs: Vec<Vec<MemoryRun>> = begin.iter().map(|m| m.runs().to_vec()).collect();
        let inputs: Vec<Contents> = begin.iter().map(|m| m.data.clone()).collect();
        let mut interpreter = Interpreter::new(plan, begin);
        interpreter.first_written = Some(vec![Vec::new(); plan.allocs.len()]);
        let mut planner = CanonicalResolver::default();
        interpreter.run(0..plan.events.len(), &mut planner);
        if !planner.faults.is_empty() {
            return Err(to_diagnostics(plan, &planner.faults));
        }
        let Interpreter {
            memory: mut last,
            first_written,
            observed_writes: origins,
            reused_writes: reused,
            overwritten,
            known_results: known,
            ambiguous_work: soft_work,
            ..
        } = interpreter;
        let first_written = first_written.unwrap_or_default();
        let mut initial = Vec::with_capacity(plan.allocs.len());
        for (i, (alloc, (inputs, first))) in plan.allocs.iter().zip(inputs.iter().zip(first_written)).enumerate() {
            let key = poison::poison_key(&plan.case.name, seed, i);
            let memory = InitialMemory { inputs, runs: &runs[i], first, last: &last[i] };
            initial.push(initial_image(i, alloc.start() as usize, memory, key));
        }
        for (alloc, byte, scalar) in device_scalars(plan) {
            put_scalar(&mut initial, plan, alloc, byte, scalar.iter().map(|byte| !byte).collect());
        }
        for ((image, last), alloc) in initial.iter().zip(&mut last).zip(&plan.allocs) {
            fill_unwritten(last, image, alloc.start() as usize);
        }
        let in_vain = undefined::compared_in_vain(plan, &last);
        if !in_vain.is_empty() {
            return Err(in_vain);
        }
        let mut checkpoints = Vec::new();
        let mut by_write = HashMap::new();
        let lost = plan.overwritten_in_their_launch();
        let mut unseen = Vec::new();
        for (&(event, write), _) in origins.iter().zip(&reused).filter(|(_, reused)| **reused) {
            let target = plan.events.get(event).and_then(|e| e.writes().get(write).copied().flatten());
            if lost.contains(&(event, write)) {
                unseen.extend(unseen_result(plan, event));
            } else if let Some(target) = target {
                by_write.insert((event, write), checkpoints.len());
                checkpoints.push(Checkpoint { event, write: target, digest: false });
            }
        }
        if !unseen.is_empty() {
            return Err(dedupe(unseen));
        }
        let aborted = plan.events.iter().any(|e| matches!(e, Event::Undefined { .. }));
        let mut kept = Overwritten { plan, aborted, room: MAX_OVERWRITTEN_BYTES, checkpoints, not_looked_at: None };
        kept.keep_results(&overwritten, &lost, &mut by_write);
        let read_checks = kept.keep_reads();
        let Overwritten { checkpoints, not_looked_at, .. } = kept;
        let observed = !origins.is_empty() || !checkpoints.is_empty();
        check_cost(plan, soft_work, &checkpoints)?;
        Ok(Self {
            initial,
            checkpoints,
            final_memory: last,
            not_looked_at,
            needs_observation: observed,
            initial_runs: runs,
            checkpoint_by_write: by_write,
            read_checks,
            known_results: known,
        })
    }

    /// An interpreter at the state before the first event, for judging a run.
    pub(crate) fn new_interpreter<'p>(&self, plan: &'p Plan) -> Interpreter<'p> {
        let mut images = self.initial.clone();
        for (alloc, byte, scalar) in device_scalars(plan) {
            put_scalar(&mut images, plan, alloc, byte, scalar.to_vec());
        }
        let memory = plan.allocs.iter().zip(&images).zip(&self.initial_runs).map(|((alloc, image), runs)| {
            let from = alloc.start() as usize;
            let data = image.slice(from..from + alloc.payload as usize);
            Memory::new(data.unwrap_or_else(|| Contents::zeros(alloc.payload as usize)), runs.clone())
        });
        let mut interpreter = Interpreter::new(plan, memory.collect());
        interpreter.known_results.clone_from(&self.known_results);
        interpreter
    }

    /// The initial images of all allocations, including guards.
    pub fn initial_images(&self) -> Vec<Vec<u8>> {
        self.initial.iter().map(Contents::to_vec).collect()
    }

    /// The initial image of an allocation, and the payload that it has at the end of every right run, with its place in the
    /// image; `None` if some element has several right values.
    fn only_last_payload(&self, alloc: usize) -> Option<(&Contents, &Contents, usize)> {
        let memory = self.final_memory.get(alloc)?;
        let is_known = |run: &MemoryRun| matches!(run.certainty, Certainty::Known | Certainty::Unwritten);
        if !memory.runs().iter().all(is_known) {
            return None;
        }
        let initial = self.initial.get(alloc)?;
        let start = initial.len().checked_sub(memory.data.len() + GUARD as usize)?;
        Some((initial, &memory.data, start))
    }

    /// The image that an allocation has at the end of every right run; `None` if some element has several right values.
    pub fn only_last_image(&self, alloc: usize) -> Option<Contents> {
        let (initial, payload, start) = self.only_last_payload(alloc)?;
        let mut image = initial.clone();
        image.write(start, payload)?;
        Some(image)
    }

    /// A range of bytes of that image.
    pub(crate) fn only_last_bytes(&self, alloc: usize, range: Range<usize>) -> Option<Cow<'_, [u8]>> {
        let (_, payload, start) = self.only_last_payload(alloc)?;
        if range.start >= start && range.end <= start + payload.len() {
            return payload.get(range.start - start..range.end - start);
        }
        self.only_last_image(alloc)?.get(range).map(|bytes| Cow::Owned(bytes.into_owned()))
    }

    /// True if an allocation has this image at the end of every right run.
    pub fn is_only_last_image(&self, alloc: usize, image: &[u8]) -> bool {
        self.only_last_payload(alloc).is_some_and(|(initial, payload, start)| {
            if image.len() != initial.len() {
                return false;
            }
            let end = start + payload.len();
            let has_guard =
                |range: Range<usize>| initial.get(range.clone()).is_some_and(|guard| *guard == image[range]);
            *payload == image[start..end] && has_guard(0..start) && has_guard(end..image.len())
        })
    }

    /// The memory of an allocation before the first step, without data.
    pub(crate) fn initial_memory(&self, alloc: usize) -> Memory {
        Memory::new(Contents::zeros(0), self.initial_runs.get(alloc).cloned().unwrap_or_default())
    }

    /// The number of the checkpoint of a write, if one is taken.
    pub(crate) fn checkpoint(&self, event: usize, write: usize) -> Option<usize> {
        self.checkpoint_by_write.get(&(event, write)).copied()
    }

    /// The numbers of the checkpoints of memory that an event has read.
    pub(crate) fn read_checks(&self, event: usize) -> &[usize] {
        self.read_checks.get(&event).map(Vec::as_slice).unwrap_or_default()
    }

    /// The number of the checkpoint of a write, if it is a copy.
    pub(crate) fn copy(&self, event: usize, write: usize) -> Option<usize> {
        self.checkpoint(event, write).filter(|number| self.checkpoints.get(*number).is_some_and(|c| !c.digest))
    }
}

/// Collects copies of memory that later steps overwrite: full copies while there is room, then digests.
struct Overwritten<'a> {
    plan: &'a Plan,
    /// True if operations are aborted.
    aborted: bool,
    room: u64,
    checkpoints: Vec<Checkpoint>,
    not_looked_at: Option<NotLookedAt>,
}

impl Overwritten<'_> {
    /// The number of a new checkpoint; `None` if there are no bytes, or they cannot be kept.
    fn keep(&mut self, event: usize, write: Write, lost: bool) -> Option<usize> {
        let (_, bytes) = region_bytes(self.plan, write.region)?;
        let len = bytes.end - bytes.start;
        if len == 0 {
            return None;
        }
        if self.aborted || lost {
            let why = match self.aborted {
                true => "later steps overwrite them, and an abort leaves open how far the steps before it came",
                false => "later steps of the same launch overwrite them",
            };
            let new = || NotLookedAt { why: why.into(), ..NotLookedAt::default() };
            let of = self.not_looked_at.get_or_insert_with(new);
            (of.results, of.bytes) = (of.results + 1, of.bytes + len);
            return None;
        }
        let digest = len > self.room && len > DIGEST as u64;
        if !digest {
            self.room = self.room.saturating_sub(len);
        }
        self.checkpoints.push(Checkpoint { event, write, digest });
        Some(self.checkpoints.len() - 1)
    }

    /// Keeps results with one right value, given by event and allocation.
    fn keep_results(
        &mut self,
        overwritten: &[(usize, usize)],
        lost: &HashSet<(usize, usize)>,
        by_write: &mut HashMap<(usize, usize), usize>,
    ) {
        let mut seen = HashSet::new();
        for &(event, alloc) in overwritten {
            let writes = self.plan.events.get(event).map(Event::writes).unwrap_or_default();
            for (number, write) in writes.into_iter().enumerate().filter_map(|(i, w)| Some((i, w?))) {
                let key = (event, number);
                let is_there = region_bytes(self.plan, write.region).is_some_and(|(at, _)| at == alloc);
                if !is_there || by_write.contains_key(&key) || !seen.insert(key) {
                    continue;
                }
                if let Some(checkpoint) = self.keep(event, write, lost.contains(&key)) {
                    by_write.insert(key, checkpoint);
                }
            }
        }
    }

    /// Keeps memory that calls of the library have read, by event.
    fn keep_reads(&mut self) -> HashMap<usize, Vec<usize>> {
        let mut by_event: HashMap<usize, Vec<usize>> = HashMap::new();
        for ReadCheck { event, read, lost } in read_checks(self.plan) {
            if let Some(checkpoint) = self.keep(event, read, lost) {
                by_event.entry(event).or_default().push(checkpoint);
            }
        }
        by_event
    }
}

/// Reports a result that rounds, and is used and overwritten within one launch.
fn unseen_result(plan: &Plan, event: usize) -> Option<Diagnostic> {
    let step = plan.steps.get(plan.events.get(event)?.step() as usize)?;
    let text = "this result has several right values, is used in its graph and overwritten by the same launch, so that what follows cannot be judged";
    let mut diagnostic = Diagnostic::new(step.span, text)
        .help("write it to a buffer that the graph does not write again, or choose values that do not round");
    diagnostic.label = format!("in {}", step.label);
    diagnostic.case = plan.case.swept.then(|| plan.case.name.clone());
    Some(diagnostic)
}

/// Refuses a case whose searches and checkpoints, which depend on the data, exceed the plan's limits.
fn check_cost(plan: &Plan, soft_work: u64, checkpoints: &[Checkpoint]) -> Result<(), Vec<Diagnostic>> {
    let (cost, limits) = (plan.cost, &plan.limits);
    let searches = soft_work.saturating_mul(plan.case.repeat.into());
    let work = cost.work.saturating_add(searches);
    if work > limits.work {
        let what = "results that may round in several ways";
        return Err(vec![cost::too_much_work(what, plan.case.span, searches, work, limits)]);
    }
    // One copy in shared memory, and one in the observation.
    let (mut bytes, mut most) = (0u64, (0u64, plan.case.span));
    for checkpoint in checkpoints {
        let Some((_, range)) = region_bytes(plan, checkpoint.write.region) else { continue };
        let copies = 2 * if checkpoint.digest { DIGEST as u64 } else { range.end - range.start };
        bytes = bytes.saturating_add(copies);
        let step = plan.events.get(checkpoint.event).and_then(|e| plan.steps.get(e.step() as usize));
        if let (true, Some(step)) = (copies > most.0, step) {
            most = (copies, step.span);
        }
    }
    let memory = cost.memory.saturating_add(bytes);
    if memory > limits.memory {
        let what = "copies of results that are used or overwritten later";
        return Err(vec![cost::too_much_memory(what, most.1, bytes, memory, limits)]);
    }
    Ok(())
}

/// Continues with canonical values and collects the events that cannot be computed.
#[derive(Default)]
pub(super) struct CanonicalResolver {
    pub(super) faults: Vec<Uncomputable>,
}

impl ResultResolver for CanonicalResolver {
    fn resolve(&mut self, _: &AmbiguousResult<'_>) -> Option<Vec<u8>> {
        None
    }
    fn uncomputable(&mut self, fault: Uncomputable) {
        self.faults.push(fault);
    }
}

/// Memory before the first step: inputs, and scalars of device memory.
pub(super) fn memory_before_first_step(plan: &Plan) -> Result<Vec<Memory>, Vec<Diagnostic>> {
    let mut memory: Vec<Memory> = plan.allocs.iter().map(|a| Memory::unwritten(a.payload as usize)).collect();
    let mut wrong = Vec::new();
    let mut held = 0;
    for (buf, buffer) in plan.buffers.iter().enumerate() {
        for (rank, place) in buffer.places.iter().enumerate() {
            let Some(place) = place else { continue };
            match plan.initial_contents(buf, rank) {
                Ok(None) => {}
                Ok(Some(contents)) => {
                    let bytes = match contents {
                        InitialContents::Bytes(bytes) => Contents::from(bytes),
                        InitialContents::Repeated(period, len) => Contents::repeated(period, len),
                        InitialContents::Filled(filled, len) if held + len <= MAX_HELD_BYTES => {
                            held += len;
                            let mut bytes = Held::zeros(len);
                            filled.copy_to(0, &mut bytes);
                            Arc::new(bytes).into()
                        }
                        InitialContents::Filled(filled, len) => Contents::filled(filled, len),
                    };
                    let region = Region { buf, rank, start: 0, len: place.count };
                    let fits = region_bytes(plan, region).filter(|(_, r)| r.end - r.start == bytes.len() as u64);
                    let piece = TrackedBytes::with_certainty(bytes, Certainty::Known);
                    if fits.and_then(|(alloc, range)| memory[alloc].write(range.start, &piece, None)).is_none() {
                        let message =
                            format!("the content of `{}` does not fit its memory on rank {rank}", buffer.name);
                        wrong.push(Diagnostic::new(buffer.span, message));
                    }
                }
                Err(diagnostic) => wrong.push(diagnostic),
            }
        }
    }
    if wrong.is_empty() { Ok(memory) } else { Err(dedupe(wrong)) }
}

/// Fills memory that was not written with the poison of the image, whose payload begins at `start`.
fn fill_unwritten(memory: &mut Memory, image: &Contents, start: usize) {
    let unwritten: Vec<_> =
        memory.runs_in(0..memory.data.len() as u64).filter(|(_, run)| run.certainty == Certainty::Unwritten).collect();
    for (part, _) in unwritten {
        if let Some(poison) = image.slice(start + part.start as usize..start + part.end as usize) {
            // A part of the memory, so this fits.
            let _ = memory.data.write(part.start as usize, &poison);
        }
    }
}

/// Scalars in device memory: allocation, byte and bits. The worker writes them in stream order, so that a library which
/// reads a scalar too early finds another value.
fn device_scalars(plan: &Plan) -> impl Iterator<Item = (usize, u64, &[u8])> {
    plan.programs.iter().flatten().filter_map(|call| match call.kind.inner() {
        CallKind::Collective { red: Red::PreMulSum { scalar, device: Some(Ptr::At { alloc, byte }), .. }, .. } => {
            Some((*alloc as usize, *byte, scalar.as_slice()))
        }
        _ => None,
    })
}

fn put_scalar(images: &mut [Contents], plan: &Plan, alloc: usize, byte: u64, bits: Vec<u8>) {
    let start = plan.allocs.get(alloc).map_or(0, |alloc| alloc.start() + byte) as usize;
    // A plan has room for its scalars.
    let _ = images.get_mut(alloc).and_then(|image| image.write(start, &Contents::from(bits)));
}

/// An allocation's payload before the first step, and the contents that its poison must differ from.
struct InitialMemory<'a> {
    inputs: &'a Contents,
    runs: &'a [MemoryRun],
    /// First byte and contents of the first writes to memory that was undefined before the first step.
    first: Vec<(u64, Contents)>,
    last: &'a Memory,
}

/// The initial image of an allocation: guards, inputs, and poison in the other bytes.
fn initial_image(alloc: usize, start: usize, memory: InitialMemory<'_>, key: u64) -> Contents {
    let InitialMemory { inputs, runs, first, last } = memory;
    let mut payload = inputs.clone();
    let mut from = 0;
    for run in runs {
        let part = from as usize..run.end as usize;
        from = run.end;
        if run.certainty == Certainty::Unwritten {
            let _ = payload.write(part.start, &poison::pattern(key, part.start, part.len()));
        }
    }
    for (at, first) in first {
        for (part, run) in last.runs_in(at..at + first.len() as u64) {
            let part = part.start as usize..part.end as usize;
            let Some(first) = first.slice(part.start - at as usize..part.end - at as usize) else { continue };
            let known = matches!(run.certainty, Certainty::Known | Certainty::Ambiguous);
            let last = if known { last.data.slice(part.clone()) } else { None };
            let _ = payload.write(part.start, &Contents::poison(first, last));
        }
    }
    payload.guarded(alloc, start, GUARD as usize)
}

/// One diagnostic for each mistake, with all ranks that make it.
pub(super) fn to_diagnostics(plan: &Plan, faults: &[Uncomputable]) -> Vec<Diagnostic> {
    let mut alike: Vec<(&Uncomputable, BTreeSet<usize>)> = Vec::new();
    let mut places: HashMap<(StepId, &str), usize> = HashMap::new();
    for fault in faults {
        let at = *places.entry((fault.step, &fault.message)).or_insert(alike.len());
        if at == alike.len() {
            alike.push((fault, BTreeSet::new()));
        }
        alike[at].1.extend(fault.rank);
    }
    alike.into_iter().map(|(fault, ranks)| to_diagnostic(plan, fault, &Vec::from_iter(ranks))).collect()
}

fn to_diagnostic(plan: &Plan, fault: &Uncomputable, ranks: &[usize]) -> Diagnostic {
    let step = plan.steps.get(fault.step as usize);
    let mut diagnostic = Diagnostic::new(step.map_or(plan.case.span, |s| s.span), fault.text(ranks));
    diagnostic.label = step.map(|s| format!("in {}", s.label)).unwrap_or_default();
    diagnostic.case = plan.case.swept.then(|| plan.case.name.clone());
    diagnostic
}
