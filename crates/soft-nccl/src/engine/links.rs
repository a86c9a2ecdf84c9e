//! Ways to other processes. Puts wait while too much data for their process has not left this one: unlike a message, a put needs
//! nothing from the other rank, so nothing else would bound the data that waits for the socket.
use super::ready::TaskId;
use crate::transport::wire::Head;
use crate::transport::{Address, Link, Name, Outgoing, Ways, connect, known};
use std::collections::{BTreeSet, HashMap};
use std::io;
use std::sync::Arc;

/// With this many bytes unsent to a process, no further piece of a put is sent to it.
const MOST_UNSENT: usize = 1 << 20;

#[derive(Default)]
pub(super) struct Links {
    all: HashMap<Name, Link>,
    /// Ways that the transport's thread has opened for the events that it delivers, before it took the lock.
    ways: Ways,
    /// Links with frames for which no write was tried yet.
    unwritten: Vec<Name>,
    /// Puts that wait for room on the way to a process.
    awaiting_room: HashMap<Name, Vec<TaskId>>,
    /// Something happened that may have made a link unnecessary.
    sweep_due: bool,
}

/// The tasks that may continue because their process takes data again.
pub(super) type Woken = Vec<TaskId>;

impl Links {
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(super) fn streams(&self) -> Vec<Outgoing> {
        self.all.iter().map(|(name, link)| (*name, Arc::clone(&link.stream), link.is_waiting())).collect()
    }

    pub(super) fn is_open(&self, to: Name) -> bool {
        self.all.get(&to).is_some_and(|link| !link.broken)
    }

    /// Ways that [`Self::connect`] may take until it is called with none.
    pub(super) fn offer(&mut self, ways: Ways) {
        self.ways = ways;
    }

    /// Opens the way to a process, unless it is open.
    pub(super) fn connect(&mut self, to: Address) -> io::Result<()> {
        if let Some(link) = self.all.get_mut(&to.name).filter(|link| !link.broken) {
            link.closing = false;
            return Ok(());
        }
        let way = self.ways.remove(&to.name).unwrap_or_else(|| connect(to));
        self.all.insert(to.name, way?);
        if let Some(own) = known() {
            own.wake();
        }
        Ok(())
    }

    /// Appends a frame for a process. Without a link it is dropped: the end of a process is found out in any case.
    pub(super) fn queue(&mut self, to: Name, head: &Head, body: Vec<u8>) {
        if let Some(link) = self.all.get_mut(&to) {
            link.queue(head, body);
            self.unwritten.push(to);
        }
    }

    /// Writes queued frames, as far as the sockets accept them.
    pub(super) fn write_out(&mut self) -> Woken {
        let (mut full, mut woken) = (false, Woken::new());
        for name in std::mem::take(&mut self.unwritten) {
            if self.all.get(&name).is_some_and(|link| !link.blocked) {
                woken.append(&mut self.flush(name));
                full |= self.all.get(&name).is_some_and(|link| link.blocked);
            }
        }
        if full && let Some(own) = known() {
            own.wake();
        }
        woken
    }

    /// Writes as much as a process's socket accepts.
    fn flush(&mut self, to: Name) -> Woken {
        let Some(link) = self.all.get_mut(&to) else { return Woken::new() };
        link.flush();
        if link.unsent() >= MOST_UNSENT { Woken::new() } else { self.awaiting_room.remove(&to).unwrap_or_default() }
    }

    /// A process's socket accepts more.
    pub(super) fn writable(&mut self, to: Name) -> Woken {
        let woken = self.flush(to);
        self.sweep_due |= self.all.get(&to).is_some_and(|link| link.closing);
        woken
    }

    /// True if puts to a process have to wait; in that case the task is woken when there is room again.
    pub(super) fn awaits_room(&mut self, to: Name, task: TaskId) -> bool {
        let full = self.all.get(&to).is_some_and(|link| link.unsent() >= MOST_UNSENT);
        if full {
            self.awaiting_room.entry(to).or_default().push(task);
        }
        full
    }

    /// Forgets a process that is gone.
    pub(super) fn remove(&mut self, name: Name) -> Woken {
        self.all.remove(&name);
        self.awaiting_room.remove(&name).unwrap_or_default()
    }

    /// A link may have become unnecessary.
    pub(super) fn sweep_later(&mut self) {
        self.sweep_due = true;
    }

    /// True if links should be looked through.
    pub(super) fn is_sweep_due(&mut self) -> bool {
        std::mem::take(&mut self.sweep_due) && !self.all.is_empty()
    }

    /// Closes the links to all but these processes, once everything is written.
    pub(super) fn sweep(&mut self, needed: &BTreeSet<Name>) {
        let before = self.all.len();
        self.all.retain(|name, link| {
            link.closing = !needed.contains(name);
            !link.closing || (link.is_waiting() && !link.broken)
        });
        if self.all.len() < before
            && let Some(own) = known()
        {
            // Its thread has copies of the sockets.
            own.wake();
        }
    }

    /// True if a link is to be closed and still has output that was not written.
    pub(super) fn has_closing_output(&self) -> bool {
        self.all.values().any(|link| link.closing && link.is_waiting() && !link.broken)
    }
}
