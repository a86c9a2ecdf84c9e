//! One rank's calls on the backend: communicators, memory, the program, and the images at its end.
mod checkpoints;
mod clock;
mod communicators;
mod deaths;
mod graphs;
mod one_sided;
mod progress;
mod queries;
pub(super) mod registrations;
mod tags;
mod unfinished;

use super::map;
use super::session::{RankState, Run};
use crate::backend::{Address, CallError, CollectiveCall, CommHandle, CommSlot, DeviceError, Staging, TransferCall};
use crate::job::arena::{Outside, Step};
use crate::job::{Call, CallKind, Figure, Job, NOT_NCCL, Ptr, RankEnd, Red};
pub use graphs::GraphMaps;
use nccl_sys::{NCCL_SPLIT_NOCOLOR, ncclRedOp_t, ncclResult_t, ncclUniqueId};
pub use progress::is_in_progress;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::{Arc, MutexGuard};
use std::time::Duration;
use tags::{StopClock, Tag};
use unfinished::Unfinished;

/// The reason a rank stops.
#[derive(Debug, thiserror::Error)]
pub enum Halt {
    /// A call failed.
    #[error(transparent)]
    Call(#[from] CallError),
    /// Another rank has failed, or something asynchronous of this rank.
    #[error("told to stop")]
    Stopped,
    /// The device reports an error, which the library may have caused.
    #[error("{0}")]
    Device(String),
    /// The worker cannot continue: no memory, or a job that refers to something that does not exist.
    #[error("{0}")]
    Trouble(String),
}

impl From<DeviceError> for Halt {
    fn from(error: DeviceError) -> Self {
        let said = error.to_string();
        if error.may_come_from_the_library() { Self::Device(said) } else { Self::Trouble(said) }
    }
}
impl From<Outside> for Halt {
    fn from(error: Outside) -> Self {
        Self::Trouble(error.to_string())
    }
}

fn garbled(what: &str) -> Halt {
    Halt::Trouble(format!("the job names a {what} that it does not have"))
}

fn no_staging() -> Halt {
    Halt::Trouble("nothing was loaded".into())
}

/// Bytes of host memory that a call's copies need.
pub(super) fn staged(kind: &CallKind) -> u64 {
    let CallKind::Map { reads, count, dtype, .. } = kind else { return 0 };
    let bytes = |count: u64, size: usize| count.saturating_mul(size as u64);
    Staging::need(reads.iter().map(|read| bytes(read.count, read.dtype.size())), bytes(*count, dtype.size()))
}

/// True if the call may wait for something other than the device, whose work must not be delayed by that. (The software library
/// lets the device begin before it waits itself.)
fn may_wait(kind: &CallKind) -> bool {
    use CallKind::*;
    !matches!(
        kind,
        Collective { .. }
            | Send { .. }
            | Recv { .. }
            | GroupStart
            | GroupEnd
            | Map { .. }
            | Checkpoint { .. }
            | After { .. }
            | Wait { .. }
            | Put { .. }
            | Signal { .. }
            | WaitSignal { .. }
            | Begin { .. }
            | End { .. }
    )
}

/// One rank at work.
pub struct Rank<'a> {
    /// World rank.
    pub rank: usize,
    run: &'a Arc<Run>,
    state: MutexGuard<'a, RankState>,
    /// Reductions to end when the outermost group ends.
    ops: Vec<(ncclRedOp_t, CommHandle, u32)>,
    depth: u32,
    tags: Vec<Tag>,
    /// Clocks to stop on a stream once it has the open group's work.
    clocks: Vec<(u32, StopClock)>,
    /// Windows requested in the open group, about which the library has not been asked.
    new_windows: Vec<u32>,
    /// Communicators requested in the open group, whose query functions have not been called yet.
    made: Vec<u32>,
    /// Places that splits without a colour have left to look at: their handles must be null.
    colourless: Vec<CommSlot>,
    /// Communicators that are suspended.
    suspended: BTreeSet<u32>,
    /// Communicators on which the last call, or a call of the open group, may be in progress.
    touched: Vec<u32>,
    /// True if the current call may answer that it is in progress, and is not waited for.
    leaves_in_progress: bool,
    /// True if a call of the open group may be in progress.
    unsettled: bool,
    /// Communicators whose operations the program ended, or that keep an error which the program expects: their asynchronous errors
    /// are not checked.
    interrupted: BTreeSet<u32>,
    /// The unique id that this rank obtained for ranks that join at its next `grow`.
    coordinates: Option<ncclUniqueId>,
    /// Communicators that have lost a rank: their operations and their asynchronous errors may fail.
    bereaved: BTreeSet<u32>,
    /// Calls that the device has not finished.
    unfinished: RefCell<Unfinished>,
}

impl<'a> Rank<'a> {
    /// Takes the rank's state, which no other thread may have.
    pub fn new(run: &'a Arc<Run>, rank: usize) -> Self {
        Self {
            rank,
            run,
            state: run.session.state(rank),
            ops: Vec::new(),
            depth: 0,
            tags: Vec::new(),
            clocks: Vec::new(),
            new_windows: Vec::new(),
            made: Vec::new(),
            colourless: Vec::new(),
            suspended: BTreeSet::new(),
            touched: Vec::new(),
            leaves_in_progress: false,
            unsettled: false,
            interrupted: BTreeSet::new(),
            coordinates: None,
            bereaved: BTreeSet::new(),
            unfinished: RefCell::default(),
        }
    }

    fn job(&self) -> &'a Job {
        self.run.job()
    }

    /// Makes the calling thread ready to work for this rank.
    pub fn bind(&self) -> Result<(), Halt> {
        Ok(self.run.backend.device.bind(self.rank)?)
    }

    /// Allocates missing memory and puts inputs, poison and guards in place.
    pub fn load(&mut self) -> Result<(), Halt> {
        let (job, session, device) = (self.job(), &self.run.session, self.run.backend.device);
        let after = job.prelude[self.rank].len() as u32;
        self.run.step(self.rank, Step::Opening(after));
        if self.run.first {
            for &index in &session.allocs[self.rank] {
                let spec = &job.allocs[index as usize];
                let backend = self.run.backend;
                let memory = if spec.from_library {
                    backend.window_memory(spec.image)?
                } else if spec.is_in_arena() {
                    device.in_arena(&self.run.arena, spec.initial, spec.image)?
                } else {
                    device.alloc(spec.image)?
                };
                self.state.memory.push((index, memory));
            }
            for &index in &session.checkpoints[self.rank] {
                let bytes = job.checkpoints[index as usize].bytes;
                self.state.shadows.push((index, device.alloc(bytes)?));
            }
            while self.state.streams.len() < job.streams as usize {
                let null = job.null_stream.is_some_and(|null| null as usize == self.state.streams.len());
                self.state.streams.push(if null { device.null_stream(self.rank)? } else { device.stream()? });
            }
            let maps = job.programs[self.rank].iter().map(|call| staged(&call.kind)).fold(0, u64::saturating_add);
            let images = session.allocs[self.rank].iter().map(|&index| job.allocs[index as usize].image);
            let copies = session.checkpoints[self.rank].iter().map(|&index| job.checkpoints[index as usize].bytes);
            let image = images.chain(copies).max().unwrap_or(0);
            let mut staging = device.staging(maps.saturating_add(self.staged_digests()), image)?;
            self.state.digest_places = self.digest_places(&mut staging)?;
            self.state.staging = Some(staging);
            if self.dies().is_some() {
                self.state.staging_at_death = Some(device.staging(0, image)?);
            }
            self.prepare_graphs()?;
        }
        self.fill()?;
        self.run.step(self.rank, Step::Opening(after + 1));
        Ok(())
    }

    /// Puts inputs, poison and guards in place. Nothing may be left to do on the streams.
    pub fn fill(&mut self) -> Result<(), Halt> {
        let job = self.job();
        let RankState { staging, memory, .. } = &mut *self.state;
        let staging = staging.as_mut().ok_or_else(no_staging)?;
        staging.restart();
        for (index, memory) in memory {
            let spec = &job.allocs[*index as usize];
            memory.load(&self.run.arena.span(spec.initial, spec.image)?, staging)?;
        }
        Ok(())
    }

    /// One call of the prelude or the program.
    pub fn call(&mut self, index: usize, call: &Call, prelude: bool) -> Result<(), Halt> {
        if self.run.stopped() {
            return Err(Halt::Stopped);
        }
        let at = index as u32;
        self.run.step(self.rank, if prelude { Step::Opening(at) } else { Step::Running(at) });
        // NCCL's ncclCommDestroy leaves the last communicator's device current on its thread.
        self.bind()?;
        self.leaves_in_progress = call.left_in_progress;
        self.touch(&call.kind);
        let touched = if call.tolerate { self.touched.clone() } else { Vec::new() };
        let may_fail = self.may_fail(&call.kind);
        if may_wait(&call.kind) {
            self.run.backend.device.begin();
        }
        match self.perform(at, &call.kind) {
            Err(Halt::Call(error)) => {
                self.run.record_code(self.rank, at, error.code().0, error.to_string());
                if self.run.backend.library.lacks_error_text() {
                    self.run.record_answers(self.rank, |answers| answers.mute += 1);
                }
                self.keep_errors_of(&touched);
                if call.tolerate || may_fail { Ok(()) } else { Err(Halt::Call(error)) }
            }
            Ok(()) if !prelude => self.mark(at, &call.kind),
            other => other,
        }
    }

    fn perform(&mut self, index: u32, kind: &CallKind) -> Result<(), Halt> {
        let library = &self.run.backend.library;
        match kind {
            CallKind::Collective { call, send, recv, count, dtype, red, root, comm, stream, algorithm } => {
                let (send, recv, handle) = (self.pointer(*send)?, self.pointer(*recv)?, self.comm(*comm)?.get());
                let op = match red {
                    Red::None => ncclRedOp_t::Sum,
                    Red::Builtin(op) => ncclRedOp_t(*op),
                    Red::PreMulSum { scalar, device, destroyed } => {
                        let device = device.map(|ptr| self.scalar(ptr, scalar.len(), *stream)).transpose()?;
                        let op = library.premul_sum(scalar, device, *dtype, handle)?;
                        if *destroyed {
                            library.end_op(op, handle)?;
                        }
                        op
                    }
                };
                let stream = self.stream(*stream)?;
                let (count, dtype, root) = (*count, *dtype, *root);
                let done = library.collective(&CollectiveCall {
                    call: *call,
                    send,
                    recv,
                    count,
                    dtype,
                    op,
                    root,
                    comm: handle,
                    stream,
                    algorithm: algorithm.as_ref(),
                });
                let done = self.settled(done);
                if matches!(red, Red::PreMulSum { destroyed: false, .. }) {
                    self.ops.push((op, handle, *comm));
                    self.end_ops()?;
                }
                done
            }
            CallKind::Send { ptr, count, dtype, peer, comm, stream } => {
                let done = library.send(&self.transfer(*ptr, *count, *dtype, *peer, *comm, *stream)?);
                self.settled(done)
            }
            CallKind::Recv { ptr, count, dtype, peer, comm, stream } => {
                let done = library.recv(&self.transfer(*ptr, *count, *dtype, *peer, *comm, *stream)?);
                self.settled(done)
            }
            CallKind::GroupStart => {
                library.group_start()?;
                self.depth += 1;
                Ok(())
            }
            CallKind::GroupEnd => {
                self.depth = self.depth.saturating_sub(1);
                let done = library.group_end();
                let done = self.settled(done);
                if done.is_err() {
                    self.colourless.clear();
                    // A failed group makes none of its communicators, but NCCL leaves handles of half-made ones behind.
                    for comm in std::mem::take(&mut self.made) {
                        self.forget(comm)?;
                    }
                }
                self.group_ended()?;
                done
            }
            CallKind::Map { .. } => self.map(index, kind, false),
            CallKind::BeginCapture { .. }
            | CallKind::Captured { .. }
            | CallKind::EndCapture { .. }
            | CallKind::Launch { .. }
            | CallKind::Release { .. }
            | CallKind::Replayed { .. } => self.graph_call(index, kind),
            CallKind::Checkpoint { .. } => self.checkpoint(kind),
            CallKind::After { stream, on } => {
                for other in on {
                    let event = self.run.backend.device.event()?;
                    self.stream(*other)?.record(&event)?;
                    self.stream(*stream)?.wait(&event)?;
                }
                Ok(())
            }
            CallKind::Wait { stream: Some(stream) } => self.synchronize(*stream),
            CallKind::Wait { stream: None } => self.drain(),
            CallKind::Sleep { seconds } => {
                let time = Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX);
                self.run.sleep(time);
                if self.run.stopped() { Err(Halt::Stopped) } else { Ok(()) }
            }
            CallKind::Exit { status, death: None } => super::deaths::end_process(*status),
            // The rank's thread ends the process, once the results are saved and the others have reached this point.
            CallKind::Exit { death: Some(_), .. } => Ok(()),
            CallKind::AwaitDeath { death, ranks } => self.outlive(*death, ranks),
            CallKind::AwaitError { comm } => self.await_error(*comm),
            CallKind::Init { .. } | CallKind::Split { .. } => {
                self.make(kind)?;
                if let (CallKind::Init { comm, .. } | CallKind::Split { new: Some(comm), .. }, false) =
                    (kind, self.leaves_in_progress)
                {
                    self.made.push(*comm);
                }
                self.ask_made()
            }
            CallKind::Shrink { .. }
            | CallKind::GrowId { .. }
            | CallKind::Grow { .. }
            | CallKind::Revoke { .. }
            | CallKind::Suspend { .. }
            | CallKind::Resume { .. } => self.change(kind),
            CallKind::Finalize { comm } => {
                let done = library.finalize(self.comm(*comm)?.get());
                self.settled(done)
            }
            CallKind::Destroy { comm } => {
                library.destroy(self.comm(*comm)?.get())?;
                self.forget(*comm)
            }
            CallKind::Abort { comm } => {
                library.abort(self.comm(*comm)?.get())?;
                self.forget(*comm)
            }
            CallKind::Put { .. } | CallKind::Signal { .. } | CallKind::WaitSignal { .. } => self.one_sided(kind),
            CallKind::FirstSignal { comm, stream } => self.first_signal(kind, *comm, *stream),
            CallKind::Register { .. } => self.register(kind),
            CallKind::Deregister { id, .. } => self.deregister(*id),
            CallKind::Begin { tag, comm } => self.begin(*tag, *comm),
            CallKind::End { tag, stream } => self.end_tag(*tag, *stream),
        }
    }

    /// Makes a communicator, by unique id or by splitting one.
    fn make(&mut self, kind: &CallKind) -> Result<(), Halt> {
        let library = &self.run.backend.library;
        match kind {
            CallKind::Init { comm, id, ids: Some(count), rank, n, config: c } => {
                let ids = (*id..*id + *count).map(|id| self.run.id(id)).collect::<Result<Vec<_>, Halt>>()?;
                let done = library.init_rank_scalable(self.comm(*comm)?, *n, ids, *rank, self.config(*c)?);
                self.settled(done)
            }
            CallKind::Init { comm, id, ids: None, rank, n, config: c } => {
                let id = self.run.id(*id)?;
                let done = library.init_rank(self.comm(*comm)?, *n, id, *rank, self.config(*c)?);
                self.settled(done)
            }
            CallKind::Split { parent, color, key, new, config: c } => {
                let unused = if *color == NCCL_SPLIT_NOCOLOR { CommSlot::unset() } else { CommSlot::default() };
                let slot = new.map_or(Ok(&unused), |new| self.comm(new))?;
                let done = library.split(self.comm(*parent)?.get(), *color, *key, slot, self.config(*c)?);
                self.settled(done)?;
                if *color == NCCL_SPLIT_NOCOLOR && !self.leaves_in_progress {
                    self.colourless.push(unused);
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn map(&mut self, index: u32, kind: &CallKind, captured: bool) -> Result<(), Halt> {
        let CallKind::Map { expr, names, reads, out, count, dtype, stream } = kind else { return Ok(()) };
        let bytes = |count: u64, size: usize| count.checked_mul(size as u64).ok_or_else(|| garbled("length"));
        let out_len = bytes(*count, dtype.size())?;
        let out = self.range(*out, out_len)?;
        let mut inputs = Vec::with_capacity(reads.len());
        for read in reads {
            let len = bytes(read.count, read.dtype.size())?;
            inputs.push((self.range(read.ptr, len)?, len));
        }
        let (expr, names, count, dtype) = (expr.clone(), names.clone(), *count, *dtype);
        let reads: Vec<_> = reads.iter().map(|r| (r.name.clone(), r.dtype)).collect();
        let (rank, run) = (self.rank, self.reporter(captured));
        let compute = move |inputs: &[Vec<u8>]| match map::all(&expr, &names, &reads, inputs, count, dtype) {
            Ok(bytes) => Some(bytes),
            Err(error) => {
                run.map_failed(rank, index, error);
                None
            }
        };
        let RankState { streams, staging, graph_maps, .. } = &mut *self.state;
        let stream = streams.get(*stream as usize).ok_or_else(|| garbled("stream"))?;
        let staging = if captured { graph_maps.staging() } else { staging.as_mut() }.ok_or_else(no_staging)?;
        Ok(stream.map(inputs, out, out_len, Box::new(compute), staging)?)
    }

    /// Does the work that waited for the end of the outermost group.
    fn group_ended(&mut self) -> Result<(), Halt> {
        self.end_ops()?;
        self.ask_made()?;
        self.ask_windows()?;
        if self.depth == 0 {
            for (stream, stop) in std::mem::take(&mut self.clocks) {
                self.stream(stream)?.host_fn(stop)?;
            }
        }
        Ok(())
    }

    /// Waits until all streams have finished.
    pub fn drain(&mut self) -> Result<(), Halt> {
        self.bind()?;
        for stream in 0..self.state.streams.len() {
            self.synchronize(stream as u32)?;
        }
        Ok(())
    }

    fn synchronize(&mut self, stream: u32) -> Result<(), Halt> {
        let stop = || {
            self.show_unfinished();
            self.run.stopped() || self.async_error().is_some()
        };
        if !self.stream(stream)?.synchronize_unless(&stop)? || self.run.failed_map(self.rank).is_some() {
            return Err(Halt::Stopped);
        }
        self.unfinished.get_mut().finished(stream);
        match self.async_error() {
            Some(_) => Err(Halt::Stopped),
            None => Ok(()),
        }
    }

    /// After the last call: images and checkpoints into the arena.
    pub fn save(&mut self) -> Result<Vec<Figure>, Halt> {
        self.bind()?;
        let job = self.job();
        let own = self.state.staging_at_death.as_ref();
        let staging = own.or(self.state.staging.as_ref()).ok_or_else(no_staging)?;
        for (index, memory) in &self.state.memory {
            let spec = &job.allocs[*index as usize];
            memory.save(&self.run.arena.span(spec.last, spec.image)?, staging)?;
        }
        for (index, shadow) in &self.state.shadows {
            let spec = &job.checkpoints[*index as usize];
            shadow.save(&self.run.arena.span(spec.at, spec.bytes)?, staging)?;
        }
        let figures = self.tags.iter().map(|t| self.figure(t)).collect();
        self.ask_all();
        self.run.step(self.rank, Step::Done);
        Ok(figures)
    }

    /// The rank's ending because of `halt`; tells the others if this rank failed first. `None` if the worker cannot continue.
    pub fn halted(&self, halt: Halt, call: Option<usize>, prelude: bool) -> Option<RankEnd> {
        let call = call.map(|index| index as u32);
        let end = match halt {
            Halt::Call(error) => RankEnd::Error { prelude, call, code: error.code().0, text: error.to_string() },
            Halt::Device(text) => {
                // before the program runs it is this program that asked the driver, and no file expects that to fail
                let code = if prelude { NOT_NCCL } else { ncclResult_t::UnhandledCudaError.0 };
                RankEnd::Error { prelude, call, code, text }
            }
            Halt::Trouble(text) => {
                self.run.trouble(format!("rank {}: {text}", self.rank));
                return None;
            }
            Halt::Stopped => match (self.run.failed_map(self.rank), self.async_error()) {
                (Some((call, text)), _) => RankEnd::Error { prelude, call: Some(call), code: NOT_NCCL, text },
                // another rank's failure shows here as an asynchronous error too; that rank says why
                (None, Some(error)) if !self.run.stopped() => {
                    RankEnd::Error { prelude, call: None, code: error.code().0, text: error.to_string() }
                }
                _ => RankEnd::Stopped,
            },
        };
        if matches!(end, RankEnd::Error { .. }) {
            self.run.stop(self.rank);
        }
        Some(end)
    }

    /// Joins a group that was opened for several ranks at once (or leaves it: `false`).
    pub fn inside(&mut self, inside: bool) -> Result<(), Halt> {
        if inside {
            self.forget_touched();
            self.depth += 1;
            return Ok(());
        }
        self.depth = self.depth.saturating_sub(1);
        self.group_ended()
    }

    fn end_ops(&mut self) -> Result<(), Halt> {
        if self.depth > 0 {
            return Ok(());
        }
        let mut ended = Ok(());
        for (op, comm, index) in self.ops.drain(..) {
            let done = self.run.backend.library.end_op(op, comm);
            // A communicator that has lost a rank may refuse any call.
            if !self.bereaved.contains(&index) {
                ended = ended.and(done);
            }
        }
        Ok(ended?)
    }

    fn transfer(
        &self,
        ptr: Ptr,
        count: u64,
        dtype: collspec_core::num::DType,
        peer: i32,
        comm: u32,
        stream: u32,
    ) -> Result<TransferCall<'_>, Halt> {
        let (ptr, comm, stream) = (self.pointer(ptr)?, self.comm(comm)?.get(), self.stream(stream)?);
        Ok(TransferCall { ptr, count, dtype, peer, comm, stream })
    }

    fn comm(&self, index: u32) -> Result<&CommSlot, Halt> {
        self.state.comms.get(index as usize).ok_or_else(|| garbled("communicator"))
    }
    fn forget(&mut self, index: u32) -> Result<(), Halt> {
        let slot = self.state.comms.get_mut(index as usize).ok_or_else(|| garbled("communicator"))?;
        let ended = std::mem::take(slot).get();
        // The operators created for a communicator end with it.
        self.ops.retain(|(_, comm, _)| *comm != ended);
        self.forget_registrations(index);
        Ok(())
    }
    fn stream(&self, index: u32) -> Result<&crate::backend::DeviceStream, Halt> {
        self.state.streams.get(index as usize).ok_or_else(|| garbled("stream"))
    }
    /// A scalar's address. Its value is copied to it in stream order from the bytes that follow it.
    fn scalar(&self, ptr: Ptr, size: usize, stream: u32) -> Result<Address, Halt> {
        let Ptr::At { alloc, byte } = ptr else { return Err(garbled("scalar")) };
        let size = size as u64;
        let (to, from) = (self.range(ptr, size)?, self.range(Ptr::At { alloc, byte: byte + size }, size)?);
        self.stream(stream)?.copy(to, from, size)?;
        Ok(to)
    }
    fn pointer(&self, ptr: Ptr) -> Result<Address, Halt> {
        self.range(ptr, 0)
    }
    /// An address from which this many bytes lie in the allocation.
    fn range(&self, ptr: Ptr, len: u64) -> Result<Address, Halt> {
        let Ptr::At { alloc, byte } = ptr else { return Ok(Address::NULL) };
        let find = self.state.memory.binary_search_by_key(&alloc, |(index, _)| *index);
        let (_, memory) = find.ok().and_then(|at| self.state.memory.get(at)).ok_or_else(|| garbled("allocation"))?;
        let start = self.job().allocs[alloc as usize].start;
        Ok(memory.at(start.saturating_add(byte), len)?)
    }
}
