//! A connection between two processes of a job: messages with a length, and an end that is noticed also if the network is cut.
use crate::job::wire::{self, WireError};
use rustix::net::sockopt;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, Read};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

/// A peer that acknowledges nothing for so long is gone.
const CUT_OFF: Duration = Duration::from_secs(20);
/// How often an idle connection is tried.
const KEEP_ALIVE: Duration = Duration::from_secs(5);
/// The longest message while two processes greet each other, when nothing is known of the other one.
const LONGEST_GREETING: u32 = 1 << 20;

/// A connection to another process.
#[derive(Debug)]
pub struct Connection(TcpStream);

impl Connection {
    /// Over this stream.
    ///
    /// # Errors
    ///
    /// The operating system refuses an option.
    pub fn over(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        sockopt::set_socket_keepalive(&stream, true)?;
        sockopt::set_tcp_keepidle(&stream, KEEP_ALIVE)?;
        sockopt::set_tcp_keepintvl(&stream, KEEP_ALIVE)?;
        let probes = (CUT_OFF.as_secs() / KEEP_ALIVE.as_secs()).saturating_sub(1).max(1);
        sockopt::set_tcp_keepcnt(&stream, u32::try_from(probes).unwrap_or(1))?;
        sockopt::set_tcp_user_timeout(&stream, u32::try_from(CUT_OFF.as_millis()).unwrap_or(u32::MAX))?;
        Ok(Self(stream))
    }

    /// Another handle on the same connection.
    ///
    /// # Errors
    ///
    /// The operating system has no descriptor.
    pub fn try_clone(&self) -> io::Result<Self> {
        self.0.try_clone().map(Self)
    }

    /// Limits waiting for the other side; `None` for no limit.
    ///
    /// # Errors
    ///
    /// The operating system refuses.
    pub fn wait_at_most(&self, limit: Option<Duration>) -> io::Result<()> {
        self.0.set_read_timeout(limit)?;
        self.0.set_write_timeout(limit)
    }

    /// Sends a message.
    ///
    /// # Errors
    ///
    /// The connection is broken.
    pub fn send<T: Serialize>(&self, message: &T) -> Result<(), WireError> {
        wire::send_behind(&mut &self.0, &mut Vec::new(), message)
    }

    /// Sends a message behind others that were put down.
    ///
    /// # Errors
    ///
    /// The connection is broken.
    pub fn send_behind<T: Serialize>(&self, earlier: &mut Vec<u8>, message: &T) -> Result<(), WireError> {
        wire::send_behind(&mut &self.0, earlier, message)
    }

    /// The next message; `None` at the end.
    ///
    /// # Errors
    ///
    /// The connection is broken, or this is no message.
    pub fn receive<T: DeserializeOwned>(&self) -> Result<Option<T>, WireError> {
        wire::receive(&mut &self.0)
    }

    /// The next message of a greeting that is over at `end`.
    ///
    /// # Errors
    ///
    /// As for [`Connection::receive`]; the other side ends the greeting or is too slow; a message that is too long for one.
    pub fn receive_greeting<T: DeserializeOwned>(&self, end: Instant) -> Result<T, WireError> {
        let closed = || WireError::Io(io::ErrorKind::UnexpectedEof.into());
        wire::receive_at_most(&mut Until { stream: &self.0, end }, LONGEST_GREETING)?.ok_or_else(closed)
    }

    /// Reads what is there.
    ///
    /// # Errors
    ///
    /// The connection is broken.
    pub fn read_there(&self, buffer: &mut [u8]) -> io::Result<usize> {
        (&self.0).read(buffer)
    }

    /// Ends it for both sides. Whoever waits for a message sees the end.
    pub fn close(&self) {
        // It may be closed already.
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

/// A stream that is read until a moment, however slowly bytes come.
struct Until<'a> {
    stream: &'a TcpStream,
    end: Instant,
}

impl Read for Until<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(Some(left))?;
        self.stream.read(buffer)
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
