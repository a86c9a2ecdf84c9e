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
mod address;
mod connecting;
pub(crate) mod control;
mod endpoint;
pub(crate) mod id;
mod link;
mod network;
mod poller;
mod stream;
pub(crate) mod terms;
pub(crate) mod wire;

pub(crate) use address::{Address, Id, MOST_PROCESSES, Name};
pub(crate) use connecting::{Ways, connect, connect_all};
pub(crate) use endpoint::{endpoint, known};
pub(crate) use link::Link;
pub(crate) use poller::{Outgoing, Receiver, TransportEvent, deliver_to};
pub(crate) use stream::Stream;
