//! Tracks which memory is registered with which communicator at each call, and how collectives may use it.
mod lifetimes;

use super::lower::{Index, LoweredProgram};
use super::rank_op::{Placed, RankCollective, RankOp};
use super::types::{AllocId, CommId, Region, StepId};
use crate::ops::InPlace;
use crate::scenario::{Diagnostic, Span};
use lifetimes::Lifetimes;
use rustc_hash::FxHashMap;
use std::ops::Range;

/// Memory of one rank that is registered with one communicator for a part of the rank's program.
#[derive(Clone, Debug)]
pub struct Registration {
    /// The registration's number, unique on its rank; the ranks that create a window together use the same number for it.
    pub id: u32,
    pub comm: CommId,
    pub window: bool,
    pub alloc: AllocId,
    /// Bytes of the allocation's image.
    pub bytes: Range<u64>,
    /// True if the key `register` requested it, rather than a step.
    pub by_key: bool,
    /// The step that registers it.
    pub step: StepId,
    /// The range of the rank's program in which it holds: from the call that registers it to the one that deregisters it.
    pub calls: Range<usize>,
}

/// All registrations of a program.
#[derive(Debug, Default)]
pub struct Registrations {
    by_rank: Vec<Vec<Registration>>,
    /// For each rank and communicator: the positions of its registrations in `by_rank`, and their lifetimes.
    lifetimes: FxHashMap<(usize, CommId), (Vec<usize>, Lifetimes)>,
    /// For each rank and registration number: the position in `by_rank`.
    places: FxHashMap<(usize, u32), usize>,
    /// For each call that ends registrations: the position of the first of them in `by_rank`.
    ended: FxHashMap<Index, usize>,
    /// For each communicator: the numbers of its windows in the order in which each of its ranks registers them.
    windows: FxHashMap<CommId, Vec<u32>>,
    /// For each rank and communicator: the number of windows that the rank has registered.
    registered: FxHashMap<(usize, CommId), usize>,
    next: u32,
}

impl Registrations {
    /// An empty set of registrations for this many ranks.
    pub fn new(ranks: usize) -> Self {
        Self { by_rank: vec![Vec::new(); ranks], ..Self::default() }
    }

    /// The number of a registration that a rank makes without others.
    pub fn id_of_own(&mut self) -> u32 {
        self.next += 1;
        self.next - 1
    }

    /// The number of the window that a rank registers next with a communicator. The ranks of a communicator create its windows
    /// together: the n-th of one rank is the n-th of every other, whichever steps register them.
    pub fn id_of_window(&mut self, rank: usize, comm: CommId) -> u32 {
        let made = self.registered.entry((rank, comm)).or_default();
        let (known, nth) = (self.windows.entry(comm).or_default(), *made);
        *made += 1;
        if nth == known.len() {
            known.push(self.next);
            self.next += 1;
        }
        known[nth]
    }

    /// Records a registration by the call with the index `calls.start`.
    pub fn add(&mut self, rank: usize, registration: Registration) {
        let place = self.by_rank[rank].len();
        let (places, lifetimes) = self.lifetimes.entry((rank, registration.comm)).or_default();
        places.push(place);
        lifetimes.begin(registration.calls.start);
        self.places.insert((rank, registration.id), place);
        self.by_rank[rank].push(registration);
    }

    /// Ends a registration at this call.
    pub fn end(&mut self, rank: usize, id: u32, call: usize) {
        let Some(&place) = self.places.get(&(rank, id)) else { return };
        let ending = &mut self.by_rank[rank][place];
        if ending.calls.end != usize::MAX {
            return;
        }
        ending.calls.end = call;
        if let Some((places, lifetimes)) = self.lifetimes.get_mut(&(rank, ending.comm))
            && let Ok(index) = places.binary_search(&place)
        {
            lifetimes.set_end(index, call);
        }
        let first = self.ended.entry((rank, call)).or_insert(place);
        *first = place.min(*first);
    }

    /// The registrations of a rank with a communicator at a call, the newest first.
    pub fn live(&self, (rank, call): Index, comm: CommId) -> impl Iterator<Item = &Registration> {
        let known = self.lifetimes.get(&(rank, comm)).into_iter();
        known.flat_map(move |(places, lifetimes)| {
            lifetimes.holding_at(call).map(move |index| &self.by_rank[rank][places[index]])
        })
    }

    /// True if a rank has created a window with a communicator; the window may have ended.
    pub fn has_had_window(&self, rank: usize, comm: CommId) -> bool {
        self.registered.contains_key(&(rank, comm))
    }

    pub fn of_rank(&self, rank: usize) -> &[Registration] {
        self.by_rank.get(rank).map_or(&[][..], Vec::as_slice)
    }

    /// A rank's registration that this call ends.
    pub fn ended_by(&self, (rank, call): Index) -> Option<&Registration> {
        Some(&self.by_rank[rank][*self.ended.get(&(rank, call))?])
    }
}

/// The bytes of a region in its allocation's image.
pub fn image_bytes(lowered: &LoweredProgram, region: &Region) -> Option<(AllocId, Range<u64>)> {
    let buffer = &lowered.placed.buffers[region.buf];
    let place = buffer.places[region.rank]?;
    let size = buffer.dtype.size() as u64;
    let start = lowered.placed.allocs[place.alloc].start() + place.offset + region.start * size;
    Some((place.alloc, start..start + region.len * size))
}

/// The registration that covers a region where the library receives a call: a window, if there is one.
pub fn covering<'a>(
    lowered: &'a LoweredProgram,
    at: Index,
    comm: CommId,
    region: &Region,
) -> Option<(&'a Registration, u64)> {
    let (_, bytes) = image_bytes(lowered, region)?;
    let all = all_covering(lowered, lowered.given_at(at), comm, region);
    let found = all.iter().find(|r| r.window).or(all.first())?;
    Some((found, bytes.start - found.bytes.start))
}

/// The registrations that cover a region at a call, the newest first.
pub fn all_covering<'a>(
    lowered: &'a LoweredProgram,
    at: Index,
    comm: CommId,
    region: &Region,
) -> Vec<&'a Registration> {
    let Some((alloc, bytes)) = image_bytes(lowered, region) else { return Vec::new() };
    let covers = |r: &&Registration| r.alloc == alloc && r.bytes.start <= bytes.start && bytes.end <= r.bytes.end;
    lowered.registrations.live(at, comm).filter(covers).collect()
}

/// Refuses windows that ranks register in different steps, if one thread makes the calls step by step: the first of them would wait
/// for the others.
///
/// # Errors
///
/// The diagnostic is at the later step.
pub fn check_one_thread(lowered: &LoweredProgram) -> Result<(), Vec<Diagnostic>> {
    let mut first: FxHashMap<u32, StepId> = FxHashMap::default();
    let unit = |step: StepId| lowered.unrolled.units[step as usize];
    for window in lowered.registrations.by_rank.iter().flatten().filter(|r| r.window) {
        let other = *first.entry(window.id).or_insert(window.step);
        if unit(other) != unit(window.step) {
            let span = |step: StepId| lowered.unrolled.steps[step as usize].span;
            let text = "with `placement = \"one_thread\"` all ranks register their parts of a window in one step";
            return Err(vec![Diagnostic::new(span(window.step), text).related(span(other), "another part of it")]);
        }
    }
    Ok(())
}

/// One side of a collective's calls, on the ranks that use it.
struct Side {
    name: &'static str,
    /// False if the ranks use different parts of the memory by definition.
    same_offset: bool,
    used: Vec<(Index, Region)>,
}

/// Refuses a collective whose ranks do not all pass memory that is registered in the same way.
///
/// # Errors
///
/// Memory that is registered on some ranks only, or at different places.
pub fn check_collective(lowered: &LoweredProgram, calls: &[Index]) -> Result<(), Diagnostic> {
    let ops: Vec<(Index, &RankCollective<Placed>)> = calls
        .iter()
        .filter_map(|at| match lowered.op(*at) {
            Some(RankOp::Collective(op)) => Some((*at, &**op)),
            _ => None,
        })
        .collect();
    let Some((_, first)) = ops.first() else { return Ok(()) };
    for side in sides(lowered, &ops) {
        check_side(lowered, first.comm, &side)?;
    }
    Ok(())
}

fn sides(lowered: &LoweredProgram, ops: &[(Index, &RankCollective<Placed>)]) -> [Side; 2] {
    let shared = |op: &RankCollective<Placed>| {
        let alloc = |region: &Option<Region>| image_bytes(lowered, &region.as_ref().copied()?).map(|(alloc, _)| alloc);
        op.send.is_some() && alloc(&op.send) == alloc(&op.recv)
    };
    let in_place = ops.iter().any(|(_, op)| shared(op));
    let inner = |kind: InPlace| in_place && ops.first().is_some_and(|(_, op)| op.op.in_place == kind);
    let used = |region: fn(&RankCollective<Placed>) -> Option<Region>| {
        let regions = ops.iter().filter_map(|(at, op)| Some((*at, region(op)?)));
        regions.filter(|(_, region)| region.len > 0).collect()
    };
    [
        Side { name: "reads", same_offset: !inner(InPlace::SendInRecv), used: used(|op| op.send) },
        Side { name: "writes", same_offset: !inner(InPlace::RecvInSend), used: used(|op| op.recv) },
    ]
}

fn check_side(lowered: &LoweredProgram, comm: CommId, side: &Side) -> Result<(), Diagnostic> {
    let found: Vec<_> = side.used.iter().map(|(at, region)| covering(lowered, *at, comm, region)).collect();
    let Some((known, (registration, offset))) = found.iter().enumerate().find_map(|(i, f)| Some((i, (*f)?))) else {
        return Ok(());
    };
    let of = |i: usize| (side.used[i].0, lowered.placed.buffers[side.used[i].1.buf].name.as_str());
    let span = |at: Index| -> Span { lowered.unrolled.steps[lowered.step(at) as usize].span };
    let how = |window: bool| if window { "in a window" } else { "registered" };
    for (i, other) in found.iter().enumerate() {
        let (((rank, call), name), ((known_rank, _), known_name)) = (of(i), of(known));
        let why = match other {
            None => format!(
                "rank {rank} {} `{name}`, which is not registered with this communicator, while `{known_name}` on rank {known_rank} is {}",
                side.name,
                how(registration.window)
            ),
            Some((its, _)) if its.window != registration.window || (its.window && its.id != registration.id) => {
                format!(
                    "rank {rank} {} `{name}`, which is {}, while `{known_name}` on rank {known_rank} is {}",
                    side.name,
                    if its.window { "in another window" } else { "registered by itself" },
                    how(registration.window)
                )
            }
            Some((_, at)) if *at != offset && side.same_offset => format!(
                "rank {rank} {} `{name}` at byte {at} of its registered memory, but rank {known_rank} `{known_name}` at byte {offset}",
                side.name
            ),
            Some(_) => continue,
        };
        return Err(Diagnostic::new(span((rank, call)), format!("{why}: NCCL leaves the result undefined"))
            .help("register the memory on every rank of the communicator, and use the same place in it"));
    }
    Ok(())
}
