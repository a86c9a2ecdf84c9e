//! What the stand-in can do beyond the driver: say what it is, take work that ends later, and be looked at.
use crate::{memory, streams};
use soft_cuda::{Activity, Done, Stream, activity, set_idle_hook, wake_hosts};
use std::ffi::{c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null_mut;

/// What this library is.
#[unsafe(no_mangle)]
extern "C" fn collspecStandin() -> *const c_char {
    const TEXT: &str = concat!("stand-in CUDA driver (soft-cuda ", env!("CARGO_PKG_VERSION"), ")\0");
    TEXT.as_ptr().cast()
}

/// Runs a body from which a panic must not escape.
fn contained<T>(otherwise: T, body: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(otherwise)
}

/// Holds a stream, so that work can be put on it even if it is destroyed meanwhile. Null: there is no such stream.
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

/// When the stream gets here, `start(data, done)` is called, once, and must not block; the stream goes on after
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

/// The launched work is finished.
///
/// # Safety
/// `done` is what a start was given, and not used again.
#[unsafe(no_mangle)]
unsafe extern "C" fn collspecStreamDone(done: *mut c_void) {
    if !done.is_null() {
        // SAFETY: the caller's promise.
        let done = unsafe { Box::from_raw(done.cast::<Done>()) };
        contained((), || done.finish());
    }
}

/// Whether so many bytes lie in one live block of device memory.
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

/// Sets what is called when the devices fall idle or a host thread starts to wait for them.
#[unsafe(no_mangle)]
extern "C" fn collspecDeviceIdleHook(hook: Option<extern "C" fn()>) {
    contained((), || set_idle_hook(hook));
}

/// Makes interruptible waits ask again whether to go on.
#[unsafe(no_mangle)]
extern "C" fn collspecDeviceWakeHosts() {
    contained((), wake_hosts);
}
