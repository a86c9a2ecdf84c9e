//! What a suite runs of a case, and how it judges what came of it.
use super::{Call, Peer, Sight, Spot, Suite};
use crate::job::{Ended, Observation};
use crate::job::{Ptr, Red, What};
use crate::num::{DType, get, put};
use crate::ops::{Collective, Kind, Op, Rule, TABLE};
use crate::plan::{Event, GUARD, Plan, Reduction, Region, Write};
use std::collections::HashMap;

/// Bytes that are compared afterwards.
struct Look {
    event: usize,
    rank: usize,
    alloc: usize,
    /// Byte of the image.
    at: usize,
    want: Vec<u8>,
}

/// What a suite puts into a planned case and looks at afterwards.
pub struct PeerCheck {
    suite: &'static dyn Suite,
    op: Option<&'static Op>,
    looks: Vec<Look>,
}

impl PeerCheck {
    /// Of a plan that the suite has made; also the images of its allocations beforehand.
    pub fn new(peer: Peer, plan: &Plan) -> (Self, Vec<Vec<u8>>) {
        let suite = peer.suite();
        // the calls of a group that make up one operation
        let op = match plan.case.steps.as_slice() {
            [step] if matches!(step.op.kind, Kind::Composite(_) | Kind::SendRecv) => Some(step.op),
            _ => None,
        };
        let mut filling = Filling::new(plan, suite, op);
        filling.events();
        let Filling { payloads, looks, .. } = filling;
        let images = plan.allocs.iter().zip(payloads).map(|(alloc, payload)| {
            let mut image = vec![suite.blank(); alloc.start() as usize];
            image.extend_from_slice(&payload);
            image.resize(image.len() + GUARD as usize, suite.blank());
            image
        });
        (Self { suite, op, looks }, images.collect())
    }

    /// What the suite would object to, if anything.
    pub fn objection(&self, plan: &Plan, seen: &[Observation]) -> Option<String> {
        if seen.is_empty() {
            return Some("nothing was observed".to_owned());
        }
        seen.iter().find_map(|run| match &run.ended {
            Ended::Done => self.looks.iter().find_map(|look| self.wrong(plan, look, run)),
            Ended::Errored => Some("a call failed".to_owned()),
            Ended::Hung { .. } => Some("it does not end".to_owned()),
            Ended::Crashed { how, .. } => Some(format!("a process died: {how}")),
        })
    }

    /// The images of a run in which everything is as expected; what nobody looks at stays as it was.
    #[cfg(test)]
    pub(super) fn right(&self, mut images: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
        for look in &self.looks {
            images[look.alloc][look.at..look.at + look.want.len()].copy_from_slice(&look.want);
        }
        images
    }

    fn wrong(&self, plan: &Plan, look: &Look, run: &Observation) -> Option<String> {
        let words = |text: &str| Some(format!("rank {}: {text}", look.rank));
        let Some(got) = run.images.get(look.alloc).and_then(|i| i.get(look.at..look.at + look.want.len())) else {
            return words("nothing was observed");
        };
        if got == look.want {
            return None;
        }
        let call = call(plan, look.event, self.op)?;
        let dtype = call.dtype;
        (0..look.want.len() / dtype.size()).find_map(|i| {
            let (want, got) = (get(dtype, &look.want, i), get(dtype, got, i));
            if want == got || self.suite.accepts(&call, want, got) {
                return None;
            }
            let text = |bits| crate::num::text(dtype, bits);
            words(&format!("element {i} is {}, not {}", text(got), text(want)))
        })
    }
}

/// An event as a suite sees it. `op` stands for the calls of a group that make up one operation.
fn call<'a>(plan: &'a Plan, event: usize, op: Option<&'static Op>) -> Option<Call<'a>> {
    let own = |c: &Collective| TABLE.iter().find(|o| matches!(&o.kind, Kind::Collective(k) if k.call == c.call));
    match plan.events.get(event)? {
        Event::Collective { op: collective, comm, k, dtype, reduce, root, send, .. } => {
            let sender = send.iter().flatten().next();
            let n = plan.comms.get(*comm)?.members.len();
            Some(Call {
                op: op.or(own(collective))?,
                dtype: *dtype,
                reduce: reduce.as_ref(),
                n,
                k: *k,
                root: *root,
                seed: sender.map_or(0, |s| s.buf as u64 + 1),
            })
        }
        Event::Post { from, .. } => Some(message(plan, from, op)),
        Event::Land { message: number, .. } => {
            let from = plan.events.iter().find_map(|other| match other {
                Event::Post { message, from, .. } if message == number => Some(from),
                _ => None,
            })?;
            Some(message(plan, from, op))
        }
        Event::Map { .. } | Event::Undefined { .. } => None,
    }
}

fn message<'a>(plan: &'a Plan, from: &Region, op: Option<&'static Op>) -> Call<'a> {
    Call {
        op: op.unwrap_or(&crate::ops::SEND),
        dtype: plan.buffers.get(from.buf).map_or(DType::U8, |b| b.dtype),
        reduce: None,
        n: plan.n,
        k: from.len,
        root: 0,
        seed: from.buf as u64 + 1,
    }
}

/// Inputs and expectations, in the order of the events.
struct Filling<'a> {
    plan: &'a Plan,
    suite: &'static dyn Suite,
    op: Option<&'static Op>,
    payloads: Vec<Vec<u8>>,
    /// Inputs by buffer, rank, first element and length, as they were put there.
    filled: HashMap<(usize, usize, u64, u64), Vec<u8>>,
    looks: Vec<Look>,
}

impl<'a> Filling<'a> {
    fn new(plan: &'a Plan, suite: &'static dyn Suite, op: Option<&'static Op>) -> Self {
        let payloads = plan.allocs.iter().map(|alloc| vec![suite.blank(); alloc.payload as usize]).collect();
        let mut filling = Self { plan, suite, op, payloads, filled: HashMap::new(), looks: Vec::new() };
        for (buf, rank, bytes) in &plan.constants {
            filling.put(Region { buf: *buf, rank: *rank, start: 0, len: 0 }, bytes);
        }
        for call in plan.programs.iter().flatten() {
            if let What::Collective { red: Red::PreMulSum { scalar, device: Some(Ptr::At { alloc, byte }) }, .. } =
                &call.what
            {
                filling.write(*alloc as usize, *byte as usize, scalar);
            }
        }
        filling
    }

    fn write(&mut self, alloc: usize, at: usize, bytes: &[u8]) {
        if let Some(to) = self.payloads.get_mut(alloc).and_then(|p| p.get_mut(at..at + bytes.len())) {
            to.copy_from_slice(bytes);
        }
    }

    /// Allocation and byte of its payload.
    fn home(&self, region: Region) -> Option<(usize, usize)> {
        let buffer = self.plan.buffers.get(region.buf)?;
        let place = buffer.places.get(region.rank).copied().flatten()?;
        Some((place.alloc, (place.offset + region.start * buffer.dtype.size() as u64) as usize))
    }

    fn put(&mut self, region: Region, bytes: &[u8]) {
        if let Some((alloc, at)) = self.home(region) {
            self.write(alloc, at, bytes);
        }
    }

    /// Fills a send region, if nobody has, and gives what is in it.
    fn fill(&mut self, region: Region, dtype: DType, bits: impl Fn(u64) -> u64) -> Vec<u8> {
        let key = (region.buf, region.rank, region.start, region.len);
        if let Some(bytes) = self.filled.get(&key) {
            return bytes.clone();
        }
        let mut bytes = vec![0; region.len as usize * dtype.size()];
        for i in 0..region.len {
            put(dtype, &mut bytes, i as usize, bits(i));
        }
        self.put(region, &bytes);
        self.filled.insert(key, bytes.clone());
        bytes
    }

    fn look(&mut self, event: usize, region: Region, want: Vec<u8>) {
        let timed = self.plan.buffers.get(region.buf).is_some_and(|buffer| buffer.name.starts_with("timed"));
        if let Some((alloc, at)) = self.home(region).filter(|_| !timed && !want.is_empty()) {
            let at = at + self.plan.allocs[alloc].start() as usize;
            self.looks.push(Look { event, rank: region.rank, alloc, at, want });
        }
    }

    fn events(&mut self) {
        let plan = self.plan;
        let mut posted: HashMap<usize, Vec<u8>> = HashMap::new();
        for (number, event) in plan.events.iter().enumerate() {
            let Some(call) = call(plan, number, self.op) else { continue };
            match event {
                Event::Collective { op, reduce, send, recv, comm, .. } => {
                    let members = plan.comms.get(*comm).map(|c| c.members.as_slice()).unwrap_or_default();
                    if members.first().is_some_and(|_| !self.barrier(send)) {
                        self.collective(number, &call, op.rule, reduce.as_ref(), send, recv);
                    }
                }
                Event::Post { message, from, .. } => {
                    let to = plan.events.iter().find_map(|other| match other {
                        Event::Land { message: landed, to, .. } if landed == message => Some(to.region.rank),
                        _ => None,
                    });
                    let (suite, to) = (self.suite, to.unwrap_or(0));
                    let bytes = self.fill(*from, call.dtype, |i| {
                        let spot = Spot { rank: from.rank, to, index: from.start + i, within: i, piece: from.len };
                        suite.input(&call, spot)
                    });
                    posted.insert(*message, bytes);
                }
                Event::Land { message, to, .. } => {
                    let want = posted.remove(message).unwrap_or_default();
                    if self.suite.sight(&call, to.region.rank) == Sight::Result {
                        self.look(number, to.region, want);
                    }
                }
                Event::Map { .. } | Event::Undefined { .. } => {}
            }
        }
    }

    /// The plan's own traffic.
    fn barrier(&self, send: &[Option<Region>]) -> bool {
        let own = |r: &Region| self.plan.buffers.get(r.buf).is_some_and(|b| b.name.starts_with('#'));
        send.iter().flatten().any(own)
    }

    fn collective(
        &mut self,
        number: usize,
        call: &Call<'_>,
        rule: Rule,
        reduce: Option<&Reduction>,
        send: &[Option<Region>],
        recv: &[Option<Write>],
    ) {
        let (suite, size) = (self.suite, call.dtype.size());
        let blocks = matches!(rule, Rule::Transpose | Rule::RootBlock | Rule::ReducedBlock);
        let mut inputs: Vec<Vec<u8>> = Vec::with_capacity(send.len());
        for (rank, region) in send.iter().enumerate() {
            let reads = !matches!(rule, Rule::RootCopy | Rule::RootBlock) || rank == call.root;
            let Some(region) = region.filter(|_| reads) else {
                inputs.push(Vec::new());
                continue;
            };
            let bits = |i: u64| {
                let piece = if blocks { call.k } else { region.len };
                let to = if blocks { (i / call.k.max(1)) as usize } else { 0 };
                let within = if blocks { i % call.k.max(1) } else { i };
                suite.input(call, Spot { rank, to, index: region.start + i, within, piece })
            };
            let bytes = self.fill(region, call.dtype, bits);
            inputs.push(bytes);
        }
        let k = call.k as usize;
        let block = |bytes: &[u8], b: usize| bytes.get(b * k * size..(b + 1) * k * size).unwrap_or_default().to_vec();
        let reduced = reduce.map(|_| reduction(suite, call, &inputs)).unwrap_or_default();
        let root = inputs.get(call.root).cloned().unwrap_or_default();
        let ranks = recv.len().max(send.len());
        for rank in 0..ranks {
            let target = recv.get(rank).copied().flatten().map(|write| write.region);
            match suite.sight(call, rank) {
                Sight::Nothing => {}
                Sight::Result => {
                    let Some(target) = target else { continue };
                    let want = match rule {
                        Rule::Reduced => reduced.clone(),
                        Rule::ReducedBlock => block(&reduced, rank),
                        Rule::RootCopy => root.clone(),
                        Rule::RootBlock => block(&root, rank),
                        Rule::Concat => inputs.concat(),
                        Rule::Transpose => inputs.iter().flat_map(|bytes| block(bytes, rank)).collect(),
                    };
                    self.look(number, target, want);
                }
                Sight::RootsInput => {
                    if let Some(region) = send.get(call.root).copied().flatten() {
                        self.look(number, region, root.clone());
                    }
                }
                Sight::Unchanged => self.unchanged(number, rank),
            }
        }
    }

    /// The receive buffer that a rank passes although nothing arrives there.
    fn unchanged(&mut self, number: usize, rank: usize) {
        let Some(Event::Collective { step, comm, .. }) = self.plan.events.get(number) else { return };
        let Some(world) = self.plan.comms.get(*comm).and_then(|c| c.members.get(rank)) else { return };
        let calls = self.plan.programs.get(*world).map(Vec::as_slice).unwrap_or_default();
        let passed = calls.iter().filter(|call| call.step == *step).find_map(|call| match &call.what {
            What::Collective { recv: Ptr::At { alloc, byte }, .. } => Some((*alloc as usize, *byte as usize)),
            _ => None,
        });
        let Some((alloc, at)) = passed else { return };
        let Some(want) = self.payloads.get(alloc).and_then(|payload| payload.get(at..)) else { return };
        let at = at + self.plan.allocs[alloc].start() as usize;
        self.looks.push(Look { event: number, rank: *world, alloc, at, want: want.to_vec() });
    }
}

/// What the suite expects of a reduction, whole.
fn reduction(suite: &dyn Suite, call: &Call<'_>, inputs: &[Vec<u8>]) -> Vec<u8> {
    let len = inputs.iter().map(Vec::len).max().unwrap_or(0) / call.dtype.size();
    let mut out = vec![0; len * call.dtype.size()];
    let mut column = vec![0; inputs.len()];
    for i in 0..len {
        for (cell, bytes) in column.iter_mut().zip(inputs) {
            *cell = get(call.dtype, bytes, i);
        }
        put(call.dtype, &mut out, i, suite.reduced(call, i as u64, &column));
    }
    out
}
