//! A connection to a process. Nobody waits for it: what the socket does not take at once is kept, and the delivery thread sends it later.
//!
//! The process that opens a connection sends requests on it and gets the answers; the other one answers. So requests of a queue pair, and
//! their answers, arrive in the order in which they were sent.
#![allow(unsafe_code)] // gathers from memory that callers have registered

use crate::fabric::frame::{HEADER, Header};
use crate::lock::lock;
use crate::memory;
use crate::region::Range;
use libc::{c_int, iovec};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::{Arc, Mutex};

/// With as many bytes kept, no requests are taken: from the caller, who has them in his queue, or from a peer that does not fetch its answers.
const MOST_KEPT: usize = 16 << 20;
/// With fewer unsent bytes they are taken again.
const FEW_KEPT: usize = 4 << 20;

/// Without waiting, whatever has become of the socket's own flag.
const FLAGS: c_int = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;

#[derive(Debug)]
pub struct Link {
    socket: OwnedFd,
    /// Its number in the delivery thread's epoll set.
    pub id: u64,
    /// The process at the other end, if this one has opened the connection.
    pub opened_to: Option<u32>,
    epoll: Arc<OwnedFd>,
    out: Mutex<Out>,
}

#[derive(Debug, Default)]
struct Out {
    kept: Vec<u8>,
    /// Bytes of `kept` that have been sent.
    sent: usize,
    broken: bool,
    /// Whether the delivery thread is told of room in the socket, and of arriving bytes.
    wants_room: bool,
    ignores_requests: bool,
    /// Queue pairs whose requests were not taken.
    crowd: Vec<u32>,
}

/// The connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken;

impl Link {
    pub fn new(socket: OwnedFd, id: u64, opened_to: Option<u32>, epoll: Arc<OwnedFd>) -> Self {
        let size: c_int = 4 << 20;
        // SAFETY: this frame's number, with its length. Smaller buffers work as well.
        unsafe {
            let len = size_of::<c_int>() as libc::socklen_t;
            libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_SNDBUF, (&raw const size).cast(), len)
        };
        Self { socket, id, opened_to, epoll, out: Mutex::default() }
    }

    /// Whether a request of a queue pair is taken now. If not, [`Link::flush`] will tell when to ask again.
    pub fn takes_requests(&self, pair: u32) -> bool {
        let mut out = lock(&self.out);
        let takes = out.broken || out.kept.len() - out.sent < MOST_KEPT;
        if !takes && !out.crowd.contains(&pair) {
            out.crowd.push(pair);
        }
        takes
    }

    /// Sends a header and memory behind it.
    ///
    /// # Errors
    ///
    /// The connection is closed.
    pub fn send(&self, header: &Header, parts: &[Range]) -> Result<(), Broken> {
        let mut out = lock(&self.out);
        if out.broken {
            return Err(Broken);
        }
        let bytes = header.write();
        let head = Range { start: bytes.as_ptr().cast_mut(), len: HEADER };
        let all = || std::iter::once(head).chain(parts.iter().copied());
        self.write_kept(&mut out)?;
        let gone = if out.kept.is_empty() { self.write(all())? } else { 0 };
        let mut skipped = 0;
        for part in all() {
            let from = gone.saturating_sub(skipped).min(part.len);
            skipped += part.len;
            keep(&mut out.kept, part, from);
        }
        self.update(&mut out);
        Ok(())
    }

    /// Keeps an answer for the next [`Link::flush`], so that several leave together.
    pub fn send_later(&self, header: &Header) {
        let mut out = lock(&self.out);
        if !out.broken {
            out.kept.extend_from_slice(&header.write());
        }
    }

    /// Sends what was kept, as far as the socket takes it; the queue pairs whose requests are taken again.
    ///
    /// # Errors
    ///
    /// The connection is closed.
    pub fn flush(&self) -> Result<Vec<u32>, Broken> {
        let mut out = lock(&self.out);
        self.write_kept(&mut out)?;
        self.update(&mut out);
        let takes = out.kept.len() - out.sent < FEW_KEPT;
        match out.broken {
            true => Err(Broken),
            false if takes => Ok(std::mem::take(&mut out.crowd)),
            false => Ok(Vec::new()),
        }
    }

    fn write_kept(&self, out: &mut Out) -> Result<(), Broken> {
        while out.sent < out.kept.len() && !out.broken {
            let rest = &out.kept[out.sent..];
            let part = Range { start: rest.as_ptr().cast_mut(), len: rest.len() };
            match self.write(std::iter::once(part))? {
                0 => break,
                more => out.sent += more,
            }
        }
        if out.sent == out.kept.len() {
            out.sent = 0;
            out.kept.clear();
            out.kept.shrink_to(MOST_KEPT / 16);
        } else if out.sent > out.kept.len() / 2 {
            let sent = std::mem::take(&mut out.sent);
            out.kept.drain(..sent);
        }
        Ok(())
    }

    /// Writes memory to the socket until it takes no more; how many bytes went.
    fn write(&self, parts: impl Iterator<Item = Range>) -> Result<usize, Broken> {
        let mut vectors: Vec<iovec> =
            parts.map(|part| iovec { iov_base: part.start.cast(), iov_len: part.len }).collect();
        let mut next = &mut vectors[..];
        let mut written = 0;
        while !next.is_empty() {
            // SAFETY: all zeros is a message without anything.
            let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
            message.msg_iov = next.as_mut_ptr();
            message.msg_iovlen = next.len() as _;
            // SAFETY: the vectors name memory that the callers of this library have registered for this, or this library's own. If
            // some of it is no longer mapped, the kernel says so.
            let got = unsafe { libc::sendmsg(self.socket.as_raw_fd(), &raw const message, FLAGS) };
            let Ok(mut got) = usize::try_from(got) else {
                match io::Error::last_os_error().raw_os_error() {
                    Some(libc::EINTR) => continue,
                    // What cannot be read is left to `keep`, which sends zeros for it.
                    Some(libc::EAGAIN | libc::ENOBUFS | libc::EFAULT) => break,
                    _ => return Err(Broken),
                }
            };
            written += got;
            while let Some(first) = next.first_mut() {
                if got < first.iov_len {
                    first.iov_base = first.iov_base.wrapping_byte_add(got);
                    first.iov_len -= got;
                    break;
                }
                got -= first.iov_len;
                next = next.split_off_mut(1..).unwrap_or_default();
            }
        }
        Ok(written)
    }

    /// Asks the kernel to tell of what this connection waits for.
    fn update(&self, out: &mut Out) {
        let left = out.kept.len() - out.sent;
        let wants_room = left > 0;
        let most = if out.ignores_requests { FEW_KEPT } else { MOST_KEPT };
        let ignores_requests = self.opened_to.is_none() && left > most;
        if (wants_room, ignores_requests) != (out.wants_room, out.ignores_requests) {
            (out.wants_room, out.ignores_requests) = (wants_room, ignores_requests);
            let reads = if ignores_requests { 0 } else { libc::EPOLLIN };
            watch(&self.epoll, libc::EPOLL_CTL_MOD, self, reads | if wants_room { libc::EPOLLOUT } else { 0 });
        }
    }

    pub fn watch(&self) {
        watch(&self.epoll, libc::EPOLL_CTL_ADD, self, libc::EPOLLIN);
    }

    /// Ends the connection, for both sides.
    pub fn close(&self) {
        let mut out = lock(&self.out);
        if !out.broken {
            *out = Out { broken: true, ..Out::default() };
            watch(&self.epoll, libc::EPOLL_CTL_DEL, self, 0);
            // SAFETY: only numbers.
            unsafe { libc::shutdown(self.socket.as_raw_fd(), libc::SHUT_RDWR) };
        }
    }

    /// For a forked child: closes its copy of the socket. The lock may be held for ever by a thread that the child does not have, and
    /// then the child cannot use the connection anyway.
    pub fn abandon(&self) {
        if let Ok(mut out) = self.out.try_lock() {
            out.broken = true;
        }
        // SAFETY: only a number, which this connection uses no more.
        unsafe { libc::close(self.socket.as_raw_fd()) };
    }

    /// Reads arrived bytes behind those of `buffer`, at most `most`.
    ///
    /// # Errors
    ///
    /// Nothing has arrived (`WouldBlock`), or the connection is closed.
    pub fn read(&self, buffer: &mut Vec<u8>, most: usize) -> io::Result<usize> {
        buffer.try_reserve(most).map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
        let room = buffer.spare_capacity_mut();
        let len = room.len().min(most);
        // SAFETY: the vector's own room.
        let got = unsafe { libc::recv(self.socket.as_raw_fd(), room.as_mut_ptr().cast(), len, libc::MSG_DONTWAIT) };
        match usize::try_from(got) {
            Err(_) => Err(io::Error::last_os_error()),
            Ok(0) => Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
            Ok(got) => {
                // SAFETY: the kernel has just written these bytes.
                unsafe { buffer.set_len(buffer.len() + got) };
                Ok(got)
            }
        }
    }
}

impl AsRawFd for Link {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

/// Copies the part of a range from `from` on. What its owner has unmapped meanwhile becomes zeros: a frame that has begun must end.
fn keep(kept: &mut Vec<u8>, part: Range, from: usize) {
    let len = part.len - from;
    let start = part.start.wrapping_add(from);
    if memory::is_usable(start as usize, len, false) {
        // SAFETY: mapped and readable.
        unsafe { memory::load(start, len, kept) };
    } else {
        kept.resize(kept.len() + len, 0);
    }
}

fn watch(epoll: &OwnedFd, operation: c_int, link: &Link, events: c_int) {
    let mut event = libc::epoll_event { events: events.cast_unsigned(), u64: link.id };
    // SAFETY: this frame's record. A failure is one of memory, after which the connection stands still.
    unsafe { libc::epoll_ctl(epoll.as_raw_fd(), operation, link.as_raw_fd(), &raw mut event) };
}
