//! A connection between two processes of a job: messages with a length, and an end that is noticed also if the network is cut.
use super::traffic::Traffic;
use crate::job::wire::{self, WireError};
use rustix::net::sockopt;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A peer that does not acknowledge data for this long is gone.
const CUT_OFF: Duration = Duration::from_secs(20);
/// The interval at which an idle connection is checked.
const KEEP_ALIVE: Duration = Duration::from_secs(5);
/// The longest message while two processes greet each other, when nothing is known of the other one.
const LONGEST_GREETING: u32 = 1 << 20;

/// A connection to another process.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    traffic: Arc<Traffic>,
}

impl Connection {
    /// Wraps this stream; its bytes are counted in `traffic`.
    ///
    /// # Errors
    ///
    /// The operating system refuses an option.
    pub fn over(stream: TcpStream, traffic: &Arc<Traffic>) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        sockopt::set_socket_keepalive(&stream, true)?;
        sockopt::set_tcp_keepidle(&stream, KEEP_ALIVE)?;
        sockopt::set_tcp_keepintvl(&stream, KEEP_ALIVE)?;
        let probes = (CUT_OFF.as_secs() / KEEP_ALIVE.as_secs()).saturating_sub(1).max(1);
        sockopt::set_tcp_keepcnt(&stream, u32::try_from(probes).unwrap_or(1))?;
        sockopt::set_tcp_user_timeout(&stream, u32::try_from(CUT_OFF.as_millis()).unwrap_or(u32::MAX))?;
        Ok(Self { stream, traffic: traffic.clone() })
    }

    /// Another handle on the same connection.
    ///
    /// # Errors
    ///
    /// The operating system has no descriptor.
    pub fn try_clone(&self) -> io::Result<Self> {
        let stream = self.stream.try_clone()?;
        Ok(Self { stream, traffic: self.traffic.clone() })
    }

    /// Sets the limit on waiting for the other side; `None` for no limit.
    ///
    /// # Errors
    ///
    /// The operating system refuses.
    pub fn wait_at_most(&self, limit: Option<Duration>) -> io::Result<()> {
        self.stream.set_read_timeout(limit)?;
        self.stream.set_write_timeout(limit)
    }

    /// Sends a message.
    ///
    /// # Errors
    ///
    /// The connection is broken.
    pub fn send<T: Serialize>(&self, message: &T) -> Result<(), WireError> {
        self.send_behind(&mut Vec::new(), message)
    }

    /// Sends a message after others that were queued.
    ///
    /// # Errors
    ///
    /// The connection is broken.
    pub fn send_behind<T: Serialize>(&self, earlier: &mut Vec<u8>, message: &T) -> Result<(), WireError> {
        wire::put(earlier, message)?;
        let bytes = std::mem::take(earlier);
        self.traffic.sent(bytes.len());
        Ok((&self.stream).write_all(&bytes)?)
    }

    /// The next message; `None` at the end.
    ///
    /// # Errors
    ///
    /// The connection is broken, or the bytes are not a message.
    pub fn receive<T: DeserializeOwned>(&self) -> Result<Option<T>, WireError> {
        wire::receive(&mut &self.stream)
    }

    /// The next message of a greeting that is over at `end`.
    ///
    /// # Errors
    ///
    /// Same as [`Connection::receive`], or the other side ends the greeting or is too slow, or a message is too long for a greeting.
    pub fn receive_greeting<T: DeserializeOwned>(&self, end: Instant) -> Result<T, WireError> {
        let closed = || WireError::Io(io::ErrorKind::UnexpectedEof.into());
        wire::receive_at_most(&mut Until { stream: &self.stream, end }, LONGEST_GREETING)?.ok_or_else(closed)
    }

    /// Counts an answer that is waited for.
    pub fn count_question(&self) {
        self.traffic.asked();
    }

    /// Reads the available bytes.
    ///
    /// # Errors
    ///
    /// The connection is broken.
    pub fn read_there(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = (&self.stream).read(buffer)?;
        self.traffic.came(length);
        Ok(length)
    }

    /// Ends the connection for both sides. A side that waits for a message sees the end.
    pub fn close(&self) {
        // It may be closed already.
        let _ = self.stream.shutdown(Shutdown::Both);
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
        self.stream.as_fd()
    }
}
