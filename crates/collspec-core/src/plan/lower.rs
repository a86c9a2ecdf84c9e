//! Turns items into calls: every operation gets its memory, and becomes a call with pointers and NCCL's counts.
use super::deaths::Deaths;
use super::eval::ranks;
use super::item::{BufferSlice, Item, ItemKind, Open, Phase, Program};
use super::place::PlacedBuffers;
use super::rank_op::{Placed, RankCollective, RankMap, RankMessage, RankOp, Size};
use super::registration::Registrations;
use super::types::{BufId, Buffer, CommId, RankCall, Region, StepId};
use crate::job::{Call, CallKind, Ptr, Red};
use crate::num::DType;
use crate::ops::BROADCAST;
use crate::scenario::{Diagnostic, Span, dedupe};
use call::{Pointers, call_of};
use nccl_sys::ncclResult_t;
use rustc_hash::FxHashMap;
use std::collections::HashMap;
use std::sync::Arc;

mod call;
mod collective;
mod memory;
mod one_sided;
mod registration;

/// The program as calls, with their operations.
#[derive(Debug)]
pub struct LoweredProgram {
    pub unrolled: Program,
    pub placed: PlacedBuffers,
    pub programs: Vec<Vec<Call>>,
    /// For each call of each rank: its operation on data, unless it fails.
    pub ops: Vec<Vec<Option<RankOp<Placed>>>>,
    /// For each call: the index of the outermost `GroupEnd` that it is inside of, or its own.
    pub ends: Vec<Vec<u32>>,
    pub registrations: Registrations,
    /// For each rank and graph: the call that begins the capture.
    pub captures: FxHashMap<(usize, u32), usize>,
    /// For each captured call: the call that the first launch of its graph makes of it, on the same rank.
    pub captured: FxHashMap<Index, usize>,
    /// The operations lost with ranks whose processes end.
    pub deaths: Deaths,
    pub constants: Vec<(BufId, usize, Vec<u8>)>,
    pub undefined: Option<String>,
}

/// A call: its rank, and its index in the rank's program.
pub type Index = (usize, usize);

impl LoweredProgram {
    /// The operation of a call.
    pub fn op(&self, (rank, call): Index) -> Option<&RankOp<Placed>> {
        self.ops[rank][call].as_ref()
    }

    /// The operation that a call executes or captures.
    pub fn given_op(&self, at: Index) -> Option<&RankOp<Placed>> {
        self.op((at.0, self.captured.get(&at).copied().unwrap_or(at.1)))
    }

    /// The call at which the library receives this one: for a call made by a launch, the beginning of its graph's capture.
    pub fn given_at(&self, (rank, call): Index) -> Index {
        let program = &self.programs[rank];
        let CallKind::Replayed { launch, .. } = program[call].kind else { return (rank, call) };
        let begins = match program.get(launch as usize).map(|call| &call.kind) {
            Some(CallKind::Launch { graph, .. }) => self.captures.get(&(rank, *graph)),
            _ => None,
        };
        (rank, begins.copied().unwrap_or(call))
    }

    pub fn step(&self, (rank, call): Index) -> StepId {
        self.programs[rank][call].step
    }

    /// True if the step leaves this rank's call in progress: the operation may begin and take effect at any time until its
    /// communicator is aborted.
    pub fn leaves_in_progress(&self, rank: usize, step: StepId) -> bool {
        let errors = &self.unrolled.steps[step as usize].error;
        errors.contains(&(rank, Some(ncclResult_t::InProgress)))
    }

    /// The place of a call's factor in device memory, if it is there.
    pub fn factor_in_device_memory(&self, (rank, call): Index) -> Option<Region> {
        let CallKind::Collective { red: Red::PreMulSum { device: Some(Ptr::At { alloc, .. }), .. }, .. } =
            self.programs[rank][call].kind
        else {
            return None;
        };
        let lies_there = |buffer: &Buffer| buffer.places[rank].is_some_and(|place| place.alloc == alloc as usize);
        let buf = self.placed.buffers.iter().position(lies_there)?;
        Some(Region { buf, rank, start: 0, len: 1 })
    }

    /// A call's operation in the form in which events store it.
    pub fn rank_call<T>(&self, at: Index, op: T) -> RankCall<T> {
        RankCall { op, step: self.step(at), after: self.ends[at.0][at.1] }
    }
}

/// An operation, and the pointers that its call passes.
struct LoweredOp {
    op: RankOp<Placed>,
    pointers: Pointers,
    /// False if the call fails, or refers to a rank that its communicator lacks.
    takes_effect: bool,
}

struct Lowering {
    lowered: LoweredProgram,
    /// Buffers of factors in device memory.
    factors: HashMap<(DType, u64), BufId>,
    scrap: Vec<Option<u32>>,
    /// Inputs whose memory an in-place call has taken.
    taken: FxHashMap<(BufId, usize), Span>,
    /// For each rank: the indices of the open `GroupStart`s.
    open_groups: Vec<Vec<usize>>,
    /// The time at which the current item takes effect.
    phase: Phase,
    /// For each rank and captured item: its first call and its stream, until a launch determines the calls.
    captured: Vec<FxHashMap<usize, (usize, u32)>>,
    /// For each rank: the latest launch.
    launches: Vec<u32>,
    lenient: bool,
    one_sided: one_sided::OneSidedComms,
    /// The registrations requested by the key `register`.
    wanted: registration::Wanted,
    /// Communicators that can only be ended.
    broken: registration::Broken,
}

/// Makes the calls.
///
/// # Errors
///
/// Memory that a rank does not have, slices outside their buffer, and inputs and outputs that overlap.
pub fn lower(unrolled: Program, placed: PlacedBuffers) -> Result<LoweredProgram, Vec<Diagnostic>> {
    let n = unrolled.n;
    let lenient = unrolled.lenient();
    let lowered = LoweredProgram {
        programs: vec![Vec::new(); n],
        ops: vec![Vec::new(); n],
        ends: vec![Vec::new(); n],
        registrations: Registrations::new(n),
        captures: FxHashMap::default(),
        captured: FxHashMap::default(),
        deaths: Deaths::default(),
        constants: Vec::new(),
        undefined: None,
        unrolled,
        placed,
    };
    let mut lowering = Lowering {
        lowered,
        factors: HashMap::new(),
        scrap: vec![None; n],
        taken: FxHashMap::default(),
        open_groups: vec![Vec::new(); n],
        phase: Phase::Eager,
        captured: vec![FxHashMap::default(); n],
        launches: vec![0; n],
        lenient,
        one_sided: one_sided::OneSidedComms::default(),
        wanted: registration::Wanted::default(),
        broken: registration::Broken::default(),
    };
    for (buf, buffer) in lowering.lowered.placed.buffers.iter().enumerate() {
        if buffer.name == super::place::BARRIER_IN {
            let ones = (0..n).map(|r| (buf, r, 1f32.to_le_bytes().to_vec()));
            lowering.lowered.constants.extend(ones);
        }
    }
    let order = std::mem::take(&mut lowering.lowered.unrolled.order);
    let items = std::mem::take(&mut lowering.lowered.unrolled.items);
    lowering.find_one_sided(&items);
    lowering.find_wanted(&items).map_err(|diagnostic| vec![diagnostic])?;
    let mut items: Vec<Vec<Option<Item>>> =
        items.into_iter().map(|list| list.into_iter().map(Some).collect()).collect();
    let mut diags = Vec::new();
    for (rank, index) in order {
        let Some(item) = items[rank][index].take() else { continue };
        diags.extend(lowering.item((rank, index), item).err());
    }
    if diags.is_empty() { Ok(lowering.lowered) } else { Err(dedupe(diags)) }
}

impl Lowering {
    fn push(&mut self, rank: usize, step: StepId, tolerate: bool, kind: CallKind, op: Option<RankOp<Placed>>) {
        let lowered = &mut self.lowered;
        let index = lowered.programs[rank].len();
        // A rank whose process ends while others continue makes no further call.
        if let Some(CallKind::Exit { death: Some(_), .. }) = lowered.programs[rank].last().map(|call| &call.kind) {
            return;
        }
        match kind {
            // Captured calls have no effect that a group could delay.
            _ if matches!(self.phase, Phase::Captured(_)) => {}
            CallKind::GroupStart => self.open_groups[rank].push(index),
            CallKind::GroupEnd => {
                let start = self.open_groups[rank].pop();
                if let (Some(start), true) = (start, self.open_groups[rank].is_empty()) {
                    lowered.ends[rank][start..].fill(index as u32);
                }
            }
            _ => {}
        }
        lowered.ends[rank].push(index as u32);
        self.broken.follow(rank, &kind);
        match kind {
            CallKind::Launch { .. } => self.launches[rank] = index as u32,
            CallKind::BeginCapture { graph, .. } => _ = lowered.captures.insert((rank, graph), index),
            _ => {}
        }
        let kind = match self.phase {
            Phase::Eager => kind,
            Phase::Captured(graph) => CallKind::Captured { graph, call: Box::new(kind) },
            Phase::Replayed(_) => CallKind::Replayed { launch: self.launches[rank], call: Box::new(kind) },
        };
        let left_in_progress = lowered.leaves_in_progress(rank, step);
        lowered.programs[rank].push(Call { step, tolerate, left_in_progress, kind });
        lowered.ops[rank].push(op);
    }

    fn push_op(&mut self, rank: usize, step: StepId, tolerate: bool, lowered: LoweredOp) {
        let LoweredOp { op, pointers, takes_effect } = lowered;
        let call = call_of(&op, &pointers, &self.lowered.placed.buffers);
        self.push(rank, step, tolerate, call, takes_effect.then_some(op));
    }

    fn item(&mut self, at: (usize, usize), item: Item) -> Result<(), Diagnostic> {
        let (rank, step) = (at.0, item.step);
        let tolerate = item.fails || self.tolerated(step, rank);
        let first = self.lowered.programs[rank].len();
        self.phase = item.phase;
        match item.kind {
            ItemKind::Captured { calls, stream } => {
                self.captured[rank].insert(at.1, (first, stream));
                for _ in 0..calls {
                    self.push(rank, step, tolerate, CallKind::GroupStart, None);
                }
                return Ok(());
            }
            ItemKind::Call(kind) => self.push(rank, step, tolerate, kind, None),
            ItemKind::Declare { .. } => {}
            ItemKind::RegistrationPoint(point) => self.registration_point(rank, step, point),
            ItemKind::Register { comm, memory, how } => self.register(rank, &item, (comm, memory, how))?,
            ItemKind::Deregister { comm, memory } => self.deregister(rank, &item, (comm, memory))?,
            ItemKind::Op(ref op) => {
                let lowered = self.op(at, &item, op)?;
                // The host computes a map, and a map without a value ends the rank.
                let tolerate = tolerate && !matches!(op, RankOp::Map(_));
                self.push_op(rank, step, tolerate, lowered);
            }
            ItemKind::AllGatherV { comm, rank, input, ref pieces, output, stream } => {
                self.all_gather_v(at, &item, (comm, rank), (input, pieces, output), stream)?;
            }
        }
        if let Phase::Replayed(Some(captured)) = item.phase {
            self.say_captured(rank, captured, first);
        }
        Ok(())
    }

    /// Sets the calls of a captured item: those of its first launch, from `first` on, on the stream that is captured.
    fn say_captured(&mut self, rank: usize, captured: usize, first: usize) {
        let Some((at, stream)) = self.captured[rank].remove(&captured) else { return };
        let program = &mut self.lowered.programs[rank];
        let calls: Vec<CallKind> = program[first..].iter().map(|call| call.kind.effect().clone()).collect();
        self.lowered.captured.extend((0..calls.len()).map(|number| ((rank, at + number), first + number)));
        for (place, kind) in program[at..].iter_mut().zip(calls) {
            if let CallKind::Captured { call, .. } = &mut place.kind {
                **call = kind;
                call.set_stream(stream);
            }
        }
    }

    /// True if the step says that this rank's call fails, or is left in progress.
    fn tolerated(&self, step: StepId, rank: usize) -> bool {
        let errors = &self.lowered.unrolled.steps[step as usize].error;
        errors.iter().any(|(own, code)| *own == rank && *code != Some(ncclResult_t::Success))
    }

    /// Gives a rank's operation its memory.
    fn op(&mut self, at: (usize, usize), item: &Item, op: &RankOp<Open>) -> Result<LoweredOp, Diagnostic> {
        match op {
            RankOp::Collective(c) => self.collective(at, item, c),
            RankOp::Send(message) => {
                let region = self.region(&message.memory, at.0, true)?;
                Ok(self.message(message, region, item.fails, RankOp::Send))
            }
            RankOp::Recv(message) => {
                let region = self.output(at, &message.memory)?;
                Ok(self.message(message, region, item.fails, RankOp::Recv))
            }
            RankOp::Map(map) => self.map(at, map),
            RankOp::OneSided(one_sided) => self.one_sided(at, item, one_sided),
        }
    }

    fn message(
        &mut self,
        open: &RankMessage<Open>,
        memory: Region,
        fails: bool,
        side: impl FnOnce(RankMessage<Placed>) -> RankOp<Placed>,
    ) -> LoweredOp {
        let ptr = if open.null_pointers && (fails || memory.len == 0) { Ptr::Null } else { self.ptr(&memory) };
        let n = self.lowered.unrolled.comms.list[open.comm].members.len();
        let inside = usize::try_from(open.peer.value).is_ok_and(|peer| peer < n);
        if !inside && !fails {
            let text = || format!("peer {} is not in the communicator of {}", open.peer.value, ranks(n));
            self.lowered.undefined.get_or_insert_with(text);
        }
        let op = side(RankMessage {
            comm: open.comm,
            rank: open.rank,
            peer: narrow(open.peer.value),
            memory,
            size: Size { count: memory.len, dtype: self.dtype(memory.buf) },
            null_pointers: open.null_pointers,
            stream: open.stream,
        });
        LoweredOp { op, pointers: Pointers::new(ptr, ptr), takes_effect: inside && !fails }
    }

    fn map(&mut self, at: (usize, usize), open: &RankMap<Open>) -> Result<LoweredOp, Diagnostic> {
        let reads = open.reads.iter().map(|read| self.region(read, at.0, true)).collect::<Result<Vec<_>, _>>()?;
        let out = self.output(at, &open.out)?;
        let pointers = Pointers {
            reads: reads.iter().map(|region| self.ptr(region)).collect(),
            write: self.ptr(&out),
            factor: None,
            destroyed_operator: false,
            window: None,
        };
        let map = RankMap::<Placed> {
            expr: open.expr.clone(),
            names: open.names.clone(),
            reads,
            size: Size { count: out.len, dtype: self.dtype(out.buf) },
            out,
            stream: open.stream,
        };
        Ok(LoweredOp { op: RankOp::Map(Arc::new(map)), pointers, takes_effect: true })
    }

    /// A group of broadcasts, one from each member.
    fn all_gather_v(
        &mut self,
        at: (usize, usize),
        item: &Item,
        (comm, rank): (CommId, usize),
        (input, pieces, output): (BufferSlice, &[BufferSlice], BufferSlice),
        stream: u32,
    ) -> Result<(), Diagnostic> {
        let own = self.region(&input, at.0, true)?;
        let all = self.output(at, &output)?;
        let dtype = self.dtype(output.buf);
        let members = self.lowered.unrolled.comms.list[comm].members.clone();
        let (step, fails) = (item.step, item.fails);
        self.push(at.0, step, fails, CallKind::GroupStart, None);
        let mut start = all.start;
        for (root, world) in members.iter().enumerate() {
            let piece = pieces.get(root).unwrap_or(&input);
            let count = match piece.end {
                Some(end) => end - piece.start,
                None => {
                    let place = self.lowered.placed.buffers[piece.buf].places[*world];
                    place.map_or(0, |p| p.count.saturating_sub(piece.start))
                }
            };
            let to = Region { start, len: count, ..all };
            start += count;
            let send = (root == rank).then_some(own);
            let pointers = Pointers::new(self.ptr(&send.unwrap_or(to)), self.ptr(&to));
            let op = RankCollective::<Placed> {
                op: &BROADCAST,
                comm,
                rank,
                send,
                recv: Some(to),
                size: Size { count, dtype },
                reduction: None,
                root: root as i32,
                in_place: false,
                null_pointers: false,
                algorithm: None,
                stream,
            };
            let op = RankOp::Collective(Arc::new(op));
            self.push_op(at.0, step, fails, LoweredOp { op, pointers, takes_effect: !fails });
        }
        self.push(at.0, step, fails, CallKind::GroupEnd, None);
        Ok(())
    }
}

/// A rank in the form that NCCL receives; one outside every communicator stays so.
fn narrow(v: i128) -> i32 {
    i32::try_from(v).unwrap_or(if v < 0 { i32::MIN } else { i32::MAX })
}
