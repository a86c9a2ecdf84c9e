//! Messages to and from other processes, and the consequences when one is gone.
use super::channel::Message;
use super::counts::changed;
use super::hosts::stop;
use super::meetings::given_up;
use super::member::{Member, Spread};
use super::{ENGINE, State, lock};
use crate::failure::Failure;
use crate::transport::control::Control;
use crate::transport::wire::Head;
use crate::transport::{Address, MOST_PROCESSES, Name, Outgoing, TransportEvent, Ways, connect_all, known};
use nccl_sys::ncclResult_t;
use std::collections::{BTreeMap, BTreeSet};

/// A frame that no member sends.
pub(super) struct Violation;

/// All links, for the transport's thread.
pub(super) fn links() -> Vec<Outgoing> {
    lock().links.streams()
}

/// Acts on events; answers the processes that broke the rules.
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
    state.links.offer(ways);
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
                let woken = state.links.writable(name);
                state.work.wake_all(woken);
            }
            TransportEvent::Gone(name) => state.gone(name),
        }
    }
    state.links.offer(Ways::new());
    state.tidy();
    ENGINE.written.notify_all();
    let doomed = std::mem::take(&mut state.comms.doomed);
    let mut dones = Vec::new();
    if !doomed.is_empty() {
        (state, dones) = stop(state, &doomed);
        changed();
    }
    let idle = state.work.is_left();
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
        needed.retain(|name, _| !state.links.is_open(*name));
    }
    if needed.is_empty() { Ways::new() } else { connect_all(needed.into_values().collect()) }
}

impl State {
    /// Sends a control message to a process, perhaps this one. Without a link it is dropped: the end of a process is found out
    /// in any case.
    pub(super) fn tell(&mut self, to: Option<Name>, control: Control) {
        match (to, known()) {
            (None, Some(own)) => self.receive_control(own.address, None, control),
            (Some(name), _) => self.links.queue(name, &Head::Control(Box::new(control)), Vec::new()),
            (None, None) => {}
        }
    }

    /// Writes queued frames, and closes links that are no longer needed.
    pub(super) fn tidy(&mut self) {
        self.write_out();
        if !self.links.is_sweep_due() {
            return;
        }
        let mut needed: BTreeSet<Name> = self.meetings.correspondents();
        for spread in self.comms.shared.values().filter_map(|shared| shared.spread.as_ref()) {
            needed.extend(spread.peers.iter().filter(|name| !spread.left.contains(name)));
        }
        self.links.sweep(&needed);
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
        let (Some(from), Some(shared)) = (from, self.comms.uids.get(&uid).copied()) else { return };
        if let Some(spread) = self.comms.spread_mut(shared) {
            spread.left.insert(from);
        }
        if failed {
            self.break_communicator(shared, from);
        }
        self.refuse_asks(from, Some(shared), &given_up());
        self.links.sweep_later();
    }

    /// This process has given up a communicator.
    pub(super) fn leave(&mut self, shared: u64, spread: &Spread) {
        self.comms.uids.remove(&spread.uid);
        for name in spread.peers.iter().filter(|name| !spread.left.contains(name)) {
            self.tell(Some(*name), Control::Leave { uid: spread.uid, failed: spread.failed });
        }
        self.refuse_splits(shared, None);
        self.links.sweep_later();
    }

    /// A process is gone.
    fn gone(&mut self, name: Name) {
        let woken = self.links.remove(name);
        self.work.wake_all(woken);
        let failure = Failure::remote(format!("process {name}, which has to do with the communicator, is gone"));
        self.forget_process(name, &failure);
        let needs = |spread: &Spread| spread.peers.contains(&name) && !spread.left.contains(&name);
        let ids: Vec<u64> = self
            .comms
            .shared
            .iter()
            .filter(|(_, shared)| shared.spread.as_ref().is_some_and(needs))
            .map(|(number, _)| *number)
            .collect();
        for id in ids {
            self.break_communicator(id, name);
        }
        self.links.sweep_later();
        changed();
    }

    /// A communicator cannot work any more: its ranks in this process get an error, and their operations end.
    fn break_communicator(&mut self, id: u64, because: Name) {
        let failure = Failure::remote(format!("process {because}, which has ranks of the communicator, is gone"));
        let Some(spread) = self.comms.spread_mut(id) else { return };
        spread.left.insert(because);
        if !spread.waiting.is_empty() {
            let uid = spread.uid;
            return self.on_fail(uid, &failure);
        }
        let handles: Vec<usize> =
            self.comms.members.iter().filter(|(_, member)| member.shared == id).map(|(handle, _)| *handle).collect();
        for handle in handles {
            if let Some(member) = self.comms.members.get_mut(&handle) {
                member.error = Some(ncclResult_t::RemoteError);
                member.unfinished = 0;
            }
            self.refuse_flushes(handle, &failure);
            self.retract(handle, &failure, Some(because));
            self.comms.doomed.push(handle);
        }
        self.refuse_splits(id, Some(because));
    }

    /// True if something in this process waits for another process, which may always move.
    pub(super) fn depends_on_others(&self) -> bool {
        if self.comms.uids.is_empty() && self.links.is_empty() {
            return false;
        }
        let works = |comm: &usize| self.comms.members.get(comm).is_some_and(|m| self.comms.spread(m.shared).is_some());
        let connects = |member: &Member| !member.connects.is_empty() && self.comms.spread(member.shared).is_some();
        self.work.batches.values().any(|batch| works(&batch.comm))
            || self.comms.members.values().any(connects)
            || self.meetings.splits.keys().any(|place| self.comms.spread(place.shared).is_some())
            || self.meetings.depend_on_others()
    }
}
