//! The block that has the next turn, if a seed decides it.
//!
//! Some errors of order show if any block may be next, some if one block runs far ahead of the others, and some if one is late by thousands of
//! turns. So the seed also decides the manner in which blocks are chosen.
use super::delay::{Delayed, StoreUnit};
use super::early::{Early, EarlyLoads};
use super::history::{History, Recorder};
use super::launch::Order;
use super::pool::Job;
use super::weak::WeakMemory;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// On average, one turn in this many changes a priority or begins a stall.
const CHANGE: usize = 256;
/// The longest stall, in turns.
const LONGEST_STALL: usize = 20_000;

/// What decides the order of turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// The same seed gives the same order.
    pub seed: u64,
    /// If it also decides when others see the stores of kernels, the part of a store that they see at once.
    pub delayed_stores: Option<StoreUnit>,
    /// If it also decides the moment at which a load sees memory, the loads for which it does.
    pub early_loads: Option<EarlyLoads>,
}

impl Schedule {
    /// Accesses happen in the order of the program.
    pub const fn new(seed: u64) -> Self {
        Self { seed, delayed_stores: None, early_loads: None }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manner {
    /// Each block has the same chance.
    Equal,
    /// The block with the highest priority has its turns until it polls. Blocks that poll and those of a few random turns get the lowest
    /// priority (after "probabilistic concurrency testing", ASPLOS 2010).
    Priorities,
    /// Each block has the same chance, but now and then one is passed over for a long time.
    Stalls,
}

/// The order of turns that a seed decides.
#[derive(Debug)]
pub(super) struct Choice {
    order: Order,
    manner: Manner,
    delayed_stores: Option<StoreUnit>,
    early_loads: Option<EarlyLoads>,
    /// The stores of all blocks, if loads are early.
    history: Arc<Mutex<History>>,
    /// The number of blocks so far.
    blocks: u64,
    /// The number of turns so far.
    turns: u64,
    /// The next lowest priority.
    lowest: u64,
}

impl Choice {
    pub(super) fn new(schedule: Schedule) -> Self {
        let mut order = Order(schedule.seed);
        let manner = [Manner::Equal, Manner::Priorities, Manner::Stalls][order.below(3)];
        let Schedule { delayed_stores, early_loads, .. } = schedule;
        let (history, lowest) = (Arc::default(), u64::from(u32::MAX));
        Self { order, manner, delayed_stores, early_loads, history, blocks: 0, turns: 0, lowest }
    }

    /// The order of the turns of a block's warps.
    pub(super) fn of_warps(&mut self) -> Order {
        Order(self.order.below(usize::MAX) as u64)
    }

    /// A launch begins: kernels may reach memory at addresses that are new.
    pub(super) fn launches(&mut self) {
        if self.early_loads.is_some() {
            self.history.lock().unwrap_or_else(PoisonError::into_inner).update_aliases();
        }
    }

    /// For a block that begins, if its accesses need not happen in the order of the program.
    pub(super) fn weak_memory(&mut self) -> Option<WeakMemory> {
        self.blocks += 1;
        let mut seed = || self.order.below(usize::MAX) as u64;
        let recorder = self.early_loads.map(|_| Recorder::new(self.history.clone(), self.blocks));
        let delayed = self.delayed_stores.map(|unit| Delayed::new(unit, seed(), recorder.clone()));
        let early = self.early_loads.zip(recorder).map(|(loads, recorder)| Early::new(loads, seed(), recorder));
        (delayed.is_some() || early.is_some()).then_some(WeakMemory { delayed, early })
    }

    /// The first value of [`Job::chance`] for a block that begins.
    pub(super) fn chance(&mut self) -> u64 {
        match self.manner {
            Manner::Priorities => self.lowest.saturating_add(self.order.below(u32::MAX as usize) as u64),
            Manner::Equal | Manner::Stalls => 0,
        }
    }

    /// The place of the block that is next. `still` is true if no block has made progress for as many turns as there are blocks.
    pub(super) fn next(&mut self, blocks: &mut VecDeque<Job>, still: bool) -> usize {
        self.turns += 1;
        let changes = self.order.below(CHANGE) == 0;
        match self.manner {
            Manner::Equal => self.order.below(blocks.len()),
            Manner::Priorities => {
                let at = (0..blocks.len()).max_by_key(|at| blocks[*at].chance).unwrap_or_default();
                if let Some(job) = blocks.get_mut(at).filter(|job| changes || job.idle > 0) {
                    job.chance = self.lowest;
                    self.lowest = self.lowest.saturating_sub(1);
                }
                at
            }
            Manner::Stalls => {
                let awake: Vec<usize> =
                    (0..blocks.len()).filter(|at| still || blocks[*at].chance <= self.turns).collect();
                let at = if awake.is_empty() {
                    (0..blocks.len()).min_by_key(|at| blocks[*at].chance).unwrap_or_default()
                } else {
                    awake[self.order.below(awake.len())]
                };
                if changes && let Some(job) = blocks.get_mut(at) {
                    job.chance = self.turns + self.order.below(LONGEST_STALL) as u64;
                }
                at
            }
        }
    }
}
