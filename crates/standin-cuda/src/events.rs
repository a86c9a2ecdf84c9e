//! Events by handle, with times.
use crate::{Out, codes, context, driver, put, streams};
use gpuless_device::Event;
use std::collections::HashMap;
use std::ffi::{c_int, c_uint, c_void};
use std::ptr::without_provenance_mut;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

const DISABLE_TIMING: c_uint = 2;
/// Blocking synchronisation, no timing, between processes.
const KNOWN_FLAGS: c_uint = 7;
const WAIT_FLAGS: c_uint = 1;

/// The time at which a record was reached.
type Reached = Arc<Mutex<Option<Instant>>>;

#[derive(Clone)]
struct Entry {
    event: Event,
    timing: bool,
    last: Option<Reached>,
}

#[derive(Default)]
struct Events {
    live: HashMap<usize, Entry>,
    made: usize,
}

/// Handles are numbers from here on; never followed.
const FIRST: usize = 0xe0_0000;
static EVENTS: Mutex<Option<Events>> = Mutex::new(None);

fn locked() -> MutexGuard<'static, Option<Events>> {
    EVENTS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn lookup(handle: *mut c_void) -> Result<Entry, c_int> {
    let events = locked();
    events.as_ref().and_then(|events| events.live.get(&handle.addr())).cloned().ok_or(codes::INVALID_HANDLE)
}

fn record(handle: *mut c_void, stream: *mut c_void) -> Result<(), c_int> {
    let stream = streams::lookup(stream)?;
    let mut events = locked();
    let entry = events.as_mut().and_then(|events| events.live.get_mut(&handle.addr()));
    let entry = entry.ok_or(codes::INVALID_HANDLE)?;
    if entry.timing {
        let reached = Reached::default();
        entry.last = Some(reached.clone());
        stream.repeatable_host_fn(Arc::new(move || {
            *reached.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        }));
    }
    stream.record(&entry.event);
    Ok(())
}

/// The event, unless its last record is part of a capture.
fn outside(entry: Entry) -> Result<Entry, c_int> {
    if entry.event.is_captured() { Err(codes::CAPTURED_EVENT) } else { Ok(entry) }
}

fn time(handle: *mut c_void) -> Result<Instant, c_int> {
    let entry = lookup(handle)?;
    let reached = entry.last.ok_or(codes::INVALID_HANDLE)?;
    let time = *reached.lock().unwrap_or_else(PoisonError::into_inner);
    time.ok_or(codes::NOT_READY)
}

fn elapsed(milliseconds: Out<'_, f32>, start: *mut c_void, end: *mut c_void) -> Result<(), c_int> {
    let (start, end) = (time(start)?, time(end)?);
    let seconds = match end.checked_duration_since(start) {
        Some(time) => time.as_secs_f64(),
        None => -start.duration_since(end).as_secs_f64(),
    };
    put(milliseconds, (seconds * 1000.0) as f32)
}

driver! {
    fn cuEventCreate(place: Out<'_, *mut c_void>, flags: c_uint) {
        context::current()?;
        if flags & !KNOWN_FLAGS != 0 {
            return Err(codes::INVALID_VALUE);
        }
        let place = place.ok_or(codes::INVALID_VALUE)?;
        let mut events = locked();
        let events = events.get_or_insert_default();
        let handle = FIRST + events.made;
        events.made += 1;
        events.live.insert(handle, Entry { event: Event::new(), timing: flags & DISABLE_TIMING == 0, last: None });
        place.write(without_provenance_mut(handle));
        Ok(())
    }
    fn cuEventDestroy_v2(event: *mut c_void) {
        let gone = locked().as_mut().and_then(|events| events.live.remove(&event.addr()));
        gone.map(|_| ()).ok_or(codes::INVALID_HANDLE)
    }
    fn cuEventRecord(event: *mut c_void, stream: *mut c_void) { record(event, stream) }
    fn cuEventRecordWithFlags(event: *mut c_void, stream: *mut c_void, _flags: c_uint) { record(event, stream) }
    fn cuEventQuery(event: *mut c_void) {
        if outside(lookup(event)?)?.event.query() { Ok(()) } else { Err(codes::NOT_READY) }
    }
    fn cuEventSynchronize(event: *mut c_void) {
        outside(lookup(event)?)?.event.synchronize();
        Ok(())
    }
    fn cuEventElapsedTime(milliseconds: Out<'_, f32>, start: *mut c_void, end: *mut c_void) {
        elapsed(milliseconds, start, end)
    }
    fn cuEventElapsedTime_v2(milliseconds: Out<'_, f32>, start: *mut c_void, end: *mut c_void) {
        elapsed(milliseconds, start, end)
    }
    fn cuStreamWaitEvent(stream: *mut c_void, event: *mut c_void, flags: c_uint) {
        if flags & !WAIT_FLAGS != 0 {
            return Err(codes::INVALID_VALUE);
        }
        let stream = streams::lookup(stream)?;
        stream.wait(&lookup(event)?.event).map_err(gpuless_device::CaptureError::code)?;
        Ok(())
    }
}
