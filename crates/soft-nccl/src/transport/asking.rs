//! A rank with NCCL_COMM_ID asks rank 0 for the unique id of its communicator. All of its waits end when the search is given up.
use super::bootstrap::{MAGIC, check_endpoint, gives};
use super::connecting::begin;
use super::id::{self, Id};
use super::link::CONNECTING;
use crate::failure::{Failure, Outcome};
use crate::settings::settings;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use rustix::net::sockopt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// Limit on the time the root takes for its whole answer, until the next attempt.
const ANSWERING: Duration = Duration::from_secs(10);
/// The first pause between two attempts to reach the root.
const PAUSE: Duration = Duration::from_millis(1);

/// The reason an attempt to ask failed.
enum Failed {
    /// The root may not be listening yet, or another communicator's root was listening and has ended.
    Yet(io::Error),
    /// No other attempt will do better.
    For(Failure),
}

/// The means to give up a search for ranks 0.
pub(crate) struct Stop(OwnedFd);

impl Stop {
    pub(crate) fn new() -> Outcome<Self> {
        let made = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        made.map(Self).map_err(|error| Failure::system(format!("NCCL_COMM_ID: {error}")))
    }

    /// Ends the search, now or as soon as it begins.
    pub(crate) fn ring(&self) {
        // A full counter means that the stop was already signalled.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    /// Waits for the socket, if there is one; false if it was not ready in time.
    fn wait(&self, socket: Option<PollFd<'_>>, until: Instant) -> Result<bool, Failed> {
        let mut fds: Vec<PollFd<'_>> = std::iter::once(PollFd::new(&self.0, PollFlags::IN)).chain(socket).collect();
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match poll(&mut fds, Timespec::try_from(left).ok().as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(Failed::For(Failure::system(format!("NCCL_COMM_ID: {error}")))),
            }
            let mut ready = fds.iter().map(|fd| !fd.revents().is_empty());
            if ready.next() == Some(true) {
                return Err(Failed::For(given_up()));
            }
            if ready.next() == Some(true) {
                return Ok(true);
            }
            if left.is_zero() {
                return Ok(false);
            }
        }
    }
}

/// The failure of a search that was given up.
pub(crate) fn given_up() -> Failure {
    Failure::usage("the communicator, or another one of its group, was aborted meanwhile")
}

/// Asks the root at the address for the id of a communicator of `n`; tries again as long as NCCL does.
pub(crate) fn ask(address: SocketAddr, n: usize, rank: usize, stop: &Stop) -> Outcome<Id> {
    check_endpoint()?;
    let limit = settings().connecting();
    let deadline = Instant::now() + limit;
    let mut pause = PAUSE;
    let ended = |failed| match failed {
        Failed::For(failure) => failure,
        Failed::Yet(error) => Failure::remote(format!(
            "rank {rank} has not found rank 0 at {address} (NCCL_COMM_ID) within {limit:?}: {error}"
        )),
    };
    loop {
        let failed = match attempt(address, (n, rank), stop, ANSWERING) {
            Ok(id) => return Ok(id),
            Err(failed) => failed,
        };
        let next = Instant::now() + pause;
        if matches!(failed, Failed::For(_)) || next > deadline {
            return Err(ended(failed));
        }
        stop.wait(None, next).map_err(ended)?;
        pause = (2 * pause).min(settings().connect_pause);
    }
}

fn attempt(address: SocketAddr, (n, rank): (usize, usize), stop: &Stop, answering: Duration) -> Result<Id, Failed> {
    let yet = |kind, words| Failed::Yet(io::Error::new(kind, words));
    let mut stream = reach(address, stop)?;
    let number = |number: usize| u32::try_from(number).unwrap_or(u32::MAX).to_le_bytes();
    let asked = stream.write_all(&[&MAGIC[..], &number(n), &number(rank)].concat());
    asked.map_err(|error| failed(address, error))?;
    let other = || {
        let text = format!("NCCL_COMM_ID: what answers at {address} is not rank 0 of the software library");
        Failed::For(Failure::remote(text))
    };
    let until = Instant::now() + answering;
    let mut answer = Vec::new();
    loop {
        let mut piece = [0; size_of::<Id>() + 1];
        match stream.read(&mut piece) {
            Ok(0) => break,
            Ok(bytes) => answer.extend_from_slice(&piece[..bytes]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                if !stop.wait(Some(PollFd::new(&stream, PollFlags::IN)), until)? {
                    return Err(yet(ErrorKind::TimedOut, "it does not answer"));
                }
            }
            Err(error) => return Err(failed(address, error)),
        }
        if answer.len() > size_of::<Id>() || !id::may_begin(&answer) {
            return Err(other());
        }
    }
    let Ok(id) = Id::try_from(answer) else { return Err(yet(ErrorKind::UnexpectedEof, "it closes the connection")) };
    match id::origin(&id) {
        Ok(Some(_)) => Ok(id),
        Ok(None) if gives(&id) => Ok(id),
        _ => Err(other()),
    }
}

/// Decides if another attempt may succeed.
fn failed(address: SocketAddr, error: io::Error) -> Failed {
    use ErrorKind::{BrokenPipe, ConnectionRefused, ConnectionReset, HostUnreachable, TimedOut};
    match error.kind() {
        BrokenPipe | ConnectionRefused | ConnectionReset | HostUnreachable | TimedOut => Failed::Yet(error),
        _ => Failed::For(Failure::remote(format!("NCCL_COMM_ID: rank 0 cannot be reached at {address}: {error}"))),
    }
}

/// Connects to the process that listens at the address.
fn reach(address: SocketAddr, stop: &Stop) -> Result<TcpStream, Failed> {
    let failed = |error: io::Error| failed(address, error);
    let socket = begin(address).map_err(failed)?;
    if !stop.wait(Some(PollFd::new(&socket, PollFlags::OUT)), Instant::now() + CONNECTING)? {
        return Err(failed(io::Error::new(ErrorKind::TimedOut, "connection timed out")));
    }
    sockopt::socket_error(&socket).and_then(|outcome| outcome).map_err(|error| failed(error.into()))?;
    let stream = TcpStream::from(socket);
    // Without a listener at a port of this machine, a connection to it can end up connected to itself.
    if stream.local_addr().ok() == Some(address) {
        hang_up(stream);
        return Err(failed(ErrorKind::ConnectionRefused.into()));
    }
    Ok(stream)
}

/// Ends a connection with itself at once: closed as others are, it would keep its port from the root for a minute.
fn hang_up(stream: TcpStream) {
    // Without success the port is free later.
    let _ = sockopt::set_socket_linger(&stream, Some(Duration::ZERO));
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, getsockname, socket_with};
    use std::net::{Ipv4Addr, TcpListener};

    #[test]
    fn a_connection_with_itself_leaves_its_port_free() {
        let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
        bind(&socket, &SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
        let own = SocketAddr::try_from(getsockname(&socket).unwrap()).unwrap();
        connect(&socket, &own).unwrap();
        hang_up(TcpStream::from(socket));
        TcpListener::bind(own).expect("the port is free");
    }

    #[test]
    fn who_does_not_answer_is_asked_again() {
        let silent = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let asked = attempt(silent.local_addr().unwrap(), (2, 1), &Stop::new().unwrap(), Duration::ZERO);
        assert!(matches!(asked, Err(Failed::Yet(error)) if error.to_string() == "it does not answer"));
    }

    #[test]
    fn a_search_that_is_given_up_waits_for_nobody() {
        let silent = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let stop = Stop::new().unwrap();
        stop.ring();
        let failure = ask(silent.local_addr().unwrap(), 2, 1, &stop).unwrap_err();
        assert_eq!(failure.text, given_up().text);
    }
}
