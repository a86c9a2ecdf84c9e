//! Names and addresses of processes, and the bytes of unique ids.
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::SocketAddr as UnixAddr;

/// The bytes of a unique id.
pub(crate) type Id = [u8; 128];

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
    pub(super) fn socket(self) -> io::Result<UnixAddr> {
        UnixAddr::from_abstract_name(format!("collspec-soft-{:032x}", self.name.0))
    }
}
