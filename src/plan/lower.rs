//! Items to calls: pointers, NCCL's counts, and beside each call what it means to memory.
use super::eval::{elements, ranks};
use super::item::{BufferSlice, Coll, Item, ItemKind, MapItem, Program, Red, Scalar, ScalarNumber};
use super::place::{Placed, has};
use super::resolve::{dedupe, shown};
use super::types::{Alloc, BufId, Buffer, CommId, Place, Region, StepId};
use crate::expr::map::value_bits;
use crate::expr::{Expr, Value};
use crate::job::{Call, MapRead, Ptr, Red as JobRed, What};
use crate::num::{self, DType};
use crate::ops::{BROADCAST, Collective, Extent, InPlace};
use crate::scenario::{Diagnostic, Span, fit_dtype};
use std::collections::HashMap;
use std::sync::Arc;

/// The program as calls, and what they mean.
#[derive(Debug)]
pub struct LoweredProgram {
    pub p: Program,
    pub placed: Placed,
    pub programs: Vec<Vec<Call>>,
    /// Beside each call; `None` for calls that mean nothing to memory.
    pub sems: Vec<Vec<Option<MemoryEffect>>>,
    /// By call: the index of the outermost `GroupEnd` it is inside of, or its own.
    pub ends: Vec<Vec<u32>>,
    pub constants: Vec<(BufId, usize, Vec<u8>)>,
    pub undefined: Option<String>,
}

/// What a call means.
#[derive(Clone, Debug)]
pub enum MemoryEffect {
    Collective(Box<SemColl>),
    Post { comm: CommId, me: usize, peer: usize, from: Region, dtype: DType, stream: u32 },
    Land { comm: CommId, me: usize, peer: usize, to: Region, dtype: DType, stream: u32 },
    Map { expr: Arc<Expr>, names: Arc<Vec<(String, Value)>>, reads: Vec<(String, Region)>, out: Region, stream: u32 },
}

/// One rank's part of a collective.
#[derive(Clone, Debug)]
pub struct SemColl {
    pub op: &'static Collective,
    pub comm: CommId,
    pub me: usize,
    pub k: u64,
    pub dtype: DType,
    pub red: Option<SemRed>,
    pub root: usize,
    pub send: Option<Region>,
    pub recv: Option<Region>,
    pub stream: u32,
}

/// A reduction, scalar rounded to the type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SemRed {
    Builtin(nccl_sys::ncclRedOp_t),
    PreMulSum(u64),
}

struct Lower {
    low: LoweredProgram,
    scalars: HashMap<(DType, u64), BufId>,
    scrap: Vec<Option<u32>>,
    /// Inputs whose memory an in-place call has taken.
    taken: HashMap<(BufId, usize), Span>,
    open: Vec<Vec<usize>>,
    lenient: bool,
}

/// Makes the calls.
pub fn lower(p: Program, placed: Placed) -> Result<LoweredProgram, Vec<Diagnostic>> {
    let n = p.n;
    let lenient = p.lenient();
    let empty = LoweredProgram {
        programs: vec![Vec::new(); n],
        sems: vec![Vec::new(); n],
        ends: vec![Vec::new(); n],
        constants: Vec::new(),
        undefined: None,
        p,
        placed,
    };
    let mut l = Lower {
        low: empty,
        scalars: HashMap::new(),
        scrap: vec![None; n],
        taken: HashMap::new(),
        open: vec![Vec::new(); n],
        lenient,
    };
    for (buf, buffer) in l.low.placed.buffers.iter().enumerate() {
        if buffer.name == super::place::BARRIER_IN {
            let ones = (0..n).map(|r| (buf, r, 1f32.to_le_bytes().to_vec()));
            l.low.constants.extend(ones);
        }
    }
    let order = std::mem::take(&mut l.low.p.order);
    let mut items: Vec<Vec<Option<Item>>> =
        std::mem::take(&mut l.low.p.items).into_iter().map(|list| list.into_iter().map(Some).collect()).collect();
    let mut diags = Vec::new();
    for (rank, index) in order {
        let Some(item) = items[rank][index].take() else { continue };
        diags.extend(l.item((rank, index), item).err());
    }
    if diags.is_empty() { Ok(l.low) } else { Err(dedupe(diags)) }
}

impl Lower {
    fn push(&mut self, rank: usize, step: StepId, tolerate: bool, what: What, sem: Option<MemoryEffect>) {
        let index = self.low.programs[rank].len();
        match what {
            What::GroupStart => self.open[rank].push(index),
            What::GroupEnd => {
                let start = self.open[rank].pop();
                if let (Some(start), true) = (start, self.open[rank].is_empty()) {
                    self.low.ends[rank][start..].fill(index as u32);
                }
            }
            _ => {}
        }
        self.low.ends[rank].push(index as u32);
        self.low.programs[rank].push(Call { step, tolerate, what });
        self.low.sems[rank].push(sem);
    }

    fn name(&self, buf: BufId) -> String {
        shown(&self.low.placed.buffers[buf].name)
    }

    fn dtype(&self, buf: BufId) -> DType {
        self.low.placed.buffers[buf].dtype
    }

    /// The part of a buffer that a rank reads or writes.
    fn region(&self, sel: &BufferSlice, rank: usize, reads: bool) -> Result<Region, Diagnostic> {
        let buffer = &self.low.placed.buffers[sel.buf];
        let Some(place) = buffer.places[rank] else {
            let text = if has(&self.low.p, sel.buf, rank) {
                format!(
                    "{} is {} on rank {rank}, where nobody has written it",
                    self.name(sel.buf),
                    if reads { "read" } else { "used" }
                )
            } else {
                format!("rank {rank} has no {}", self.name(sel.buf))
            };
            return Err(Diagnostic::new(sel.span, text).related(buffer.span, "first named here"));
        };
        if let (true, Some(by)) = (reads, self.taken.get(&(sel.buf, rank))) {
            let text = format!("{} has given its memory to an in-place step on rank {rank}", self.name(sel.buf));
            return Err(Diagnostic::new(sel.span, text).related(*by, "here").help("read that step's `out` instead"));
        }
        let end = sel.end.unwrap_or(place.count);
        if end > place.count || sel.start > end {
            let text = format!(
                "the slice [{}:{end}] is not inside {}, which has {} on rank {rank}",
                sel.start,
                self.name(sel.buf),
                elements(place.count)
            );
            return Err(Diagnostic::new(sel.span, text));
        }
        Ok(Region { buf: sel.buf, rank, start: sel.start, len: end - sel.start })
    }

    /// What an item writes: a slice that leaves its end open is as long as what comes.
    fn output(&self, at: (usize, usize), sel: &BufferSlice) -> Result<Region, Diagnostic> {
        let mut region = self.region(sel, at.0, false)?;
        if let (None, Some(len)) = (sel.end, self.low.placed.sizes.lens.get(&at)) {
            region.len = region.len.min(*len);
        }
        Ok(region)
    }

    fn ptr(&self, region: &Region) -> Ptr {
        let buffer = &self.low.placed.buffers[region.buf];
        match buffer.places[region.rank] {
            Some(place) => {
                Ptr::At { alloc: place.alloc as u32, byte: place.offset + region.start * buffer.dtype.size() as u64 }
            }
            None => Ptr::Null,
        }
    }

    /// Memory that nobody may look at.
    fn scrap(&mut self, rank: usize) -> Ptr {
        let alloc = *self.scrap[rank].get_or_insert_with(|| {
            self.low.placed.allocs.push(Alloc { rank, lead: 0, payload: 256, label: "#scrap".to_owned(), scrap: true });
            (self.low.placed.allocs.len() - 1) as u32
        });
        Ptr::At { alloc, byte: 0 }
    }

    /// Device memory for a scalar: the place that NCCL reads, which gets its value in stream order, and the place it is copied from.
    fn scalar(&mut self, rank: usize, dtype: DType, bits: u64, bytes: &[u8]) -> Ptr {
        let n = self.low.p.n;
        let buffers = &mut self.low.placed.buffers;
        let buf = *self.scalars.entry((dtype, bits)).or_insert_with(|| {
            let name = format!("#scalar{}", buffers.len());
            buffers.push(Buffer { name, dtype, span: Span::default(), places: vec![None; n], input: None });
            buffers.len() - 1
        });
        let place = match buffers[buf].places[rank] {
            Some(place) => place,
            None => {
                let alloc = self.low.placed.allocs.len();
                self.low.placed.allocs.push(Alloc {
                    rank,
                    lead: 0,
                    payload: 2 * bytes.len() as u64,
                    label: buffers[buf].name.clone(),
                    scrap: false,
                });
                let place = Place { alloc, offset: 0, count: 2 };
                buffers[buf].places[rank] = Some(place);
                self.low.constants.push((buf, rank, bytes.repeat(2)));
                place
            }
        };
        Ptr::At { alloc: place.alloc as u32, byte: 0 }
    }

    fn item(&mut self, at: (usize, usize), item: Item) -> Result<(), Diagnostic> {
        let (rank, step, fails) = (at.0, item.step, item.fails);
        let tolerate = fails || self.tolerated(step, rank);
        match item.kind {
            ItemKind::Call(what) => self.push(rank, step, tolerate, what, None),
            ItemKind::Declare { .. } => {}
            ItemKind::Collective(ref c) => self.collective(at, &item, c, tolerate)?,
            ItemKind::AllGatherV { comm, me, input, ref pieces, output, stream } => {
                self.all_gather_v(at, &item, (comm, me), (input, pieces, output), stream)?;
            }
            ItemKind::Send { comm, me, peer, input, nulls, stream } => {
                let from = self.region(&input, rank, true)?;
                let dtype = self.dtype(input.buf);
                let ptr = if nulls && from.len == 0 { Ptr::Null } else { self.ptr(&from) };
                let what = What::Send { ptr, count: from.len, dtype, peer: narrow(peer), comm: comm as u32, stream };
                let sem =
                    self.peer(comm, peer, fails).map(|peer| MemoryEffect::Post { comm, me, peer, from, dtype, stream });
                self.push(rank, step, tolerate, what, sem);
            }
            ItemKind::Recv { comm, me, peer, output, nulls, stream, .. } => {
                let to = self.output(at, &output)?;
                let dtype = self.dtype(output.buf);
                let ptr = if nulls && to.len == 0 { Ptr::Null } else { self.ptr(&to) };
                let what = What::Recv { ptr, count: to.len, dtype, peer: narrow(peer), comm: comm as u32, stream };
                let sem =
                    self.peer(comm, peer, fails).map(|peer| MemoryEffect::Land { comm, me, peer, to, dtype, stream });
                self.push(rank, step, tolerate, what, sem);
            }
            ItemKind::Map(ref map) => self.map(at, &item, map)?,
        }
        Ok(())
    }

    fn tolerated(&self, step: StepId, rank: usize) -> bool {
        self.low.p.steps[step as usize].error.iter().any(|(r, _)| *r == rank)
    }

    fn peer(&mut self, comm: CommId, peer: i128, fails: bool) -> Option<usize> {
        let n = self.low.p.comms.list[comm].members.len();
        let inside = usize::try_from(peer).ok().filter(|p| *p < n);
        if inside.is_none() && !fails {
            self.low.undefined.get_or_insert_with(|| format!("peer {peer} is not in the communicator of {}", ranks(n)));
        }
        inside.filter(|_| !fails)
    }

    fn map(&mut self, at: (usize, usize), item: &Item, map: &MapItem) -> Result<(), Diagnostic> {
        let rank = at.0;
        let mut reads = Vec::new();
        let mut job = Vec::new();
        for buf in &map.reads {
            let sel = BufferSlice { buf: *buf, start: 0, end: None, sliced: false, span: item.span };
            let region = self.region(&sel, rank, true)?;
            let name = self.low.placed.buffers[*buf].name.clone();
            job.push(MapRead {
                name: name.clone(),
                ptr: self.ptr(&region),
                count: region.len,
                dtype: self.dtype(*buf),
            });
            reads.push((name, region));
        }
        let out = self.output(at, &map.output)?;
        let dtype = self.dtype(map.output.buf);
        let what = What::Map {
            expr: (*map.expr).clone(),
            names: map.names.to_vec(),
            reads: job,
            out: self.ptr(&out),
            count: out.len,
            dtype,
            stream: map.stream,
        };
        let sem =
            MemoryEffect::Map { expr: map.expr.clone(), names: map.names.clone(), reads, out, stream: map.stream };
        self.push(rank, item.step, false, what, Some(sem));
        Ok(())
    }

    fn all_gather_v(
        &mut self,
        at: (usize, usize),
        item: &Item,
        (comm, me): (CommId, usize),
        (input, pieces, output): (BufferSlice, &[BufferSlice], BufferSlice),
        stream: u32,
    ) -> Result<(), Diagnostic> {
        let rank = at.0;
        let op = &BROADCAST;
        let own = self.region(&input, rank, true)?;
        let all = self.output(at, &output)?;
        let dtype = self.dtype(output.buf);
        let members = self.low.p.comms.list[comm].members.clone();
        let (step, fails) = (item.step, item.fails);
        self.push(rank, step, fails, What::GroupStart, None);
        let mut start = all.start;
        for (root, world) in members.iter().enumerate() {
            let piece = pieces.get(root).unwrap_or(&input);
            let k = match piece.end {
                Some(end) => end - piece.start,
                None => {
                    self.low.placed.buffers[piece.buf].places[*world].map_or(0, |p| p.count.saturating_sub(piece.start))
                }
            };
            let to = Region { start, len: k, ..all };
            start += k;
            let send = (root == me).then_some(own);
            let ptr = self.ptr(&send.unwrap_or(to));
            let what = What::Collective {
                call: op.call,
                send: ptr,
                recv: self.ptr(&to),
                count: k,
                dtype,
                red: JobRed::None,
                root: root as i32,
                comm: comm as u32,
                stream,
            };
            let sem = SemColl { op, comm, me, k, dtype, red: None, root, send, recv: Some(to), stream };
            self.push(rank, step, fails, what, (!fails).then(|| MemoryEffect::Collective(Box::new(sem))));
        }
        self.push(rank, step, fails, What::GroupEnd, None);
        Ok(())
    }

    fn collective(&mut self, here: (usize, usize), item: &Item, c: &Coll, tolerate: bool) -> Result<(), Diagnostic> {
        let rank = here.0;
        let n = self.low.p.comms.list[c.comm].members.len();
        let root = usize::try_from(c.root).ok().filter(|r| *r < n);
        if root.is_none() && !item.fails {
            let text = format!("root {} is not in the communicator of {}", c.root, ranks(n));
            if !self.lenient {
                return Err(Diagnostic::new(c.root_span, text).help(format!("ranks count from 0 to {}", n - 1)));
            }
            self.low.undefined.get_or_insert(text);
        }
        let at = root.unwrap_or(usize::MAX);
        let (reads, writes) = (c.op.readers.includes(c.me, at), c.op.writers.includes(c.me, at));
        let has = |l: &Self, sel: &Option<BufferSlice>| {
            sel.as_ref().is_some_and(|s| l.low.placed.buffers[s.buf].places[rank].is_some())
        };
        let send = match &c.input {
            Some(sel) if reads || has(self, &c.input) => Some(self.region(sel, rank, reads)?),
            _ => None,
        };
        let recv = match &c.output {
            Some(sel) if writes || has(self, &c.output) => Some(self.output(here, sel)?),
            _ => None,
        };
        let Some(known) = c.input.as_ref().or(c.output.as_ref()) else {
            return Err(Diagnostic::new(item.span, "this step needs `in`"));
        };
        let dtype = self.dtype(c.output.as_ref().map_or(known.buf, |o| o.buf));
        let k = self.nccl_count(c, send.filter(|_| reads), recv, n);
        if c.in_place {
            self.take(c, rank, item.span);
        }
        self.overlap(c, item.span, send, recv, (reads, writes), k)?;
        let (red, sem_red) = self.reduction(c, rank, dtype)?;
        let pointer = |l: &mut Self, region: Option<Region>, used: bool| match region {
            _ if c.nulls && (!used || k == 0) => Ptr::Null,
            Some(region) => l.ptr(&region),
            None => l.scrap(rank),
        };
        let send_ptr = if c.in_place && !reads && c.op.in_place == InPlace::Same {
            pointer(self, recv, false) // in place every rank names one buffer
        } else {
            pointer(self, send, reads)
        };
        let recv_ptr = pointer(self, recv, writes);
        let what = What::Collective {
            call: c.op.call,
            send: send_ptr,
            recv: recv_ptr,
            count: k,
            dtype,
            red,
            root: narrow(c.root),
            comm: c.comm as u32,
            stream: c.stream,
        };
        let sem = root.filter(|_| !item.fails).map(|root| {
            let (send, recv) = (send.filter(|_| reads), recv.filter(|_| writes));
            MemoryEffect::Collective(Box::new(SemColl {
                op: c.op,
                comm: c.comm,
                me: c.me,
                k,
                dtype,
                red: sem_red,
                root,
                send,
                recv,
                stream: c.stream,
            }))
        });
        self.push(rank, item.step, tolerate, what, sem);
        Ok(())
    }

    /// NCCL's count argument, from whichever side the rank has.
    fn nccl_count(&self, c: &Coll, send: Option<Region>, recv: Option<Region>, n: usize) -> u64 {
        let per = |extent: Extent, len: u64| if extent == Extent::PerRank { len / n as u64 } else { len };
        match (send, recv) {
            (Some(r), _) => per(c.op.send, r.len),
            (None, Some(r)) => per(c.op.recv, r.len),
            (None, None) => 0,
        }
    }

    /// In place, `in` and `out` under different names: the input is gone afterwards.
    fn take(&mut self, c: &Coll, rank: usize, span: Span) {
        let (Some(i), Some(o)) = (&c.input, &c.output) else { return };
        let place = |s: &BufferSlice| self.low.placed.buffers[s.buf].places[rank].map(|p| p.alloc);
        if i.buf != o.buf && place(i).is_some() && place(i) == place(o) {
            self.taken.insert((i.buf, rank), span);
        }
    }

    /// Send and receive side may share memory only as NCCL documents it.
    fn overlap(
        &self,
        c: &Coll,
        span: Span,
        send: Option<Region>,
        recv: Option<Region>,
        used: (bool, bool),
        k: u64,
    ) -> Result<(), Diagnostic> {
        let (Some(s), Some(r), (true, true)) = (send, recv, used) else { return Ok(()) };
        let place = |region: Region| {
            let buffer = &self.low.placed.buffers[region.buf];
            let size = buffer.dtype.size() as u64;
            buffer.places[region.rank].map(|p| (p.alloc, p.offset + region.start * size, region.len * size, size))
        };
        let (Some((sa, s0, sl, size)), Some((ra, r0, rl, _))) = (place(s), place(r)) else { return Ok(()) };
        if sa != ra || sl == 0 || rl == 0 || s0 >= r0 + rl || r0 >= s0 + sl {
            return Ok(());
        }
        let block = c.me as u64 * k * size;
        let fine = match c.op.in_place {
            InPlace::Same => s0 == r0,
            InPlace::SendInRecv => s0 == r0 + block,
            InPlace::RecvInSend => r0 == s0 + block,
            InPlace::Never => false,
        };
        if fine {
            return Ok(());
        }
        let text = format!("`in` and `out` overlap on rank {}, and not as this operation runs in place", s.rank);
        Err(Diagnostic::new(span, text).help("let `out` be a buffer of its own"))
    }

    fn reduction(&mut self, c: &Coll, rank: usize, dtype: DType) -> Result<(JobRed, Option<SemRed>), Diagnostic> {
        Ok(match &c.red {
            None => (JobRed::None, None),
            Some(Red::Builtin(op)) => (JobRed::Builtin(op.0), Some(SemRed::Builtin(*op))),
            Some(Red::PreMulSum { scalar, device }) => {
                let bits = scalar_bits(scalar, dtype)
                    .map_err(|why| Diagnostic::new(scalar.span, format!("the factor of rank {}: {why}", c.me)))?;
                let mut bytes = vec![0; dtype.size()];
                num::put_element(dtype, &mut bytes, 0, bits);
                let device = device.then(|| self.scalar(rank, dtype, bits, &bytes));
                (JobRed::PreMulSum { scalar: bytes, device }, Some(SemRed::PreMulSum(bits)))
            }
        })
    }
}

/// A factor in the type: a written number as elements are, a computed one wrapped or rounded.
fn scalar_bits(scalar: &Scalar, dtype: DType) -> Result<u64, String> {
    match scalar.number {
        ScalarNumber::Written(value) => fit_dtype(value, dtype).map(|value| num::element_bits(dtype, &value)),
        ScalarNumber::Computed { real, .. } if dtype.is_float() => value_bits(dtype, real).map_err(|e| e.to_string()),
        ScalarNumber::Computed { whole, .. } => {
            let value = whole.ok_or("it has no value in whole numbers")?;
            value_bits(dtype, value).map_err(|e| e.to_string())
        }
    }
}

fn narrow(v: i128) -> i32 {
    i32::try_from(v).unwrap_or(if v < 0 { i32::MIN } else { i32::MAX })
}
