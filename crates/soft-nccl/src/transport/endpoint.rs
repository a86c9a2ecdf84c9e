//! The sockets at which this process listens, made when it first meets others.
use super::poller::{self, Listeners};
use super::{Address, Name, network};
use crate::settings::{Network, settings};
use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::sync::{Mutex, OnceLock, PoisonError};

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
