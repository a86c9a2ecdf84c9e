//! Finds rings: runs whose orders are successive rotations of one chain, most of them equally long.
use super::computing::Computing;
use super::shapes::Order;
use super::trial::{Spent, Trial};
use std::cmp::Reverse;

/// A run: its first element, and the number of the ring's rotation.
pub(super) type RotationRun = (u64, usize);

/// A ring that explains every telling element.
pub(super) struct FoundRing {
    pub computing: usize,
    /// The ranks in the ring's order, from rank 0 on.
    pub ring: Vec<u32>,
    /// The chain of each rotation; number k ends at rank `ring[k]`.
    pub rotations: Vec<Order>,
    pub runs: Vec<RotationRun>,
    /// Rotation of the first run.
    pub first: usize,
    /// Number of runs whose length does not follow from the previous run.
    pub uneven: usize,
}

/// Limit on the chunk sizes of a ring that are tried if the first boundary is not known exactly.
const MOST_SIZES: usize = 64;
/// Up to this many elements, every size of a first chunk is tried.
const SMALL_CHUNK: u64 = 64;
/// Number of beginnings from which rings with uneven chunks are tried.
const MOST_BEGINNINGS: usize = 8;
/// Number of telling elements required for every run that does not follow from the previous one.
pub(super) const ELEMENTS_PER_RUN: usize = 16;

/// The beginning of a ring, from which it may continue evenly.
struct Beginning {
    reach: u64,
    computing: usize,
    ring: usize,
    first: usize,
    chunk: u64,
}

struct Ring {
    ranks: Vec<u32>,
    rotations: Vec<Order>,
}

/// The rotations of a ring, indexed by the rank at which they end.
fn ring_of(ranks: &[u32]) -> Ring {
    let n = ranks.len();
    let zero = ranks.iter().position(|rank| *rank == 0).unwrap_or(0);
    let ranks: Vec<u32> = (0..n).map(|k| ranks[(zero + k) % n]).collect();
    let up = ranks.iter().enumerate().all(|(k, rank)| *rank as usize == k);
    let down = n > 2 && ranks.iter().enumerate().all(|(k, rank)| *rank as usize == (n - k) % n);
    let rotation = |k: usize| {
        let start = ranks[(k + 1) % n];
        if up || down {
            return Order::Rotation { ranks: n as u32, start, down };
        }
        Order::Chain((0..n).map(|i| ranks[(k + 1 + i) % n]).collect())
    };
    Ring { rotations: (0..n).map(rotation).collect(), ranks }
}

/// Finds the ring that explains all telling elements, among those with these orders of ranks. Each may begin at any rank.
///
/// # Errors
///
/// The budget is used up.
pub(super) fn find_ring(
    trial: &mut Trial<'_>,
    computings: &[Computing],
    rings: &[Vec<u32>],
) -> Result<Option<FoundRing>, Spent> {
    let all: Vec<Ring> = rings.iter().map(|ranks| ring_of(ranks)).collect();
    let mut beginnings: Vec<Beginning> = Vec::new();
    let total = trial.columns.len();
    for (number, computing) in computings.iter().enumerate().filter(|(_, computing)| !computing.grouped) {
        for (at, ring) in all.iter().enumerate() {
            for first in 0..ring.rotations.len() {
                if !trial.explains(0, computing, &ring.rotations[first])? {
                    continue;
                }
                let walk = Walk { trial: &mut *trial, computing, ring, first };
                let mut found = walk.beginnings()?;
                if let Some((_, chunk)) = found.iter().find(|(reach, _)| *reach == total) {
                    let runs = even_runs(total, *chunk, first, ring.rotations.len());
                    return Ok(Some(found_ring(number, ring, first, runs, 0)));
                }
                found.sort_by_key(|(reach, _)| Reverse(*reach));
                beginnings.extend(found.into_iter().take(2).map(|(reach, chunk)| Beginning {
                    reach,
                    computing: number,
                    ring: at,
                    first,
                    chunk,
                }));
            }
        }
    }
    // Nothing is even throughout: there are channels of different sizes, and last passes with smaller chunks.
    beginnings.sort_by_key(|beginning| Reverse(beginning.reach));
    let mut best: Option<FoundRing> = None;
    for beginning in beginnings.into_iter().take(MOST_BEGINNINGS) {
        let (Some(ring), Some(computing)) = (all.get(beginning.ring), computings.get(beginning.computing)) else {
            continue;
        };
        let mut walk = Walk { trial: &mut *trial, computing, ring, first: beginning.first };
        let fewer_than = best.as_ref().map_or(usize::MAX, |best| best.uneven);
        let Some((runs, uneven)) = walk.walk(beginning.chunk, fewer_than)? else { continue };
        best = Some(found_ring(beginning.computing, ring, beginning.first, runs, uneven));
    }
    Ok(best)
}

fn even_runs(total: u64, chunk: u64, first: usize, ranks: usize) -> Vec<RotationRun> {
    let chunks = total.div_ceil(chunk.max(1));
    (0..chunks).map(|k| (k * chunk, (first + k as usize) % ranks)).collect()
}

fn found_ring(computing: usize, ring: &Ring, first: usize, runs: Vec<RotationRun>, uneven: usize) -> FoundRing {
    let (ranks, rotations) = (ring.ranks.clone(), ring.rotations.clone());
    FoundRing { computing, ring: ranks, rotations, runs, first, uneven }
}

/// A measure of how likely a library uses this chunk size: an even cut for all ranks, then multiples of powers of two.
fn roundness(chunk: u64, total: u64, ranks: usize) -> (bool, u32) {
    (chunk == total.div_ceil(ranks as u64), chunk.trailing_zeros())
}

/// Follows a ring along the elements.
struct Walk<'t, 'a, 'r> {
    trial: &'t mut Trial<'a>,
    computing: &'r Computing,
    ring: &'r Ring,
    first: usize,
}

/// The continuation of a walk where the next chunk differs from the previous one.
#[derive(Clone, Copy)]
struct Turn {
    start: u64,
    rotation: usize,
    chunk: u64,
    /// True if it replaces the last run.
    replaces: bool,
    reach: u64,
}

impl Walk<'_, '_, '_> {
    fn explains(&mut self, index: usize, rotation: usize) -> Result<bool, Spent> {
        let order = &self.ring.rotations[rotation % self.ring.rotations.len()];
        self.trial.explains(index, self.computing, order)
    }

    /// The first telling element from `from` on, before the element `end`, that a rotation does not explain.
    fn failure(&mut self, from: u64, end: u64, rotation: usize) -> Result<Option<usize>, Spent> {
        let columns = self.trial.columns;
        let order = &self.ring.rotations[rotation % self.ring.rotations.len()];
        self.trial.first_failure(columns.index(from)..columns.index(end), self.computing, order)
    }

    fn back(&mut self, from: usize, down_to: usize, rotation: usize) -> Result<usize, Spent> {
        let order = &self.ring.rotations[rotation % self.ring.rotations.len()];
        self.trial.back_from(from, down_to, self.computing, order)
    }

    /// The end of the elements that chunks of a size explain, given a start and a rotation.
    fn reach(&mut self, start: u64, rotation: usize, chunk: u64) -> Result<u64, Spent> {
        let total = self.trial.columns.len();
        let (mut at, mut rotation) = (start, rotation);
        while at < total {
            let end = at.saturating_add(chunk.max(1)).min(total);
            if let Some(failed) = self.failure(at, end, rotation)? {
                return Ok(self.trial.columns.element(failed));
            }
            (at, rotation) = (end, rotation + 1);
        }
        Ok(total)
    }

    /// True if the elements next to the first boundaries of chunks of a size are explained: a size that is slightly wrong
    /// fails there, long before its chunks have been tried in full.
    fn fits_at_boundaries(&mut self, chunk: u64) -> Result<bool, Spent> {
        const BESIDE: u64 = 16;
        let total = self.trial.columns.len();
        // A second pass may have smaller chunks.
        for k in 1..self.ring.rotations.len() as u64 {
            let Some(at) = k.checked_mul(chunk).filter(|at| *at < total) else { return Ok(true) };
            let rotation = self.first + k as usize;
            let (from, to) = (at - BESIDE.min(chunk), at.saturating_add(BESIDE.min(chunk)).min(total));
            if self.failure(from, at, rotation - 1)?.is_some() || self.failure(at, to, rotation)?.is_some() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Sizes of the first chunk with the element they reach, if that is at least in the third chunk; no further sizes after the first
    /// that reaches the end.
    fn beginnings(mut self) -> Result<Vec<(u64, u64)>, Spent> {
        let columns = self.trial.columns;
        let (total, n) = (columns.len(), self.ring.rotations.len() as u64);
        let Some(failed) = self.failure(0, total, self.first)? else { return Ok(Vec::new()) };
        let most = columns.element(failed);
        let mut sizes: Vec<u64> = (1..=most.min(SMALL_CHUNK)).collect();
        sizes.extend(Some(total.div_ceil(n)).filter(|even| *even <= most));
        if self.explains(failed, self.first + 1)? {
            let least = self.back(failed, 1, self.first + 1)?;
            sizes.extend(roundest(columns.element(least - 1) + 1, most));
        }
        sizes.sort_unstable_by_key(|size| (Reverse(roundness(*size, total, n as usize)), Reverse(*size)));
        sizes.dedup();
        let mut found = Vec::new();
        for chunk in sizes {
            if !self.fits_at_boundaries(chunk)? {
                continue;
            }
            // The first chunk is explained, as it ends before the first failure.
            let reach = self.reach(chunk, self.first + 1, chunk)?;
            if reach > most && reach > chunk.saturating_mul(2).min(total - 1) {
                found.push((reach, chunk));
            }
            if reach == total {
                break;
            }
        }
        Ok(found)
    }

    /// The runs, with the number of uneven ones, if the ring explains every element. Gives up once as many as `fewer_than` are uneven, or
    /// once uneven runs explain too few elements to justify their number.
    fn walk(&mut self, chunk: u64, fewer_than: usize) -> Result<Option<(Vec<RotationRun>, usize)>, Spent> {
        let columns = self.trial.columns;
        let (total, n) = (columns.len(), self.ring.rotations.len());
        let mut runs: Vec<RotationRun> = vec![(0, self.first)];
        let (mut size, mut uneven) = (chunk, 0usize);
        loop {
            let Some((start, rotation)) = runs.last().copied() else { return Ok(None) };
            let end = start.saturating_add(size).min(total);
            let Some(failed) = self.failure(start, end, rotation)? else {
                if end == total {
                    return Ok(Some((runs, uneven)));
                }
                runs.push((end, (rotation + 1) % n));
                continue;
            };
            uneven += 1;
            if uneven >= fewer_than || (uneven + 1) * ELEMENTS_PER_RUN > columns.telling.len() {
                return Ok(None);
            }
            let before = runs.len().checked_sub(2).and_then(|at| runs.get(at)).copied();
            let Some(turn) = self.turn(before, (start, rotation), failed, [size, chunk])? else { return Ok(None) };
            if turn.replaces {
                runs.pop();
            }
            if turn.start < total {
                runs.push((turn.start, turn.rotation % n));
                size = turn.chunk;
            } else {
                return Ok(Some((runs, uneven)));
            }
        }
    }

    /// The continuation that reaches farthest: the run that failed is shorter than expected, the previous run is longer, or a new
    /// part begins here.
    fn turn(
        &mut self,
        before: Option<RotationRun>,
        (start, rotation): RotationRun,
        failed: usize,
        sizes: [u64; 2],
    ) -> Result<Option<Turn>, Spent> {
        let columns = self.trial.columns;
        let (total, n) = (columns.len(), self.ring.rotations.len());
        let failed_element = columns.element(failed);
        let mut turns: Vec<(u64, usize, bool, u64)> = Vec::new();
        let successors = [(rotation + 1) % n, self.first];
        for next in successors.into_iter().take(if successors[0] == successors[1] { 1 } else { 2 }) {
            if next == rotation {
                continue;
            }
            turns.extend(few(start + 1, failed_element).map(|at| (at, next, false, at - start)));
            if self.explains(failed, next)? {
                let least = self.back(failed, columns.index(start + 1), next)?;
                let from = least.checked_sub(1).map_or(0, |last| columns.element(last) + 1).max(start + 1);
                turns.extend(roundest(from, failed_element).map(|at| (at, next, false, at - start)));
            }
        }
        if rotation != self.first {
            turns.push((start, self.first, true, sizes[0]));
        }
        if let Some((before_start, before_rotation)) = before {
            let end = self.failure(start, total, before_rotation)?;
            let end_element = end.map_or(total, |end| columns.element(end));
            turns.extend(few(before_start + 1, end_element).map(|at| (at, rotation, true, at - before_start)));
            match end {
                None => turns.push((total, rotation, true, sizes[0])),
                Some(end) if end > failed && self.explains(end, rotation)? => {
                    let least = self.back(end, failed + 1, rotation)?;
                    let from = least.checked_sub(1).map_or(0, |last| columns.element(last) + 1);
                    let longer = roundest(from, end_element);
                    turns.extend(longer.map(|at| (at, rotation, true, at - before_start)));
                }
                Some(_) => {}
            }
        }
        let mut best: Option<Turn> = None;
        for (at, next, replaces, length) in turns {
            for chunk in [sizes[0], sizes[1], length] {
                let reach = self.reach(at, next, chunk)?;
                let key = |turn: &Turn| (turn.reach, turn.start.trailing_zeros());
                let turn = Turn { start: at, rotation: next, chunk, replaces, reach };
                if reach > failed_element && best.as_ref().is_none_or(|best| key(&turn) > key(best)) {
                    best = Some(turn);
                }
            }
        }
        Ok(best)
    }
}

/// The numbers of a range including both ends, if they are few: then any of them may be a boundary.
fn few(from: u64, to: u64) -> impl Iterator<Item = u64> {
    let are_few = to.saturating_sub(from) <= SMALL_CHUNK;
    (from..=to).filter(move |_| are_few).take(SMALL_CHUNK as usize + 1)
}

/// Some of the numbers of a range including both ends: multiples of the greatest powers of two.
fn roundest(from: u64, to: u64) -> impl Iterator<Item = u64> {
    let mut step = 1u64;
    while to.saturating_sub(from) / step >= MOST_SIZES as u64 / 2 {
        step *= 2;
    }
    let round = (from.div_ceil(step)..=to / step).map(move |k| k * step);
    let mut all: Vec<u64> = round.chain([from, to]).filter(|at| from <= *at && *at <= to).collect();
    all.sort_unstable();
    all.dedup();
    all.into_iter()
}
