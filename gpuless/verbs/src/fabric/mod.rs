//! The network: connections between the processes of one machine, and the one thread of a process that delivers what arrives.
//!
//! Sockets never block, and the thread waits for nobody: it waits for all of them at once. So two processes that send each other more than
//! their sockets hold cannot stop each other.
#![allow(unsafe_code)] // epoll

mod address;
pub mod frame;
mod input;
pub mod link;
mod thread;
mod timers;

use crate::descriptor::Counter;
use crate::lock::lock;
use crate::table::Table;
pub use address::PAIR_BITS;
use frame::{Header, Kind};
use input::{Input, Receiver};
use link::Link;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};
use timers::Timers;

/// What is delivered to: the queue pairs of this process. All of it is called on the delivery thread.
pub trait Pairs: Sync {
    /// Whether the body of a request or an answer is wanted.
    fn wants(&self, header: &Header) -> bool;
    fn request(&self, link: &Arc<Link>, header: &Header, body: Option<&[u8]>);
    fn answer(&self, header: &Header, body: Option<&[u8]>);
    /// A connection that had enough to do takes requests of these again.
    fn go_on(&self, numbers: &[u32]);
    /// The connection to a process has ended: nobody answers what waits.
    fn lost(&self, process: u32);
}

/// What this process is in the network.
pub struct Fabric {
    pairs: &'static dyn Pairs,
    /// The number of this process.
    pub process: u32,
    listener: OwnedFd,
    epoll: Arc<OwnedFd>,
    wake: Counter,
    /// Connections that this process has opened, by the number of the process at the other end.
    opened: Mutex<BTreeMap<u32, Arc<Link>>>,
}

static FABRIC: OnceLock<Fabric> = OnceLock::new();
static TIMERS: Timers = Timers::new();
/// All connections, by their number in the epoll set.
static LINKS: Table<Link> = Table::new();
static NEXT_LINK: AtomicU64 = AtomicU64::new(FIRST_LINK);
const LISTENER: u64 = 0;
const WAKE: u64 = 1;
const FIRST_LINK: u64 = 2;

/// A process without descriptors to accept a connection tries again after this time.
const PAUSE: Duration = Duration::from_millis(100);

/// Why a process cannot be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreached {
    /// Too many wait for it at the moment.
    Busy,
    Gone,
}

/// Nanoseconds of the clock that all processes of the machine share.
pub fn clock() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: this frame's record; the clock exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec.cast_unsigned().wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec.cast_unsigned())
}

/// Runs a task on the delivery thread after a time; never, if no clock reaches that far. Nothing happens before [`start`].
pub fn after(time: Duration, task: impl FnOnce() + Send + 'static) {
    if let Some(at) = Instant::now().checked_add(time) {
        later(at, task);
    }
}

/// Runs a task on the delivery thread at a time.
pub fn later(at: Instant, task: impl FnOnce() + Send + 'static) {
    if TIMERS.add(at, Box::new(task))
        && let Some(fabric) = FABRIC.get()
    {
        fabric.wake.add();
    }
}

/// The network, if this process has joined it.
pub fn joined() -> Option<&'static Fabric> {
    FABRIC.get()
}

/// This process joins the network, unless it has.
///
/// # Errors
///
/// There is no number or descriptor left, or no thread can be started.
pub fn start(pairs: &'static dyn Pairs) -> io::Result<&'static Fabric> {
    static STARTING: Mutex<()> = Mutex::new(());
    if let Some(fabric) = FABRIC.get() {
        return Ok(fabric);
    }
    let _one = lock(&STARTING);
    if let Some(fabric) = FABRIC.get() {
        return Ok(fabric);
    }
    let (listener, process) = address::listen()?;
    // SAFETY: only a number.
    let epoll = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
    if epoll < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a new descriptor that nothing else owns.
    let epoll = Arc::new(unsafe { OwnedFd::from_raw_fd(epoll) });
    let wake = Counter::new(libc::EFD_NONBLOCK)?;
    watch(&epoll, libc::EPOLL_CTL_ADD, listener.as_raw_fd(), LISTENER, libc::EPOLLIN)?;
    watch(&epoll, libc::EPOLL_CTL_ADD, wake.as_raw_fd(), WAKE, libc::EPOLLIN)?;
    let fabric = Fabric { pairs, process, listener, epoll, wake, opened: Mutex::default() };
    thread::stay_loaded();
    // The thread comes first: without one there is no network.
    std::thread::Builder::new().name(String::from("verbs")).spawn(|| deliver(FABRIC.wait()))?;
    let fabric = FABRIC.get_or_init(|| fabric);
    // SAFETY: the function is one of this library, which stays loaded as its thread does.
    unsafe { libc::pthread_atfork(None, None, Some(close_in_child)) };
    Ok(fabric)
}

fn watch(epoll: &OwnedFd, operation: i32, file: i32, id: u64, events: i32) -> io::Result<()> {
    let mut event = libc::epoll_event { events: events.cast_unsigned(), u64: id };
    // SAFETY: this frame's record.
    let answer = unsafe { libc::epoll_ctl(epoll.as_raw_fd(), operation, file, &raw mut event) };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// True in a forked child, which has no delivery thread and so no network.
static IS_CHILD: AtomicBool = AtomicBool::new(false);

/// If a forked child kept the sockets, this process would seem to live on when it has ended.
extern "C" fn close_in_child() {
    IS_CHILD.store(true, Ordering::SeqCst);
    let Some(fabric) = FABRIC.get() else { return };
    LINKS.try_each(Link::abandon);
    for file in [fabric.listener.as_raw_fd(), fabric.epoll.as_raw_fd()] {
        // SAFETY: only a number. A child uses it no more: it opens no connection, and those that it knows are marked as closed.
        unsafe { libc::close(file) };
    }
}

impl Fabric {
    /// The connection for requests to a process.
    ///
    /// # Errors
    ///
    /// See [`Unreached`].
    pub fn link(&self, process: u32) -> Result<Arc<Link>, Unreached> {
        if IS_CHILD.load(Ordering::Relaxed) {
            return Err(Unreached::Gone);
        }
        let mut opened = lock(&self.opened);
        if let Some(link) = opened.get(&process) {
            return Ok(Arc::clone(link));
        }
        let socket = address::connect(process).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Unreached::Busy,
            _ => Unreached::Gone,
        })?;
        let link = self.add(socket, Some(process));
        opened.insert(process, Arc::clone(&link));
        Ok(link)
    }

    fn add(&self, socket: OwnedFd, opened_to: Option<u32>) -> Arc<Link> {
        let id = NEXT_LINK.fetch_add(1, Ordering::Relaxed);
        let link = Arc::new(Link::new(socket, id, opened_to, Arc::clone(&self.epoll)));
        LINKS.insert(id as usize, Arc::clone(&link));
        link.watch();
        link
    }

    /// The next request to the process of a closed connection opens another: the number may be a new process's already.
    pub fn forget(&self, link: &Link) {
        let Some(process) = link.opened_to else { return };
        let mut opened = lock(&self.opened);
        if opened.get(&process).is_some_and(|known| known.id == link.id) {
            opened.remove(&process);
        }
    }

    /// Ends a connection: whoever waits for answers on it waits in vain.
    pub fn drop_link(&self, link: &Link) {
        link.close();
        LINKS.remove(link.id as usize);
        self.forget(link);
        if let Some(process) = link.opened_to {
            self.pairs.lost(process);
        }
    }

    /// Accepts a connection that waits; the kernel tells again of others. It does not ask for one more than it was told of: if that waited,
    /// nothing would be delivered. The listener's flag rules it out as long as its description is the one that was opened here, and beside a
    /// library whose threads open and close descriptors all the time, this thread was seen to stand in `accept`.
    fn accept(&'static self) {
        match address::accept(&self.listener) {
            Ok(Some(socket)) => _ = self.add(socket, None),
            Ok(None) => {}
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(error) if error.raw_os_error() == Some(libc::ECONNABORTED) => {}
            Err(_) => {
                let listen =
                    |events| watch(&self.epoll, libc::EPOLL_CTL_MOD, self.listener.as_raw_fd(), LISTENER, events);
                _ = listen(0);
                after(PAUSE, move || _ = listen(libc::EPOLLIN));
            }
        }
    }
}

/// Gives frames to the queue pairs that they are for.
struct Deliverer<'a> {
    pairs: &'static dyn Pairs,
    link: &'a Arc<Link>,
    is_malformed: bool,
}

impl Deliverer<'_> {
    /// Requests come on connections that others have opened, answers on those of this process.
    fn fits(&self, header: &Header) -> bool {
        header.kind.is_request() != self.link.opened_to.is_some()
    }
}

impl Receiver for Deliverer<'_> {
    fn wants_body(&mut self, header: &Header) -> bool {
        self.fits(header) && self.pairs.wants(header)
    }

    fn frame(&mut self, header: &Header, body: Option<&mut [u8]>) {
        if !self.fits(header) {
            self.is_malformed = true;
        } else if header.kind.is_request() {
            self.pairs.request(self.link, header, body.map(|body| &*body));
        } else {
            self.pairs.answer(header, body.map(|body| &*body));
        }
    }
}

/// The delivery thread.
fn deliver(fabric: &'static Fabric) {
    const MOST: usize = 64;
    thread::block_signals();
    let mut inputs: BTreeMap<u64, Input> = BTreeMap::new();
    let mut events = [libc::epoll_event { events: 0, u64: 0 }; MOST];
    loop {
        // One millisecond more than is left, rounded down, so that the thread does not wake up too early and wait again.
        let timeout = TIMERS.next().map_or(-1, |at| {
            let left = at.saturating_duration_since(Instant::now());
            if left.is_zero() { 0 } else { i32::try_from(left.as_millis()).unwrap_or(i32::MAX - 1) + 1 }
        });
        // SAFETY: this frame's records, and their number.
        let count = unsafe { libc::epoll_wait(fabric.epoll.as_raw_fd(), events.as_mut_ptr(), MOST as i32, timeout) };
        while let Some(task) = TIMERS.take_due(Instant::now()) {
            task();
        }
        for event in &events[..usize::try_from(count).unwrap_or(0).min(MOST)] {
            let (id, what) = (event.u64, event.events.cast_signed());
            match id {
                LISTENER => fabric.accept(),
                WAKE => _ = fabric.wake.take(),
                _ => {
                    let Some(link) = LINKS.find(id as usize) else { continue };
                    if !serve(fabric.pairs, &link, what, inputs.entry(id).or_default()) {
                        inputs.remove(&id);
                        fabric.drop_link(&link);
                    }
                }
            }
        }
        if inputs.len() > 2 * MOST {
            inputs.retain(|id, _| LINKS.has(*id as usize));
        }
    }
}

/// Sends and reads what a connection is ready for. False: it has ended.
fn serve(pairs: &'static dyn Pairs, link: &Arc<Link>, what: i32, input: &mut Input) -> bool {
    let flush = || link.flush().map(|crowd| pairs.go_on(&crowd)).is_ok();
    if what & libc::EPOLLOUT != 0 && !flush() {
        return false;
    }
    if what & (libc::EPOLLIN | libc::EPOLLHUP | libc::EPOLLERR) == 0 {
        return true;
    }
    let mut deliverer = Deliverer { pairs, link, is_malformed: false };
    let read = input.read(link, &mut deliverer);
    let is_malformed = deliverer.is_malformed;
    read.is_ok() && !is_malformed && flush()
}

/// The queue pair of a header's sender goes on.
pub fn go_on(link: &Link, header: &Header) {
    link.send_later(&header.answer(Kind::GoOn));
    // A connection that is closed has nobody to tell; the delivery thread will find out.
    _ = link.flush();
}
