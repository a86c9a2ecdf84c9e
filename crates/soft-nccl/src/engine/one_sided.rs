//! One-sided operations: data that a rank puts into another's window, and signals.
#![allow(unsafe_code)] // windows of the caller are written

use super::State;
use super::counts::changed;
use super::ready::TaskId;
use super::step::write;
use super::task::{Parked, Task};
use crate::algo::{Operand, Step};
use crate::op::Kind;
use crate::transport::Name;
use crate::transport::control::Control;
use crate::transport::terms::SignalKey;
use crate::transport::wire::Head;

impl State {
    /// The reason a one-sided operation cannot begin yet; the task is woken when that may have changed.
    pub(super) fn holds_back(&mut self, task: &Task, id: TaskId) -> Option<Parked> {
        let (shared, rank, spec) = (task.shared(), task.rank(), &task.spec);
        if spec.kind == Kind::WaitSignal {
            let key = SignalKey { source: spec.peer, index: spec.signal.index, context: spec.signal.context };
            let has = self.inboxes.has(shared, rank, &key, task.sequence(), id);
            return (!has).then_some(Parked::Signal(spec.peer));
        }
        let member = self.comms.members.get_mut(&task.comm)?;
        let is_turn = member.one_sided.is_turn(spec, task.sequence(), id);
        (!is_turn).then_some(Parked::Turn(spec.peer))
    }

    /// Sends a piece of a put to the process of its target.
    pub(super) fn send_put(&mut self, to: Name, task: &Task, step: &Step, data: Vec<u8>) {
        let Some(Operand::In(at)) = step.source else { return };
        let Some(uid) = self.comms.spread(task.shared()).map(|spread| spread.uid) else { return };
        let signal = task.spec.signal;
        let head = Head::Put {
            uid,
            source: task.rank(),
            destination: task.spec.peer,
            window: signal.window,
            offset: signal.offset.saturating_add(at.saturating_mul(task.spec.ty.size())),
        };
        self.links.queue(to, &head, data);
        self.write_out();
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
        let Some(shared) = self.comms.uids.get(&uid).copied() else { return true };
        if self.comms.place(shared, source) != Some(from) {
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
        let there = self.comms.shared.get(&shared);
        match there.and_then(|there| there.place(spec.peer)) {
            None => self.signal(shared, spec.peer, key),
            Some(name) => {
                if let Some(uid) = there.and_then(|there| there.spread.as_ref()).map(|spread| spread.uid) {
                    self.tell(Some(name), Control::Signal { uid, key, destination: spec.peer });
                }
            }
        }
        let Some(member) = self.comms.members.get_mut(&task.comm) else { return };
        let next = member.one_sided.over(&spec, task.sequence());
        self.work.wake(next);
    }

    fn signal(&mut self, shared: u64, rank: usize, key: SignalKey) {
        let waiting = self.inboxes.put(shared, rank, key);
        self.work.wake_all(waiting);
        changed();
    }

    /// A rank of another process has signalled one of this process.
    pub(super) fn receive_signal(&mut self, from: Option<Name>, uid: u128, key: SignalKey, destination: usize) {
        let Some(shared) = self.comms.uids.get(&uid).copied() else { return };
        let Some(there) = self.comms.shared.get(&shared) else { return };
        let here = destination < there.ranks && there.place(destination).is_none();
        let bounded = key.index < MOST_SIGNALS as u32 && key.context < MOST_SIGNALS as u32;
        if here && bounded && from.is_some() && there.place(key.source) == from {
            self.signal(shared, destination, key);
        }
    }
}

/// Most contexts, and signals of a context, that a communicator can be configured with.
pub(crate) const MOST_SIGNALS: i32 = 1 << 16;
