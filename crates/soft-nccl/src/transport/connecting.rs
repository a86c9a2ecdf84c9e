//! Opening the ways to several processes at once: on different machines each takes the time of a round trip, and a process that is not
//! reached takes the whole limit.
use super::{Address, Link, Name, Stream};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with, sockopt};
use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// Connections to processes, or the reasons there are none.
pub(crate) type Ways = HashMap<Name, io::Result<Link>>;

/// Limit on the time a process on another machine may take to accept a connection.
const LIMIT: Duration = Duration::from_secs(10);

/// Connects to a process and says hello.
pub(crate) fn connect(to: Address) -> io::Result<Link> {
    let way = connect_all(vec![to]).remove(&to.name);
    way.unwrap_or_else(|| Err(io::ErrorKind::NotConnected.into()))
}

/// Connects to all of these processes, and waits until each is reached or the time is over.
pub(crate) fn connect_all(to: Vec<Address>) -> Ways {
    connect_within(to, LIMIT)
}

fn connect_within(to: Vec<Address>, limit: Duration) -> Ways {
    let mut ways = Ways::new();
    let mut coming = Vec::new();
    for to in to {
        match (Link::near(to), to.network) {
            (Ok(stream), _) => _ = ways.insert(to.name, Link::greeted(stream, to)),
            (Err(error), None) => _ = ways.insert(to.name, Err(error)),
            (Err(_), Some(far)) => match begin(far) {
                Ok(socket) => coming.push((to, socket)),
                Err(error) => _ = ways.insert(to.name, Err(error)),
            },
        }
    }
    let deadline = Instant::now() + limit;
    while !coming.is_empty() {
        let left = deadline.saturating_duration_since(Instant::now());
        let mut fds: Vec<PollFd<'_>> = coming.iter().map(|(_, socket)| PollFd::new(socket, PollFlags::OUT)).collect();
        // Whatever ended the wait, every socket is checked for a connection.
        let _ = poll(&mut fds, Timespec::try_from(left).ok().as_ref());
        let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        drop(fds);
        let mut waiting = Vec::new();
        for ((to, socket), ready) in coming.into_iter().zip(ready) {
            if ready {
                ways.insert(to.name, reached(socket).and_then(|stream| Link::greeted(stream, to)));
            } else if left.is_zero() {
                ways.insert(to.name, Err(io::Error::new(io::ErrorKind::TimedOut, "connection timed out")));
            } else {
                waiting.push((to, socket));
            }
        }
        coming = waiting;
    }
    ways
}

/// Begins to connect to a process.
pub(super) fn begin(to: SocketAddr) -> io::Result<OwnedFd> {
    let family = if to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)?;
    match rustix::net::connect(&socket, &to) {
        Ok(()) | Err(Errno::INPROGRESS | Errno::INTR) => Ok(socket),
        Err(error) => Err(error.into()),
    }
}

fn reached(socket: OwnedFd) -> io::Result<Stream> {
    sockopt::socket_error(&socket)??;
    Stream::of_tcp(TcpStream::from(socket))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::net::TcpListener;

    #[test]
    fn who_is_reached_is_greeted_and_who_is_not_is_named() {
        let listeners: Vec<TcpListener> = (0..3).map(|_| TcpListener::bind(("127.0.0.1", 0)).unwrap()).collect();
        let mut network: Vec<Option<SocketAddr>> = listeners.iter().map(|one| one.local_addr().ok()).collect();
        let closed = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap();
        network.extend([Some(closed), None]);
        // No process on this machine has these names.
        let address = |(number, network)| Address { name: Name(u128::MAX - number), cookie: 5, network };
        let all: Vec<Address> = (0..).zip(network).map(address).collect();
        let ways = connect_all(all.clone());
        let reached: Vec<bool> = all.iter().map(|one| ways[&one.name].is_ok()).collect();
        assert_eq!(reached, [true, true, true, false, false]);
        for listener in listeners {
            let mut byte = [0];
            assert_eq!(listener.accept().unwrap().0.read(&mut byte).unwrap(), 1, "the greeting");
        }
    }

    #[test]
    fn without_time_nobody_is_waited_for() {
        // No host answers at an address reserved for documentation; without a network it is not reached at once.
        let to = Address { name: Name(u128::MAX - 9), cookie: 5, network: Some(([192, 0, 2, 1], 9).into()) };
        assert!(connect_within(vec![to], Duration::ZERO)[&to.name].is_err());
    }
}
