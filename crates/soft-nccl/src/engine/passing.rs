//! Messages between ranks: within this process from one end of a channel to the other, and to and from other processes.
use super::State;
use super::channel::{ChannelId, ChannelKey, Message, Reach};
use super::remote::Violation;
use super::task::{Open, Task};
use crate::algo::Link;
use crate::settings::SLOTS;
use crate::transport::Name;
use crate::transport::wire::{ChannelName, Head};

/// Chunks of at least this size are written at once, so that their receiver can begin; smaller ones are written together at the end
/// of a task's turn.
const AT_ONCE: usize = 4096;

impl State {
    /// The channel of a task's link, opened at its first use.
    pub(super) fn channel_of(&mut self, task: &mut Task, link: Link, sends: bool) -> ChannelId {
        if let Some(open) = task.open.iter().find(|open| open.sends == sends && open.link == link) {
            return open.channel;
        }
        let key = task.channel_key(link, sends);
        let channel = self.channels.open(key, || self.comms.reach(&key));
        task.open.push(Open { link, sends, channel });
        if sends && task.spec.kind.is_p2p() {
            task.eager = self.channels.allow_eager(channel, task.spec.count * task.spec.ty.size());
        }
        channel
    }

    /// Puts a message in and wakes the task that waits for it.
    pub(super) fn push(&mut self, id: ChannelId, message: Message) {
        let Some(channel) = self.channels.get(id) else { return };
        if let Reach::To(there) = channel.reach {
            channel.away += 1;
            let (key, eager) = (channel.key, channel.is_eager());
            self.send(there, &key, eager, message);
            return;
        }
        let receiver = channel.put(message);
        self.work.wake(receiver);
    }

    /// Takes a message out and wakes the task that waits for the slot.
    pub(super) fn pop(&mut self, id: ChannelId) -> Option<Message> {
        let channel = self.channels.get(id)?;
        let message = channel.queue.pop_front()?;
        if let Reach::From(there) = channel.reach {
            channel.queued = channel.queued.saturating_sub(message.data.len());
            let key = channel.key;
            self.credit(there, &key);
            return Some(message);
        }
        let sender = self.channels.taken(id);
        self.work.wake(sender);
        Some(message)
    }

    /// Sends a chunk to another process.
    fn send(&mut self, to: Name, key: &ChannelKey, eager: bool, message: Message) {
        let Some(channel) = self.comms.channel_name(key) else { return };
        let len = message.data.len();
        self.links.queue(to, &Head::Data { channel, depth: message.depth, eager }, message.data);
        if len >= AT_ONCE {
            self.write_out();
        }
    }

    /// Tells the sender that a chunk was taken.
    fn credit(&mut self, to: Name, key: &ChannelKey) {
        if let Some(channel) = self.comms.channel_name(key) {
            self.links.queue(to, &Head::Credit(channel), Vec::new());
        }
    }

    /// Writes queued frames, as far as the sockets accept them.
    pub(super) fn write_out(&mut self) {
        let woken = self.links.write_out();
        self.work.wake_all(woken);
    }

    pub(super) fn receive_data(
        &mut self,
        from: Name,
        name: &ChannelName,
        eager: bool,
        message: Message,
    ) -> Result<(), Violation> {
        let Some(key) = self.comms.channel_key(name) else { return Ok(()) };
        let here = self.comms.members.values().any(|m| m.shared == key.shared && m.rank == key.destination);
        if !self.comms.may_come_from(from, &key, here) {
            return Err(Violation);
        }
        if !here {
            // It was aborted: its messages are dropped.
            return Ok(());
        }
        let id = self.channels.id(key, || self.comms.reach(&key));
        let Some(channel) = self.channels.get(id).filter(|channel| channel.reach == Reach::From(from)) else {
            return Err(Violation);
        };
        let whole = key.signature.count.saturating_mul(key.signature.ty.size());
        let queued = channel.queued + message.data.len();
        // A sender without credit continues to send: the amount that it may send eagerly is at most one operation.
        let allowed = if eager { queued <= whole } else { channel.queue.len() < SLOTS };
        if !allowed {
            return Err(Violation);
        }
        channel.queued = queued;
        self.push(id, message);
        Ok(())
    }

    pub(super) fn receive_credit(&mut self, from: Name, name: &ChannelName) -> Result<(), Violation> {
        let Some(key) = self.comms.channel_key(name) else { return Ok(()) };
        // The channel may have gone with its aborted sender.
        let Some(id) = self.channels.find(&key) else { return Ok(()) };
        let Some(channel) = self.channels.get(id).filter(|channel| channel.reach == Reach::To(from)) else {
            return Err(Violation);
        };
        channel.away = channel.away.checked_sub(1).ok_or(Violation)?;
        let sender = self.channels.taken(id);
        self.work.wake(sender);
        self.channels.remove_if_over(id);
        Ok(())
    }
}
