//! The inputs that a suite gives a planned case, and its comparison of the results.
use super::{CheckedPart, ElementPosition, OperationCall, Peer, PeerSuite};
use crate::job::{CallKind, Ptr, Red};
use crate::job::{Ended, Observation};
use crate::num::{DType, get_element, put_element};
use crate::ops::{Collective, Kind, Op, Rule, TABLE};
use crate::plan::{CollectiveEvent, Event, GUARD, Plan, Region};
use std::collections::HashMap;

/// Bytes that the suite expects in an image.
struct ExpectedBytes {
    event: usize,
    rank: usize,
    alloc: usize,
    /// First byte in the image.
    offset: usize,
    bytes: Vec<u8>,
}

/// The bytes that a suite expects of a planned case.
pub struct PeerCheck {
    peer_suite: &'static dyn PeerSuite,
    op: Option<&'static Op>,
    expected: Vec<ExpectedBytes>,
}

impl PeerCheck {
    /// The check of a plan of the suite's, and the initial images of its allocations.
    pub fn new(peer: Peer, plan: &Plan) -> (Self, Vec<Vec<u8>>) {
        let peer_suite = peer.suite();
        // The calls of a group make up one operation.
        let op = match plan.case.steps.as_slice() {
            [step] if matches!(step.op.kind, Kind::Composite(_) | Kind::SendRecv) => Some(step.op),
            _ => None,
        };
        let mut builder = CheckBuilder::new(plan, peer_suite, op);
        builder.add_events();
        let CheckBuilder { payloads, expected, .. } = builder;
        let images = plan.allocs.iter().zip(payloads).map(|(alloc, payload)| {
            let mut image = vec![peer_suite.output_fill_byte(); alloc.start() as usize];
            image.extend_from_slice(&payload);
            image.resize(image.len() + GUARD as usize, peer_suite.output_fill_byte());
            image
        });
        (Self { peer_suite, op, expected }, images.collect())
    }

    /// The suite's objection to the observations, if it has one.
    pub fn objection(&self, plan: &Plan, observations: &[Observation]) -> Option<String> {
        if observations.is_empty() {
            return Some("nothing was observed".to_owned());
        }
        observations.iter().find_map(|run| match &run.ended {
            Ended::Done => self.expected.iter().find_map(|expected| self.objection_to(plan, expected, run)),
            Ended::Errored => Some("a call failed".to_owned()),
            Ended::Hung { .. } => Some("it does not end".to_owned()),
            Ended::Crashed { how, .. } => Some(format!("a process died: {how}")),
        })
    }

    /// The images of a run with the expected results; what is not compared stays as it was.
    #[cfg(test)]
    pub(super) fn right_images(&self, mut images: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
        for expected in &self.expected {
            images[expected.alloc][expected.offset..expected.offset + expected.bytes.len()]
                .copy_from_slice(&expected.bytes);
        }
        images
    }

    fn objection_to(&self, plan: &Plan, expected: &ExpectedBytes, run: &Observation) -> Option<String> {
        let words = |text: &str| Some(format!("rank {}: {text}", expected.rank));
        let Some(got) =
            run.images.get(expected.alloc).and_then(|i| i.get(expected.offset..expected.offset + expected.bytes.len()))
        else {
            return words("nothing was observed");
        };
        if got == expected.bytes {
            return None;
        }
        let call = call_of_event(plan, expected.event, self.op)?;
        let dtype = call.dtype;
        (0..expected.bytes.len() / dtype.size()).find_map(|i| {
            let (want, got) = (get_element(dtype, &expected.bytes, i), get_element(dtype, got, i));
            if want == got || self.peer_suite.accepts(&call, want, got) {
                return None;
            }
            let text = |bits| crate::num::element_text(dtype, bits);
            words(&format!("element {i} is {}, not {}", text(got), text(want)))
        })
    }
}

/// The operation of an event; `op` if the event is part of a group that makes up one operation.
fn call_of_event<'a>(plan: &'a Plan, event: usize, op: Option<&'static Op>) -> Option<OperationCall<'a>> {
    let own = |c: &Collective| TABLE.iter().find(|o| matches!(&o.kind, Kind::Collective(k) if k.call == c.call));
    match plan.events.get(event)? {
        Event::Collective(collective) => {
            let sender = collective.sends().flatten().next();
            let n = plan.comms.get(collective.comm())?.members.len();
            Some(OperationCall {
                op: op.or(own(collective.op()))?,
                dtype: collective.dtype(),
                reduce: collective.reduction.as_ref(),
                n,
                k: collective.count(),
                root: collective.root(),
                seed: sender.map_or(0, |s| s.buf as u64 + 1),
            })
        }
        Event::Sent { call, .. } => Some(call_of_message(plan, &call.op.memory, op)),
        Event::Received { message: received, .. } => {
            let from = plan.events.iter().find_map(|other| match other {
                Event::Sent { message, call } if message == received => Some(&call.op.memory),
                _ => None,
            })?;
            Some(call_of_message(plan, from, op))
        }
        Event::Map(_) | Event::Undefined { .. } => None,
    }
}

fn call_of_message<'a>(plan: &'a Plan, from: &Region, op: Option<&'static Op>) -> OperationCall<'a> {
    OperationCall {
        op: op.unwrap_or(&crate::ops::SEND),
        dtype: plan.buffers.get(from.buf).map_or(DType::U8, |b| b.dtype),
        reduce: None,
        n: plan.n,
        k: from.len,
        root: 0,
        seed: from.buf as u64 + 1,
    }
}

/// Collects inputs and expected bytes in the order of the events.
struct CheckBuilder<'a> {
    plan: &'a Plan,
    peer_suite: &'static dyn PeerSuite,
    op: Option<&'static Op>,
    payloads: Vec<Vec<u8>>,
    /// Inputs by buffer, rank, first element and length.
    filled: HashMap<(usize, usize, u64, u64), Vec<u8>>,
    expected: Vec<ExpectedBytes>,
}

impl<'a> CheckBuilder<'a> {
    fn new(plan: &'a Plan, peer_suite: &'static dyn PeerSuite, op: Option<&'static Op>) -> Self {
        let payloads =
            plan.allocs.iter().map(|alloc| vec![peer_suite.output_fill_byte(); alloc.payload as usize]).collect();
        let mut builder = Self { plan, peer_suite, op, payloads, filled: HashMap::new(), expected: Vec::new() };
        for (buf, rank, bytes) in &plan.constants {
            builder.write_region(Region { buf: *buf, rank: *rank, start: 0, len: 0 }, bytes);
        }
        for call in plan.programs.iter().flatten() {
            if let CallKind::Collective {
                red: Red::PreMulSum { scalar, device: Some(Ptr::At { alloc, byte }) }, ..
            } = &call.kind
            {
                builder.write_bytes(*alloc as usize, *byte as usize, scalar);
            }
        }
        builder
    }

    fn write_bytes(&mut self, alloc: usize, at: usize, bytes: &[u8]) {
        if let Some(to) = self.payloads.get_mut(alloc).and_then(|p| p.get_mut(at..at + bytes.len())) {
            to.copy_from_slice(bytes);
        }
    }

    /// The allocation of a region, and its first byte in the payload.
    fn location(&self, region: Region) -> Option<(usize, usize)> {
        let buffer = self.plan.buffers.get(region.buf)?;
        let place = buffer.places.get(region.rank).copied().flatten()?;
        Some((place.alloc, (place.offset + region.start * buffer.dtype.size() as u64) as usize))
    }

    fn write_region(&mut self, region: Region, bytes: &[u8]) {
        if let Some((alloc, at)) = self.location(region) {
            self.write_bytes(alloc, at, bytes);
        }
    }

    /// Fills a send region unless that was done, and returns its bytes.
    fn fill_region(&mut self, region: Region, dtype: DType, bits: impl Fn(u64) -> u64) -> Vec<u8> {
        let key = (region.buf, region.rank, region.start, region.len);
        if let Some(bytes) = self.filled.get(&key) {
            return bytes.clone();
        }
        let mut bytes = vec![0; region.len as usize * dtype.size()];
        for i in 0..region.len {
            put_element(dtype, &mut bytes, i as usize, bits(i));
        }
        self.write_region(region, &bytes);
        self.filled.insert(key, bytes.clone());
        bytes
    }

    fn expect_region(&mut self, event: usize, region: Region, want: Vec<u8>) {
        let timed = self.plan.buffers.get(region.buf).is_some_and(|buffer| buffer.name.starts_with("timed"));
        if let Some((alloc, at)) = self.location(region).filter(|_| !timed && !want.is_empty()) {
            let at = at + self.plan.allocs[alloc].start() as usize;
            self.expected.push(ExpectedBytes { event, rank: region.rank, alloc, offset: at, bytes: want });
        }
    }

    fn add_events(&mut self) {
        let plan = self.plan;
        let mut sent: HashMap<usize, Vec<u8>> = HashMap::new();
        for (number, event) in plan.events.iter().enumerate() {
            let Some(operation) = call_of_event(plan, number, self.op) else { continue };
            match event {
                Event::Collective(collective) => {
                    let members = plan.comms.get(collective.comm()).map(|c| c.members.as_slice()).unwrap_or_default();
                    if members.first().is_some_and(|_| !self.is_barrier(collective)) {
                        self.add_collective(number, &operation, collective);
                    }
                }
                Event::Sent { message, call } => {
                    let from = call.op.memory;
                    let to = plan.events.iter().find_map(|other| match other {
                        Event::Received { message: received, call } if received == message => Some(call.op.memory.rank),
                        _ => None,
                    });
                    let (peer_suite, to) = (self.peer_suite, to.unwrap_or(0));
                    let bytes = self.fill_region(from, operation.dtype, |i| {
                        let position =
                            ElementPosition { rank: from.rank, to, index: from.start + i, within: i, piece: from.len };
                        peer_suite.input_bits(&operation, position)
                    });
                    sent.insert(*message, bytes);
                }
                Event::Received { message, call } => {
                    let (want, to) = (sent.remove(message).unwrap_or_default(), call.op.memory);
                    if self.peer_suite.checked_part(&operation, to.rank) == CheckedPart::Result {
                        self.expect_region(number, to, want);
                    }
                }
                Event::Map(_) | Event::Undefined { .. } => {}
            }
        }
    }

    /// True for the collective of a barrier.
    fn is_barrier(&self, collective: &CollectiveEvent) -> bool {
        let own = |r: Region| self.plan.buffers.get(r.buf).is_some_and(|b| b.name.starts_with('#'));
        collective.sends().flatten().any(own)
    }

    fn add_collective(&mut self, number: usize, call: &OperationCall<'_>, collective: &CollectiveEvent) {
        let rule = collective.op().rule;
        let (peer_suite, size) = (self.peer_suite, call.dtype.size());
        let blocks = matches!(rule, Rule::Transpose | Rule::RootBlock | Rule::ReducedBlock);
        let mut inputs: Vec<Vec<u8>> = Vec::with_capacity(collective.calls.len());
        for (rank, region) in collective.sends().enumerate() {
            let reads = !matches!(rule, Rule::RootCopy | Rule::RootBlock) || rank == call.root;
            let Some(region) = region.filter(|_| reads) else {
                inputs.push(Vec::new());
                continue;
            };
            let bits = |i: u64| {
                let piece = if blocks { call.k } else { region.len };
                let to = if blocks { (i / call.k.max(1)) as usize } else { 0 };
                let within = if blocks { i % call.k.max(1) } else { i };
                peer_suite.input_bits(call, ElementPosition { rank, to, index: region.start + i, within, piece })
            };
            let bytes = self.fill_region(region, call.dtype, bits);
            inputs.push(bytes);
        }
        let k = call.k as usize;
        let block = |bytes: &[u8], b: usize| bytes.get(b * k * size..(b + 1) * k * size).unwrap_or_default().to_vec();
        let reduced = call.reduce.map(|_| reduce_inputs(peer_suite, call, &inputs)).unwrap_or_default();
        let root = inputs.get(call.root).cloned().unwrap_or_default();
        for (rank, write) in collective.recvs().enumerate() {
            let target = write.map(|write| write.region);
            match peer_suite.checked_part(call, rank) {
                CheckedPart::Nothing => {}
                CheckedPart::Result => {
                    let Some(target) = target else { continue };
                    let want = match rule {
                        Rule::Reduced => reduced.clone(),
                        Rule::ReducedBlock => block(&reduced, rank),
                        Rule::RootCopy => root.clone(),
                        Rule::RootBlock => block(&root, rank),
                        Rule::Concat => inputs.concat(),
                        Rule::Transpose => inputs.iter().flat_map(|bytes| block(bytes, rank)).collect(),
                    };
                    self.expect_region(number, target, want);
                }
                CheckedPart::RootsInput => {
                    if let Some(region) = collective.sends().nth(call.root).flatten() {
                        self.expect_region(number, region, root.clone());
                    }
                }
                CheckedPart::Unchanged => self.expect_unchanged(number, rank),
            }
        }
    }

    /// Expects no change of the receive buffer that a rank passes although it receives nothing.
    fn expect_unchanged(&mut self, number: usize, rank: usize) {
        let Some(Event::Collective(collective)) = self.plan.events.get(number) else { return };
        let Some(world) = self.plan.comms.get(collective.comm()).and_then(|c| c.members.get(rank)) else { return };
        let calls = self.plan.programs.get(*world).map(Vec::as_slice).unwrap_or_default();
        let passed = calls.iter().filter(|call| call.step == collective.first.step).find_map(|call| match &call.kind {
            CallKind::Collective { recv: Ptr::At { alloc, byte }, .. } => Some((*alloc as usize, *byte as usize)),
            _ => None,
        });
        let Some((alloc, at)) = passed else { return };
        let Some(want) = self.payloads.get(alloc).and_then(|payload| payload.get(at..)) else { return };
        let at = at + self.plan.allocs[alloc].start() as usize;
        self.expected.push(ExpectedBytes { event: number, rank: *world, alloc, offset: at, bytes: want.to_vec() });
    }
}

/// All bytes that the suite expects of a reduction.
fn reduce_inputs(peer_suite: &dyn PeerSuite, call: &OperationCall<'_>, inputs: &[Vec<u8>]) -> Vec<u8> {
    let len = inputs.iter().map(Vec::len).max().unwrap_or(0) / call.dtype.size();
    let mut out = vec![0; len * call.dtype.size()];
    let mut column = vec![0; inputs.len()];
    for i in 0..len {
        for (cell, bytes) in column.iter_mut().zip(inputs) {
            *cell = get_element(call.dtype, bytes, i);
        }
        put_element(call.dtype, &mut out, i, peer_suite.expected_reduction(call, i as u64, &column));
    }
    out
}
