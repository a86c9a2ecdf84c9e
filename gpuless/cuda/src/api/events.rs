//! Events by handle.
use super::process_handle::ProcessHandle;
use super::{Handle, Out, Outcome, devices, errors, handles, put, runtime, streams};
use crate::shared_event::{Place, SharedEvent};
use gpuless_device::Event;
use std::collections::BTreeMap;
use std::ffi::{c_int, c_uint};
use std::ptr::without_provenance_mut;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const DISABLE_TIMING: c_uint = 2;
const INTERPROCESS: c_uint = 4;
const KNOWN_FLAGS: c_uint = 7;
/// Begins the handles of events for other processes.
const IPC_MAGIC: u64 = u64::from_ne_bytes(*b"gpulessE");
/// Flag of a record or wait: it is visible outside the capture.
const EXTERNAL: c_uint = 1;

struct Entry {
    event: Event,
    timed: bool,
    device: usize,
    /// What other processes see of it.
    shared: Option<Arc<SharedEvent>>,
}

#[derive(Default)]
struct Events {
    live: BTreeMap<usize, Entry>,
    made: usize,
}

/// Handles are numbers from here on; never followed.
const FIRST: usize = 0xe00_0000;
static EVENTS: Mutex<Option<Events>> = Mutex::new(None);

fn locked() -> MutexGuard<'static, Option<Events>> {
    EVENTS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn with<T>(handle: Handle, f: impl FnOnce(&Entry) -> T) -> Result<T, c_int> {
    let events = locked();
    events.as_ref().and_then(|events| events.live.get(&handle.addr())).map(f).ok_or(errors::INVALID_RESOURCE_HANDLE)
}

pub(super) fn lookup(handle: Handle) -> Result<Event, c_int> {
    with(handle, |entry| entry.event.clone())
}

type Shared = Option<Arc<SharedEvent>>;

/// The event, its device and what other processes see of it, unless its last record is part of a capture.
fn outside(handle: Handle) -> Result<(Event, usize, Shared), c_int> {
    let known = with(handle, |entry| (entry.event.clone(), entry.device, entry.shared.clone()))?;
    if known.0.is_captured() { Err(errors::CAPTURED_EVENT) } else { Ok(known) }
}

fn create(place: Out<'_, Handle>, flags: c_uint) -> Outcome {
    let place = place.ok_or(errors::INVALID_VALUE)?;
    let wrong = flags & INTERPROCESS != 0 && flags & DISABLE_TIMING == 0;
    if flags & !KNOWN_FLAGS != 0 || wrong {
        return Err(errors::INVALID_VALUE);
    }
    let timed = flags & DISABLE_TIMING == 0;
    let event = if timed { Event::timed() } else { Event::new() };
    let refused = |error| errors::refused("an event of several processes", 0, &error);
    let shared = (flags & INTERPROCESS != 0).then(SharedEvent::new).transpose().map_err(refused)?;
    place.write(add(event, timed, shared));
    Ok(())
}

fn add(event: Event, timed: bool, shared: Option<SharedEvent>) -> Handle {
    let mut events = locked();
    let events = events.get_or_insert_default();
    let handle = handles::handle(FIRST, events.made);
    events.made += 1;
    let shared = shared.map(Arc::new);
    events.live.insert(handle, Entry { event, timed, device: devices::current(), shared });
    without_provenance_mut(handle)
}

fn record(handle: Handle, stream: Handle, flags: c_uint) -> Outcome {
    if flags & !EXTERNAL != 0 {
        return Err(errors::INVALID_VALUE);
    }
    let (event, target) = (lookup(handle)?, streams::lookup(stream)?);
    errors::check(target.device)?;
    let shared = with(handle, |entry| entry.shared.clone())?;
    // Other processes do not see what is captured.
    if let Some(shared) = shared.filter(|_| !target.stream.capture_status().is_capturing()) {
        let record = shared.record();
        target.stream.host_fn(Box::new(move || shared.reach(record)));
    }
    match flags {
        EXTERNAL => target.stream.record_outside(&event),
        _ => target.stream.record(&event),
    }
    Ok(())
}

fn elapsed(milliseconds: Out<'_, f32>, start: Handle, end: Handle) -> Outcome {
    let timed = with(start, |entry| entry.timed)? && with(end, |entry| entry.timed)?;
    if !timed {
        return Err(errors::INVALID_RESOURCE_HANDLE);
    }
    let ((start, ..), (end, device, _)) = (outside(start)?, outside(end)?);
    errors::check(device)?;
    if !start.query() || !end.query() {
        return Err(errors::NOT_READY);
    }
    // `None`: one of them was never recorded.
    let time = start.time_to(&end).ok_or(errors::INVALID_RESOURCE_HANDLE)?;
    put(milliseconds, time.as_secs_f32() * 1000.0)
}

runtime! {
    fn cudaEventCreate(place: Out<'_, Handle>) { create(place, 0) }
    fn cudaEventCreateWithFlags(place: Out<'_, Handle>, flags: c_uint) { create(place, flags) }
    fn cudaEventDestroy(event: Handle) {
        let gone = locked().as_mut().and_then(|events| events.live.remove(&event.addr()));
        gone.map(|_| ()).ok_or(errors::INVALID_RESOURCE_HANDLE)
    }
    by_thread cudaEventRecord_ptsz fn cudaEventRecord(event: Handle, stream: Handle) { record(event, stream, 0) }
    by_thread cudaEventRecordWithFlags_ptsz fn cudaEventRecordWithFlags(event: Handle, stream: Handle, flags: c_uint) {
        record(event, stream, flags)
    }
    fn cudaEventQuery(event: Handle) {
        let (event, device, shared) = outside(event)?;
        let elsewhere = shared.is_none_or(|shared| shared.is_over(shared.last()));
        if event.query() && elsewhere { errors::check(device) } else { Err(errors::NOT_READY) }
    }
    fn cudaEventSynchronize(event: Handle) {
        let (event, device, shared) = outside(event)?;
        let last = shared.as_ref().map(|shared| shared.last());
        event.synchronize();
        shared.zip(last).inspect(|(shared, last)| shared.wait(*last));
        errors::check(device)
    }
    fn cudaEventElapsedTime(milliseconds: Out<'_, f32>, start: Handle, end: Handle) {
        elapsed(milliseconds, start, end)
    }
    fn cudaEventElapsedTime_v2(milliseconds: Out<'_, f32>, start: Handle, end: Handle) {
        elapsed(milliseconds, start, end)
    }
    fn cudaIpcGetEventHandle(place: Out<'_, ProcessHandle>, event: Handle) {
        let shared = with(event, |entry| entry.shared.clone())?.ok_or(errors::INVALID_RESOURCE_HANDLE)?;
        let Place { process, descriptor, inode, number } = shared.place();
        put(place, ProcessHandle::of_words([IPC_MAGIC, process, descriptor, inode, number, 0, 0, 0]))
    }
    /// Fails in the process that made the event.
    fn cudaIpcOpenEventHandle(place: Out<'_, Handle>, handle: ProcessHandle) {
        let place = place.ok_or(errors::INVALID_VALUE)?;
        let [magic, process, descriptor, inode, number, ..] = handle.words();
        if magic != IPC_MAGIC {
            return Err(errors::INVALID_VALUE);
        }
        if process == u64::from(std::process::id()) {
            return Err(errors::DEVICE_UNINITIALIZED);
        }
        let shared = SharedEvent::open(Place { process, descriptor, inode, number });
        place.write(add(Event::new(), false, Some(shared.ok_or(errors::INVALID_RESOURCE_HANDLE)?)));
        Ok(())
    }
    by_thread cudaStreamWaitEvent_ptsz fn cudaStreamWaitEvent(stream: Handle, event: Handle, flags: c_uint) {
        if flags & !EXTERNAL != 0 {
            return Err(errors::INVALID_VALUE);
        }
        let (shared, event) = (with(event, |entry| entry.shared.clone())?, lookup(event)?);
        let target = streams::lookup(stream)?;
        errors::check(target.device)?;
        let capturing = target.stream.capture_status().is_capturing();
        if let Some(shared) = shared.filter(|shared| !shared.last_is_own() && !capturing) {
            let last = shared.last();
            target.stream.blocking_host_fn(Box::new(move || shared.wait(last)));
            return Ok(());
        }
        let waits = match flags {
            EXTERNAL => target.stream.wait_outside(&event),
            _ => target.stream.wait(&event),
        };
        waits.map_err(gpuless_device::CaptureError::code)
    }
}
