//! Refuses programs whose result depends on timing: memory used on two streams of a rank without an order between them, and
//! steps of one group of which one writes memory that another uses.
//!
//! A use is ordered after another exactly if its stream or the host has waited for it (`after`, `wait`). Calls of a group are enqueued
//! when it ends: nothing inside it waits for another of its calls.
//!
//! Uses of a stream are ordered among themselves, so that of all earlier uses of some bytes by a stream only the latest
//! can lack an order. It is looked up by byte range, which keeps the cost of a call logarithmic in their number.
mod latest;
mod registered;

use super::lower::LoweredProgram;
use super::progress::{Now, Progress, walk};
use super::rank_op::{Placed, RankOp};
use super::types::{AllocId, Region, StepId};
use crate::job::{Call, CallKind};
use crate::scenario::{Diagnostic, dedupe};
use latest::Latest;
use registered::Registered;
use rustc_hash::FxHashMap;
use std::hash::Hash;

/// Checks every rank.
///
/// # Errors
///
/// For each use that lacks an order, its first place.
pub fn check(lowered: &LoweredProgram) -> Result<(), Vec<Diagnostic>> {
    let mut diags = Vec::new();
    for rank in (0..lowered.unrolled.n).filter(|rank| may_lack_order(lowered, *rank)) {
        diags.extend(check_rank(lowered, rank));
    }
    if diags.is_empty() { Ok(()) } else { Err(dedupe(diags)) }
}

/// False if a rank has one stream, which orders all its calls, no groups, and nothing that ends with a registration.
fn may_lack_order(lowered: &LoweredProgram, rank: usize) -> bool {
    let ordered = |call: &Call| !matches!(call.kind.effect(), CallKind::GroupEnd | CallKind::Deregister { .. });
    lowered.unrolled.streams != 1 || !lowered.programs[rank].iter().all(ordered)
}

/// A part of memory that a call uses.
pub struct Use {
    pub alloc: AllocId,
    pub start: u64,
    pub end: u64,
    pub writes: bool,
    pub region: Region,
}

/// The uses of one allocation by one stream.
#[derive(Default)]
struct ByStream {
    stream: usize,
    reads: Latest,
    writes: Latest,
}

/// The calls that were enqueued on a stream.
#[derive(Clone, Default)]
struct Stream {
    steps: Vec<StepId>,
    /// Number of calls that were enqueued before those of the latest group.
    before_group: u32,
}

fn window_of(call: &Call) -> Option<u32> {
    if let CallKind::Put { window, .. } = call.kind.effect() { *window } else { None }
}

/// A rank's memory and streams at some point of its program.
struct RankState<'a> {
    lowered: &'a LoweredProgram,
    rank: usize,
    memory: FxHashMap<AllocId, Vec<ByStream>>,
    registered: Registered,
    streams: Vec<Stream>,
    diags: Vec<Diagnostic>,
}

fn check_rank(lowered: &LoweredProgram, rank: usize) -> Vec<Diagnostic> {
    let streams = vec![Stream::default(); lowered.unrolled.streams as usize];
    let (memory, registered) = (announced(lowered, rank), Registered::of(lowered, rank));
    let mut state = RankState { lowered, rank, memory, registered, streams, diags: Vec::new() };
    // Calls that are enqueued at the same time.
    let mut batch = Vec::new();
    walk(lowered, rank, |now| {
        if matches!(now.call.kind.effect(), CallKind::Deregister { .. }) {
            let unwaited = state.check_deregistration(now);
            state.diags.extend(unwaited);
        }
        batch.extend(now.op.map(|_| now.index));
        if now.enqueues {
            state.enqueue(&batch, matches!(now.call.kind.effect(), CallKind::GroupEnd), now.progress);
            batch.clear();
        }
    });
    state.diags
}

impl RankState<'_> {
    /// Enqueues a call, or the calls of a group, and searches for unfinished earlier uses of the same memory.
    fn enqueue(&mut self, batch: &[usize], grouped: bool, progress: &Progress) {
        let lowered = self.lowered;
        if grouped {
            self.streams.iter_mut().for_each(|stream| stream.before_group = stream.steps.len() as u32);
        }
        for index in batch {
            let call = &lowered.programs[self.rank][*index];
            let Some(op) = lowered.op((self.rank, *index)) else { continue };
            let (on, uses) = (op.stream() as usize, uses(lowered, op));
            let steps = &mut self.streams[on].steps;
            steps.push(call.step);
            let number = steps.len() as u32;
            for used in &uses {
                if let Some(other) = self.clash(on, used, grouped, progress) {
                    self.diags.push(unordered(lowered, self.rank, (call.step, used), &other));
                }
            }
            self.registered.record(op, window_of(call), &uses, number);
            // Recorded after all were checked, because the input and output of one in-place call may overlap.
            for used in &uses {
                let all = self.memory.get_mut(&used.alloc).into_iter().flatten();
                for by in all.filter(|by| by.stream == on) {
                    let list = if used.writes { &mut by.writes } else { &mut by.reads };
                    list.record(used.start, used.end, number);
                }
            }
        }
    }

    /// Checks that a registration is unused when it ends: the host must have waited for every call of the communicator that uses the
    /// memory, and for every put through the window.
    fn check_deregistration(&self, now: &Now) -> Option<Diagnostic> {
        let ended = self.lowered.registrations.ended_by((self.rank, now.index))?;
        let lead = self.lowered.placed.allocs[ended.alloc].start();
        let bytes = ended.bytes.start.saturating_sub(lead)..ended.bytes.end.saturating_sub(lead);
        let (other, puts) = self.registered.latest_uses(ended, bytes).find_map(|used| {
            let number = used.number as usize;
            let step = self.streams[used.stream].steps.get(number.checked_sub(1)?)?;
            (!now.progress.host_has(used.stream, number)).then_some((*step, used.puts))
        })?;
        let step = now.call.step;
        let step_of = |id: StepId| &self.lowered.unrolled.steps[id as usize];
        let (what, how) =
            if puts { ("window", "may still write through it") } else { ("registration", "may still use the memory") };
        let text =
            format!("{} ends a {what} on rank {} while {} {how}", step_of(step).label, self.rank, step_of(other).label);
        let d = Diagnostic::new(step_of(step).span, text).related(step_of(other).span, "the use");
        Some(d.help("add a `wait` before it"))
    }

    /// An earlier use of the same bytes that is not over when the new one begins.
    fn clash(&self, on: usize, new: &Use, grouped: bool, progress: &Progress) -> Option<Clash> {
        self.memory.get(&new.alloc)?.iter().find_map(|by| {
            let other = &self.streams[by.stream];
            let runs = |number: &u32| match (by.stream == on, grouped) {
                (true, false) => false,
                (true, true) => *number > other.before_group,
                (false, _) => !progress.is_before(by.stream, *number as usize, on),
            };
            let writes = Some(by.writes.of(new.start, new.end)).filter(runs);
            let reads = || Some(by.reads.of(new.start, new.end)).filter(|number| new.writes && runs(number));
            let number = writes.or_else(reads)?;
            let step = *other.steps.get(number as usize - 1)?;
            Some(Clash { step, writes: writes.is_some(), grouped: grouped && number > other.before_group })
        })
    }
}

/// An earlier use that is not over when another one begins.
struct Clash {
    step: StepId,
    writes: bool,
    /// True if both are calls of one group.
    grouped: bool,
}

/// The allocations that a rank's calls use, with the streams that use them.
fn announced(lowered: &LoweredProgram, rank: usize) -> FxHashMap<AllocId, Vec<ByStream>> {
    let ops = lowered.ops[rank].iter().flatten();
    let used = ops.flat_map(|op| uses(lowered, op).into_iter().map(|used| (used.alloc, op.stream() as usize, used)));
    by_stream(used)
}

/// The uses of each kind of memory, announced to their records.
fn by_stream<K: Copy + Eq + Hash>(uses: impl Iterator<Item = (K, usize, Use)>) -> FxHashMap<K, Vec<ByStream>> {
    let mut memory: FxHashMap<K, Vec<ByStream>> = FxHashMap::default();
    // The position in its list, which may be long.
    let mut positions: FxHashMap<(K, usize), usize> = FxHashMap::default();
    for (key, stream, used) in uses {
        let all = memory.entry(key).or_default();
        let at = *positions.entry((key, stream)).or_insert_with(|| {
            all.push(ByStream { stream, ..ByStream::default() });
            all.len() - 1
        });
        let list = if used.writes { &mut all[at].writes } else { &mut all[at].reads };
        list.announce(used.start, used.end);
    }
    for by in memory.values_mut().flatten() {
        by.reads.prepare();
        by.writes.prepare();
    }
    memory
}

fn unordered(lowered: &LoweredProgram, rank: usize, (by, new): (StepId, &Use), old: &Clash) -> Diagnostic {
    let name = &lowered.placed.buffers[new.region.buf].name;
    let step = |id: StepId| &lowered.unrolled.steps[id as usize];
    let verb = |writes: bool| if writes { "writes" } else { "reads" };
    if old.grouped {
        let text = format!(
            "within one group, {} {} `{name}` on rank {rank}, which {} {}",
            step(by).label,
            verb(new.writes),
            step(old.step).label,
            verb(old.writes)
        );
        return Diagnostic::new(step(by).span, text)
            .related(step(old.step).span, "the other step")
            .help("steps of a group run at the same time: use a separate buffer, or end the group before");
    }
    let text = format!(
        "{} {} `{name}` on rank {rank} while {}, on another stream, {} it: nothing says which comes first",
        step(by).label,
        verb(new.writes),
        step(old.step).label,
        verb(old.writes)
    );
    Diagnostic::new(step(by).span, text)
        .related(step(old.step).span, "the other use")
        .help("add `after = [\"...\"]` to the later step, or a `wait` between them")
}

/// The memory that an operation uses.
pub fn uses(lowered: &LoweredProgram, op: &RankOp<Placed>) -> Vec<Use> {
    let used = |region: &Region, writes: bool| {
        let buffer = &lowered.placed.buffers[region.buf];
        let memory = buffer.places[region.rank]?;
        let size = buffer.dtype.size() as u64;
        let start = memory.offset + region.start * size;
        let end = start + region.len * size;
        (start < end).then_some(Use { alloc: memory.alloc, start, end, writes, region: *region })
    };
    let reads = op.reads().iter().filter_map(|region| used(region, false));
    reads.chain(op.writes().iter().filter_map(|region| used(region, true))).collect()
}
