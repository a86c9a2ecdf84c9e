//! One-sided operations: data that a rank puts into another's window, and signals.
//!
//! Operations of a rank to the same rank in the same context happen in the order of their calls. Signals are counted by
//! sender, index and context; a wait gets its number when it is called, so that every signal counts for one wait.
#![allow(unsafe_code)] // windows of the caller are written

use super::State;
use super::step::write;
use super::task::{Parked, Task, TaskId};
use crate::algo::{Operand, Step};
use crate::op::{Kind, Spec};
use crate::transport::Name;
use crate::transport::control::Control;
use crate::transport::terms::SignalKey;
use crate::transport::wire::Head;
use std::collections::{BTreeMap, HashMap};

/// The signals that a rank has received.
#[derive(Default)]
pub(super) struct Inbox {
    came: HashMap<SignalKey, u64>,
    waiting: Vec<TaskId>,
}

/// Operations of a rank to one other rank in one context.
#[derive(Default)]
pub(super) struct Turns {
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
        let turns = self.turns.entry((spec.peer, signal.context)).or_default();
        turns.called += 1;
        turns.called
    }
}

impl State {
    /// The reason a one-sided operation cannot begin yet; the task is woken when that may have changed.
    pub(super) fn holds_back(&mut self, task: &Task, id: TaskId) -> Option<Parked> {
        let (shared, rank, spec) = (task.shared(), task.rank(), &task.spec);
        if spec.kind == Kind::WaitSignal {
            let key = SignalKey { source: spec.peer, index: spec.signal.index, context: spec.signal.context };
            let inbox = self.inboxes.entry((shared, rank)).or_default();
            if inbox.came.get(&key).is_some_and(|came| *came >= task.sequence()) {
                return None;
            }
            inbox.waiting.push(id);
            return Some(Parked::Signal(spec.peer));
        }
        let member = self.members.get_mut(&task.comm)?;
        let turns = member.one_sided.turns.entry((spec.peer, spec.signal.context)).or_default();
        if turns.over + 1 >= task.sequence() {
            return None;
        }
        turns.waiting.insert(task.sequence(), id);
        Some(Parked::Turn(spec.peer))
    }

    /// Sends a piece of a put to the process of its target.
    pub(super) fn send_put(&mut self, to: Name, task: &Task, step: &Step, data: Vec<u8>) {
        let Some(Operand::In(at)) = step.source else { return };
        let Some(uid) = self.shared.get(&task.shared()).and_then(|there| there.spread.as_ref()).map(|s| s.uid) else {
            return;
        };
        let signal = task.spec.signal;
        let head = Head::Put {
            uid,
            source: task.rank(),
            destination: task.spec.peer,
            window: signal.window,
            offset: signal.offset.saturating_add(at.saturating_mul(task.spec.ty.size())),
        };
        if let Some(link) = self.links.get_mut(&to) {
            link.queue(&head, data);
            self.unwritten.push(to);
            self.write_out();
        }
    }

    /// Handles a piece of a put from another process. Bytes that do not fit into a window of the rank are dropped; false if the sender
    /// does not have the rank that it names.
    pub(super) fn receive_put(
        &mut self,
        from: Name,
        (uid, source, destination): (u128, usize, usize),
        (window, offset): (u64, usize),
        data: &[u8],
    ) -> bool {
        let Some(shared) = self.uids.get(&uid).copied() else { return true };
        if self.shared.get(&shared).and_then(|there| there.place(source)) != Some(from) {
            return false;
        }
        let part = self.registered.part(shared, destination, window);
        if let Some((part, address)) = part.and_then(|part| Some((part, part.base.checked_add(offset)?)))
            && part.holds(address, data.len())
        {
            // SAFETY: the memory is registered, which its owner ends before it frees the memory.
            unsafe { write(address, data) };
        }
        true
    }

    /// A one-sided operation is over: its signal goes out, and the next operation has its turn.
    pub(super) fn one_sided_over(&mut self, task: &mut Task) {
        if task.spec.kind == Kind::WaitSignal {
            return;
        }
        let (shared, rank, spec) = (task.shared(), task.rank(), task.spec);
        if spec.peer != rank {
            task.sent += spec.count as u64;
        }
        let key = SignalKey { source: rank, index: spec.signal.index, context: spec.signal.context };
        let there = self.shared.get(&shared);
        match there.and_then(|there| there.place(spec.peer)) {
            None => self.signal(shared, spec.peer, key),
            Some(name) => {
                if let Some(uid) = there.and_then(|there| there.spread.as_ref()).map(|spread| spread.uid) {
                    self.tell(Some(name), Control::Signal { uid, key, destination: spec.peer });
                }
            }
        }
        let Some(member) = self.members.get_mut(&task.comm) else { return };
        let turns = member.one_sided.turns.entry((spec.peer, spec.signal.context)).or_default();
        turns.over = turns.over.max(task.sequence());
        let next = turns.waiting.remove(&(turns.over + 1));
        self.wake(next);
    }

    fn signal(&mut self, shared: u64, rank: usize, key: SignalKey) {
        let inbox = self.inboxes.entry((shared, rank)).or_default();
        *inbox.came.entry(key).or_default() += 1;
        let waiting = std::mem::take(&mut inbox.waiting);
        waiting.into_iter().for_each(|task| self.wake(Some(task)));
        self.changed();
    }

    /// A rank of another process has signalled one of this process.
    pub(super) fn receive_signal(&mut self, from: Option<Name>, uid: u128, key: SignalKey, destination: usize) {
        let Some(shared) = self.uids.get(&uid).copied() else { return };
        let Some(there) = self.shared.get(&shared) else { return };
        let here = destination < there.ranks && there.place(destination).is_none();
        let bounded = key.index < MOST_SIGNALS as u32 && key.context < MOST_SIGNALS as u32;
        if here && bounded && from.is_some() && there.place(key.source) == from {
            self.signal(shared, destination, key);
        }
    }

    /// Forgets the signals of a rank, or of a whole communicator.
    pub(super) fn forget_signals(&mut self, shared: u64, rank: Option<usize>) {
        match rank {
            Some(rank) => _ = self.inboxes.remove(&(shared, rank)),
            None => self.inboxes.retain(|(of, _), _| *of != shared),
        }
    }
}

/// Most contexts, and signals of a context, that a communicator can be configured with.
pub(crate) const MOST_SIGNALS: i32 = 1 << 16;
