//! Events by handle.
use super::{Handle, Out, Outcome, devices, errors, handles, put, runtime, streams};
use gpuless_device::Event;
use std::collections::BTreeMap;
use std::ffi::{c_int, c_uint};
use std::ptr::without_provenance_mut;
use std::sync::{Mutex, MutexGuard, PoisonError};

const DISABLE_TIMING: c_uint = 2;
const INTERPROCESS: c_uint = 4;
const KNOWN_FLAGS: c_uint = 7;
/// Flag of a record or wait: it is visible outside the capture.
const EXTERNAL: c_uint = 1;

struct Entry {
    event: Event,
    timed: bool,
    device: usize,
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

/// The event and its device, unless its last record is part of a capture.
fn outside(handle: Handle) -> Result<(Event, usize), c_int> {
    let (event, device) = with(handle, |entry| (entry.event.clone(), entry.device))?;
    if event.is_captured() { Err(errors::CAPTURED_EVENT) } else { Ok((event, device)) }
}

fn create(place: Out<'_, Handle>, flags: c_uint) -> Outcome {
    let place = place.ok_or(errors::INVALID_VALUE)?;
    let wrong = flags & INTERPROCESS != 0 && flags & DISABLE_TIMING == 0;
    if flags & !KNOWN_FLAGS != 0 || wrong {
        return Err(errors::INVALID_VALUE);
    }
    let timed = flags & DISABLE_TIMING == 0;
    let event = if timed { Event::timed() } else { Event::new() };
    let mut events = locked();
    let events = events.get_or_insert_default();
    let handle = handles::handle(FIRST, events.made);
    events.made += 1;
    events.live.insert(handle, Entry { event, timed, device: devices::current() });
    place.write(without_provenance_mut(handle));
    Ok(())
}

fn record(handle: Handle, stream: Handle, flags: c_uint) -> Outcome {
    if flags & !EXTERNAL != 0 {
        return Err(errors::INVALID_VALUE);
    }
    let (event, target) = (lookup(handle)?, streams::lookup(stream)?);
    errors::check(target.device)?;
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
    let ((start, _), (end, device)) = (outside(start)?, outside(end)?);
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
        let (event, device) = outside(event)?;
        if event.query() { errors::check(device) } else { Err(errors::NOT_READY) }
    }
    fn cudaEventSynchronize(event: Handle) {
        let (event, device) = outside(event)?;
        event.synchronize();
        errors::check(device)
    }
    fn cudaEventElapsedTime(milliseconds: Out<'_, f32>, start: Handle, end: Handle) {
        elapsed(milliseconds, start, end)
    }
    fn cudaEventElapsedTime_v2(milliseconds: Out<'_, f32>, start: Handle, end: Handle) {
        elapsed(milliseconds, start, end)
    }
    by_thread cudaStreamWaitEvent_ptsz fn cudaStreamWaitEvent(stream: Handle, event: Handle, flags: c_uint) {
        if flags & !EXTERNAL != 0 {
            return Err(errors::INVALID_VALUE);
        }
        let (event, target) = (lookup(event)?, streams::lookup(stream)?);
        errors::check(target.device)?;
        let waits = match flags {
            EXTERNAL => target.stream.wait_outside(&event),
            _ => target.stream.wait(&event),
        };
        waits.map_err(gpuless_device::CaptureError::code)
    }
}
