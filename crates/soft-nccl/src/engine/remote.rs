//! Messages to and from other processes, and the consequences when one is gone.
use super::channel::{ChannelKey, Message, Reach};
use super::hosts::stop;
use super::member::Spread;
use super::{ENGINE, State, lock};
use crate::failure::Failure;
use crate::settings::SLOTS;
use crate::transport::control::Control;
use crate::transport::wire::{ChannelName, Head};
use crate::transport::{Address, MOST_PROCESSES, Name, Stream, TransportEvent, Ways, connect, connect_all, known};
use nccl_sys::ncclResult_t;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

/// Chunks of at least this size are written at once, so that their receiver can begin; smaller ones are written together at the end
/// of a task's turn.
const AT_ONCE: usize = 4096;

/// A frame that no member sends.
struct Violation;

/// See [`Receiver`].
pub(super) fn links() -> Vec<(Name, Arc<Stream>, bool)> {
    let state = lock();
    state.links.iter().map(|(name, link)| (*name, Arc::clone(&link.stream), link.is_waiting())).collect()
}

/// See [`Receiver`].
pub(super) fn deliver(events: Vec<TransportEvent>) -> Vec<Name> {
    if events.is_empty() {
        return Vec::new();
    }
    let mut refused = Vec::new();
    let is_traffic = |event: &TransportEvent| {
        matches!(
            event,
            TransportEvent::Frame(_, Head::Data { .. } | Head::Put { .. } | Head::Credit(_), _)
                | TransportEvent::Writable(_)
        )
    };
    let others_changed = !events.iter().all(is_traffic);
    let ways = if others_changed { open_ways(&events) } else { Ways::new() };
    let mut state = lock();
    state.ways = ways;
    for event in events {
        match event {
            TransportEvent::Frame(from, ..) if refused.contains(&from.name) => {}
            TransportEvent::Frame(from, head, body) => {
                if state.receive(from, head, body).is_err() {
                    refused.push(from.name);
                    state.gone(from.name);
                }
            }
            TransportEvent::Writable(name) => {
                state.flush_link(name);
                state.sweep_due |= state.links.get(&name).is_some_and(|link| link.closing);
            }
            TransportEvent::Gone(name) => state.gone(name),
        }
    }
    state.ways.clear();
    state.tidy();
    ENGINE.written.notify_all();
    let doomed = std::mem::take(&mut state.doomed);
    let mut dones = Vec::new();
    if !doomed.is_empty() {
        (state, dones) = stop(state, &doomed);
        state.changed();
    }
    let idle = !state.is_driven() && !state.ready.is_empty();
    let hook = state.hook().filter(|_| others_changed || (!idle && !dones.is_empty()));
    drop(state);
    if idle {
        ENGINE.work.notify_one();
    }
    if !dones.is_empty() {
        for done in dones {
            done.finish();
        }
        crate::device::wake_hosts();
    }
    if let Some(hook) = hook {
        hook();
    }
    refused
}

/// Opens the connections that these events will need, all at once and without the lock, so that ranks continue in the meantime.
fn open_ways(events: &[TransportEvent]) -> Ways {
    let Some(own) = known().map(|own| own.address) else { return Ways::new() };
    let mut needed: BTreeMap<Name, Address> = BTreeMap::new();
    for event in events {
        let TransportEvent::Frame(from, Head::Control(control), _) = event else { continue };
        let more: &[Address] = match &**control {
            Control::Join { .. } => std::slice::from_ref(from),
            Control::Table(table) => table.processes.get(..MOST_PROCESSES).unwrap_or(&table.processes),
            _ => &[],
        };
        needed.extend(more.iter().map(|address| (address.name, *address)));
    }
    needed.remove(&own.name);
    if !needed.is_empty() {
        let state = lock();
        needed.retain(|name, _| state.links.get(name).is_none_or(|link| link.broken));
    }
    if needed.is_empty() { Ways::new() } else { connect_all(needed.into_values().collect()) }
}

impl State {
    /// Opens the way to a process, unless it is open.
    pub(super) fn connect(&mut self, to: Address) -> io::Result<()> {
        if let Some(link) = self.links.get_mut(&to.name).filter(|link| !link.broken) {
            link.closing = false;
            return Ok(());
        }
        let way = self.ways.remove(&to.name).unwrap_or_else(|| connect(to));
        self.links.insert(to.name, way?);
        if let Some(own) = known() {
            own.wake();
        }
        Ok(())
    }

    /// Sends a control message to a process, perhaps this one. Without a link it is dropped: the end of a process is found out
    /// in any case.
    pub(super) fn tell(&mut self, to: Option<Name>, control: Control) {
        match (to, known()) {
            (None, Some(own)) => self.receive_control(own.address, None, control),
            (Some(name), _) => {
                if let Some(link) = self.links.get_mut(&name) {
                    link.queue(&Head::Control(Box::new(control)), Vec::new());
                    self.unwritten.push(name);
                }
            }
            (None, None) => {}
        }
    }

    /// Sends a chunk to another process.
    pub(super) fn send(&mut self, to: Name, key: &ChannelKey, eager: bool, message: Message) {
        let Some(channel) = self.channel_name(key) else { return };
        let Some(link) = self.links.get_mut(&to) else { return };
        let len = message.data.len();
        link.queue(&Head::Data { channel, depth: message.depth, eager }, message.data);
        self.unwritten.push(to);
        if len >= AT_ONCE {
            self.write_out();
        }
    }

    /// Tells the sender that a chunk was taken.
    pub(super) fn credit(&mut self, to: Name, key: &ChannelKey) {
        let Some(channel) = self.channel_name(key) else { return };
        if let Some(link) = self.links.get_mut(&to) {
            link.queue(&Head::Credit(channel), Vec::new());
            self.unwritten.push(to);
        }
    }

    /// Writes queued frames, as far as the sockets accept them.
    pub(super) fn write_out(&mut self) {
        let mut full = false;
        for name in std::mem::take(&mut self.unwritten) {
            if self.links.get(&name).is_some_and(|link| !link.blocked) {
                full |= self.flush_link(name);
            }
        }
        if full && let Some(own) = known() {
            own.wake();
        }
    }

    /// Writes queued frames, and closes links that are no longer needed.
    pub(super) fn tidy(&mut self) {
        self.write_out();
        if !std::mem::take(&mut self.sweep_due) || self.links.is_empty() {
            return;
        }
        let mut needed: BTreeSet<Name> = self.correspondents();
        for spread in self.shared.values().filter_map(|shared| shared.spread.as_ref()) {
            needed.extend(spread.peers.iter().filter(|name| !spread.left.contains(name)));
        }
        let before = self.links.len();
        self.links.retain(|name, link| {
            link.closing = !needed.contains(name);
            !link.closing || (link.is_waiting() && !link.broken)
        });
        if self.links.len() < before
            && let Some(own) = known()
        {
            // Its thread has copies of the sockets.
            own.wake();
        }
    }

    /// True if a link that is no longer needed has something left to write.
    pub(super) fn has_closing_output(&self) -> bool {
        self.links.values().any(|link| link.closing && link.is_waiting() && !link.broken)
    }

    fn channel_name(&self, key: &ChannelKey) -> Option<ChannelName> {
        let uid = self.shared.get(&key.shared)?.spread.as_ref()?.uid;
        let ChannelKey { sequence, source, destination, lane, signature, .. } = *key;
        Some(ChannelName { uid, sequence, source, destination, lane, signature })
    }

    /// The local key of a channel; `None` if its communicator no longer exists in this process.
    fn channel_key(&self, name: &ChannelName) -> Option<ChannelKey> {
        let shared = *self.uids.get(&name.uid)?;
        let ChannelName { sequence, source, destination, lane, signature, .. } = *name;
        Some(ChannelKey { shared, sequence, source, destination, lane, signature })
    }

    fn receive(&mut self, from: Address, head: Head, body: Vec<u8>) -> Result<(), Violation> {
        match head {
            Head::Data { channel, depth, eager } => {
                self.receive_data(from.name, &channel, eager, Message { data: body, depth })
            }
            Head::Credit(channel) => self.receive_credit(from.name, &channel),
            Head::Put { uid, source, destination, window, offset } => {
                let known = self.receive_put(from.name, (uid, source, destination), (window, offset), &body);
                if known { Ok(()) } else { Err(Violation) }
            }
            Head::Control(control) => {
                self.receive_control(from, Some(from.name), *control);
                Ok(())
            }
            Head::Hello(_) => Err(Violation),
        }
    }

    fn receive_data(&mut self, from: Name, name: &ChannelName, eager: bool, message: Message) -> Result<(), Violation> {
        let Some(key) = self.channel_key(name) else { return Ok(()) };
        if !self.members.values().any(|member| member.shared == key.shared && member.rank == key.destination) {
            // It was aborted: its messages are dropped.
            return self.check_origin(from, &key, false);
        }
        self.check_origin(from, &key, true)?;
        let id = self.channel_id(key);
        let Some(channel) = self.channel(id).filter(|channel| channel.reach == Reach::From(from)) else {
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

    /// Checks that a message on this channel can come from that process.
    fn check_origin(&self, from: Name, key: &ChannelKey, here: bool) -> Result<(), Violation> {
        let shared = self.shared.get(&key.shared).ok_or(Violation)?;
        let ranks = shared.spread.as_ref().map_or(0, |spread| spread.places.len());
        let fits = shared.place(key.source) == Some(from) && key.destination < ranks;
        if fits && (!here || shared.place(key.destination).is_none()) { Ok(()) } else { Err(Violation) }
    }

    fn receive_credit(&mut self, from: Name, name: &ChannelName) -> Result<(), Violation> {
        let Some(key) = self.channel_key(name) else { return Ok(()) };
        // The channel may have gone with its aborted sender.
        let Some(id) = self.index.get(&key).copied() else { return Ok(()) };
        let Some(channel) = self.channel(id).filter(|channel| channel.reach == Reach::To(from)) else {
            return Err(Violation);
        };
        channel.away = channel.away.checked_sub(1).ok_or(Violation)?;
        self.taken(id);
        self.remove_if_over(id);
        Ok(())
    }

    fn receive_control(&mut self, address: Address, from: Option<Name>, control: Control) {
        match control {
            Control::Join { token, request } => self.join_from(address, token, request),
            Control::Nothing { token } => self.reply(token, Ok(None)),
            Control::Refuse { token, failure } => self.reply(token, Err(failure)),
            Control::Table(table) => self.on_table(from, &table),
            Control::Ready { forming, failure } => self.on_ready(from, forming, failure),
            Control::Go { uid } => self.on_go(uid),
            Control::Fail { uid, failure } => self.on_fail(uid, &failure),
            Control::Leave { uid, failed } => self.receive_leave(from, uid, failed),
            Control::Signal { uid, key, destination } => self.receive_signal(from, uid, key, destination),
            Control::Connect { uid, connection, rank } => self.receive_connect(from, uid, connection, rank),
        }
    }

    fn receive_leave(&mut self, from: Option<Name>, uid: u128, failed: bool) {
        let (Some(from), Some(shared)) = (from, self.uids.get(&uid).copied()) else { return };
        if let Some(spread) = self.shared.get_mut(&shared).and_then(|shared| shared.spread.as_mut()) {
            spread.left.insert(from);
        }
        if failed {
            self.break_communicator(shared, from);
        }
        let text = "the process of rank 0, at which a split meets, has given up the communicator";
        self.refuse_asks(from, Some(shared), &Failure::remote(text));
        self.sweep_due = true;
    }

    /// This process has given up a communicator.
    pub(super) fn leave(&mut self, shared: u64, spread: &Spread) {
        self.uids.remove(&spread.uid);
        for name in spread.peers.iter().filter(|name| !spread.left.contains(name)) {
            self.tell(Some(*name), Control::Leave { uid: spread.uid, failed: spread.failed });
        }
        self.refuse_splits(shared, None);
        self.sweep_due = true;
    }

    /// A process is gone.
    fn gone(&mut self, name: Name) {
        self.links.remove(&name);
        self.wake_for_room(name);
        let failure = Failure::remote(format!("process {name}, which has to do with the communicator, is gone"));
        self.forget_process(name, &failure);
        let needs = |spread: &Spread| spread.peers.contains(&name) && !spread.left.contains(&name);
        let ids: Vec<u64> = self
            .shared
            .iter()
            .filter(|(_, shared)| shared.spread.as_ref().is_some_and(needs))
            .map(|(number, _)| *number)
            .collect();
        for id in ids {
            self.break_communicator(id, name);
        }
        self.sweep_due = true;
        self.changed();
    }

    /// A communicator cannot work any more: its ranks in this process get an error, and their operations end.
    fn break_communicator(&mut self, id: u64, because: Name) {
        let failure = Failure::remote(format!("process {because}, which has ranks of the communicator, is gone"));
        let Some(spread) = self.shared.get_mut(&id).and_then(|shared| shared.spread.as_mut()) else { return };
        spread.left.insert(because);
        if !spread.waiting.is_empty() {
            let uid = spread.uid;
            return self.on_fail(uid, &failure);
        }
        let handles: Vec<usize> =
            self.members.iter().filter(|(_, member)| member.shared == id).map(|(handle, _)| *handle).collect();
        for handle in handles {
            if let Some(member) = self.members.get_mut(&handle) {
                member.error = Some(ncclResult_t::RemoteError);
                member.unfinished = 0;
            }
            self.refuse_flushes(handle, &failure);
            self.retract(handle, &failure, Some(because));
            self.doomed.push(handle);
        }
        self.refuse_splits(id, Some(because));
    }

    /// True if something in this process waits for another process, which may always move.
    pub(super) fn depends_on_others(&self) -> bool {
        if self.uids.is_empty() && self.links.is_empty() {
            return false;
        }
        let spread = |shared: &u64| self.shared.get(shared).is_some_and(|shared| shared.spread.is_some());
        let works = |comm: &usize| self.members.get(comm).is_some_and(|member| spread(&member.shared));
        self.batches.values().any(|batch| works(&batch.comm))
            || self.members.values().any(|member| !member.connects.is_empty() && spread(&member.shared))
            || !self.formings.is_empty()
            || self.splits.keys().any(|place| spread(&place.shared))
            || self.pending_joins.values().any(|pending| pending.coordinator.is_some())
            || self.rendezvous.values().any(|there| there.arrived.values().any(|joining| joining.from.is_some()))
    }
}
