//! Channels: the way of one operation's chunks from one rank to another. Within a process both ends share the queue;
//! between processes the sender counts chunks in flight, and the receiver, which has the queue, sends a credit for every chunk
//! it takes.
use super::ready::TaskId;
use crate::op::Signature;
use crate::settings::SLOTS;
use crate::transport::Name;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::hash::{Hash, Hasher};

/// A channel's place in the table.
pub(super) type ChannelId = usize;

/// The properties that the two ends agree on. Operations that do not match have different keys and never meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ChannelKey {
    pub shared: u64,
    /// Number of the collective on the communicator, or of the send on the pair.
    pub sequence: u64,
    pub source: usize,
    pub destination: usize,
    pub lane: u8,
    pub signature: Signature,
}

impl Hash for ChannelKey {
    /// Without the signature: keys that differ only there are rare, and there are many lookups.
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.shared, self.sequence, self.source, self.destination, self.lane).hash(state);
    }
}

/// A chunk on its way.
pub(super) struct Message {
    pub data: Vec<u8>,
    /// Length of the longest chain of messages that led to this one.
    pub depth: u64,
}

/// The ends of a channel that are in this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    Here,
    /// The receiver lives there.
    To(Name),
    /// The sender lives there.
    From(Name),
}

/// One direction between two ranks for one lane of one operation.
pub(super) struct Channel {
    pub key: ChannelKey,
    pub(super) reach: Reach,
    pub(super) queue: VecDeque<Message>,
    /// Bytes in the queue; kept where the sender is elsewhere.
    pub(super) queued: usize,
    /// Messages that went to another process and were not taken there.
    pub(super) away: usize,
    /// Buffers to use again.
    free: Vec<Vec<u8>>,
    /// The task that waits for a slot, or for the queue to be empty.
    sender: Option<TaskId>,
    /// The task that waits for a message.
    receiver: Option<TaskId>,
    /// Ends that were opened and not closed.
    ends: u8,
    /// Ends that were ever opened.
    opened: u8,
    /// No limit of slots: the message lies in the library until it is fetched.
    eager: Option<usize>,
}

impl Channel {
    /// Puts a message in; answers the task that waits for it.
    pub(super) fn put(&mut self, message: Message) -> Option<TaskId> {
        self.queue.push_back(message);
        self.receiver.take()
    }

    pub(super) fn is_eager(&self) -> bool {
        self.eager.is_some()
    }

    pub(super) fn has_message(&self) -> bool {
        !self.queue.is_empty()
    }

    pub(super) fn has_slot(&self) -> bool {
        self.is_eager() || self.queue.len() + self.away < SLOTS
    }

    /// Everything sent was taken.
    pub(super) fn is_drained(&self) -> bool {
        self.queue.is_empty() && self.away == 0
    }

    pub(super) fn wait_for_message(&mut self, task: TaskId) {
        self.receiver = Some(task);
    }

    pub(super) fn wait_for_slot(&mut self, task: TaskId) {
        self.sender = Some(task);
    }

    pub(super) fn buffer(&mut self) -> Vec<u8> {
        self.free.pop().unwrap_or_default()
    }

    pub(super) fn recycle(&mut self, buffer: Vec<u8>) {
        if self.free.len() < SLOTS {
            self.free.push(buffer);
        }
    }
}

/// The channels of all operations.
#[derive(Default)]
pub(super) struct Channels {
    all: Vec<Option<Channel>>,
    free: Vec<ChannelId>,
    index: FxHashMap<ChannelKey, ChannelId>,
    /// Bytes that sends have left unreceived, by communicator and ordered pair.
    eager: FxHashMap<(u64, usize, usize), usize>,
}

impl Channels {
    /// Opens one end; the first of the two creates the channel.
    pub(super) fn open(&mut self, key: ChannelKey, reach: impl FnOnce() -> Reach) -> ChannelId {
        let id = self.id(key, reach);
        if let Some(channel) = self.get(id) {
            channel.ends += 1;
            channel.opened += 1;
        }
        id
    }

    /// The channel with this key, created if it does not exist.
    pub(super) fn id(&mut self, key: ChannelKey, reach: impl FnOnce() -> Reach) -> ChannelId {
        if let Some(id) = self.find(&key) {
            return id;
        }
        let channel = Channel {
            key,
            reach: reach(),
            queue: VecDeque::new(),
            queued: 0,
            away: 0,
            free: Vec::new(),
            sender: None,
            receiver: None,
            ends: 0,
            opened: 0,
            eager: None,
        };
        let id = match self.free.pop() {
            Some(id) => {
                self.all[id] = Some(channel);
                id
            }
            None => {
                self.all.push(Some(channel));
                self.all.len() - 1
            }
        };
        self.index.insert(key, id);
        id
    }

    pub(super) fn find(&self, key: &ChannelKey) -> Option<ChannelId> {
        self.index.get(key).copied()
    }

    pub(super) fn get(&mut self, id: ChannelId) -> Option<&mut Channel> {
        self.all.get_mut(id).and_then(Option::as_mut)
    }

    /// Closes one end. The channel is removed when both ends have been opened and closed; one that only a finished eager send
    /// opened stays for its receiver.
    pub(super) fn close(&mut self, id: ChannelId) {
        let Some(channel) = self.get(id) else { return };
        channel.ends = channel.ends.saturating_sub(1);
        self.remove_if_over(id);
    }

    pub(super) fn remove_if_over(&mut self, id: ChannelId) {
        let Some(channel) = self.get(id) else { return };
        let ends = if channel.reach == Reach::Here { 2 } else { 1 };
        if channel.ends == 0 && channel.opened >= ends && channel.away == 0 {
            self.remove(id);
        }
    }

    fn remove(&mut self, id: ChannelId) {
        if let Some(channel) = self.all.get_mut(id).and_then(Option::take) {
            self.index.remove(&channel.key);
            self.free.push(id);
            self.release_eager(&channel.key, channel.eager);
        }
    }

    /// Drops all channels of a communicator whose last rank has gone.
    pub(super) fn remove_of(&mut self, shared: u64) {
        let ids: Vec<ChannelId> =
            self.index.iter().filter(|(key, _)| key.shared == shared).map(|(_, id)| *id).collect();
        for id in ids {
            self.remove(id);
        }
    }

    /// A message was taken, by this or another process: its sender, if it waits, may continue.
    pub(super) fn taken(&mut self, id: ChannelId) -> Option<TaskId> {
        let channel = self.get(id)?;
        let sender = channel.sender.take();
        let (key, eager, drained) = (channel.key, channel.eager, channel.is_drained());
        if drained && eager.is_some() {
            // A message taken by its receiver no longer counts as unreceived.
            self.release_eager(&key, eager);
            if let Some(channel) = self.get(id) {
                channel.eager = Some(0);
            }
        }
        sender
    }

    /// Lets a send of `bytes` complete unreceived if the pair's allowance covers it.
    pub(super) fn allow_eager(&mut self, id: ChannelId, bytes: usize) -> bool {
        let allowance = crate::settings::settings().eager_bytes;
        let Some(channel) = self.get(id) else { return false };
        let pair = (channel.key.shared, channel.key.source, channel.key.destination);
        let used = self.eager.get(&pair).copied().unwrap_or(0);
        // Without an allowance even an empty message meets its receiver.
        if allowance == 0 || used.saturating_add(bytes) > allowance {
            return false;
        }
        self.eager.insert(pair, used + bytes);
        if let Some(channel) = self.get(id) {
            channel.eager = Some(bytes);
        }
        true
    }

    fn release_eager(&mut self, key: &ChannelKey, bytes: Option<usize>) {
        let pair = (key.shared, key.source, key.destination);
        if let (Some(bytes), Some(used)) = (bytes, self.eager.get_mut(&pair)) {
            *used = used.saturating_sub(bytes);
            if *used == 0 {
                self.eager.remove(&pair);
            }
        }
    }
}
