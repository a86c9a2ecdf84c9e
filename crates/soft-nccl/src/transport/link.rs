//! The sending side of a connection: frames that wait for room in the socket. The waiting data is bounded: messages need their
//! receiver's credit, and puts wait while too much is unsent.
use super::wire::{Head, Hello};
use super::{Address, Stream, endpoint};
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};
use std::collections::VecDeque;
use std::io::{self, IoSlice};
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
    pub stream: Arc<Stream>,
    frames: VecDeque<Frame>,
    /// Bytes of the first frame that were written.
    written: usize,
    /// Bytes of all frames.
    queued: usize,
    /// True if it is no longer needed, and is closed when everything is written.
    pub closing: bool,
    /// The other side has closed it.
    pub broken: bool,
    /// True if the socket is full: the transport's thread continues when there is room.
    pub blocked: bool,
}

impl Link {
    /// A connection to a process of this machine: names of Unix sockets are those of a machine, so that a process which has this one is
    /// here.
    pub(super) fn near(to: Address) -> io::Result<Stream> {
        UnixStream::connect_addr(&to.socket()?).and_then(Stream::of_unix)
    }

    /// Says hello to the process that was reached.
    pub(super) fn greeted(stream: Stream, to: Address) -> io::Result<Self> {
        let mut link = Self::over(stream);
        link.queue(&Head::Hello(Hello::new(to.cookie, endpoint()?.address)), Vec::new());
        link.flush();
        Ok(link)
    }

    fn over(stream: Stream) -> Self {
        Self {
            stream: Arc::new(stream),
            frames: VecDeque::new(),
            written: 0,
            queued: 0,
            closing: false,
            broken: false,
            blocked: false,
        }
    }

    /// Appends a frame to the output.
    pub(crate) fn queue(&mut self, head: &Head, body: Vec<u8>) {
        if self.broken {
            return;
        }
        match head.encode(body.len()) {
            Ok(head) => {
                self.queued += head.len() + body.len();
                self.frames.push_back(Frame { head, body });
            }
            Err(_) => {
                // Both sides see the end of the connection and draw the conclusions.
                self.break_off();
                self.stream.shut_down();
            }
        }
    }

    fn break_off(&mut self) {
        self.broken = true;
        self.frames.clear();
        (self.queued, self.written) = (0, 0);
    }

    /// Frames wait for room in the socket.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.frames.is_empty()
    }

    /// Bytes that wait for room in the socket.
    pub(crate) fn unsent(&self) -> usize {
        self.queued - self.written
    }

    /// Writes as much as the socket accepts; never blocks.
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
            self.queued -= len;
            self.frames.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn what_is_unsent_is_what_the_socket_has_not_taken() {
        let (own, mut other) = UnixStream::pair().unwrap();
        let mut link = Link::over(Stream::of_unix(own).unwrap());
        let head = Head::Put { uid: 1, source: 0, destination: 1, window: 0, offset: 0 };
        let mut all = 0;
        while !link.blocked {
            link.queue(&head, vec![7; 10_000]);
            all += head.encode(10_000).unwrap().len() + 10_000;
            link.flush();
        }
        for _ in 0..3 {
            link.queue(&head, vec![7; 10_000]);
            all += head.encode(10_000).unwrap().len() + 10_000;
        }
        assert!(link.unsent() > 30_000 && link.unsent() < all, "{} of {all}", link.unsent());
        let mut taken = vec![0; all];
        let mut read = 0;
        while read < all {
            let bytes = other.read(&mut taken[read..]).unwrap();
            assert!(bytes > 0);
            read += bytes;
            link.flush();
        }
        assert_eq!((link.unsent(), link.is_waiting()), (0, false));
        link.queue(&head, vec![7; 10_000]);
        link.break_off();
        assert_eq!(link.unsent(), 0);
    }
}
