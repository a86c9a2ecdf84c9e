//! Extensions of the stand-in beyond the driver: identification, work that ends later, and inspection.
use crate::{memory, streams};
use gpuless_device::{Activity, CaptureStatus, Done, Start, Stream, activity, set_idle_hook, wake_hosts};
use std::ffi::{c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null_mut;
use std::sync::Arc;

/// Identifies this library.
#[unsafe(no_mangle)]
extern "C" fn collspecStandin() -> *const c_char {
    const TEXT: &str = concat!("stand-in CUDA driver (gpuless-device ", env!("CARGO_PKG_VERSION"), ")\0");
    TEXT.as_ptr().cast()
}

/// Runs a body from which a panic must not escape.
fn contained<T>(otherwise: T, body: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(otherwise)
}

/// Holds a stream, so that work can be put on it even if it is destroyed in the meantime. Null if there is no such stream.
#[unsafe(no_mangle)]
extern "C" fn collspecStreamOpen(stream: *mut c_void) -> *mut c_void {
    contained(null_mut(), || match streams::lookup(stream) {
        Ok(stream) => Box::into_raw(Box::new(stream)).cast(),
        Err(_) => null_mut(),
    })
}

/// Ends the hold.
///
/// # Safety
/// `opened` is from `collspecStreamOpen` and not used again.
#[unsafe(no_mangle)]
unsafe extern "C" fn collspecStreamClose(opened: *mut c_void) {
    if !opened.is_null() {
        // SAFETY: the caller's promise.
        let stream = unsafe { Box::from_raw(opened.cast::<Stream>()) };
        contained((), || drop(stream));
    }
}

/// A launch's start and its data.
struct Launch {
    start: unsafe extern "C" fn(data: *mut c_void, done: *mut c_void),
    data: *mut c_void,
}
// SAFETY: the caller that launches knows that `start` runs on another thread.
unsafe impl Send for Launch {}

impl Launch {
    fn call(self, done: Done) {
        let done = Box::into_raw(Box::new(done)).cast();
        // SAFETY: `collspecStreamLaunch`'s contract.
        unsafe { (self.start)(self.data, done) }
    }
}

/// When the stream reaches this item, `start(data, done)` is called once, and must not block; the stream continues after
/// `collspecStreamDone(done)`.
///
/// # Safety
/// `opened` is from `collspecStreamOpen`; `start` may be called with `data` from any thread.
#[unsafe(no_mangle)]
unsafe extern "C" fn collspecStreamLaunch(
    opened: *mut c_void,
    start: unsafe extern "C" fn(data: *mut c_void, done: *mut c_void),
    data: *mut c_void,
) {
    // SAFETY: the caller's promise.
    let stream = unsafe { &*opened.cast::<Stream>() };
    let launch = Launch { start, data };
    contained((), || stream.launch(Box::new(move |done| launch.call(done))));
}

/// The number of the capture that the stream's work belongs to; 0 if it is not being captured.
///
/// # Safety
/// `opened` is from `collspecStreamOpen`.
#[unsafe(no_mangle)]
unsafe extern "C" fn collspecStreamCapture(opened: *mut c_void) -> u64 {
    // SAFETY: the caller's promise.
    let stream = unsafe { &*opened.cast::<Stream>() };
    contained(0, || match stream.capture_status() {
        CaptureStatus::None => 0,
        CaptureStatus::Active(id) | CaptureStatus::Invalidated(id) => id,
    })
}

type NodeFunction = unsafe extern "C" fn(data: *mut c_void, launch: u64, starts: *mut c_void) -> c_int;

/// A node that a library adds to a graph.
struct Node {
    launched: NodeFunction,
    release: unsafe extern "C" fn(data: *mut c_void),
    data: *mut c_void,
}
// SAFETY: the caller that makes a node knows that its functions run on any thread, one at a time.
unsafe impl Send for Node {}
// SAFETY: as above.
unsafe impl Sync for Node {}

impl Node {
    fn starts(&self, launch: u64) -> Option<Vec<Start>> {
        let mut starts: Vec<Start> = Vec::new();
        // SAFETY: `collspecStreamCaptureNode`'s contract; the list lives during the call.
        let code = unsafe { (self.launched)(self.data, launch, (&raw mut starts).cast()) };
        (code == 0).then_some(starts)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // SAFETY: `collspecStreamCaptureNode`'s contract; the node is used no more.
        unsafe { (self.release)(self.data) }
    }
}

/// Makes a node of the stream's capture. Whenever the graph is launched, `launched(data, launch, starts)` is called on the host
/// with the launch's number. It calls `collspecNodeStart(starts, ...)` once for each piece of work that the stream is to start, in
/// order, and answers 0, or another number if the graph cannot be launched. `release(data)` is called when the graph is gone, or at once if the stream is
/// not capturing, for which the answer is 0.
///
/// # Safety
/// `opened` is from `collspecStreamOpen`; the functions may be called with `data` from any thread.
#[unsafe(no_mangle)]
unsafe extern "C" fn collspecStreamCaptureNode(
    opened: *mut c_void,
    launched: NodeFunction,
    release: unsafe extern "C" fn(data: *mut c_void),
    data: *mut c_void,
) -> c_int {
    // SAFETY: the caller's promise.
    let stream = unsafe { &*opened.cast::<Stream>() };
    let node = Node { launched, release, data };
    contained(0, || c_int::from(stream.capture_launch(Arc::new(move |launch| node.starts(launch)))))
}

/// Adds something that a stream is to start to the list of a launch; see `collspecStreamLaunch`.
///
/// # Safety
/// `starts` was passed to a node's function, in that call; `start` may be called with `data` from any thread.
#[unsafe(no_mangle)]
unsafe extern "C" fn collspecNodeStart(
    starts: *mut c_void,
    start: unsafe extern "C" fn(data: *mut c_void, done: *mut c_void),
    data: *mut c_void,
) {
    // SAFETY: the caller's promise.
    let starts = unsafe { &mut *starts.cast::<Vec<Start>>() };
    let launch = Launch { start, data };
    contained((), || starts.push(Box::new(move |done| launch.call(done))));
}

/// The launched work is finished.
///
/// # Safety
/// `done` was passed to a start, and is not used again.
#[unsafe(no_mangle)]
unsafe extern "C" fn collspecStreamDone(done: *mut c_void) {
    if !done.is_null() {
        // SAFETY: the caller's promise.
        let done = unsafe { Box::from_raw(done.cast::<Done>()) };
        contained((), || done.finish());
    }
}

/// True if this many bytes lie in one live block of device memory.
#[unsafe(no_mangle)]
extern "C" fn collspecDeviceContains(address: *const c_void, len: usize) -> c_int {
    contained(0, || c_int::from(memory::on_device(address.addr(), len)))
}

/// A look at all devices.
#[unsafe(no_mangle)]
extern "C" fn collspecDeviceCensus(place: Option<&mut MaybeUninit<Activity>>) {
    if let Some(place) = place {
        place.write(contained(Activity { busy: true, ..Activity::default() }, activity));
    }
}

/// Sets the function that is called when the devices fall idle or a host thread starts to wait for them.
#[unsafe(no_mangle)]
extern "C" fn collspecDeviceIdleHook(hook: Option<extern "C" fn()>) {
    contained((), || set_idle_hook(hook));
}

/// Makes interruptible waits check again if they may continue.
#[unsafe(no_mangle)]
extern "C" fn collspecDeviceWakeHosts() {
    contained((), wake_hosts);
}
