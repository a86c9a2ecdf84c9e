//! Batches: the operations of one group call on one communicator. They start together, when all their streams have
//! reached them, and end together.
#![allow(unsafe_code)] // buffers and scalars of the caller are used while its operations run

use super::channel::ChannelKey;
use super::counts::changed;
use super::member::read_scalar;
use super::task::{BatchId, Task};
use super::work::{Batch, Operation};
use super::{ENGINE, State, lock};
use crate::algo::{self, Algorithm, Part, Protocol, Selection};
use crate::device::{Done, Start, Stream};
use crate::failure::{Failure, Outcome};
use crate::op::{Kind, PreMul, Spec};
use crate::settings::settings;
use nccl_sys::{collspecTraffic_t, ncclComm_t, ncclResult_t};
use rustc_hash::FxHashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// An operation with at least this many bytes on a rank is moved by several threads: a smaller one is over before another has woken.
const MUCH: usize = 4 << 20;
/// The results of an operation with at least this many bytes on a rank leave the caches before anyone reads them.
const PAST_CACHES: usize = 16 << 20;
/// Lanes of such an operation for each channel: with two, threads would often wait for each other. The number is the same for all
/// ranks, wherever they are.
const STRIPES: usize = 4;

/// A checked call that waits for the end of its group.
#[derive(Clone)]
pub(crate) struct Request {
    pub comm: usize,
    pub spec: Spec,
    pub stream: Stream,
    /// The algorithms that the call's configuration allows; `None` if it leaves the choice to the library.
    selection: Option<Selection>,
    /// The tag that it is counted under: the communicator's mark when the call was made, however late its group ends.
    tag: u32,
}

impl Request {
    /// A request of the rank with this handle.
    ///
    /// # Safety
    /// From now on until the stream has passed the operation, the buffers that `spec` names, and a scalar in device memory,
    /// may be read and written for the operation.
    pub(crate) unsafe fn new(comm: usize, spec: Spec, stream: Stream, tag: u32) -> Self {
        Self { comm, spec, stream, selection: None, tag }
    }

    /// With the algorithms that the call's configuration allows.
    pub(crate) fn selecting(self, selection: Option<Selection>) -> Self {
        Self { selection, ..self }
    }
}

/// The checked requests of a group, by communicator.
pub(crate) type ByComm = Vec<(usize, Vec<Request>)>;

/// Batches that have their numbers and still have to be put on their streams.
pub(crate) struct Enqueued(Vec<(BatchId, Vec<Stream>)>);

impl State {
    /// Checks the requests of a group, all of them or none, and chooses their algorithms; changes nothing.
    pub(crate) fn prepare(&mut self, requests: Vec<Request>) -> Outcome<ByComm> {
        let mut by_comm = ByComm::new();
        let mut place: FxHashMap<usize, usize> = FxHashMap::default();
        for mut request in requests {
            let member = self.comms.member(request.comm as ncclComm_t)?;
            member.accept_work()?;
            if member.n > 1 && request.spec.kind.is_collective() {
                (request.spec.algorithm, request.spec.protocol) = choose(request.spec.kind, request.selection)?;
            }
            let at = *place.entry(request.comm).or_insert_with(|| {
                by_comm.push((request.comm, Vec::new()));
                by_comm.len() - 1
            });
            by_comm[at].1.push(request);
        }
        for (comm, requests) in &by_comm {
            let rank = self.comms.member(*comm as ncclComm_t)?.rank;
            let to_self = |kind| requests.iter().filter(|r| r.spec.kind == kind && r.spec.peer == rank).count();
            if to_self(Kind::Send) != to_self(Kind::Recv) {
                return Err(Failure::usage("a send to the own rank needs its receive in the same group"));
            }
        }
        Ok(by_comm)
    }

    /// Numbers the requests of a group and creates a batch per communicator; all of them or none.
    pub(crate) fn enqueue(&mut self, by_comm: ByComm) -> Outcome<Enqueued> {
        // A communicator may have ended while its ranks connected.
        for (comm, _) in &by_comm {
            self.comms.member(*comm as ncclComm_t)?.accept_work()?;
        }
        let mut batches = Vec::with_capacity(by_comm.len());
        for (comm, requests) in by_comm {
            batches.extend(self.batch(comm, requests));
        }
        Ok(Enqueued(batches))
    }

    fn batch(&mut self, comm: usize, requests: Vec<Request>) -> Option<(BatchId, Vec<Stream>)> {
        let mut streams: Vec<Stream> = Vec::new();
        let mut waiting = Vec::new();
        let member = self.comms.members.get_mut(&comm)?;
        for request in requests {
            if !streams.iter().any(|stream| stream.raw() == request.stream.raw()) {
                streams.push(request.stream);
            }
            let spec = request.spec;
            if spec.kind.is_one_sided() {
                let sequence = member.one_sided.number(&spec);
                waiting.push(Operation { spec, sequence, tag: request.tag });
                continue;
            }
            let counter = match spec.kind {
                Kind::Send => member.sends.entry(spec.peer).or_default(),
                Kind::Recv => member.receives.entry(spec.peer).or_default(),
                _ => &mut member.collectives,
            };
            *counter += 1;
            waiting.push(Operation { spec, sequence: *counter, tag: request.tag });
        }
        member.unfinished += 1;
        let id = self.work.add(Batch::new(comm, waiting, streams.len()));
        Some((id, streams))
    }

    /// Turns a batch into ready tasks; the `Done`s if there is nothing to do.
    fn start(&mut self, id: BatchId) -> Vec<Done> {
        let Some(batch) = self.work.batches.get_mut(&id) else { return Vec::new() };
        batch.started = true;
        let comm = batch.comm;
        let operations = std::mem::take(&mut batch.waiting);
        let Some(member) = self.comms.members.get_mut(&comm) else { return Vec::new() };
        let (shared, rank, n) = (member.shared, member.rank, member.n);
        let there = self.comms.shared.get(&shared);
        let mut tasks = Vec::new();
        let mut large = false;
        for operation in operations {
            let mut spec = operation.spec;
            let chunk = settings().chunk_elements(spec.ty.size());
            let sequence = operation.sequence;
            let signature = spec.signature();
            let elsewhere = there.and_then(|there| there.place(spec.peer)).filter(|_| spec.kind == Kind::Put);
            if spec.kind == Kind::Put {
                // Data that cannot be written anywhere is not read either.
                match self.registered.target(shared, &spec) {
                    Some(target) => spec.recv = target,
                    None if elsewhere.is_none() => spec.count = 0,
                    None => {}
                }
            }
            let premul = match spec.premul {
                PreMul::None => None,
                PreMul::Value(scalar) => Some(scalar),
                // SAFETY: the caller that created the operator has promised that the address is readable while operations run.
                PreMul::Device(address) => Some(unsafe { read_scalar(address, spec.ty) }),
            };
            let channels = settings().channels(member.config);
            let beside = spec.bytes(n) >= MUCH;
            large |= beside;
            let stripes = if beside { STRIPES } else { 1 };
            let part = Part { rank, n, chunk, channels, stripes };
            let (lanes, inner) = algo::lanes(&spec, part);
            if inner > 0 {
                let traffic: &mut collspecTraffic_t = member.traffic.entry(operation.tag).or_default();
                traffic.inner = traffic.inner.max(inner);
            }
            for script in lanes {
                let key = ChannelKey { shared, sequence, source: rank, destination: rank, lane: 0, signature };
                // SAFETY: the batch's streams have reached it and continue when its `Done`s are given back, which is after its end;
                // until then the caller keeps the buffers, as it promised with `Request::new`. A task that is dropped early has
                // ended its step before its stream continues (see `stop`).
                let mut task = unsafe { Task::new(comm, id, spec, operation.tag, premul, n, key, script) };
                task.elsewhere = elsewhere;
                task.past_caches = spec.bytes(n) >= PAST_CACHES;
                tasks.push(task);
            }
        }
        batch.lanes = tasks.len();
        batch.large = large;
        self.work.drivers.large += usize::from(large);
        tasks.into_iter().for_each(|task| self.work.spawn(task));
        changed();
        self.finish_if_over(id)
    }

    /// Counts a finished lane.
    pub(super) fn lane_over(&mut self, id: BatchId) -> Vec<Done> {
        if let Some(batch) = self.work.batches.get_mut(&id) {
            batch.lanes = batch.lanes.saturating_sub(1);
        }
        self.finish_if_over(id)
    }

    /// Ends a batch that will not start: the communicator is in error.
    fn give_up(&mut self, id: BatchId, code: ncclResult_t) -> Vec<Done> {
        let Some(batch) = self.work.batches.get_mut(&id) else { return Vec::new() };
        batch.waiting.clear();
        if let Some(member) = self.comms.members.get_mut(&batch.comm) {
            member.error = Some(code);
        }
        self.finish_if_over(id)
    }

    fn finish_if_over(&mut self, id: BatchId) -> Vec<Done> {
        if self.work.batches.get(&id).is_none_or(|batch| batch.lanes > 0) {
            return Vec::new();
        }
        changed();
        let Some(batch) = self.work.remove(id) else { return Vec::new() };
        let mut flushes = Vec::new();
        if let Some(member) = self.comms.members.get_mut(&batch.comm) {
            member.unfinished = member.unfinished.saturating_sub(1);
            if member.unfinished == 0 {
                flushes = std::mem::take(&mut member.flushes);
            }
        }
        for ticket in flushes {
            self.hosts.answer(ticket, Ok(None));
        }
        batch.dones
    }
}

/// The algorithm and protocol of an operation: as set by NCCL_ALGO and NCCL_PROTO, else as requested by the call, else the
/// library's own choice.
fn choose(kind: Kind, selection: Option<Selection>) -> Outcome<(Algorithm, Protocol)> {
    let (algorithms, protocols) = (&settings().algorithms, &settings().protocols);
    let unserved = || Failure::usage(format!("no algorithm that NCCL_ALGO allows serves {}", kind.name()));
    let unspoken = || Failure::usage(format!("NCCL_PROTO leaves no protocol for {}", kind.name()));
    let automatic = (algorithms.choose(kind).ok_or_else(unserved)?, protocols.choose(kind).ok_or_else(unspoken)?);
    if kind.algorithms().is_empty() || algorithms.forces(kind) || protocols.forces(kind) {
        return Ok(automatic);
    }
    let Some(selection) = selection else { return Ok(automatic) };
    match selection.choose(kind) {
        Some(chosen) => Ok(chosen),
        None if selection.forced => Err(Failure::argument(format!(
            "this library has no algorithm that algSelection allows for {}",
            kind.name()
        ))),
        None => Ok(automatic),
    }
}

impl Enqueued {
    pub(super) fn batches(&self) -> impl Iterator<Item = (BatchId, &[Stream])> {
        self.0.iter().map(|(id, streams)| (*id, streams.as_slice()))
    }

    /// Puts the batches on their streams; not under the lock. A batch whose stream the driver refuses fails.
    pub(crate) fn launch(self) -> Outcome<()> {
        let mut outcome = Ok(());
        for (id, streams) in self.0 {
            let launched = streams.into_iter().try_for_each(|stream| stream.launch(arrival(id)));
            if let Err(failure) = launched {
                let dones = lock().give_up(id, failure.code);
                dones.into_iter().for_each(Done::finish);
                outcome = outcome.and(Err(failure));
            }
        }
        outcome
    }
}

/// The function that a stream calls when it reaches a batch.
pub(super) fn arrival(id: BatchId) -> Start {
    // A panic must not reach the device's thread; `done` is given back either way.
    Box::new(move |done| _ = catch_unwind(AssertUnwindSafe(|| stream_arrived(id, done))))
}

/// A stream has reached its batch.
fn stream_arrived(id: BatchId, done: Done) {
    let mut state = lock();
    let Some(batch) = state.work.batches.get_mut(&id) else {
        // Aborted in the meantime.
        drop(state);
        done.finish();
        return;
    };
    batch.dones.push(done);
    batch.streams = batch.streams.saturating_sub(1);
    if batch.streams > 0 {
        changed();
        return;
    }
    let dones = state.start(id);
    // A host thread that waits for its stream runs the tasks before it blocks.
    let idle = state.work.is_left() && !crate::device::is_driving();
    drop(state);
    if idle {
        ENGINE.work.notify_one();
    }
    for done in dones {
        done.finish();
    }
}

/// The algorithm of operations without a choice.
pub(crate) const NO_CHOICE: Algorithm = Algorithm::Direct;
