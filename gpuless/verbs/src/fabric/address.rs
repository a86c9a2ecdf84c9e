//! Processes of the network by number: each listens on an abstract Unix socket whose name has the network's name and a number. The number
//! is free if the name is, and is so again when the process ends, however it ends.
#![allow(unsafe_code)] // sockets with abstract names

use crate::settings::{hash, settings};
use libc::{c_int, sockaddr_un, socklen_t};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// The numbers of processes, and the bits of a queue pair's number that count the queue pairs of one.
pub const PROCESSES: u32 = 1 << 10;
pub const PAIR_BITS: u32 = 14;

/// The longest name of a network that is taken as it is.
const LONGEST_NAME: usize = 64;
/// Connections that may wait until they are accepted.
const BACKLOG: c_int = 4096;

fn name_of(process: u32) -> String {
    let fabric = &settings().fabric;
    let fabric = match fabric.len() {
        // SAFETY: it only answers.
        0 => format!("user-{}", unsafe { libc::getuid() }),
        1..=LONGEST_NAME => fabric.clone(),
        _ => format!("{:016x}", hash(fabric)),
    };
    format!("gpuless-verbs/{fabric}/{process}")
}

fn address_of(process: u32) -> (sockaddr_un, socklen_t) {
    let mut address = sockaddr_un { sun_family: libc::AF_UNIX as libc::sa_family_t, sun_path: [0; 108] };
    let name = name_of(process);
    // The first byte stays zero, which makes the name abstract.
    for (to, from) in address.sun_path[1..].iter_mut().zip(name.bytes()) {
        *to = from.cast_signed();
    }
    let len = size_of::<libc::sa_family_t>() + 1 + name.len();
    (address, socklen_t::try_from(len).unwrap_or(0))
}

fn socket() -> io::Result<OwnedFd> {
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: only numbers.
    let got = unsafe { libc::socket(libc::AF_UNIX, kind, 0) };
    if got < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a new descriptor that nothing else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(got) })
}

/// Takes a number that no other process of the network has.
///
/// # Errors
///
/// There is none left, or there are no sockets.
pub fn listen() -> io::Result<(OwnedFd, u32)> {
    let socket = socket()?;
    for process in 0..PROCESSES {
        let (address, len) = address_of(process);
        // SAFETY: this frame's address, with its length.
        if unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), len) } == 0 {
            // SAFETY: only numbers.
            if unsafe { libc::listen(socket.as_raw_fd(), BACKLOG) } != 0 {
                return Err(io::Error::last_os_error());
            }
            return Ok((socket, process));
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::AddrInUse {
            return Err(error);
        }
    }
    Err(io::Error::from(io::ErrorKind::AddrInUse))
}

/// Connects to a process without waiting for it.
///
/// # Errors
///
/// There is no such process, it belongs to someone else, or more connections wait for it than can (`WouldBlock`).
pub fn connect(process: u32) -> io::Result<OwnedFd> {
    let socket = socket()?;
    let (address, len) = address_of(process);
    // SAFETY: this frame's address, with its length.
    if unsafe { libc::connect(socket.as_raw_fd(), (&raw const address).cast(), len) } != 0 {
        return Err(io::Error::last_os_error());
    }
    if !is_of_this_user(&socket) {
        return Err(io::Error::from(io::ErrorKind::PermissionDenied));
    }
    Ok(socket)
}

/// The next connection that waits at a listening socket; `None` is one of another user, which is closed.
///
/// # Errors
///
/// None waits, or there are no more descriptors.
pub fn accept(listener: &OwnedFd) -> io::Result<Option<OwnedFd>> {
    let flags = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: the peer's address is not asked for.
    let got = unsafe { libc::accept4(listener.as_raw_fd(), std::ptr::null_mut(), std::ptr::null_mut(), flags) };
    if got < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a new descriptor that nothing else owns.
    let socket = unsafe { OwnedFd::from_raw_fd(got) };
    Ok(is_of_this_user(&socket).then_some(socket))
}

/// Abstract names have no permissions: whoever has taken or found one may belong to another user.
fn is_of_this_user(socket: &OwnedFd) -> bool {
    let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut len = size_of::<libc::ucred>() as socklen_t;
    // SAFETY: this frame's record, with its length.
    let answer = unsafe {
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_PEERCRED, (&raw mut peer).cast(), &raw mut len)
    };
    // SAFETY: it only answers.
    answer == 0 && peer.uid == unsafe { libc::geteuid() }
}
