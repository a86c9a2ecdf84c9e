//! The sending side of a connection: frames that wait for room in the socket. What may wait is bounded by the senders'
//! credit.
use super::wire::{Head, Hello};
use super::{Address, endpoint};
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

/// Frames per system call.
const AT_ONCE: usize = 32;

struct Frame {
    head: Vec<u8>,
    body: Vec<u8>,
}

/// A connection to another process, for sending.
pub(crate) struct Link {
    pub stream: Arc<UnixStream>,
    frames: VecDeque<Frame>,
    /// Bytes of the first frame that were written.
    written: usize,
    /// It is no longer needed, and goes when everything is written.
    pub closing: bool,
    /// The other side has closed it.
    pub broken: bool,
    /// The socket is full: the transport's thread goes on when there is room.
    pub blocked: bool,
}

impl Link {
    /// Connects to a process and says hello.
    pub(crate) fn connect(to: Address) -> io::Result<Self> {
        let own = endpoint()?.address;
        let stream = UnixStream::connect_addr(&to.socket()?)?;
        stream.set_nonblocking(true)?;
        let mut link = Self {
            stream: Arc::new(stream),
            frames: VecDeque::new(),
            written: 0,
            closing: false,
            broken: false,
            blocked: false,
        };
        link.queue(&Head::Hello(Hello::new(to.cookie, own)), Vec::new());
        link.flush();
        Ok(link)
    }

    /// Appends a frame.
    pub(crate) fn queue(&mut self, head: &Head, body: Vec<u8>) {
        if self.broken {
            return;
        }
        match head.encode(body.len()) {
            Ok(head) => self.frames.push_back(Frame { head, body }),
            Err(_) => {
                // Both sides see the end of the connection and draw the conclusions.
                self.break_off();
                let _ = self.stream.shutdown(Shutdown::Both);
            }
        }
    }

    fn break_off(&mut self) {
        self.broken = true;
        self.frames.clear();
    }

    /// Frames wait for room in the socket.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.frames.is_empty()
    }

    /// Writes what the socket takes; never blocks.
    pub(crate) fn flush(&mut self) {
        self.blocked = false;
        while !self.frames.is_empty() {
            let mut slices = Vec::with_capacity(2 * AT_ONCE);
            let mut skip = self.written;
            for frame in self.frames.iter().take(AT_ONCE) {
                for part in [&frame.head[..], &frame.body[..]] {
                    let gone = skip.min(part.len());
                    skip -= gone;
                    if gone < part.len() {
                        slices.push(IoSlice::new(&part[gone..]));
                    }
                }
            }
            let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
            match sendmsg(&*self.stream, &slices, &mut SendAncillaryBuffer::default(), flags) {
                Ok(bytes) => self.advance(bytes),
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => {
                    self.blocked = true;
                    return;
                }
                Err(_) => {
                    // The transport's thread sees the end of the connection and draws the conclusions.
                    self.break_off();
                }
            }
        }
    }

    fn advance(&mut self, bytes: usize) {
        self.written += bytes;
        while let Some(first) = self.frames.front() {
            let len = first.head.len() + first.body.len();
            if self.written < len {
                return;
            }
            self.written -= len;
            self.frames.pop_front();
        }
    }
}
