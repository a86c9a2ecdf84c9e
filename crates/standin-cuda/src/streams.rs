//! Streams by handle, and host functions.
use crate::{Out, codes, context, driver, put};
use gpuless_device::Stream;
use std::collections::HashMap;
use std::ffi::{c_int, c_uint, c_void};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const NON_BLOCKING: c_uint = 1;
/// Reserved handles: the default stream, as one of all threads and as one of each.
pub(crate) const LEGACY: usize = 1;
const PER_THREAD: usize = 2;

/// Live streams by handle, and each device's default stream.
#[derive(Default)]
struct Streams {
    made: HashMap<usize, (Stream, usize)>,
    defaults: HashMap<usize, Stream>,
}

static STREAMS: Mutex<Option<Streams>> = Mutex::new(None);

fn locked() -> MutexGuard<'static, Option<Streams>> {
    STREAMS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The stream of a handle. The small ones mean the current device's default stream.
pub(crate) fn lookup(handle: *mut c_void) -> Result<Stream, c_int> {
    if matches!(handle.addr(), 0 | LEGACY | PER_THREAD) {
        let device = context::current()?;
        return Ok(locked().get_or_insert_default().defaults.entry(device).or_default().clone());
    }
    let streams = locked();
    let made = streams.as_ref().and_then(|streams| streams.made.get(&handle.addr()));
    made.map(|(stream, _)| stream.clone()).ok_or(codes::INVALID_HANDLE)
}

/// Waits for all work of a device.
pub(crate) fn synchronize_all(device: usize) {
    let streams: Vec<Stream> = match locked().as_ref() {
        None => return,
        Some(streams) => {
            let made = streams.made.values().filter(|(_, its)| *its == device).map(|(stream, _)| stream);
            made.chain(streams.defaults.get(&device)).cloned().collect()
        }
    };
    for stream in streams {
        // Captured work is not work of the device.
        if !stream.capture_status().is_capturing() {
            stream.synchronize();
        }
    }
}

fn create(place: Out<'_, *mut c_void>, flags: c_uint) -> Result<(), c_int> {
    let device = context::current()?;
    if flags & !NON_BLOCKING != 0 {
        return Err(codes::INVALID_VALUE);
    }
    let place = place.ok_or(codes::INVALID_VALUE)?;
    let stream = Stream::new();
    place.write(stream.raw());
    locked().get_or_insert_default().made.insert(stream.raw().addr(), (stream, device));
    Ok(())
}

/// The stream, unless it is capturing: what waits for a stream makes its capture invalid.
pub(crate) fn runs(stream: &Stream) -> Result<&Stream, c_int> {
    if stream.capture_status().is_capturing() {
        stream.invalidate_capture();
        return Err(codes::CAPTURE_UNSUPPORTED);
    }
    Ok(stream)
}

/// A host function's argument.
#[derive(Clone, Copy)]
struct Argument(*mut c_void);
// SAFETY: the caller that enqueues a host function knows that it runs on another thread.
unsafe impl Send for Argument {}
// SAFETY: as above; launches of one graph do not overlap.
unsafe impl Sync for Argument {}

type HostFunction = unsafe extern "C" fn(*mut c_void);

driver! {
    fn cuStreamCreate(stream: Out<'_, *mut c_void>, flags: c_uint) { create(stream, flags) }
    fn cuStreamCreateWithPriority(stream: Out<'_, *mut c_void>, flags: c_uint, _priority: c_int) {
        create(stream, flags)
    }
    /// Work on the stream continues to its end.
    fn cuStreamDestroy_v2(stream: *mut c_void) {
        let gone = locked().as_mut().and_then(|streams| streams.made.remove(&stream.addr()));
        gone.map(|_| ()).ok_or(codes::INVALID_HANDLE)
    }
    fn cuStreamSynchronize(stream: *mut c_void) {
        runs(&lookup(stream)?)?.synchronize();
        Ok(())
    }
    fn cuStreamQuery(stream: *mut c_void) {
        if runs(&lookup(stream)?)?.query() { Ok(()) } else { Err(codes::NOT_READY) }
    }
    fn cuStreamGetFlags(stream: *mut c_void, flags: Out<'_, c_uint>) {
        lookup(stream)?;
        put(flags, NON_BLOCKING)
    }
    fn cuLaunchHostFunc(stream: *mut c_void, function: Option<HostFunction>, argument: *mut c_void) {
        let function = function.ok_or(codes::INVALID_VALUE)?;
        let argument = Argument(argument);
        lookup(stream)?.repeatable_blocking_host_fn(Arc::new(move || {
            let Argument(pointer) = { argument };
            // SAFETY: the driver's contract: the function may be called with this argument, once for each launch of a graph.
            unsafe { function(pointer) }
        }));
        Ok(())
    }
}
