//! How ranks with NCCL_COMM_ID find each other: rank 0 is the root and listens at the address; each other rank asks there for the unique
//! id of the communicator, with which all of them then meet as ranks do that were given an id. As in NCCL the root ends when every rank
//! has asked, so that communicators can be made at one address one after the other, but not at the same time.
use super::id::{self, Id};
use super::link::CONNECTING;
use crate::failure::{Failure, Outcome};
use crate::settings::settings;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use std::collections::BTreeSet;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How a question begins; the number of ranks and the rank follow.
const MAGIC: &[u8; 16] = b"collspec-soft-\x00\x01";
const QUESTION: usize = MAGIC.len() + 8;
/// Most bytes that are read of an answer.
const ANSWER: u64 = 256;
/// How long the root may take to answer.
const ANSWERING: Duration = Duration::from_secs(10);
/// Connections on which no question has come.
const MOST_STRANGERS: usize = 64;
/// The first pause between two attempts to reach the root.
const PAUSE: Duration = Duration::from_millis(1);

/// Listens for the ranks of one communicator until all have asked, or until it is dropped.
pub(crate) struct Root {
    /// The communicator's id.
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
                ErrorKind::AddrNotAvailable => "it is no address of this machine, which has rank 0".into(),
                _ => error.to_string(),
            };
            Failure::system(format!("NCCL_COMM_ID: rank 0 cannot listen at {address}: {why}"))
        };
        let id = id::public();
        let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(|e| cannot(e.into()))?);
        if n < 2 {
            return Ok(Self { id, stop, thread: None });
        }
        let listener = TcpListener::bind(address).map_err(cannot)?;
        listener.set_nonblocking(true).map_err(cannot)?;
        let stopped = stop.clone();
        let mut service = Service { id, n, asked: BTreeSet::new(), callers: Vec::new() };
        let thread = std::thread::Builder::new().name("soft-nccl root".to_owned());
        let thread = thread.spawn(move || service.run(listener, &stopped)).map_err(cannot)?;
        Ok(Self { id, stop, thread: Some(thread) })
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        // A full counter means that it is told already.
        let _ = rustix::io::write(&*self.stop, &1u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            // The port is free when this returns, however the thread has ended.
            let _ = thread.join();
        }
    }
}

/// A connection and what has come of its question.
struct Caller {
    stream: TcpStream,
    question: Vec<u8>,
}

/// What the root's thread does.
struct Service {
    id: Id,
    n: usize,
    asked: BTreeSet<usize>,
    callers: Vec<Caller>,
}

impl Service {
    fn run(&mut self, listener: TcpListener, stop: &OwnedFd) {
        let mut askers = Vec::new();
        while self.asked.len() + 1 < self.n {
            let mut fds = vec![PollFd::new(stop, PollFlags::IN), PollFd::new(&listener, PollFlags::IN)];
            fds.extend(self.callers.iter().map(|caller| PollFd::new(&caller.stream, PollFlags::IN)));
            if let Err(error) = poll(&mut fds, None) {
                if error != rustix::io::Errno::INTR {
                    // No memory: not for ever, and no reason to spin.
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
            for (mut caller, ready) in callers.into_iter().zip(&ready[2..]) {
                match if *ready { caller.read() } else { Heard::Nothing } {
                    Heard::Nothing => self.callers.push(caller),
                    Heard::Stranger => {}
                    Heard::Question { n, rank } => {
                        self.note(n, rank);
                        askers.push(caller.stream);
                    }
                }
            }
            if ready[1] {
                self.accept(&listener);
            }
            if self.asked.len() + 1 < self.n {
                askers.drain(..).for_each(|asker| tell(asker, &self.id));
            }
        }
        // A rank that has its answer may be the root of the next communicator at this address.
        drop(listener);
        askers.into_iter().for_each(|asker| tell(asker, &self.id));
    }

    fn accept(&mut self, listener: &TcpListener) {
        loop {
            match listener.accept().and_then(|(stream, _)| stream.set_nonblocking(true).map(|()| stream)) {
                Ok(stream) => self.callers.push(Caller { stream, question: Vec::new() }),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    if error.kind() != ErrorKind::WouldBlock {
                        // No descriptors, most likely: callers wait, and the thread must not spin meanwhile.
                        std::thread::sleep(Duration::from_millis(10));
                    }
                    break;
                }
            }
        }
        let surplus = self.callers.len().saturating_sub(MOST_STRANGERS.max(self.n));
        self.callers.drain(..surplus);
    }

    /// Notes that a rank has asked. Whoever says something else than the others gets the id as well: where ranks meet, all of them are
    /// refused then.
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

/// What a caller has said.
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

/// Why an attempt to ask failed.
enum Failed {
    /// The root may not listen yet, or another communicator's listened and has ended.
    Yet(io::Error),
    /// No other attempt will do better.
    For(Failure),
}

/// Asks the root at the address for the id of a communicator of `n`; tries again as long as NCCL does.
pub(crate) fn ask(address: SocketAddr, n: usize, rank: usize) -> Outcome<Id> {
    let limit = settings().connecting();
    let deadline = Instant::now() + limit;
    let mut pause = PAUSE;
    loop {
        let error = match attempt(address, n, rank) {
            Ok(id) => return Ok(id),
            Err(Failed::For(failure)) => return Err(failure),
            Err(Failed::Yet(error)) => error,
        };
        if Instant::now() + pause > deadline {
            let text =
                format!("rank {rank} has not found rank 0 at {address} (NCCL_COMM_ID) within {limit:?}: {error}");
            return Err(Failure::remote(text));
        }
        std::thread::sleep(pause);
        pause = (2 * pause).min(settings().connect_pause);
    }
}

fn attempt(address: SocketAddr, n: usize, rank: usize) -> Result<Id, Failed> {
    use ErrorKind::{ConnectionRefused, ConnectionReset, HostUnreachable, TimedOut};
    let failed = |error: io::Error| match error.kind() {
        ConnectionRefused | ConnectionReset | HostUnreachable | TimedOut => Failed::Yet(error),
        _ => Failed::For(Failure::remote(format!("NCCL_COMM_ID: rank 0 cannot be reached at {address}: {error}"))),
    };
    let mut stream = TcpStream::connect_timeout(&address, CONNECTING).map_err(failed)?;
    // Without a listener at a port of this machine, a connection to it can come to be one with itself.
    if stream.local_addr().ok() == Some(address) {
        return Err(Failed::Yet(ConnectionRefused.into()));
    }
    let number = |number: usize| u32::try_from(number).unwrap_or(u32::MAX).to_le_bytes();
    let mut answer = Vec::new();
    let asked = stream
        .set_read_timeout(Some(ANSWERING))
        .and_then(|()| stream.write_all(&[&MAGIC[..], &number(n), &number(rank)].concat()))
        .and_then(|()| (&stream).take(ANSWER).read_to_end(&mut answer));
    let other = || {
        let text = format!("NCCL_COMM_ID: what answers at {address} is no rank 0 of the software library");
        Failed::For(Failure::remote(text))
    };
    match asked {
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | TimedOut) => return Err(other()),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => return Err(Failed::Yet(error)),
        Err(error) => return Err(failed(error)),
        Ok(_) => {}
    }
    if answer.is_empty() {
        return Err(Failed::Yet(io::Error::new(ErrorKind::UnexpectedEof, "it closes the connection")));
    }
    Id::try_from(answer).ok().and_then(|id| id::check(id).ok()).ok_or_else(other)
}
