//! The device that the library works on: gpuless-device linked in, or a driver that the process has loaded.
//!
//! The default is the linked-in device. In a shared library, `use_loaded_driver` makes it reach streams through the driver: by the
//! stand-in's extension if it has one, otherwise by host functions that block until the operation is over. Memory is
//! host memory either way.
#![allow(unsafe_code)] // streams of a loaded driver are pointers that it follows

mod blocks;
mod driver;

pub(crate) use blocks::{allocate, block_of, free};

use crate::failure::{Failure, Outcome};
use driver::{Extension, Token};
use nccl_sys::ncclResult_t;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

static LOADED: AtomicBool = AtomicBool::new(false);

/// Makes streams those of the driver that the process has loaded (`libcuda.so.1`), not of the gpuless-device that is
/// linked in. May only be called before the library's first use.
pub fn use_loaded_driver() {
    LOADED.store(true, Ordering::Release);
}

/// Whose streams they are.
fn linked_in() -> bool {
    !LOADED.load(Ordering::Acquire)
}

/// A stream by its handle.
#[derive(Clone)]
pub struct Stream {
    raw: usize,
    kind: Kind,
}

#[derive(Clone)]
enum Kind {
    LinkedIn(gpuless_device::Stream),
    Extension(Arc<driver::Opened>),
    Driver,
}

/// Holds a stream until it is finished or dropped.
pub struct Done(#[allow(dead_code)] Hold); // what it holds acts when it is dropped

#[allow(dead_code)]
enum Hold {
    LinkedIn(gpuless_device::Done),
    Extension(Token),
    Driver(Opening),
}

impl Done {
    /// Lets the stream continue.
    pub fn finish(self) {}
}

/// A node of a graph: called on the host for each launch, with the launch's number; returns the work that its stream starts, or
/// `None` if it cannot be launched.
pub(crate) struct CapturedNode(Arc<dyn Fn(u64) -> Option<Vec<Start>> + Send + Sync>);

impl CapturedNode {
    pub(crate) fn new(starts: impl Fn(u64) -> Option<Vec<Start>> + Send + Sync + 'static) -> Self {
        Self(Arc::new(starts))
    }
}

/// The function that a stream calls when its turn has come.
pub type Start = Box<dyn FnOnce(Done) + Send>;

impl Stream {
    /// The stream of a handle; null means the null stream of the device.
    ///
    /// # Safety
    /// If the streams are those of a loaded driver, the handle is null or one of its streams, which lives until the work that is
    /// launched on it has ended. (The linked-in device looks handles up.)
    pub(crate) unsafe fn lookup(raw: *mut c_void, device: c_int) -> Outcome<Self> {
        let unknown = || Failure::argument("no live stream has this handle");
        let kind = if linked_in() {
            let null = usize::try_from(device).ok().filter(|_| raw.is_null()).map(gpuless_device::Stream::of_device);
            let stream = null.or_else(|| gpuless_device::Stream::lookup(raw)).ok_or_else(unknown)?;
            return Ok(Self { raw: stream.id(), kind: Kind::LinkedIn(stream) });
        } else {
            let driver = driver::driver()?;
            match &driver.extension {
                Some(extension) => Kind::Extension(Arc::new(extension.open(raw).ok_or_else(unknown)?)),
                None => Kind::Driver,
            }
        };
        Ok(Self { raw: raw.addr(), kind })
    }

    /// Two handles of one stream are equal.
    pub(crate) fn raw(&self) -> usize {
        self.raw
    }

    /// The number of the capture that the stream's work becomes a part of, if it is being captured.
    pub(crate) fn capture(&self) -> Option<u64> {
        match &self.kind {
            Kind::LinkedIn(stream) => match stream.capture_status() {
                gpuless_device::CaptureStatus::None => None,
                gpuless_device::CaptureStatus::Active(id) | gpuless_device::CaptureStatus::Invalidated(id) => Some(id),
            },
            Kind::Extension(opened) => opened.capture(),
            Kind::Driver => driver::driver().ok().and_then(|driver| driver.capture(self.raw)),
        }
    }

    /// Adds a node to the stream's capture.
    pub(crate) fn capture_node(&self, node: CapturedNode) -> Outcome<()> {
        let CapturedNode(node) = node;
        let taken = match &self.kind {
            Kind::LinkedIn(stream) => {
                let linked_in =
                    |start: Start| -> gpuless_device::Start { Box::new(|done| start(Done(Hold::LinkedIn(done)))) };
                stream.capture_launch(Arc::new(move |launch| {
                    node(launch).map(|starts| starts.into_iter().map(linked_in).collect())
                }))
            }
            Kind::Extension(opened) => {
                let held =
                    |start: Start| -> driver::HeldStart { Box::new(|token| start(Done(Hold::Extension(token)))) };
                opened.capture_node(Arc::new(move |launch| {
                    node(launch).map(|starts| starts.into_iter().map(held).collect())
                }))
            }
            Kind::Driver => false,
        };
        if taken { Ok(()) } else { Err(Failure::usage("the stream's work cannot become part of a graph")) }
    }

    /// Calls `start` when the stream reaches this item; the stream continues when its `Done` is dropped.
    pub(crate) fn launch(&self, start: Start) -> Outcome<()> {
        match &self.kind {
            Kind::LinkedIn(stream) => stream.launch(Box::new(|done| start(Done(Hold::LinkedIn(done))))),
            Kind::Extension(opened) => opened.launch(Box::new(|token| start(Done(Hold::Extension(token))))),
            Kind::Driver => {
                let wait = Box::new(move || {
                    let gate = Arc::new(Gate::default());
                    start(Done(Hold::Driver(Opening(Arc::clone(&gate)))));
                    gate.wait();
                });
                // SAFETY: the caller of `lookup` has promised a live stream.
                unsafe { driver::driver()?.launch_host(self.raw, wait)? };
            }
        }
        Ok(())
    }
}

/// The device of a call that has no communicator: the calling thread's current device.
const NO_DEVICE: c_int = -1;

/// Puts work on a stream by its handle: for libraries that add something to this one's operations. The answer is NCCL's.
///
/// # Safety
/// After [`use_loaded_driver`] the handle is null or a stream of that driver, which lives until the work has ended.
pub unsafe fn launch(stream: *mut c_void, start: Start) -> ncclResult_t {
    // SAFETY: the caller makes the same promise.
    match unsafe { Stream::lookup(stream, NO_DEVICE) }.and_then(|stream| stream.launch(start)) {
        Ok(()) => ncclResult_t::Success,
        Err(failure) => failure.code,
    }
}

/// The gate at which a host function waits.
#[derive(Default)]
struct Gate {
    open: Mutex<bool>,
    opened: Condvar,
}

impl Gate {
    fn wait(&self) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        while !*open {
            open = self.opened.wait(open).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Opens the gate when dropped.
struct Opening(Arc<Gate>);

impl Drop for Opening {
    fn drop(&mut self) {
        *self.0.open.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.0.opened.notify_all();
    }
}

/// The extension of the loaded driver, if that is where the streams are and it has one.
fn extension() -> Option<&'static Extension> {
    driver::driver().ok().and_then(|driver| driver.extension.as_ref())
}

/// True if this many bytes lie in one block of device memory, or if the driver cannot tell.
pub(crate) fn contains(address: usize, bytes: usize) -> bool {
    if linked_in() {
        return gpuless_device::memory::contains(std::ptr::without_provenance(address), bytes);
    }
    extension().is_none_or(|extension| extension.contains(address, bytes))
}

/// Makes host threads that wait for the device check again if they may continue.
pub(crate) fn wake_hosts() {
    if linked_in() {
        gpuless_device::wake_hosts();
    } else if let Some(extension) = extension() {
        extension.wake_hosts();
    }
}

/// The calling thread will wait in the library for others.
pub(crate) fn host_waits() {
    if linked_in() {
        gpuless_device::begin_held();
    }
}

/// Sets the work that host threads do while they wait for gpuless-device's own streams; see [`gpuless_device::Helper`].
pub(crate) fn set_helper(help: fn(usize) -> bool, hand_over: fn()) {
    if linked_in() {
        gpuless_device::set_helper(gpuless_device::Helper { help, hand_over });
    }
}

/// True on a host thread that will run ready tasks before it blocks.
pub(crate) fn is_driving() -> bool {
    linked_in() && gpuless_device::is_driving()
}

/// The device's state; a device that does not report it counts as busy, so that it is never mistaken for idle.
pub(crate) fn activity() -> gpuless_device::Activity {
    if linked_in() {
        return gpuless_device::activity();
    }
    extension().map_or(gpuless_device::Activity { busy: true, ..Default::default() }, Extension::activity)
}

pub(crate) fn set_idle_hook(hook: Option<extern "C" fn()>) {
    if linked_in() {
        gpuless_device::set_idle_hook(hook);
    } else if let Some(extension) = extension() {
        extension.set_idle_hook(hook);
    }
}

/// The calling thread's current device; if it has set none, the device with the rank's number.
pub(crate) fn current(rank: c_int) -> Outcome<c_int> {
    let own = || gpuless_device::current().and_then(|device| c_int::try_from(device).ok());
    if linked_in() { Ok(own().unwrap_or(rank)) } else { driver::driver()?.current() }
}
