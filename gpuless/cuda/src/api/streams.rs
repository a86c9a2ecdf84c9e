//! Streams by handle.
use super::raw::{Function, HostFunction};
use super::settings::settings;
use super::{Handle, Out, Outcome, devices, errors, put, runtime};
use gpuless_device::{Event, Stream};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ffi::{c_int, c_uint, c_ulonglong};
use std::ptr::without_provenance_mut;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const NON_BLOCKING: c_uint = 1;
/// Reserved handles: the default stream, as one of all threads and as one of each.
const LEGACY: usize = 1;
const PER_THREAD: usize = 2;
/// The greatest priority of a stream; the least is 0.
const GREATEST_PRIORITY: c_int = -5;

/// A stream, and the device on which its work runs.
#[derive(Clone)]
pub(super) struct Target {
    pub stream: Stream,
    pub device: usize,
}

/// A stream that the runtime created.
struct Made {
    /// The runtime's hold on it.
    _stream: Stream,
    device: usize,
    flags: c_uint,
    priority: c_int,
}

#[derive(Default)]
struct Streams {
    made: BTreeMap<usize, Made>,
    /// The device of each stream that had work, including streams that the runtime did not create.
    seen: BTreeMap<usize, usize>,
}

static STREAMS: Mutex<Option<Streams>> = Mutex::new(None);

fn locked() -> MutexGuard<'static, Option<Streams>> {
    STREAMS.lock().unwrap_or_else(PoisonError::into_inner)
}

thread_local! {
    /// True if null means the thread's own default stream.
    static BY_THREAD: Cell<bool> = const { Cell::new(false) };
    /// The thread's own default streams, by device.
    static OWN: RefCell<BTreeMap<usize, Stream>> = const { RefCell::new(BTreeMap::new()) };
}

/// Calls a function for which null means the thread's own default stream.
pub(super) fn by_thread(f: impl FnOnce() -> c_int) -> c_int {
    let before = BY_THREAD.replace(true);
    let code = f();
    BY_THREAD.set(before);
    code
}

impl Streams {
    fn see(&mut self, stream: &Stream, device: usize) {
        let new = self.seen.insert(stream.id(), device).is_none();
        if new && self.seen.len().is_power_of_two() {
            self.seen.retain(|id, _| Stream::lookup(without_provenance_mut(*id)).is_some());
        }
    }
}

/// The stream of a handle: the runtime's own, one of gpuless-device's, or a default stream of the current device.
pub(super) fn lookup(handle: Handle) -> Result<Target, c_int> {
    let device = devices::current();
    let stream = match handle.addr() {
        0 if !BY_THREAD.get() => Stream::of_device(device),
        LEGACY => Stream::of_device(device),
        0 | PER_THREAD => {
            let own = OWN.try_with(|own| own.borrow_mut().entry(device).or_default().clone());
            own.map_err(|_| errors::INVALID_RESOURCE_HANDLE)?
        }
        _ => Stream::lookup(handle).ok_or(errors::INVALID_RESOURCE_HANDLE)?,
    };
    let target = {
        let mut streams = locked();
        let streams = streams.get_or_insert_default();
        let device = streams.made.get(&stream.id()).map_or(device, |made| made.device);
        streams.see(&stream, device);
        Target { stream, device }
    };
    if settings().legacy_default_stream {
        order_with_default(&target)?;
    }
    Ok(target)
}

/// What comes on a device's default stream waits for the work so far on those of its streams that are not `NON_BLOCKING`, and what
/// comes on these waits for its work. Captured work is not ordered with it.
fn order_with_default(target: &Target) -> Outcome {
    let default = Stream::of_device(target.device);
    let others: Vec<usize> = match locked().as_ref() {
        None => Vec::new(),
        Some(streams) => {
            let blocking = |id: &usize| streams.made.get(id).is_none_or(|made| made.flags & NON_BLOCKING == 0);
            let seen = streams.seen.iter().filter(|(_, device)| **device == target.device).map(|(id, _)| *id);
            seen.filter(|id| *id != default.id() && blocking(id)).collect()
        }
    };
    let wait = |waits: &Stream, on: &Stream| {
        let captured = [waits, on].iter().any(|stream| stream.capture_status().is_capturing());
        if captured || on.query() {
            return Ok(());
        }
        let event = Event::new();
        on.record(&event);
        waits.wait(&event).map_err(gpuless_device::CaptureError::code)
    };
    if target.stream.id() == default.id() {
        let others = others.into_iter().filter_map(|id| Stream::lookup(without_provenance_mut(id)));
        return others.into_iter().try_for_each(|other| wait(&default, &other));
    }
    if others.contains(&target.stream.id()) { wait(&target.stream, &default) } else { Ok(()) }
}

fn create(place: Out<'_, Handle>, flags: c_uint, priority: c_int) -> Outcome {
    let place = place.ok_or(errors::INVALID_VALUE)?;
    if flags & !NON_BLOCKING != 0 {
        return Err(errors::INVALID_VALUE);
    }
    let device = devices::current();
    errors::check(device)?;
    let stream = Stream::new();
    place.write(stream.raw());
    let priority = priority.clamp(GREATEST_PRIORITY, 0);
    locked().get_or_insert_default().made.insert(stream.id(), Made { device, flags, priority, _stream: stream });
    Ok(())
}

/// Fails if the target is capturing: waiting for a stream makes its capture invalid.
fn runs(target: &Target) -> Outcome {
    if target.stream.capture_status().is_capturing() {
        target.stream.invalidate_capture();
        return Err(errors::CAPTURE_UNSUPPORTED);
    }
    Ok(())
}

/// Waits for all work on the stream.
pub(super) fn synchronize(target: &Target) -> Outcome {
    runs(target)?;
    target.stream.synchronize();
    errors::check(target.device)
}

/// Waits for all work of a device. Captured work does not count.
pub(super) fn synchronize_all(device: usize) -> Outcome {
    let ids: Vec<usize> = match locked().as_ref() {
        None => Vec::new(),
        Some(streams) => streams.seen.iter().filter(|(_, its)| **its == device).map(|(id, _)| *id).collect(),
    };
    for stream in ids.into_iter().filter_map(|id| Stream::lookup(without_provenance_mut(id))) {
        if !stream.capture_status().is_capturing() {
            stream.synchronize();
        }
    }
    errors::check(device)
}

/// The runtime's data about a stream that it created.
fn made<T>(handle: Handle, f: impl FnOnce(&Made) -> T) -> Option<T> {
    locked().as_ref().and_then(|streams| streams.made.get(&handle.addr())).map(f)
}

runtime! {
    fn cudaStreamCreate(place: Out<'_, Handle>) { create(place, 0, 0) }
    fn cudaStreamCreateWithFlags(place: Out<'_, Handle>, flags: c_uint) { create(place, flags, 0) }
    fn cudaStreamCreateWithPriority(place: Out<'_, Handle>, flags: c_uint, priority: c_int) {
        create(place, flags, priority)
    }
    /// Work on the stream continues to its end.
    fn cudaStreamDestroy(stream: Handle) {
        let gone = locked().as_mut().and_then(|streams| streams.made.remove(&stream.addr()));
        gone.map(|_| ()).ok_or(errors::INVALID_RESOURCE_HANDLE)
    }
    by_thread cudaStreamSynchronize_ptsz fn cudaStreamSynchronize(stream: Handle) { synchronize(&lookup(stream)?) }
    by_thread cudaStreamQuery_ptsz fn cudaStreamQuery(stream: Handle) {
        let target = lookup(stream)?;
        runs(&target)?;
        if target.stream.query() { errors::check(target.device) } else { Err(errors::NOT_READY) }
    }
    by_thread cudaStreamGetPriority_ptsz fn cudaStreamGetPriority(stream: Handle, priority: Out<'_, c_int>) {
        lookup(stream)?;
        put(priority, made(stream, |made| made.priority).unwrap_or(0))
    }
    by_thread cudaStreamGetFlags_ptsz fn cudaStreamGetFlags(stream: Handle, flags: Out<'_, c_uint>) {
        lookup(stream)?;
        put(flags, made(stream, |made| made.flags).unwrap_or(0))
    }
    by_thread cudaStreamGetId_ptsz fn cudaStreamGetId(stream: Handle, id: Out<'_, c_ulonglong>) {
        put(id, lookup(stream)?.stream.id() as c_ulonglong)
    }
    by_thread cudaStreamGetDevice_ptsz fn cudaStreamGetDevice(stream: Handle, device: Out<'_, c_int>) {
        put(device, super::int(lookup(stream)?.device))
    }
    fn cudaDeviceGetStreamPriorityRange(least: Out<'_, c_int>, greatest: Out<'_, c_int>) {
        super::put_if(least, 0);
        super::put_if(greatest, GREATEST_PRIORITY);
        Ok(())
    }
    fn cudaDeviceSynchronize() { synchronize_all(devices::current()) }
    /// It may block: then only this stream waits.
    by_thread cudaLaunchHostFunc_ptsz fn cudaLaunchHostFunc(
        stream: Handle,
        function: Option<Function>,
        argument: Handle,
    ) {
        let function = HostFunction { function: function.ok_or(errors::INVALID_VALUE)?, argument };
        let target = lookup(stream)?;
        errors::check(target.device)?;
        target.stream.repeatable_blocking_host_fn(Arc::new(move || function.call()));
        Ok(())
    }
}
