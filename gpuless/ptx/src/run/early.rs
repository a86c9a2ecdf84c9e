//! Loads that find what was there before.
//!
//! On a GPU a load may be satisfied earlier than its place in the program, if no acquire forbids it (PTX ISA, "Memory Consistency
//! Model"); a cache that is not coherent, as each multiprocessor's L1, does that to weak loads. Here a seed decides the moment of a load, for each
//! line of 128 bytes: not before the block's last acquire or the start of its launch, its own last store to the line, or what it has
//! already seen of the line.

use super::history::{Change, Recorder};
use super::lanes::{Lanes, Mask, lanes_of};
use super::launch::Order;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// Lines of which a block remembers what it has seen; beyond that, it sees all anew.
const MOST_LINES: usize = 4096;

/// The loads that may be early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EarlyLoads {
    /// Weak ones, as from a GPU's L1 cache.
    Weak,
    /// Volatile and relaxed ones too, as PTX permits.
    All,
}

/// The moments at which a block sees memory.
#[derive(Debug)]
pub struct Early {
    loads: EarlyLoads,
    order: Order,
    /// Records the block's stores.
    pub recorder: Recorder,
    /// The moment of the last acquire.
    since: u64,
    /// For lines that have changed since, the moment at which the block has seen them.
    seen: FxHashMap<u64, u64>,
    /// The lines of the load at hand, and their moments.
    chosen: Vec<(u64, u64)>,
}

impl Early {
    /// For a block that begins now; a seed decides the moments of its loads.
    pub fn new(loads: EarlyLoads, seed: u64, recorder: Recorder) -> Self {
        let since = recorder.history().now();
        Self { loads, order: Order(seed), recorder, since, seen: FxHashMap::default(), chosen: Vec::new() }
    }

    /// Later loads see what is there now.
    pub fn acquire(&mut self) {
        self.since = self.recorder.history().now();
        self.seen.clear();
    }

    /// True if a load may be early.
    pub fn may_be(&self, is_weak: bool) -> bool {
        is_weak || self.loads == EarlyLoads::All
    }

    /// The block has seen what is there now at these addresses.
    pub fn saw(&mut self, addresses: impl Iterator<Item = u64>) {
        let history = self.recorder.history();
        let (lines, now) = (addresses.map(|address| history.line(address).0), history.now());
        self.seen.extend(lines.filter(|line| history.of(*line).is_some()).map(|line| (line, now)));
        drop(history);
        self.limit();
    }

    /// Chooses the moments of a load of `len` bytes, which do not reach beyond a line. Calls `put` with a lane, the place of one of these bytes and its value for
    /// bytes that were different then; the last call for a byte counts.
    pub fn look_back(&mut self, addresses: &Lanes<u64>, mask: Mask, len: u64, mut put: impl FnMut(usize, usize, u8)) {
        let Self { order, recorder, since, seen, chosen, .. } = self;
        let history = recorder.history();
        chosen.clear();
        for lane in lanes_of(mask) {
            let (line, offset) = history.line(addresses[lane]);
            let Some(changes) = history.of(line) else { continue };
            let known = chosen.iter().find(|(known, _)| *known == line).map(|(_, moment)| *moment);
            let moment = known.unwrap_or_else(|| {
                let since = seen.get(&line).map_or(*since, |seen| (*since).max(*seen));
                let moment = choose(order, changes, recorder.block, since).unwrap_or(history.now());
                if changes.back().is_some_and(|change| change.moment > since) {
                    seen.insert(line, moment);
                }
                chosen.push((line, moment));
                moment
            });
            for change in changes.iter().rev().take_while(|change| change.moment > moment) {
                change.undo(offset, len as usize, |at, byte| put(lane, at, byte));
            }
        }
        drop(history);
        self.limit();
    }

    fn limit(&mut self) {
        if self.seen.len() > MOST_LINES {
            self.acquire();
        }
    }
}

/// A moment not before `since` at which a block sees a line; `None` for now, which is chosen half of the time so that every poll ends.
fn choose(order: &mut Order, changes: &VecDeque<Change>, block: u64, since: u64) -> Option<u64> {
    let own = changes.iter().rev().find(|change| change.block == block).map_or(0, |change| change.moment);
    let first = changes.partition_point(|change| change.moment <= since.max(own));
    if first == changes.len() || order.below(2) == 0 {
        return None;
    }
    changes.get(first + order.below(changes.len() - first)).map(|change| change.moment - 1)
}
