//! Goes through a plan's events in order and carries the contents of every allocation along. Where a reduction has
//! several right results a [`Resolver`] says with which one to go on.
use super::Reduction;
use super::columns::{Reduced, reduce};
use super::contents::{Certainty, Mark, Memory, Piece};
pub(crate) use super::places::{region_bytes, writes_of};
use crate::expr::map::{MapInput, map_element};
use crate::num::put;
use crate::ops::{Collective, Rule};
use crate::plan::cost::KEPT_RESULTS;
use crate::plan::{Event, Plan, Region, StepId, Write};
use std::cell::Cell;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// What cannot be computed, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Index of the event.
    pub event: usize,
    /// Its step.
    pub step: StepId,
    /// World rank.
    pub rank: Option<usize>,
    /// In words.
    pub message: String,
}

/// A reduction's result on its way to one rank, with elements that have several right values.
pub(crate) struct Choice<'a> {
    /// Index of the event.
    pub event: usize,
    /// Position of the write among the event's writes.
    pub write: usize,
    /// Where it goes.
    pub target: &'a Write,
    /// The whole reduction.
    pub reduced: &'a Reduced,
    /// How it is reduced.
    pub reduction: &'a Reduction,
    /// Inputs by rank of the communicator.
    pub inputs: &'a [&'a [u8]],
    /// First element of the reduction that goes here.
    pub first: usize,
    /// Bytes that go on unless the guide says otherwise.
    pub canonical: &'a [u8],
}

/// Who decides where the walk cannot.
pub(crate) trait Resolver {
    /// Bytes to go on with instead of the canonical ones; the same length.
    fn choose(&mut self, choice: &Choice<'_>) -> Option<Vec<u8>>;
    /// An event has happened, and memory is as it left it.
    fn happened(&mut self, _number: usize, _memory: &[Memory]) {}
    /// Something cannot be computed; what it would have written is undefined from here on.
    fn fault(&mut self, fault: Fault);
}

/// The walk.
pub(crate) struct Interpreter<'p> {
    plan: &'p Plan,
    /// By allocation.
    pub memory: Vec<Memory>,
    messages: HashMap<usize, Piece>,
    /// Observed writes: event and position among its writes.
    pub origins: Vec<(usize, usize)>,
    /// By origin: read or overwritten later.
    pub reused: Vec<bool>,
    /// Results of reductions whose inputs are known, by event; they are the same in every walk. Only as many are kept as
    /// fit [`KEPT_RESULTS`]; the others are worked out again.
    pub known: HashMap<usize, Arc<Reduced>>,
    kept: usize,
    /// Stretches of all allocations with a history of their own.
    stretches: usize,
    /// Elements that may come out in several ways, weighted by what judging them takes.
    pub soft_work: u64,
    /// Event and allocation of what was written for certain and then written again, in the order of that.
    pub overwritten: Vec<(usize, usize)>,
    /// Complement of what is first written to every byte, if wanted; by allocation.
    pub poison: Option<Vec<&'p mut [u8]>>,
}

impl<'p> Interpreter<'p> {
    /// At the start of the program.
    pub fn new(plan: &'p Plan, memory: Vec<Memory>) -> Self {
        let (origins, reused) = (Vec::new(), Vec::new());
        let (known, overwritten) = (HashMap::new(), Vec::new());
        let messages = HashMap::new();
        let (kept, stretches, soft_work, poison) = (0, 0, 0, None);
        Self { plan, memory, messages, origins, reused, known, kept, stretches, soft_work, overwritten, poison }
    }

    /// Takes the events of a range.
    pub fn run(&mut self, events: Range<usize>, guide: &mut dyn Resolver) {
        let plan = self.plan;
        for (number, event) in plan.events.iter().enumerate().take(events.end).skip(events.start) {
            let done = self.event(number, event, guide);
            if done.is_ok() {
                guide.happened(number, &self.memory);
            }
            if let Err((rank, message)) = done {
                guide.fault(Fault { event: number, step: event.step(), rank, message });
                for write in writes_of(event).into_iter().flatten() {
                    self.undefine(number, write);
                }
            }
        }
    }

    fn event(&mut self, number: usize, event: &Event, guide: &mut dyn Resolver) -> Result<(), Problem> {
        match event {
            Event::Collective { op, comm, dtype, reduce, send, recv, .. } => {
                let sent = send.iter().map(|s| s.map(|r| self.read(r)).transpose()).collect::<Result<Vec<_>, _>>()?;
                match reduce {
                    Some(kind) => {
                        let n = self.plan.comms.get(*comm).map_or(recv.len(), |c| c.members.len());
                        let reduction = super::columns::reduction(*dtype, kind, n);
                        self.reduction(number, op, &reduction, sent, recv, guide)
                    }
                    None => self.movement(number, op, &sent, recv),
                }
            }
            Event::Post { message, from, .. } => {
                let piece = self.read(*from)?;
                self.messages.insert(*message, piece);
                Ok(())
            }
            Event::Land { message, to, .. } => {
                let piece =
                    self.messages.remove(message).ok_or((None, "a message arrives that nobody has sent".into()))?;
                let landed = self.write(number, to.region, piece.derived());
                if landed.is_err() && self.plan.undefined.is_some() {
                    // a message of another size than its receiver wants
                    self.undefine(number, to);
                    return Ok(());
                }
                landed
            }
            Event::Map { expr, names, reads, out, .. } => {
                let piece = self.map(expr, names, reads, out.region)?;
                self.write(number, out.region, piece)
            }
            Event::Undefined { out, .. } => {
                for write in out {
                    self.undefine(number, write);
                }
                Ok(())
            }
        }
    }

    fn reduction(
        &mut self,
        number: usize,
        op: &Collective,
        reduction: &Reduction,
        sent: Vec<Option<Piece>>,
        recv: &[Option<Write>],
        guide: &mut dyn Resolver,
    ) -> Result<(), Problem> {
        let sent: Vec<Piece> = sent.into_iter().map(|p| p.ok_or_else(unread)).collect::<Result<_, _>>()?;
        let worst = sent.iter().filter_map(Piece::worst).max();
        if worst == Some(Certainty::Undefined) {
            recv.iter().flatten().for_each(|write| self.undefine(number, write));
            return Ok(());
        }
        let inputs: Vec<&[u8]> = sent.iter().map(|p| p.bytes.as_slice()).collect();
        let size = reduction.dtype.size();
        let reduced = match self.known.get(&number) {
            Some(found) => found.clone(),
            None => {
                let soft = soft_elements(&sent, size);
                let reduced = Arc::new(reduce(reduction, &inputs, soft, self.settled()).map_err(|m| (None, m))?);
                let size = reduced.size();
                if worst != Some(Certainty::Soft) && self.kept.saturating_add(size) <= KEPT_RESULTS as usize {
                    self.kept += size;
                    self.known.insert(number, reduced.clone());
                }
                // A cheap look at every rank's value, then a search or a bound.
                let each = 32 + 12 * inputs.len() as u64;
                self.soft_work = self.soft_work.saturating_add(reduced.soft_count().saturating_mul(each));
                reduced
            }
        };
        for (rank, write) in recv.iter().enumerate() {
            let Some(write) = write else { continue };
            let elements = write.region.len as usize;
            let first = if op.rule == Rule::ReducedBlock { rank * elements } else { 0 };
            let bytes = reduced.bytes.get(first * size..(first + elements) * size).ok_or_else(length)?;
            let mut piece = Piece { bytes: bytes.to_vec(), marks: Vec::new() };
            if reduced.any_soft(first..first + elements) {
                let origin = self.origins.len() as u32;
                self.origins.push((number, rank));
                if self.reused.len() < self.origins.len() {
                    self.reused.push(false);
                }
                mark(&mut piece, &reduced, first..first + elements, size, origin);
                let (target, inputs) = (write, inputs.as_slice());
                let choice = Choice {
                    event: number,
                    write: rank,
                    target,
                    reduced: &reduced,
                    reduction,
                    inputs,
                    first,
                    canonical: bytes,
                };
                if let Some(seen) = guide.choose(&choice).filter(|seen| seen.len() == bytes.len()) {
                    piece.bytes = seen;
                }
            } else {
                piece.mark(Mark { end: bytes.len() as u64, sure: Certainty::Known, origin: None });
            }
            self.write(number, write.region, piece)?;
        }
        Ok(())
    }

    fn movement(
        &mut self,
        number: usize,
        op: &Collective,
        sent: &[Option<Piece>],
        recv: &[Option<Write>],
    ) -> Result<(), Problem> {
        // Everything was read before anything is written, so in-place calls need no care.
        let root = sent.iter().flatten().next();
        for (rank, write) in recv.iter().enumerate() {
            let Some(write) = write else { continue };
            let bytes = self.bytes(write.region)?;
            let len = (bytes.1.end - bytes.1.start) as usize;
            let piece = match op.rule {
                Rule::RootCopy => root.ok_or_else(unread)?.clone(),
                Rule::RootBlock => root.ok_or_else(unread)?.part(rank * len..(rank + 1) * len).ok_or_else(length)?,
                Rule::Concat => sent.iter().try_fold(Piece::default(), |mut all, p| {
                    all.append(p.as_ref().ok_or_else(unread)?);
                    Ok::<_, Problem>(all)
                })?,
                Rule::Transpose => sent.iter().try_fold(Piece::default(), |mut all, p| {
                    let block = len / recv.len().max(1);
                    let part = p.as_ref().ok_or_else(unread)?.part(rank * block..(rank + 1) * block);
                    all.append(&part.ok_or_else(length)?);
                    Ok::<_, Problem>(all)
                })?,
                Rule::Reduced | Rule::ReducedBlock => return Err((None, "a reduction without its operator".into())),
            };
            self.write(number, write.region, piece.derived())?;
        }
        Ok(())
    }

    fn map(
        &mut self,
        expr: &crate::scenario::Expr,
        names: &[(String, crate::expr::Value)],
        reads: &[(String, Region)],
        out: Region,
    ) -> Result<Piece, Problem> {
        let plan = self.plan;
        let places = reads.iter().map(|(_, region)| self.bytes(*region)).collect::<Result<Vec<_>, _>>()?;
        let mut inputs = Vec::with_capacity(reads.len());
        for ((name, region), (alloc, range)) in reads.iter().zip(&places) {
            let bytes = self.memory[*alloc].data.get(range.start as usize..range.end as usize).ok_or_else(length)?;
            inputs.push(MapInput { name, dtype: plan.buffers[region.buf].dtype, bytes });
        }
        let dtype = plan.buffers[out.buf].dtype;
        let size = dtype.size();
        let mut piece = Piece { bytes: vec![0; out.len as usize * size], marks: Vec::new() };
        let worst = Cell::new(Certainty::Known);
        let blank: Cell<Option<(usize, usize)>> = Cell::new(None);
        let touched = std::cell::RefCell::new(Vec::new());
        for i in 0..out.len {
            worst.set(Certainty::Known);
            let watch = |input: usize, element: usize| {
                let (Some((alloc, range)), Some(read)) = (places.get(input), inputs.get(input)) else { return };
                let at = range.start + (element * read.dtype.size()) as u64;
                for (_, run) in self.memory[*alloc].over(at..at + read.dtype.size() as u64) {
                    if run.sure == Certainty::Blank && blank.get().is_none() {
                        blank.set(Some((input, element)));
                    }
                    if let Some(origin) = run.origin {
                        let mut touched = touched.borrow_mut();
                        if touched.last() != Some(&origin) {
                            touched.push(origin);
                        }
                    }
                    worst.set(worst.get().max(run.sure));
                }
            };
            let result = map_element(expr, names, &inputs, dtype, i, &watch);
            if let Some((input, element)) = blank.get() {
                let name = inputs.get(input).map_or("?", |r| r.name);
                return Err((Some(out.rank), format!("`{name}[{element}]` is read, but nobody has written it")));
            }
            match result {
                Ok(bits) => put(dtype, &mut piece.bytes, i as usize, bits),
                // From values that may differ in the run: judged then.
                Err(_) if worst.get() >= Certainty::Soft && !self.settled() => {}
                Err(_) if worst.get() == Certainty::Undefined => {}
                Err(error) => {
                    return Err((
                        Some(out.rank),
                        format!("`{}` for element {i} on rank {}: {error}", expr.text, out.rank),
                    ));
                }
            }
            piece.mark(Mark { end: (i + 1) * size as u64, sure: worst.get(), origin: None });
            if piece.marks.len() > MAX_STRETCHES && !self.settled() {
                return Err(stretches(Some(out.rank)));
            }
        }
        for origin in touched.into_inner() {
            self.reuse(Some(origin));
        }
        Ok(piece)
    }

    /// True if soft values are those of a run.
    fn settled(&self) -> bool {
        self.poison.is_none()
    }

    /// The allocation and the bytes of its payload.
    pub fn bytes(&self, region: Region) -> Result<(usize, Range<u64>), Problem> {
        region_bytes(self.plan, region).filter(|(alloc, _)| *alloc < self.memory.len()).ok_or_else(length)
    }

    fn read(&mut self, region: Region) -> Result<Piece, Problem> {
        let (alloc, range) = self.bytes(region)?;
        let piece = self.memory[alloc].read(range.clone()).ok_or_else(length)?;
        if piece.worst() == Some(Certainty::Known) && piece.marks.len() == 1 {
            return Ok(piece);
        }
        let blank = self.memory[alloc].over(range.clone()).find(|(_, run)| run.sure == Certainty::Blank);
        if let Some((part, _)) = blank {
            let buffer = &self.plan.buffers[region.buf];
            let element = region.start + (part.start - range.start) / buffer.dtype.size() as u64;
            let message =
                format!("`{}[{element}]` on rank {} is read, but nobody has written it", buffer.name, region.rank);
            return Err((Some(region.rank), message));
        }
        for mark in &piece.marks {
            self.reuse(mark.origin);
        }
        Ok(piece)
    }

    fn write(&mut self, event: usize, region: Region, piece: Piece) -> Result<(), Problem> {
        let (alloc, range) = self.bytes(region)?;
        if range.end - range.start != piece.bytes.len() as u64 {
            return Err(length());
        }
        let old: Vec<_> = self.memory[alloc].over(range.clone()).collect();
        for (part, run) in old {
            self.reuse(run.origin);
            if let (Certainty::Known | Certainty::Soft, Some(writer), None) = (run.sure, run.writer, run.origin)
                && self.overwritten.last() != Some(&(writer as usize, alloc))
            {
                self.overwritten.push((writer as usize, alloc));
            }
            if let (Certainty::Blank, Some(poison)) = (run.sure, &mut self.poison) {
                let from = (part.start - range.start) as usize;
                let new = &piece.bytes[from..from + (part.end - part.start) as usize];
                if let Some(place) = poison[alloc].get_mut(part.start as usize..part.end as usize) {
                    place.iter_mut().zip(new).for_each(|(p, b)| *p = !b);
                }
            }
        }
        let memory = &mut self.memory[alloc];
        let before = memory.runs().len();
        memory.write(range.start, &piece, Some(event as u32)).ok_or_else(length)?;
        self.stretches = (self.stretches + memory.runs().len()).saturating_sub(before);
        if self.stretches > MAX_STRETCHES && !self.settled() { Err(stretches(Some(region.rank))) } else { Ok(()) }
    }

    fn undefine(&mut self, event: usize, write: &Write) {
        let Ok((alloc, range)) = self.bytes(write.region) else { return };
        if let Some(mut piece) = self.memory[alloc].read(range) {
            piece.marks = vec![Mark { end: piece.bytes.len() as u64, sure: Certainty::Undefined, origin: None }];
            // The region was found, so this fits.
            let _ = self.write(event, write.region, piece);
        }
    }

    fn reuse(&mut self, origin: Option<u32>) {
        if let Some(flag) = origin.and_then(|o| self.reused.get_mut(o as usize)) {
            *flag = true;
        }
    }
}

type Problem = (Option<usize>, String);

/// Most stretches of memory with histories of their own: each takes as much as dozens of bytes.
const MAX_STRETCHES: usize = 1 << 21;

fn stretches(rank: Option<usize>) -> Problem {
    let text =
        format!("more than {MAX_STRETCHES} stretches of memory are differently sure: fewer elements, or whole buffers");
    (rank, text)
}

fn unread() -> Problem {
    (None, "the plan has no input for a rank".into())
}

fn length() -> Problem {
    (None, "the plan names memory that does not exist or does not fit".into())
}

impl Piece {
    fn part(&self, range: Range<usize>) -> Option<Self> {
        let bytes = self.bytes.get(range.clone())?.to_vec();
        let mut part = Self { bytes, marks: Vec::new() };
        for mark in self.marks.iter().filter(|m| m.end as usize > range.start) {
            let end = (mark.end as usize).min(range.end) - range.start;
            if end > 0 {
                part.mark(Mark { end: end as u64, ..*mark });
            }
        }
        Some(part)
    }
    /// The same as something computed from it: what is soft stays so, but is no longer the observed thing itself.
    fn derived(mut self) -> Self {
        for mark in std::mem::take(&mut self.marks) {
            self.mark(Mark { origin: None, ..mark });
        }
        self
    }
}

/// True for elements that depend on a soft input; empty if none does.
fn soft_elements(sent: &[Piece], size: usize) -> Vec<bool> {
    let mut soft = Vec::new();
    for piece in sent.iter().filter(|p| p.worst() >= Some(Certainty::Soft)) {
        soft.resize(piece.bytes.len() / size, false);
        let mut from = 0;
        for mark in &piece.marks {
            let end = (mark.end as usize).div_ceil(size).min(soft.len());
            if mark.sure == Certainty::Soft {
                soft[from / size..end].fill(true);
            }
            from = mark.end as usize;
        }
    }
    soft
}

/// Element by element where that is little work; else all soft, which is never wrong, only less fine.
fn mark(piece: &mut Piece, reduced: &Reduced, elements: Range<usize>, size: usize, origin: u32) {
    let fine = elements.len() <= 4096;
    let soft = Mark { end: piece.bytes.len() as u64, sure: Certainty::Soft, origin: Some(origin) };
    if !fine {
        return piece.mark(soft);
    }
    for (i, element) in elements.enumerate() {
        let end = ((i + 1) * size) as u64;
        match reduced.is_soft(element) {
            true => piece.mark(Mark { end, ..soft }),
            false => piece.mark(Mark { end, sure: Certainty::Known, origin: None }),
        }
    }
}
