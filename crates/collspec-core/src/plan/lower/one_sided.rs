//! One rank's one-sided operation: its memory on this rank and on the peer, and the window that contains both.
use super::super::eval::{elements, ranks};
use super::super::item::{Item, ItemKind, Open};
use super::super::rank_op::{Placed, RankOneSided, RankOp, Size};
use super::super::registration::{Registration, image_bytes};
use super::super::types::{CommId, Region, StepId};
use super::call::Pointers;
use super::{LoweredOp, Lowering, narrow};
use crate::job::{CallKind, Ptr};
use crate::num::DType;
use crate::ops::ConfigValue;
use crate::scenario::{Diagnostic, Span, Spanned};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

/// The communicators that one-sided operations use, and their state.
#[derive(Debug, Default)]
pub(super) struct OneSidedComms {
    /// Communicators with one-sided operations.
    used: BTreeSet<CommId>,
    /// The configuration with which each is created.
    configs: HashMap<CommId, u32>,
    /// Ranks that have sent the first signal of a communicator.
    begun: HashSet<(usize, CommId)>,
}

/// The region that a put writes, and its window with the byte at which the region begins in it.
struct Target {
    region: Region,
    window: Option<(u32, u64)>,
}

impl Lowering {
    /// Finds the communicators with one-sided operations, and the configurations of all.
    pub(super) fn find_one_sided(&mut self, items: &[Vec<Item>]) {
        let comms = &self.lowered.unrolled.comms;
        let mut configs = HashMap::new();
        let mut note = |kind: &CallKind| match kind {
            CallKind::Init { comm, config: Some(config), .. }
            | CallKind::Split { new: Some(comm), config: Some(config), .. }
            | CallKind::Shrink { new: Some(comm), config: Some(config), .. }
            | CallKind::Grow { new: Some(comm), config: Some(config), .. } => {
                configs.insert(*comm as usize, *config);
            }
            _ => {}
        };
        comms.prelude.iter().flatten().for_each(&mut note);
        let made = items.iter().flatten().filter_map(|item| match &item.kind {
            ItemKind::Call(call) => Some(call),
            _ => None,
        });
        made.for_each(note);
        configs.extend(comms.world_config().map(|config| (0, config)));
        let used = items.iter().flatten().filter(|item| !item.fails).filter_map(|item| match &item.kind {
            ItemKind::Op(RankOp::OneSided(op)) => Some(op.comm),
            _ => None,
        });
        self.one_sided.used = used.collect();
        self.one_sided.configs = configs;
    }

    /// Adds the first signal of each communicator with one-sided operations, once the rank has a window of it.
    pub(super) fn first_signals(&mut self, rank: usize, step: StepId) {
        for comm in self.one_sided.used.clone() {
            if self.lowered.registrations.has_had_window(rank, comm) && self.one_sided.begun.insert((rank, comm)) {
                self.push(rank, step, false, CallKind::FirstSignal { comm: comm as u32, stream: 0 }, None);
            }
        }
    }

    /// A number of a communicator's configuration.
    fn configured(&self, comm: CommId, field: &str) -> Option<i128> {
        let fields = self.lowered.unrolled.comms.configs.get(*self.one_sided.configs.get(&comm)? as usize)?;
        fields.iter().find_map(|(name, value)| match value {
            ConfigValue::Int(value) if name == field => Some(i128::from(*value)),
            _ => None,
        })
    }

    pub(super) fn one_sided(
        &mut self,
        at: (usize, usize),
        item: &Item,
        open: &RankOneSided<Open>,
    ) -> Result<LoweredOp, Diagnostic> {
        let rank = at.0;
        let n = self.lowered.unrolled.comms.list[open.comm].members.len();
        let outside = open.peers.iter().find(|(peer, _)| !(0..n as i128).contains(&peer.value));
        if let (Some((peer, _)), false) = (outside, item.fails) {
            let text = || format!("peer {} is not in the communicator of {}", peer.value, ranks(n));
            self.lowered.undefined.get_or_insert_with(text);
        }
        if !item.fails && !self.lenient {
            self.check_signal(rank, item, open)?;
        }
        let peers: Vec<(i32, i128)> = open.peers.iter().map(|(peer, count)| (narrow(peer.value), *count)).collect();
        let (mut put, mut size) = (None, Size { count: 0, dtype: DType::U8 });
        let mut pointers = Pointers::new(Ptr::Null, Ptr::Null);
        if let Some((from, to)) = &open.put {
            let source = self.region(from, rank, true)?;
            size = Size { count: source.len, dtype: self.dtype(source.buf) };
            pointers = Pointers::new(self.ptr(&source), Ptr::Null);
            if let Some(target) = self.target(rank, item, open, (&source, to))? {
                put = Some((source, target.region));
                pointers.window = target.window;
            }
        }
        let op = RankOneSided::<Placed> {
            kind: open.kind,
            comm: open.comm,
            rank: open.rank,
            peers,
            put,
            size,
            context: open.context,
            signal_index: open.signal_index,
            flags: open.flags,
            stream: open.stream,
        };
        let takes_effect = outside.is_none() && !item.fails;
        Ok(LoweredOp { op: RankOp::OneSided(Arc::new(op)), pointers, takes_effect })
    }

    /// Refuses a signal that the communicator does not have.
    fn check_signal(&self, rank: usize, item: &Item, open: &RankOneSided<Open>) -> Result<(), Diagnostic> {
        for (key, field, value) in
            [("context", "numRmaCtx", open.context), ("signal_index", "numRmaSig", open.signal_index)]
        {
            let most = self.configured(open.comm, field).unwrap_or(1);
            if !(0..most).contains(&value) {
                let text = format!("`{key}` is {value} on rank {}, and this communicator has {most}", open.rank);
                return Err(Diagnostic::new(item.span, text)
                    .help(format!("`config = {{ {field} = {} }}` gives it more", value.max(0) + 1)));
            }
        }
        if open.flags != 0 {
            let text = format!("`flags` are {} on rank {}, and NCCL has none", open.flags, open.rank);
            return Err(
                Diagnostic::new(item.span, text).help("a call that is to fail has `error = \"invalid_argument\"`")
            );
        }
        let eager = self.configured(open.comm, "rmaEagerInit") == Some(1);
        if !eager && !self.lowered.registrations.has_had_window(rank, open.comm) {
            let text = format!("rank {rank} has made no window with this communicator, which signals need first");
            return Err(Diagnostic::new(item.span, text).help(
                "register a buffer as a window (`register = \"window\"`), or set `config = { rmaEagerInit = 1 }`",
            ));
        }
        Ok(())
    }

    /// The memory that a put writes on its peer. `None` if the peer is outside the communicator.
    fn target(
        &self,
        rank: usize,
        item: &Item,
        open: &RankOneSided<Open>,
        (source, to): (&Region, &super::super::item::BufferSlice),
    ) -> Result<Option<Target>, Diagnostic> {
        let Some((Spanned { value: peer, .. }, _)) = open.peers.first() else { return Ok(None) };
        let members = &self.lowered.unrolled.comms.list[open.comm].members;
        let world = usize::try_from(*peer).ok().and_then(|peer| members.get(peer).copied());
        let Some(world) = world else { return Ok(None) };
        let mut region = self.region(to, world, false)?;
        let (from, name) = (self.buffer_name(source.buf), self.buffer_name(region.buf));
        if self.dtype(source.buf) != self.dtype(region.buf) {
            let text = format!(
                "`{from}` has elements of type {}, and `{name}` of type {}",
                self.dtype(source.buf).name(),
                self.dtype(region.buf).name()
            );
            return Err(Diagnostic::new(to.span, text).help("a put writes elements of the type that it reads"));
        }
        if to.sliced && to.end.is_none() && source.len <= region.len {
            region.len = source.len;
        }
        if region.len != source.len {
            let text = format!(
                "the put reads {} of `{from}`, but writes {} of `{name}`",
                elements(source.len),
                elements(region.len)
            );
            return Err(Diagnostic::new(to.span, text)
                .help(format!("write the part that is meant, such as `\"{name}[0:]\"` from its start on")));
        }
        let found = self.common_window(rank, world, open.comm, &region);
        let own = self.in_window(rank, open.comm, source);
        if !item.fails && !self.lenient && (found.is_none() || !own) {
            let (whose, name) = if found.is_none() { (*peer, name) } else { (open.rank as i128, from) };
            let text = match source.len {
                0 if found.is_some() => {
                    format!("`{name}` on rank {whose} does not begin inside a window of this communicator")
                }
                _ => format!("`{name}` on rank {whose} is in no window of this communicator"),
            };
            return Err(Diagnostic::new(to.span, text)
                .help("a put reads and writes windows: give both buffers `register = \"window\"`"));
        }
        if let (Some(window), false) = (found, item.fails || self.lenient || source.len == 0) {
            self.check_own_part(rank, open, window, to.span)?;
        }
        Ok(Some(Target { region, window: found }))
    }

    /// Refuses a put that begins beyond its own rank's part of the window: NCCL measures the place by that part.
    fn check_own_part(
        &self,
        rank: usize,
        open: &RankOneSided<Open>,
        (id, begin): (u32, u64),
        span: Span,
    ) -> Result<(), Diagnostic> {
        let now = (rank, self.lowered.programs[rank].len());
        let own = self.lowered.registrations.live(now, open.comm).find(|own| own.id == id);
        let Some(len) = own.map(|own| own.bytes.end - own.bytes.start).filter(|len| *len <= begin) else {
            return Ok(());
        };
        let text = format!(
            "the put begins at byte {begin} of the window, of which the part of rank {} has {len} bytes: NCCL refuses it",
            open.rank
        );
        Err(Diagnostic::new(span, text)
            .help("make the part of the rank that puts longer, or give the buffer the same `offset` on every rank"))
    }

    fn buffer_name(&self, buf: usize) -> &str {
        &self.lowered.placed.buffers[buf].name
    }

    /// The window of both ranks that contains a region of the peer, and the byte at which the region begins in it.
    fn common_window(&self, rank: usize, world: usize, comm: CommId, region: &Region) -> Option<(u32, u64)> {
        let (alloc, bytes) = image_bytes(&self.lowered, region)?;
        let now = |rank: usize| (rank, self.lowered.programs[rank].len());
        let holds = |r: &&Registration| {
            r.window && r.alloc == alloc && r.bytes.start <= bytes.start && bytes.end <= r.bytes.end
        };
        let theirs = self.lowered.registrations.live(now(world), comm).filter(holds);
        let mut shared = theirs.filter(|r| self.lowered.registrations.live(now(rank), comm).any(|own| own.id == r.id));
        shared.next().map(|r| (r.id, bytes.start - r.bytes.start))
    }

    /// True if what a put reads lies in a window of its rank. NCCL looks the window up by the address alone, so a put of no elements
    /// must begin inside one as well: the end of a window is in none.
    fn in_window(&self, rank: usize, comm: CommId, region: &Region) -> bool {
        let Some((alloc, bytes)) = image_bytes(&self.lowered, region) else { return false };
        let holds = |r: &Registration| {
            r.window && r.alloc == alloc && r.bytes.contains(&bytes.start) && bytes.end <= r.bytes.end
        };
        self.lowered.registrations.live((rank, self.lowered.programs[rank].len()), comm).any(holds)
    }
}
