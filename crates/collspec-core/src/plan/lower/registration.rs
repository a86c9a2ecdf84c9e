//! Registrations become calls: those of buffers with the key `register`, and those of steps.
use super::super::item::{BufferSlice, Item, ItemKind, RegistrationPoint};
use super::super::rank_op::RankOp;
use super::super::registration::{Registration, image_bytes};
use super::super::types::{BufId, CommId, GUARD, StepId};
use super::Lowering;
use crate::job::CallKind;
use crate::scenario::{Diagnostic, RegisterKind};
use nccl_sys::NCCL_WIN_REQUIRED_ALIGNMENT;
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// Limit on the registrations that the keys of a file may request.
const MOST: usize = 200_000;

const ALIGNMENT: u64 = NCCL_WIN_REQUIRED_ALIGNMENT as u64;

/// The evidence that ranks have of communicators that end without a call of their own.
#[derive(Debug, Default)]
pub(super) struct Broken {
    /// Pairs of ranks; the first has seen the second end.
    ended: BTreeSet<(usize, usize)>,
    /// Ranks, and communicators that their shrinks have aborted.
    aborted: BTreeSet<(usize, CommId)>,
}

impl Broken {
    /// Follows a rank's call.
    pub(super) fn follow(&mut self, rank: usize, kind: &CallKind) {
        match kind {
            CallKind::AwaitDeath { ranks, .. } => {
                self.ended.extend(ranks.iter().map(|ended| (rank, *ended as usize)));
            }
            CallKind::Shrink { parent, abort: true, new: Some(_), .. } => {
                self.aborted.insert((rank, *parent as usize));
            }
            _ => {}
        }
    }
}

/// The buffers that the key `register` registers, by communicator.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    buffers: BTreeMap<CommId, Vec<BufId>>,
    /// Communicators that steps create.
    made: HashSet<CommId>,
}

impl Lowering {
    /// Finds the registrations that the key `register` requests.
    ///
    /// # Errors
    ///
    /// A window is impossible on some rank of its communicator.
    pub(super) fn find_wanted(&mut self, items: &[Vec<Item>]) -> Result<(), Diagnostic> {
        let keys = &self.lowered.unrolled.case;
        if !keys.registers_buffers() {
            return Ok(());
        }
        let mut used: BTreeMap<CommId, BTreeSet<BufId>> = BTreeMap::new();
        for item in items.iter().flatten() {
            match &item.kind {
                ItemKind::RegistrationPoint(RegistrationPoint::Made(comm)) => _ = self.wanted.made.insert(*comm),
                ItemKind::Op(op) => {
                    let target = match op {
                        RankOp::OneSided(op) => op.put.as_ref().map(|(_, to)| to),
                        _ => None,
                    };
                    let buffers = op.reads().iter().chain(op.writes()).chain(target).map(|slice| slice.buf);
                    used.entry(op.comm().unwrap_or(usize::MAX)).or_default().extend(buffers);
                }
                ItemKind::AllGatherV { comm, input, output, .. } => {
                    used.entry(*comm).or_default().extend([input.buf, output.buf]);
                }
                _ => {}
            }
        }
        used.remove(&usize::MAX);
        let mut total = 0;
        for (comm, buffers) in used {
            let mut kept = Vec::new();
            for buf in buffers {
                if self.is_wanted(comm, buf)? && !self.shares_memory(comm, buf, &kept)? {
                    kept.push(buf);
                }
            }
            total += kept.len() * self.members(comm).len();
            if total > MOST {
                let span = self.lowered.unrolled.case.span;
                return Err(Diagnostic::new(span, format!("`register` asks for more than {MOST} registrations"))
                    .help("fewer buffers, communicators or ranks"));
            }
            self.wanted.buffers.insert(comm, kept);
        }
        Ok(())
    }

    fn members(&self, comm: CommId) -> Vec<usize> {
        self.lowered.unrolled.comms.list[comm].members.clone()
    }

    /// The kind of registration that the key `register` requests for a buffer on a rank.
    fn kind(&self, buf: BufId, rank: usize) -> RegisterKind {
        let case = &self.lowered.unrolled.case;
        let own = self.lowered.placed.buffers[buf].input.and_then(|input| case.inputs.get(input));
        let register = own.map_or(case.register.as_ref(), |def| def.register.as_ref());
        let plan_own = self.lowered.placed.buffers[buf].name.starts_with('#');
        let kind = register.filter(|_| !plan_own).and_then(|register| register.kinds.get(rank));
        kind.copied().unwrap_or_default()
    }

    /// True if some rank is to register a buffer with a communicator.
    fn is_wanted(&self, comm: CommId, buf: BufId) -> Result<bool, Diagnostic> {
        let members = self.members(comm);
        let kinds: Vec<RegisterKind> = members.iter().map(|rank| self.kind(buf, *rank)).collect();
        if !kinds.contains(&RegisterKind::Window) {
            return Ok(kinds.contains(&RegisterKind::Local));
        }
        let buffer = &self.lowered.placed.buffers[buf];
        let refuse = |text: String| {
            let d = Diagnostic::new(buffer.span, text);
            Err(d.help("all ranks of a communicator make a window together, each with some of its memory"))
        };
        for (rank, kind) in members.iter().zip(&kinds) {
            if *kind != RegisterKind::Window {
                return refuse(format!("`{}` is a window on other ranks, but not on rank {rank}", buffer.name));
            }
            match buffer.places[*rank] {
                None => {
                    return refuse(format!("`{}` is to be a window, and rank {rank} does not have it", buffer.name));
                }
                Some(place) if place.count == 0 => {
                    return refuse(format!("`{}` is to be a window, and has no elements on rank {rank}", buffer.name));
                }
                Some(_) => {}
            }
        }
        Ok(true)
    }

    /// True if a buffer lies in memory that is registered for another buffer on every rank; NCCL does not define the effect of
    /// registering it twice.
    fn shares_memory(&self, comm: CommId, buf: BufId, others: &[BufId]) -> Result<bool, Diagnostic> {
        let alloc = |buf: BufId, rank: usize| self.lowered.placed.buffers[buf].places[rank].map(|place| place.alloc);
        let members = self.members(comm);
        for other in others {
            let same = |rank: &&usize| alloc(buf, **rank).is_some() && alloc(buf, **rank) == alloc(*other, **rank);
            let shared: Vec<&usize> = members.iter().filter(same).collect();
            if shared.is_empty() {
                continue;
            }
            let windows = |buf| members.iter().any(|rank| self.kind(buf, *rank) == RegisterKind::Window);
            let alike = members.iter().all(|rank| self.kind(buf, *rank) == self.kind(*other, *rank));
            if alike && (shared.len() == members.len() || !windows(buf)) {
                return Ok(shared.len() == members.len());
            }
            let (a, b) = (&self.lowered.placed.buffers[*other], &self.lowered.placed.buffers[buf]);
            let text = format!(
                "`{}` and `{}` share memory on rank {} and are registered in different ways",
                a.name, b.name, shared[0]
            );
            return Err(
                Diagnostic::new(b.span, text).help("give both the same `register`, and share memory on all ranks")
            );
        }
        Ok(false)
    }

    /// Adds the registrations and deregistrations that are due at a point of a rank's program.
    pub(super) fn registration_point(&mut self, rank: usize, step: StepId, point: RegistrationPoint) {
        match point {
            RegistrationPoint::First => {
                let made = |comm: &CommId| self.wanted.made.contains(comm);
                let comms: Vec<CommId> = self.wanted.buffers.keys().filter(|comm| !made(comm)).copied().collect();
                comms.into_iter().for_each(|comm| self.register_buffers(rank, step, comm));
            }
            RegistrationPoint::Made(comm) => self.register_buffers(rank, step, comm),
            RegistrationPoint::Signals => self.first_signals(rank, step),
            RegistrationPoint::Ending(comm) => self.deregister_all(rank, step, &[comm]),
            RegistrationPoint::Aborted(comm) => {
                // The call before this point is the one that has ended the communicator.
                let abort = self.lowered.programs[rank].len().saturating_sub(1);
                for id in self.live_ids(rank, comm) {
                    self.lowered.registrations.end(rank, id, abort);
                }
            }
            RegistrationPoint::Last => {
                let comms: Vec<CommId> = (0..self.lowered.unrolled.comms.list.len()).collect();
                self.deregister_all(rank, step, &comms);
            }
        }
    }

    fn live_ids(&self, rank: usize, comm: CommId) -> Vec<u32> {
        let now = self.lowered.programs[rank].len();
        self.lowered.registrations.live((rank, now), comm).map(|registration| registration.id).collect()
    }

    fn register_buffers(&mut self, rank: usize, step: StepId, comm: CommId) {
        if !self.lowered.unrolled.comms.list[comm].members.contains(&rank) {
            return;
        }
        for buf in self.wanted.buffers.get(&comm).cloned().unwrap_or_default() {
            let kind = self.kind(buf, rank);
            let Some(place) = self.lowered.placed.buffers[buf].places[rank] else { continue };
            let alloc = &self.lowered.placed.allocs[place.alloc];
            let window = kind == RegisterKind::Window;
            // A window begins at a multiple of 4,096 bytes, which is in front of a buffer with an offset.
            let from = if window { GUARD } else { alloc.start() };
            let bytes = from..alloc.image() - GUARD;
            let now = self.lowered.programs[rank].len();
            let known = self.lowered.registrations.live((rank, now), comm).any(|r| r.alloc == place.alloc);
            if kind == RegisterKind::None || known || bytes.is_empty() {
                continue;
            }
            let id = self.registration_id(rank, comm, window);
            let calls = now..usize::MAX;
            let registration = Registration { id, comm, window, alloc: place.alloc, bytes, by_key: true, step, calls };
            self.push_registration(rank, step, false, registration, false);
        }
    }

    fn registration_id(&mut self, rank: usize, comm: CommId, window: bool) -> u32 {
        let registrations = &mut self.lowered.registrations;
        if window { registrations.id_of_window(rank, comm) } else { registrations.id_of_own() }
    }

    fn push_registration(&mut self, rank: usize, step: StepId, tolerate: bool, it: Registration, fails: bool) {
        let Registration { id, comm, window, alloc, ref bytes, .. } = it;
        let (from, len) = (bytes.start, bytes.end - bytes.start);
        self.lowered.placed.allocs[alloc].window |= window;
        let kind = CallKind::Register { id, window, alloc: alloc as u32, from, bytes: len, comm: comm as u32 };
        self.push(rank, step, tolerate, kind, None);
        if fails {
            return;
        }
        self.lowered.registrations.add(rank, it);
    }

    /// Ends the remaining registrations, when all work that may use the memory is over.
    fn deregister_all(&mut self, rank: usize, step: StepId, comms: &[CommId]) {
        let live: Vec<(CommId, u32)> =
            comms.iter().flat_map(|comm| self.live_ids(rank, *comm).into_iter().map(|id| (*comm, id))).collect();
        let (broken, whole): (Vec<_>, Vec<_>) = live.into_iter().partition(|(comm, _)| self.is_broken(rank, *comm));
        let now = self.lowered.programs[rank].len();
        for (_, id) in broken {
            self.lowered.registrations.end(rank, id, now);
        }
        if whole.is_empty() {
            return;
        }
        self.push(rank, step, false, CallKind::Wait { stream: None }, None);
        for (comm, id) in whole {
            self.push_deregistration(rank, step, false, comm, id);
        }
    }

    /// True if a communicator has lost a rank, or a shrink has aborted it: then it can only be ended, and its registrations end
    /// with it.
    fn is_broken(&self, rank: usize, comm: CommId) -> bool {
        let broken = &self.broken;
        let members =
            self.lowered.unrolled.comms.list.get(comm).map(|comm| comm.members.as_slice()).unwrap_or_default();
        broken.aborted.contains(&(rank, comm))
            || (!broken.ended.is_empty() && members.iter().any(|member| broken.ended.contains(&(rank, *member))))
    }

    fn push_deregistration(&mut self, rank: usize, step: StepId, tolerate: bool, comm: CommId, id: u32) {
        let now = self.lowered.programs[rank].len();
        self.push(rank, step, tolerate, CallKind::Deregister { id, comm: comm as u32 }, None);
        self.lowered.registrations.end(rank, id, now);
    }

    /// A step that registers memory.
    pub(super) fn register(
        &mut self,
        rank: usize,
        item: &Item,
        (comm, memory, how): (CommId, BufferSlice, RegisterKind),
    ) -> Result<(), Diagnostic> {
        let region = self.region(&memory, rank, false)?;
        let window = how == RegisterKind::Window;
        let Some((alloc, mut bytes)) = image_bytes(&self.lowered, &region) else { return Ok(()) };
        let start = self.lowered.placed.allocs[alloc].start();
        if window && bytes.start == start {
            bytes.start = GUARD;
        }
        let name = &self.lowered.placed.buffers[memory.buf].name;
        if window && !item.fails && region.len == 0 {
            let text = format!("this window would have no elements of `{name}` on rank {rank}");
            return Err(Diagnostic::new(memory.span, text));
        }
        if window && !item.fails && !bytes.start.is_multiple_of(ALIGNMENT) {
            let byte = bytes.start - start;
            let text = format!("this window would begin at byte {byte} of `{name}` on rank {rank}");
            return Err(Diagnostic::new(memory.span, text).help(
                "a window begins at a multiple of 4,096 bytes, as whole buffers do; a put may begin anywhere in it",
            ));
        }
        let now = self.lowered.programs[rank].len();
        let overlaps = |r: &&Registration| r.alloc == alloc && r.bytes.start < bytes.end && bytes.start < r.bytes.end;
        let twice = self.lowered.registrations.live((rank, now), comm).filter(|r| window || r.window).find(overlaps);
        if let (Some(other), false) = (twice, item.fails) {
            let text = format!(
                "`{name}` is registered with this communicator already, and NCCL leaves it undefined what a second window of the same memory does"
            );
            let first = self.lowered.unrolled.steps[other.step as usize].span;
            return Err(Diagnostic::new(item.span, text).related(first, "registered here").help("deregister it first"));
        }
        // A call that fails does not create a window, so it does not count among those of its communicator.
        let id = self.registration_id(rank, comm, window && !item.fails);
        let tolerate = item.fails || self.tolerated(item.step, rank);
        let calls = now..usize::MAX;
        let it = Registration { id, comm, window, alloc, bytes, by_key: false, step: item.step, calls };
        self.push_registration(rank, item.step, tolerate, it, item.fails);
        Ok(())
    }

    /// A step that ends the registration of memory.
    pub(super) fn deregister(
        &mut self,
        rank: usize,
        item: &Item,
        (comm, memory): (CommId, BufferSlice),
    ) -> Result<(), Diagnostic> {
        let region = self.region(&memory, rank, false)?;
        let Some((alloc, bytes)) = image_bytes(&self.lowered, &region) else { return Ok(()) };
        let now = self.lowered.programs[rank].len();
        let is_it = |r: &&Registration| {
            let begins = r.bytes.start == bytes.start || (r.window && r.bytes.start == GUARD);
            r.alloc == alloc && if r.by_key { !memory.sliced } else { begins && r.bytes.end == bytes.end }
        };
        let found = self.lowered.registrations.live((rank, now), comm).find(is_it).map(|r| r.id);
        let Some(id) = found else {
            let name = &self.lowered.placed.buffers[memory.buf].name;
            let text = format!("`{name}` is not registered with this communicator on rank {rank}");
            return Err(
                Diagnostic::new(memory.span, text).help("name the same buffer or slice as where it is registered")
            );
        };
        let tolerate = self.tolerated(item.step, rank);
        self.push_deregistration(rank, item.step, tolerate, comm, id);
        Ok(())
    }
}
