//! The forecast of a case before it runs: the initial image of every allocation, the results that need a checkpoint, and
//! the final contents.
use super::interpreter::{AmbiguousResult, Interpreter, ResultResolver, Uncomputable, region_bytes};
use super::memory::{Certainty, Memory, MemoryRun, TrackedBytes};
use super::poison;
use super::reduced_buffer::ReducedBuffer;
use super::undefined;
use crate::job::{CallKind, Ptr, Red};
use crate::plan::{Event, GUARD, Plan, Region, Write, cost, expect};
use crate::scenario::Diagnostic;
use std::collections::HashMap;
use std::sync::Arc;

/// Bytes of checkpoints of results with one right value that a later step overwrites.
const MAX_OVERWRITTEN_BYTES: u64 = 4 << 20;

/// A copy that the run takes of a result, because it has several right values and is used again, or a later step overwrites
/// it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// Index of the event that writes it.
    pub event: usize,
    /// The write, with the stream on which a copy is in order.
    pub write: Write,
}

/// The forecast of a case.
#[derive(Clone, Debug)]
pub struct Forecast {
    /// Initial images by allocation: guards, inputs, poison.
    pub initial: Vec<Vec<u8>>,
    /// The checkpoints, by number.
    pub checkpoints: Vec<Checkpoint>,
    /// Final contents by allocation: canonical where several values are right, poison where no event writes.
    pub(crate) final_memory: Vec<Memory>,
    /// True if some result has several right values or a checkpoint, so that a run's events are executed again.
    pub(crate) needs_observation: bool,
    initial_runs: Vec<Vec<MemoryRun>>,
    checkpoint_by_write: HashMap<(usize, usize), usize>,
    known_results: HashMap<usize, Arc<ReducedBuffer>>,
}

impl Forecast {
    /// Executes the plan; `seed` is that of the poison.
    ///
    /// # Errors
    ///
    /// A read of elements that no event has written, an expression without a value, a reduction that cannot be judged, an
    /// expectation of undefined elements alone, or a cost above the plan's limits.
    pub fn new(plan: &Plan, seed: u64) -> Result<Self, Vec<Diagnostic>> {
        expect::check_elements(plan)?;
        let begin = memory_before_first_step(plan)?;
        let runs: Vec<Vec<MemoryRun>> = begin.iter().map(|m| m.runs().to_vec()).collect();
        let mut initial: Vec<Vec<u8>> = plan
            .allocs
            .iter()
            .zip(&begin)
            .enumerate()
            .map(|(i, (alloc, memory))| {
                initial_image(i, alloc.start() as usize, memory, poison::poison_key(&plan.case.name, seed, i))
            })
            .collect();
        for (alloc, byte, scalar) in device_scalars(plan) {
            put_scalar(&mut initial, plan, alloc, byte, scalar.iter().map(|byte| !byte));
        }
        let mut interpreter = Interpreter::new(plan, begin);
        let payloads = initial.iter_mut().zip(&plan.allocs).map(|(image, alloc)| {
            let end = image.len() - GUARD as usize;
            &mut image[alloc.start() as usize..end]
        });
        interpreter.poison = Some(payloads.collect());
        let mut planner = CanonicalResolver::default();
        interpreter.run(0..plan.events.len(), &mut planner);
        if !planner.faults.is_empty() {
            return Err(planner.faults.into_iter().map(|fault| to_diagnostic(plan, fault)).collect());
        }
        let Interpreter {
            memory: mut last,
            poison,
            observed_writes: origins,
            reused_writes: reused,
            overwritten,
            known_results: known,
            ambiguous_work: soft_work,
            ..
        } = interpreter;
        for ((poison, last), begin) in poison.unwrap_or_default().into_iter().zip(&mut last).zip(&runs) {
            poison::avoid_final_values(poison, begin, last);
            fill_unwritten(last, poison);
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
                checkpoints.push(Checkpoint { event, write: target });
            }
        }
        if !unseen.is_empty() {
            return Err(unseen);
        }
        // After an abort it is unknown how far the steps before it came.
        let aborted = plan.events.iter().any(|e| matches!(e, Event::Undefined { .. }));
        let mut room = if aborted { 0 } else { MAX_OVERWRITTEN_BYTES };
        for &(event, alloc) in &overwritten {
            let writes = plan.events.get(event).map(Event::writes).unwrap_or_default();
            for (number, write) in writes.into_iter().enumerate().filter_map(|(i, w)| Some((i, w?))) {
                let Some((at, bytes)) = region_bytes(plan, write.region) else { continue };
                let len = bytes.end - bytes.start;
                if at != alloc
                    || len > room
                    || by_write.contains_key(&(event, number))
                    || lost.contains(&(event, number))
                {
                    continue;
                }
                room -= len;
                by_write.insert((event, number), checkpoints.len());
                checkpoints.push(Checkpoint { event, write });
            }
        }
        let observed = !origins.is_empty() || !checkpoints.is_empty();
        check_cost(plan, soft_work, &checkpoints)?;
        Ok(Self {
            initial,
            checkpoints,
            final_memory: last,
            needs_observation: observed,
            initial_runs: runs,
            checkpoint_by_write: by_write,
            known_results: known,
        })
    }

    /// An interpreter before the first event, for judging a run.
    pub(crate) fn new_interpreter<'p>(&self, plan: &'p Plan) -> Interpreter<'p> {
        let mut images = self.initial.clone();
        for (alloc, byte, scalar) in device_scalars(plan) {
            put_scalar(&mut images, plan, alloc, byte, scalar.iter().copied());
        }
        let memory = plan.allocs.iter().zip(&images).zip(&self.initial_runs).map(|((alloc, image), runs)| {
            let from = alloc.start() as usize;
            let data = image.get(from..from + alloc.payload as usize).unwrap_or_default().to_vec();
            Memory::new(data, runs.clone())
        });
        let mut interpreter = Interpreter::new(plan, memory.collect());
        interpreter.known_results.clone_from(&self.known_results);
        interpreter
    }

    /// The runs of an allocation before the first step, without data.
    pub(crate) fn initial_memory(&self, alloc: usize) -> Memory {
        Memory::new(Vec::new(), self.initial_runs.get(alloc).cloned().unwrap_or_default())
    }

    /// The number of the checkpoint of a write, if one is taken.
    pub(crate) fn checkpoint(&self, event: usize, write: usize) -> Option<usize> {
        self.checkpoint_by_write.get(&(event, write)).copied()
    }
}

/// A result that rounds, and is used and overwritten within one launch.
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
        let copies = 2 * (range.end - range.start);
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
struct CanonicalResolver {
    faults: Vec<Uncomputable>,
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
fn memory_before_first_step(plan: &Plan) -> Result<Vec<Memory>, Vec<Diagnostic>> {
    let mut memory: Vec<Memory> = plan.allocs.iter().map(|a| Memory::unwritten(a.payload as usize)).collect();
    let mut wrong = Vec::new();
    for (buf, buffer) in plan.buffers.iter().enumerate() {
        for (rank, place) in buffer.places.iter().enumerate() {
            let Some(place) = place else { continue };
            match plan.contents(buf, rank) {
                Ok(None) => {}
                Ok(Some(bytes)) => {
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
    if wrong.is_empty() { Ok(memory) } else { Err(wrong) }
}

fn fill_unwritten(memory: &mut Memory, from: &[u8]) {
    let unwritten: Vec<_> =
        memory.runs_in(0..memory.data.len() as u64).filter(|(_, run)| run.certainty == Certainty::Unwritten).collect();
    for (part, _) in unwritten {
        let part = part.start as usize..part.end as usize;
        memory.data[part.clone()].copy_from_slice(&from[part]);
    }
}

/// Scalars in device memory: allocation, byte and bits. The worker writes them in stream order, so that a library which
/// reads a scalar too early finds another value.
fn device_scalars(plan: &Plan) -> impl Iterator<Item = (usize, u64, &[u8])> {
    plan.programs.iter().flatten().filter_map(|call| match call.kind.inner() {
        CallKind::Collective { red: Red::PreMulSum { scalar, device: Some(Ptr::At { alloc, byte }) }, .. } => {
            Some((*alloc as usize, *byte, scalar.as_slice()))
        }
        _ => None,
    })
}

fn put_scalar(images: &mut [Vec<u8>], plan: &Plan, alloc: usize, byte: u64, bits: impl Iterator<Item = u8>) {
    let start = plan.allocs.get(alloc).map_or(0, |alloc| alloc.start() + byte) as usize;
    let place = images.get_mut(alloc).and_then(|image| image.get_mut(start..)).unwrap_or_default();
    place.iter_mut().zip(bits).for_each(|(to, bits)| *to = bits);
}

/// The initial image of an allocation: guards, inputs, and poison in the other bytes.
fn initial_image(alloc: usize, start: usize, memory: &Memory, key: u64) -> Vec<u8> {
    let end = start + memory.data.len();
    let mut image = vec![0; end + GUARD as usize];
    poison::fill_guard(&mut image[..start], alloc, 0);
    for (part, run) in memory.runs_in(0..memory.data.len() as u64) {
        let part = part.start as usize..part.end as usize;
        let place = &mut image[start + part.start..start + part.end];
        match run.certainty {
            Certainty::Unwritten => poison::fill(place, key, part.start),
            _ => place.copy_from_slice(&memory.data[part]),
        }
    }
    poison::fill_guard(&mut image[end..], alloc, end);
    image
}

fn to_diagnostic(plan: &Plan, fault: Uncomputable) -> Diagnostic {
    let step = plan.steps.get(fault.step as usize);
    let mut diagnostic = Diagnostic::new(step.map_or(plan.case.span, |s| s.span), fault.message);
    diagnostic.label = step.map(|s| format!("in {}", s.label)).unwrap_or_default();
    diagnostic.case = plan.case.swept.then(|| plan.case.name.clone());
    diagnostic
}
