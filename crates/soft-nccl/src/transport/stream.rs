//! A connection to another process: a Unix socket within a machine, TCP between machines.
use rustix::net::{RecvFlags, Shutdown, sockopt};
use std::io;
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// A machine that does not acknowledge data for this long is gone.
const CUT_OFF: Duration = Duration::from_secs(20);
/// The interval at which an idle connection between machines is checked.
const KEEP_ALIVE: Duration = Duration::from_secs(5);

/// A connection; reading and writing never block.
#[derive(Debug)]
pub(crate) struct Stream(OwnedFd);

impl Stream {
    pub(super) fn of_unix(stream: UnixStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self(stream.into()))
    }

    pub(super) fn of_tcp(stream: TcpStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        sockopt::set_socket_keepalive(&stream, true)?;
        sockopt::set_tcp_keepidle(&stream, KEEP_ALIVE)?;
        sockopt::set_tcp_keepintvl(&stream, KEEP_ALIVE)?;
        sockopt::set_tcp_keepcnt(&stream, (CUT_OFF.as_secs() / KEEP_ALIVE.as_secs()) as u32 - 1)?;
        sockopt::set_tcp_user_timeout(&stream, CUT_OFF.as_millis() as u32)?;
        Ok(Self(stream.into()))
    }

    /// Reads the available bytes.
    pub(super) fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::net::recv(&self.0, buffer, RecvFlags::DONTWAIT).map(|(bytes, _)| bytes)?)
    }

    /// Ends it for both sides.
    pub(super) fn shut_down(&self) {
        // It may have ended already.
        let _ = rustix::net::shutdown(&self.0, Shutdown::Both);
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
