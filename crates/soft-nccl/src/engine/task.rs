//! A task: one lane of one operation on one rank, with its cursor.
#![allow(unsafe_code)] // what a task must be promised

use super::channel::{ChannelId, ChannelKey, Channels};
use super::ready::TaskId;
use crate::algo::{Lane, Link, Step};
use crate::arith::Scalar;
use crate::op::Spec;
use crate::transport::Name;

pub(super) type BatchId = u64;

/// The reason a task does not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Parked {
    No,
    /// Its step failed: a bug here.
    Broken,
    Message(usize),
    Slot(usize),
    /// Everything is sent; the peer has not taken it.
    Taken(usize),
    /// Signals of this rank have not arrived.
    Signal(usize),
    /// An earlier one-sided operation to this rank is not over.
    Turn(usize),
    /// Too much is under way to this rank's process.
    Room(usize),
}

/// One end of a channel that a task has open.
#[derive(Clone, Copy)]
pub(super) struct Open {
    pub link: Link,
    pub sends: bool,
    pub channel: ChannelId,
}

pub(super) struct Task {
    pub comm: usize,
    pub batch: BatchId,
    pub spec: Spec,
    pub tag: u32,
    pub premul: Option<Scalar>,
    pub n: usize,
    key: ChannelKey,
    pub script: Lane,
    pub cursor: u64,
    /// The step at the cursor, once computed.
    pub step: Option<Step>,
    pub open: Vec<Open>,
    /// One chunk, for trees.
    pub scratch: Vec<u8>,
    /// The rank's own contribution, scaled.
    pub own: Vec<u8>,
    pub depth: u64,
    pub deepest: u64,
    pub sent: u64,
    pub received: u64,
    /// The send may end before its receive.
    pub eager: bool,
    pub parked: Parked,
    /// A link to be closed once everything sent there was taken.
    pub closing: Option<Link>,
    /// The other process whose memory a put writes.
    pub elsewhere: Option<Name>,
    /// True if it writes more than the caches hold.
    pub past_caches: bool,
}

impl Task {
    /// A task at the start of its script.
    ///
    /// # Safety
    /// As long as the task exists and its operation's stream has not continued, the memory that `spec` names is valid for the
    /// task's steps.
    #[allow(clippy::too_many_arguments)]
    pub(super) unsafe fn new(
        comm: usize,
        batch: BatchId,
        spec: Spec,
        tag: u32,
        premul: Option<Scalar>,
        n: usize,
        key: ChannelKey,
        script: Lane,
    ) -> Self {
        Self {
            comm,
            batch,
            spec,
            tag,
            premul,
            n,
            key,
            script,
            cursor: 0,
            step: None,
            open: Vec::new(),
            scratch: Vec::new(),
            own: Vec::new(),
            depth: 0,
            deepest: 0,
            sent: 0,
            received: 0,
            eager: false,
            parked: Parked::No,
            closing: None,
            elsewhere: None,
            past_caches: false,
        }
    }

    pub(super) fn rank(&self) -> usize {
        self.key.source
    }

    pub(super) fn shared(&self) -> u64 {
        self.key.shared
    }

    pub(super) fn sequence(&self) -> u64 {
        self.key.sequence
    }

    /// Counts a completed step; `depth` is that of the message it took. Messages to oneself do not count as traffic.
    pub(super) fn count(&mut self, step: &Step, depth: Option<u64>) {
        let others = |link: Option<Link>| link.is_some_and(|link| link.peer != self.key.source);
        if step.fresh {
            self.depth = 0;
        }
        if others(step.recv) {
            self.received += step.count as u64;
            self.depth = self.depth.max(depth.unwrap_or(0));
        }
        if others(step.send) {
            self.sent += step.count as u64;
        }
        self.deepest = self.deepest.max(self.depth);
    }

    pub(super) fn channel_key(&self, link: Link, sends: bool) -> ChannelKey {
        let own = self.key.source;
        let (source, destination) = if sends { (own, link.peer) } else { (link.peer, own) };
        ChannelKey { source, destination, lane: link.lane, ..self.key }
    }

    pub(super) fn close_link(&mut self, channels: &mut Channels, link: Link, sends: bool) {
        if let Some(at) = self.open.iter().position(|open| open.sends == sends && open.link == link) {
            let open = self.open.swap_remove(at);
            channels.close(open.channel);
        }
    }

    pub(super) fn close_all(&self, channels: &mut Channels) {
        for open in &self.open {
            channels.close(open.channel);
        }
    }

    /// True if a message sent on the link was not taken yet; in that case the task is woken when it is.
    pub(super) fn is_untaken(&self, channels: &mut Channels, link: Link, id: TaskId) -> bool {
        let open = self.open.iter().find(|open| open.sends && open.link == link);
        match open.and_then(|open| channels.get(open.channel)) {
            Some(channel) if !channel.is_drained() => {
                channel.wait_for_slot(id);
                true
            }
            _ => false,
        }
    }
}
