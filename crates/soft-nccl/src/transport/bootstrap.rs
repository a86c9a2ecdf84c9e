//! Ranks with NCCL_COMM_ID find each other: rank 0 is the root and listens at the address; each other rank asks it (see `asking`)
//! for the unique id of the communicator, with which all of them then meet like ranks that were given an id. As in NCCL the root ends
//! when every rank has asked, so that communicators can be created at one address one after the other, but not at the same time.
use super::endpoint;
use super::id::{self, Id};
use crate::failure::{Failure, Outcome};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use std::collections::BTreeSet;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// The beginning of a question; the number of ranks and the rank follow.
pub(super) const MAGIC: &[u8; 16] = b"collspec-soft-\x00\x01";
const QUESTION: usize = MAGIC.len() + 8;
/// Connections on which no question has come. The oldest is cut for one more; a rank that is cut tries again.
const MOST_SILENT: usize = 256;
/// The ids of the roots of this process.
static OPEN: Mutex<BTreeSet<Id>> = Mutex::new(BTreeSet::new());

fn open_ids() -> MutexGuard<'static, BTreeSet<Id>> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// True if a root of this process gives out the id.
pub(super) fn gives(id: &Id) -> bool {
    open_ids().contains(id)
}

/// Checks that processes of the communicator can reach this one.
pub(super) fn check_endpoint() -> Outcome<()> {
    let cannot = |error| Failure::system(format!("NCCL_COMM_ID: this process cannot be reached by others: {error}"));
    endpoint().map(|_| ()).map_err(cannot)
}

/// Listens for the ranks of one communicator until all have asked, or until it is dropped.
pub(crate) struct Root {
    /// The id of the communicator.
    pub id: Id,
    stop: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl Root {
    /// Listens at the address for the other ranks of a communicator of `n`.
    pub(crate) fn open(address: SocketAddr, n: usize) -> Outcome<Self> {
        let cannot = |error: io::Error| {
            let why = match error.kind() {
                ErrorKind::AddrInUse => {
                    "the port is taken; communicators with one NCCL_COMM_ID are made one after the other".into()
                }
                ErrorKind::AddrNotAvailable => "it is not an address of this machine, which has rank 0".into(),
                _ => error.to_string(),
            };
            Failure::system(format!("NCCL_COMM_ID: rank 0 cannot listen at {address}: {why}"))
        };
        if n > 1 {
            // Without an endpoint the id would be of use in this process alone, and the others would not learn why.
            check_endpoint()?;
        }
        let id = id::public();
        let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(|e| cannot(e.into()))?);
        let mut root = Self { id, stop, thread: None };
        if n < 2 {
            return Ok(root);
        }
        let listener = TcpListener::bind(address).map_err(cannot)?;
        listener.set_nonblocking(true).map_err(cannot)?;
        // Ranks of this process may ask as soon as the thread runs.
        open_ids().insert(id);
        let stopped = root.stop.clone();
        let mut service = Service { id, n, asked: BTreeSet::new(), callers: Vec::new(), last: Vec::new() };
        let thread = std::thread::Builder::new().name("soft-nccl root".to_owned());
        root.thread = Some(thread.spawn(move || service.run(listener, &stopped)).map_err(cannot)?);
        Ok(root)
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        // A full counter means that the stop was already signalled.
        let _ = rustix::io::write(&*self.stop, &1u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            // The port is free when this returns, however the thread has ended.
            let _ = thread.join();
        }
        open_ids().remove(&self.id);
    }
}

/// A connection and the state of its question.
struct Caller {
    stream: TcpStream,
    question: Vec<u8>,
}

/// The work of the root's thread.
struct Service {
    id: Id,
    n: usize,
    asked: BTreeSet<usize>,
    /// Connections whose question has not arrived, the oldest first.
    callers: Vec<Caller>,
    /// Connections of ranks that have asked; they are informed when rank 0 stops listening.
    last: Vec<TcpStream>,
}

impl Service {
    fn run(&mut self, listener: TcpListener, stop: &OwnedFd) {
        while !self.is_complete() {
            let mut fds = vec![PollFd::new(stop, PollFlags::IN), PollFd::new(&listener, PollFlags::IN)];
            fds.extend(self.callers.iter().map(|caller| PollFd::new(&caller.stream, PollFlags::IN)));
            if let Err(error) = poll(&mut fds, None) {
                if error != rustix::io::Errno::INTR {
                    // Out of memory: this passes, so there is no reason to spin.
                    std::thread::sleep(Duration::from_millis(10));
                }
                continue;
            }
            let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
            drop(fds);
            if ready[0] {
                return;
            }
            let callers = std::mem::take(&mut self.callers);
            for (caller, ready) in callers.into_iter().zip(&ready[2..]) {
                if *ready { self.hear(caller) } else { self.callers.push(caller) }
            }
            if ready[1] {
                self.accept(&listener);
            }
        }
        // A rank that has its answer may be the root of the next communicator at this address.
        drop(listener);
        self.last.drain(..).for_each(|asker| tell(asker, &self.id));
    }

    /// True if all ranks have asked.
    fn is_complete(&self) -> bool {
        self.asked.len() + 1 >= self.n
    }

    fn hear(&mut self, mut caller: Caller) {
        match caller.read() {
            Heard::Nothing => {
                if self.callers.len() >= MOST_SILENT {
                    self.callers.remove(0);
                }
                self.callers.push(caller);
            }
            Heard::Stranger => {}
            Heard::Question { n, rank } => {
                self.note(n, rank);
                if self.is_complete() { self.last.push(caller.stream) } else { tell(caller.stream, &self.id) }
            }
        }
    }

    /// Accepts those who have connected; those who arrive in the meantime do not keep the others waiting for ever.
    fn accept(&mut self, listener: &TcpListener) {
        for _ in 0..MOST_SILENT {
            if self.is_complete() {
                return;
            }
            match listener.accept().and_then(|(stream, _)| stream.set_nonblocking(true).map(|()| stream)) {
                Ok(stream) => self.hear(Caller { stream, question: Vec::new() }),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    if error.kind() != ErrorKind::WouldBlock {
                        // Most likely out of descriptors: callers wait, and the thread must not spin in the meantime.
                        std::thread::sleep(Duration::from_millis(10));
                    }
                    return;
                }
            }
        }
    }

    /// Records that a rank has asked. A rank whose data differs from the others' gets the id as well: where ranks meet, all of them are
    /// then refused.
    fn note(&mut self, n: usize, rank: usize) {
        if n == self.n && (1..n).contains(&rank) {
            self.asked.insert(rank);
        }
    }
}

/// Writes the id and hangs up. It fits into the socket; a caller that has gone needs none.
fn tell(mut stream: TcpStream, id: &Id) {
    let _ = stream.write_all(id);
}

/// The content of a caller's question.
enum Heard {
    Nothing,
    Question { n: usize, rank: usize },
    Stranger,
}

impl Caller {
    fn read(&mut self) -> Heard {
        let mut piece = [0; QUESTION];
        let wanted = QUESTION - self.question.len();
        match self.stream.read(&mut piece[..wanted]) {
            Ok(0) => return Heard::Stranger,
            Ok(bytes) => self.question.extend_from_slice(&piece[..bytes]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(_) => return Heard::Stranger,
        }
        let magic = self.question.len().min(MAGIC.len());
        if self.question[..magic] != MAGIC[..magic] {
            return Heard::Stranger;
        }
        let number = |at: usize| {
            let bytes = self.question.get(at..at + 4)?;
            Some(u32::from_le_bytes(bytes.try_into().ok()?) as usize)
        };
        match (number(MAGIC.len()), number(MAGIC.len() + 4)) {
            (Some(n), Some(rank)) => Heard::Question { n, rank },
            _ => Heard::Nothing,
        }
    }
}
