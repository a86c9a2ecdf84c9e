//! Messages between processes: abstract Unix sockets, whose names never leave a file however a process ends, and TCP to processes
//! on other machines if COLLSPEC_SOFT_NETWORK asks for it.
//!
//! A process that creates a unique id, or joins a communicator by another process's id, listens under a random name. A
//! connection carries frames one way, from the process that connected; a process that connects proves with a cookie that it got
//! the address from a member. One thread accepts, reads and finishes writes; it sleeps in `poll`.
//!
//! A chunk is a frame. The receiver's process puts it into the channel that its task reads, and sends a credit when the task takes it,
//! so that sends end, and senders run ahead, exactly as between threads. A process that ends without giving up its ranks is a remote
//! error for every communicator that needs it, and a task that waits for another process is never taken for stuck.
mod connecting;
pub(crate) mod control;
pub(crate) mod id;
mod link;
mod network;
mod poller;
mod stream;
pub(crate) mod wire;

pub(crate) use connecting::{Ways, connect_all};
pub(crate) use link::{CONNECTING, Link};
pub(crate) use stream::Stream;

use crate::settings::{Network, settings};
use rustix::event::{EventfdFlags, eventfd};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddr, UnixListener};
use std::sync::{Mutex, OnceLock, PoisonError};

/// Processes that one communicator may span.
pub(crate) const MOST_PROCESSES: usize = 64;

/// A process's name to others: the random part of its listener's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Name(pub u128);

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.0 >> 96)
    }
}

/// The address of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Address {
    pub name: Name,
    /// The proof that a connection comes from a process that was given the address: names can be seen, cookies cannot.
    pub cookie: u128,
    /// The address at which it listens for processes on other machines, if it does.
    pub network: Option<SocketAddr>,
}

impl Address {
    fn socket(self) -> io::Result<UnixAddr> {
        UnixAddr::from_abstract_name(format!("collspec-soft-{:032x}", self.name.0))
    }
}

/// The sockets at which a process listens.
pub(super) struct Listeners {
    /// The socket for processes of this machine.
    pub near: Option<UnixListener>,
    /// The socket for processes of other machines.
    pub far: Option<TcpListener>,
}

/// This process's listener, once it has one.
pub(crate) struct Endpoint {
    pub address: Address,
    /// Wakes the transport's thread.
    wake: OwnedFd,
}

impl Endpoint {
    /// Makes the transport's thread look at the links again.
    pub(crate) fn wake(&self) {
        // A full counter means that the thread is woken already.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }
}

static ENDPOINT: OnceLock<Endpoint> = OnceLock::new();

/// This process's endpoint if it was needed before.
pub(crate) fn known() -> Option<&'static Endpoint> {
    ENDPOINT.get()
}

/// This process's endpoint, created at the first call.
pub(crate) fn endpoint() -> io::Result<&'static Endpoint> {
    static MAKING: Mutex<()> = Mutex::new(());
    if let Some(endpoint) = known() {
        return Ok(endpoint);
    }
    let _making = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(endpoint) = known() {
        return Ok(endpoint);
    }
    let far = (settings().network != Network::Machine).then(network::listen).transpose()?;
    let network = far.as_ref().map(|(_, address)| *address);
    let address = Address { name: Name(random()?), cookie: random()?, network };
    let near = (settings().network != Network::Only).then(|| near(address)).transpose()?;
    let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
    let woken = wake.try_clone()?;
    std::thread::Builder::new()
        .name("soft-nccl net".to_owned())
        .spawn(move || poller::run(&Listeners { near, far: far.map(|(far, _)| far) }, &woken, address))?;
    Ok(ENDPOINT.get_or_init(|| Endpoint { address, wake }))
}

fn near(address: Address) -> io::Result<UnixListener> {
    let listener = UnixListener::bind_addr(&address.socket()?)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

fn random() -> io::Result<u128> {
    let mut bytes = [0; 16];
    let mut have = 0;
    while have < bytes.len() {
        have += rustix::rand::getrandom(&mut bytes[have..], rustix::rand::GetRandomFlags::empty())?;
    }
    Ok(u128::from_le_bytes(bytes))
}
