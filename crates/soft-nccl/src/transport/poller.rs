//! The transport's thread: accepts connections, reads frames, finishes writes, and finds out which processes are gone.
use super::wire::{Assembler, Head, Limits, WireError};
use super::{Address, Name, Stream};
use crate::settings::settings;
use rustix::event::{PollFd, PollFlags, poll};
use std::collections::HashSet;
use std::io::{self, ErrorKind};
use std::net::TcpListener;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};

/// Bytes of one read.
const READ: usize = 256 * 1024;
/// Reads of one connection in a row.
const READS: usize = 4;
/// The other side of a connection has closed it.
const ENDS: PollFlags = PollFlags::RDHUP;
/// Connections that have not said hello.
const MOST_STRANGERS: usize = super::MOST_PROCESSES;

/// The sockets at which a process listens.
pub(super) struct Listeners {
    /// The socket for processes of this machine.
    pub near: Option<UnixListener>,
    /// The socket for processes of other machines.
    pub far: Option<TcpListener>,
}

pub(crate) enum TransportEvent {
    /// A frame has arrived, with its body.
    Frame(Address, Head, Vec<u8>),
    /// The link has room again.
    Writable(Name),
    /// The process has ended, or broke the rules.
    Gone(Name),
}

/// A link: its other end, its socket, and whether something waits to be written.
pub(crate) type Outgoing = (Name, Arc<Stream>, bool);

/// The part of this library that has the links and acts on what arrives.
pub(crate) struct Receiver {
    pub links: fn() -> Vec<Outgoing>,
    /// Acts on events; answers the processes that broke the rules.
    pub deliver: fn(Vec<TransportEvent>) -> Vec<Name>,
}

static RECEIVER: OnceLock<Receiver> = OnceLock::new();

/// Names the receiver, without which nothing is read; the first one stays.
pub(crate) fn deliver_to(receiver: Receiver) {
    let _ = RECEIVER.set(receiver);
}

/// A connection from another process.
struct Connection {
    stream: Stream,
    from: Option<Address>,
    incoming: Assembler,
    /// True if nothing more will arrive.
    over: bool,
}

/// A connection is refused: something came that no member sends.
struct Refused;

impl From<WireError> for Refused {
    fn from(_: WireError) -> Self {
        Self
    }
}

pub(super) fn run(listeners: &Listeners, woken: &OwnedFd, own: Address) {
    let mut connections: Vec<Connection> = Vec::new();
    // Processes that have closed our link; they are gone as soon as everything they sent was read.
    let mut suspects: HashSet<Name> = HashSet::new();
    let mut scratch = vec![0; READ];
    let receiver = RECEIVER.wait();
    loop {
        let outgoing = (receiver.links)();
        suspects.retain(|name| outgoing.iter().any(|(other, ..)| other == name));
        let near = listeners.near.as_ref().map(|near| near.as_fd());
        let doors: Vec<_> = near.into_iter().chain(listeners.far.as_ref().map(|far| far.as_fd())).collect();
        let mut fds = vec![PollFd::new(woken, PollFlags::IN)];
        fds.extend(doors.iter().map(|door| PollFd::from_borrowed_fd(*door, PollFlags::IN)));
        let first_link = fds.len();
        let watched: Vec<_> = outgoing.iter().filter(|(name, ..)| !suspects.contains(name)).collect();
        for (_, stream, waiting) in &watched {
            fds.push(PollFd::new(&**stream, if *waiting { ENDS | PollFlags::OUT } else { ENDS }));
        }
        fds.extend(connections.iter().map(|connection| PollFd::new(&connection.stream, PollFlags::IN)));
        if let Err(error) = poll(&mut fds, None) {
            if error != rustix::io::Errno::INTR {
                // More descriptors than the process may have, or out of memory: this passes, so there is no reason to spin.
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
            continue;
        }
        let events: Vec<PollFlags> = fds.iter().map(PollFd::revents).collect();
        drop(fds);
        let mut arrivals = Vec::new();
        if !events[0].is_empty() {
            let mut count = [0; 8];
            // Several wake-ups may have been merged.
            let _ = rustix::io::read(woken, &mut count);
        }
        for ((name, ..), event) in watched.iter().zip(&events[first_link..]) {
            if event.intersects(ENDS | PollFlags::HUP | PollFlags::ERR) {
                suspects.insert(*name);
            } else if event.intersects(PollFlags::OUT) {
                arrivals.push(TransportEvent::Writable(*name));
            }
        }
        let readable = &events[first_link + watched.len()..];
        let mut ready: Vec<bool> = readable.iter().map(|event| !event.is_empty()).collect();
        if events[1..first_link].iter().any(|event| !event.is_empty()) || !suspects.is_empty() {
            if let Some(near) = &listeners.near {
                accept(|| near.accept().and_then(|(stream, _)| Stream::of_unix(stream)), &mut connections);
            }
            if let Some(far) = &listeners.far {
                accept(|| far.accept().and_then(|(stream, _)| Stream::of_tcp(stream)), &mut connections);
            }
        }
        ready.resize(connections.len(), true);
        for (connection, ready) in connections.iter_mut().zip(ready) {
            if ready || !suspects.is_empty() {
                connection.read(&mut scratch, own, &mut arrivals);
            }
        }
        connections.retain(|connection| !connection.over);
        bound_strangers(&mut connections);
        suspects.retain(|name| {
            let talks = connections.iter().any(|connection| connection.from.is_some_and(|from| from.name == *name));
            if !talks {
                arrivals.push(TransportEvent::Gone(*name));
            }
            talks
        });
        let gone: Vec<Name> = arrivals
            .iter()
            .filter_map(|one| if let TransportEvent::Gone(name) = one { Some(*name) } else { None })
            .collect();
        // A bug there must not silence every link.
        let refused = catch_unwind(AssertUnwindSafe(|| (receiver.deliver)(arrivals))).unwrap_or_default();
        let is =
            |connection: &Connection, names: &[Name]| connection.from.is_some_and(|from| names.contains(&from.name));
        connections.retain(|connection| !is(connection, &gone) && !is(connection, &refused));
    }
}

fn accept(next: impl Fn() -> io::Result<Stream>, connections: &mut Vec<Connection>) {
    loop {
        match next() {
            Ok(stream) => {
                connections.push(Connection { stream, from: None, incoming: Assembler::default(), over: false });
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => {
                if error.kind() != ErrorKind::WouldBlock {
                    // Most likely out of descriptors: callers wait, and the thread must not spin in the meantime.
                    std::thread::sleep(std::time::Duration::from_millis(10));
                }
                return;
            }
        }
    }
}

/// Keeps callers that do not say hello from using up descriptors: the oldest are dropped.
fn bound_strangers(connections: &mut Vec<Connection>) {
    let strangers = connections.iter().filter(|connection| connection.from.is_none()).count();
    let mut surplus = strangers.saturating_sub(MOST_STRANGERS);
    connections.retain(|connection| {
        let goes = surplus > 0 && connection.from.is_none();
        surplus -= usize::from(goes);
        !goes
    });
}

impl Connection {
    /// Reads the available bytes. A caller that sends bytes that no member sends is refused, and counts as gone if it was known.
    fn read(&mut self, scratch: &mut [u8], own: Address, events: &mut Vec<TransportEvent>) {
        for _ in 0..READS {
            match self.stream.read(scratch) {
                Ok(0) => self.over = true,
                Ok(bytes) => {
                    if self.take(&scratch[..bytes], own, events).is_err() {
                        self.over = true;
                        events.extend(self.from.map(|from| TransportEvent::Gone(from.name)));
                    }
                    if !self.over && bytes == scratch.len() {
                        continue;
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => self.over = error.kind() != ErrorKind::WouldBlock,
            }
            return;
        }
    }

    fn take(&mut self, mut bytes: &[u8], own: Address, events: &mut Vec<TransportEvent>) -> Result<(), Refused> {
        let chunk = settings().largest_message();
        loop {
            let limits = if self.from.is_some() { Limits::member(chunk) } else { Limits::HELLO };
            let Some((head, body)) = self.incoming.take(&mut bytes, limits)? else { return Ok(()) };
            match (head, self.from) {
                (Head::Hello(hello), None) => {
                    self.from = Some(hello.caller(own.cookie).ok_or(Refused)?);
                }
                (Head::Hello(_), Some(_)) | (_, None) => return Err(Refused),
                (head, Some(from)) => events.push(TransportEvent::Frame(from, head, body)),
            }
        }
    }
}
