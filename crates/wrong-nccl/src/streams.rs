//! Work that faults add to a program's streams.
use gpuless_device::{CaptureStatus, Event, Stream};
use std::ptr::with_exposed_provenance_mut;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Duration;

/// The delay of what a fault makes late: long enough that everything which should have waited for it has gone on.
pub(crate) const LATE: Duration = Duration::from_millis(20);

/// Streams beside the program's, until their work is over.
static BESIDE: LazyLock<Mutex<Vec<Stream>>> = LazyLock::new(Mutex::default);

/// The stream of a handle on this device.
pub(crate) fn stream(raw: usize, device: Option<usize>) -> Option<Stream> {
    match device.filter(|_| raw == 0) {
        Some(device) => Some(Stream::of_device(device)),
        None => Stream::lookup(with_exposed_provenance_mut(raw)),
    }
}

/// The number of the capture that a stream's work becomes part of.
pub(crate) fn capture(stream: &Stream) -> Option<u64> {
    match stream.capture_status() {
        CaptureStatus::None => None,
        CaptureStatus::Active(id) | CaptureStatus::Invalidated(id) => Some(id),
    }
}

/// A new stream that waits for everything so far on `stream`, which does not wait for it.
pub(crate) fn beside(stream: &Stream) -> Stream {
    let (event, beside) = (Event::new(), Stream::new());
    stream.record(&event);
    // A stream without work of its own is no part of a capture, so this cannot fail unless `stream` is.
    let _ = beside.wait(&event);
    keep(beside.clone());
    beside
}

/// Keeps a stream until its work is over.
pub(crate) fn keep(stream: Stream) {
    BESIDE.lock().unwrap_or_else(PoisonError::into_inner).push(stream);
}

/// The stream waits for a little while.
pub(crate) fn dawdle(stream: &Stream) {
    stream.blocking_host_fn(Box::new(|| std::thread::sleep(LATE)));
}

/// Waits for the work beside the program's: it uses memory that the program is about to give back.
pub(crate) fn join() {
    let all = std::mem::take(&mut *BESIDE.lock().unwrap_or_else(PoisonError::into_inner));
    for stream in all {
        stream.synchronize();
    }
}

/// The stream stands still from here on.
pub(crate) fn stop(stream: &Stream) {
    if !stream.capture_status().is_capturing() {
        stream.launch(Box::new(std::mem::forget));
    }
}

/// Runs a function in stream order, each time a graph is launched that has captured it.
pub(crate) fn then(stream: &Stream, f: impl Fn() + Send + Sync + 'static) {
    stream.repeatable_host_fn(Arc::new(f));
}
