//! Idle streams that begin only when the host thread that put work on them waits for something: because that thread will do the
//! work itself and need not wake another, or to simulate a device that is late. Every order that a program requests is kept;
//! other orders do not arise by chance.
//!
//! A thread that promises to wait soon (`set_patient`) has its streams begin when it waits, for this device or for anything else. Threads
//! without the promise leave their work to the device's threads.
use crate::device::lock;
use crate::stream::Stream;
use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicBool, Ordering};

static LAZY: AtomicBool = AtomicBool::new(false);

/// Streams that a thread keeps from beginning.
struct Held(Vec<Stream>);

thread_local! {
    static PATIENT: Cell<bool> = const { Cell::new(false) };
    static HELD: RefCell<Held> = const { RefCell::new(Held(Vec::new())) };
}

impl Drop for Held {
    fn drop(&mut self) {
        begin(std::mem::take(&mut self.0));
    }
}

/// Sets if streams are late from now on.
pub fn set_lazy(lazy: bool) {
    LAZY.store(lazy, Ordering::Relaxed);
}

/// Sets whether the calling thread promises to wait for the device soon after it has put work on a stream, or to call
/// [`begin_held`] before it waits for anything else: then its streams do not begin before that.
pub fn set_patient(patient: bool) {
    PATIENT.set(patient);
    if !patient {
        begin_held();
    }
}

/// Keeps an engaged stream from beginning, if streams are late; the device's lock is held.
pub(crate) fn hold(stream: &Stream) -> bool {
    (LAZY.load(Ordering::Relaxed) || PATIENT.try_with(Cell::get).unwrap_or(false))
        && HELD
            .try_with(|held| held.try_borrow_mut().map(|mut held| held.0.push(stream.clone())))
            .is_ok_and(|h| h.is_ok())
}

/// The calling thread is about to wait for something: its streams begin. Not under the device's lock.
pub fn begin_held() {
    let held = HELD.try_with(|held| held.try_borrow_mut().map(|mut held| std::mem::take(&mut held.0)));
    begin(held.ok().and_then(Result::ok).unwrap_or_default());
}

fn begin(streams: Vec<Stream>) {
    if !streams.is_empty() {
        let mut state = lock();
        for stream in streams {
            stream.go_on(&mut state);
        }
    }
}
