//! Whose turn a one-sided operation is, and which signals have arrived. Operations of a rank to the same rank in the same context happen
//! in the order of their calls. Signals are counted by sender, index and context; a wait gets its number when it is called, so that
//! every signal counts for one wait.
use super::ready::TaskId;
use crate::op::{Kind, Spec};
use crate::transport::terms::SignalKey;
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, HashMap};

/// The signals that a rank has received.
#[derive(Default)]
struct Inbox {
    came: HashMap<SignalKey, u64>,
    waiting: Vec<TaskId>,
}

/// Signals by communicator and the rank that received them.
#[derive(Default)]
pub(super) struct Inboxes(FxHashMap<(u64, usize), Inbox>);

impl Inboxes {
    /// True if a rank has received so many signals; if not, the task is woken at the next one.
    pub(super) fn has(&mut self, shared: u64, rank: usize, key: &SignalKey, number: u64, task: TaskId) -> bool {
        let inbox = self.0.entry((shared, rank)).or_default();
        let has = inbox.came.get(key).is_some_and(|came| *came >= number);
        if !has {
            inbox.waiting.push(task);
        }
        has
    }

    /// A signal has arrived; answers the tasks that wait for one.
    pub(super) fn put(&mut self, shared: u64, rank: usize, key: SignalKey) -> Vec<TaskId> {
        let inbox = self.0.entry((shared, rank)).or_default();
        *inbox.came.entry(key).or_default() += 1;
        std::mem::take(&mut inbox.waiting)
    }

    /// Forgets the signals of a rank, or of a whole communicator.
    pub(super) fn forget(&mut self, shared: u64, rank: Option<usize>) {
        match rank {
            Some(rank) => _ = self.0.remove(&(shared, rank)),
            None => self.0.retain(|(of, _), _| *of != shared),
        }
    }
}

/// Operations of a rank to one other rank in one context.
#[derive(Default)]
struct Turns {
    /// Operations that were called.
    called: u64,
    /// Operations that are over.
    over: u64,
    waiting: BTreeMap<u64, TaskId>,
}

/// A rank's one-sided operations on a communicator.
#[derive(Default)]
pub(super) struct OneSided {
    turns: HashMap<(usize, u32), Turns>,
    /// Signals that waits were called for.
    awaited: HashMap<SignalKey, u64>,
}

impl OneSided {
    /// The number of an operation: its turn, or the total number of signals that must have arrived.
    pub(super) fn number(&mut self, spec: &Spec) -> u64 {
        let signal = spec.signal;
        if spec.kind == Kind::WaitSignal {
            let key = SignalKey { source: spec.peer, index: signal.index, context: signal.context };
            let awaited = self.awaited.entry(key).or_default();
            *awaited += signal.count;
            return *awaited;
        }
        let turns = self.turns_of(spec);
        turns.called += 1;
        turns.called
    }

    /// True if it is the turn of an operation with this number; if not, the task is woken when it is.
    pub(super) fn is_turn(&mut self, spec: &Spec, number: u64, task: TaskId) -> bool {
        let turns = self.turns_of(spec);
        let is_turn = turns.over + 1 >= number;
        if !is_turn {
            turns.waiting.insert(number, task);
        }
        is_turn
    }

    /// An operation is over; answers the task that has its turn next, if it waits.
    pub(super) fn over(&mut self, spec: &Spec, number: u64) -> Option<TaskId> {
        let turns = self.turns_of(spec);
        turns.over = turns.over.max(number);
        turns.waiting.remove(&(turns.over + 1))
    }

    fn turns_of(&mut self, spec: &Spec) -> &mut Turns {
        self.turns.entry((spec.peer, spec.signal.context)).or_default()
    }
}
