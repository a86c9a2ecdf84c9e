//! What is known of a case before it runs: the initial image of every allocation, which results have to be observed on
//! the way, and what must be there at the end.
use super::columns::Reduced;
use super::contents::{Certainty, Memory, Piece, Run};
use super::poison;
use super::walk::{Choice, Fault, Interpreter, Resolver, region_bytes, writes_of};
use crate::job::{Ptr, Red, What};
use crate::plan::{Event, GUARD, Plan, Region, Write, cost, expect};
use crate::scenario::Diagnostic;
use std::collections::HashMap;
use std::sync::Arc;

/// Bytes of copies that are taken of results with one right value, because a later step overwrites them.
const OVERWRITTEN: u64 = 4 << 20;

/// A copy that the run has to take of a result that is used again, because several values may be right or a later step
/// overwrites it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// Index of the event that writes it.
    pub event: usize,
    /// What is written, and where a copy is ordered right.
    pub write: Write,
}

/// What is known before the run.
#[derive(Clone, Debug)]
pub struct Forecast {
    /// Image by allocation: guards, inputs, poison.
    pub initial: Vec<Vec<u8>>,
    /// Copies to take; the index is the checkpoint's number.
    pub checkpoints: Vec<Checkpoint>,
    /// The end of the program, canonical where several values are right; poison where nobody writes.
    pub(crate) last: Vec<Memory>,
    /// True if some result can only be judged from what was observed.
    pub(crate) observed: bool,
    begin: Vec<Vec<Run>>,
    by_write: HashMap<(usize, usize), usize>,
    known: HashMap<usize, Arc<Reduced>>,
}

impl Forecast {
    /// Walks the plan. Fails where a value is read that nobody has written, an expression has no value, or a reduction
    /// cannot be judged.
    pub fn new(plan: &Plan, seed: u64) -> Result<Self, Vec<Diagnostic>> {
        expect::check_elements(plan)?;
        let begin = beginning(plan)?;
        let runs: Vec<Vec<Run>> = begin.iter().map(|m| m.runs().to_vec()).collect();
        let mut initial: Vec<Vec<u8>> = plan
            .allocs
            .iter()
            .zip(&begin)
            .enumerate()
            .map(|(i, (alloc, memory))| image(i, alloc.start() as usize, memory, poison::key(&plan.case.name, seed, i)))
            .collect();
        for (alloc, byte, scalar) in device_scalars(plan) {
            put_scalar(&mut initial, plan, alloc, byte, scalar.iter().map(|byte| !byte));
        }
        let mut walk = Interpreter::new(plan, begin);
        let payloads = initial.iter_mut().zip(&plan.allocs).map(|(image, alloc)| {
            let end = image.len() - GUARD as usize;
            &mut image[alloc.start() as usize..end]
        });
        walk.poison = Some(payloads.collect());
        let mut planner = Planner::default();
        walk.run(0..plan.events.len(), &mut planner);
        if !planner.faults.is_empty() {
            return Err(planner.faults.into_iter().map(|fault| diagnose(plan, fault)).collect());
        }
        let Interpreter { memory: mut last, poison, origins, reused, overwritten, known, soft_work, .. } = walk;
        for ((poison, last), begin) in poison.unwrap_or_default().into_iter().zip(&mut last).zip(&runs) {
            poison::differ(poison, begin, last);
            put_blank(last, poison);
        }
        let mut checkpoints = Vec::new();
        let mut by_write = HashMap::new();
        for (&(event, write), _) in origins.iter().zip(&reused).filter(|(_, reused)| **reused) {
            let target = plan.events.get(event).and_then(|e| writes_of(e).get(write).copied().flatten().copied());
            if let Some(target) = target {
                by_write.insert((event, write), checkpoints.len());
                checkpoints.push(Checkpoint { event, write: target });
            }
        }
        // After an abort nobody can say how far the steps before it came.
        let aborted = plan.events.iter().any(|e| matches!(e, Event::Undefined { .. }));
        let mut room = if aborted { 0 } else { OVERWRITTEN };
        for &(event, alloc) in &overwritten {
            let writes = plan.events.get(event).map(writes_of).unwrap_or_default();
            for (number, write) in writes.into_iter().enumerate().filter_map(|(i, w)| Some((i, *w?))) {
                let Some((at, bytes)) = region_bytes(plan, write.region) else { continue };
                let len = bytes.end - bytes.start;
                if at != alloc || len > room || by_write.contains_key(&(event, number)) {
                    continue;
                }
                room -= len;
                by_write.insert((event, number), checkpoints.len());
                checkpoints.push(Checkpoint { event, write });
            }
        }
        let observed = !origins.is_empty() || !checkpoints.is_empty();
        afford(plan, soft_work, &checkpoints)?;
        Ok(Self { initial, checkpoints, last, observed, begin: runs, by_write, known })
    }

    /// A walk from the start, for judging.
    pub(crate) fn again<'p>(&self, plan: &'p Plan) -> Interpreter<'p> {
        let mut images = self.initial.clone();
        for (alloc, byte, scalar) in device_scalars(plan) {
            put_scalar(&mut images, plan, alloc, byte, scalar.iter().copied());
        }
        let memory = plan.allocs.iter().zip(&images).zip(&self.begin).map(|((alloc, image), runs)| {
            let from = alloc.start() as usize;
            let data = image.get(from..from + alloc.payload as usize).unwrap_or_default().to_vec();
            Memory::new(data, runs.clone())
        });
        let mut walk = Interpreter::new(plan, memory.collect());
        walk.known.clone_from(&self.known);
        walk
    }

    /// An allocation before the first step.
    pub(crate) fn begin(&self, alloc: usize) -> Memory {
        Memory::new(Vec::new(), self.begin.get(alloc).cloned().unwrap_or_default())
    }

    /// The number of the checkpoint of a write, if one is taken.
    pub(crate) fn checkpoint(&self, event: usize, write: usize) -> Option<usize> {
        self.by_write.get(&(event, write)).copied()
    }
}

/// Refuses what the data turned out to cost beyond the plan's limits: searches for results that round, and checkpoints.
fn afford(plan: &Plan, soft_work: u64, checkpoints: &[Checkpoint]) -> Result<(), Vec<Diagnostic>> {
    let (cost, limits) = (plan.cost, &plan.limits);
    let searches = soft_work.saturating_mul(plan.case.repeat.into());
    let work = cost.work.saturating_add(searches);
    if work > limits.work {
        let what = "results that may round in several ways";
        return Err(vec![cost::too_much_work(what, plan.case.span, searches, work, limits)]);
    }
    // In shared memory, and as it was observed.
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

/// Goes on with canonical values and collects what cannot be computed.
#[derive(Default)]
struct Planner {
    faults: Vec<Fault>,
}

impl Resolver for Planner {
    fn choose(&mut self, _: &Choice<'_>) -> Option<Vec<u8>> {
        None
    }
    fn fault(&mut self, fault: Fault) {
        self.faults.push(fault);
    }
}

/// Memory before the first step: inputs, and scalars of device memory, which count as there from the beginning.
fn beginning(plan: &Plan) -> Result<Vec<Memory>, Vec<Diagnostic>> {
    let mut memory: Vec<Memory> = plan.allocs.iter().map(|a| Memory::blank(a.payload as usize)).collect();
    let mut wrong = Vec::new();
    for (buf, buffer) in plan.buffers.iter().enumerate() {
        for (rank, place) in buffer.places.iter().enumerate() {
            let Some(place) = place else { continue };
            match plan.contents(buf, rank) {
                Ok(None) => {}
                Ok(Some(bytes)) => {
                    let region = Region { buf, rank, start: 0, len: place.count };
                    let fits = region_bytes(plan, region).filter(|(_, r)| r.end - r.start == bytes.len() as u64);
                    let piece = Piece::plain(bytes, Certainty::Known);
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

fn put_blank(memory: &mut Memory, from: &[u8]) {
    let blank: Vec<_> =
        memory.over(0..memory.data.len() as u64).filter(|(_, run)| run.sure == Certainty::Blank).collect();
    for (part, _) in blank {
        let part = part.start as usize..part.end as usize;
        memory.data[part.clone()].copy_from_slice(&from[part]);
    }
}

/// Scalars in device memory: allocation, byte and bits. The worker puts them there in stream order, so that a library which
/// reads one before its operation's turn finds something else.
fn device_scalars(plan: &Plan) -> impl Iterator<Item = (usize, u64, &[u8])> {
    plan.programs.iter().flatten().filter_map(|call| match &call.what {
        What::Collective { red: Red::PreMulSum { scalar, device: Some(Ptr::At { alloc, byte }) }, .. } => {
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

/// Guards around what the program finds: inputs, and poison where nobody has written.
fn image(alloc: usize, start: usize, memory: &Memory, key: u64) -> Vec<u8> {
    let end = start + memory.data.len();
    let mut image = vec![0; end + GUARD as usize];
    poison::guard(&mut image[..start], alloc, 0);
    for (part, run) in memory.over(0..memory.data.len() as u64) {
        let part = part.start as usize..part.end as usize;
        let place = &mut image[start + part.start..start + part.end];
        match run.sure {
            Certainty::Blank => poison::fill(place, key, part.start),
            _ => place.copy_from_slice(&memory.data[part]),
        }
    }
    poison::guard(&mut image[end..], alloc, end);
    image
}

fn diagnose(plan: &Plan, fault: Fault) -> Diagnostic {
    let step = plan.steps.get(fault.step as usize);
    let mut diagnostic = Diagnostic::new(step.map_or(plan.case.span, |s| s.span), fault.message);
    diagnostic.label = step.map(|s| format!("in {}", s.label)).unwrap_or_default();
    diagnostic.case = plan.case.swept.then(|| plan.case.name.clone());
    diagnostic
}
