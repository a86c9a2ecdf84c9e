//! Operations that take longer than they need: their streams continue later, by a percentage of the time that they took.
use soft_nccl::device::{Done, launch};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Operations on a stream whose time is taken.
pub(crate) struct Timed {
    stream: usize,
    percent: u32,
    began: Arc<OnceLock<Instant>>,
}

/// Takes the time at which the stream gets here. `None` if the stream takes no work.
pub(crate) fn begin(stream: usize, percent: u32) -> Option<Timed> {
    let began = Arc::new(OnceLock::new());
    let place = Arc::clone(&began);
    let work = Box::new(move |done: Done| {
        let _ = place.set(Instant::now());
        done.finish();
    });
    // SAFETY: the stream is that of an operation at hand, which follows.
    let code = unsafe { launch(std::ptr::without_provenance_mut(stream), work) };
    (code == nccl_sys::ncclResult_t::Success).then_some(Timed { stream, percent, began })
}

/// Holds up the stream after the operations.
pub(crate) fn end(timed: Timed) {
    let Timed { stream, percent, began } = timed;
    let work = Box::new(move |done| {
        let Some(began) = began.get() else { return };
        let now = Instant::now();
        finish_at(now + more(now - *began, percent), done);
    });
    // SAFETY: the stream is that of an operation that was just put on it.
    let _ = unsafe { launch(std::ptr::without_provenance_mut(stream), work) };
}

fn more(time: Duration, percent: u32) -> Duration {
    time.saturating_mul(percent) / 100
}

/// Held streams by the time at which they continue, and a number.
static HELD: Mutex<BTreeMap<(Instant, u64), Done>> = Mutex::new(BTreeMap::new());
static EARLIER: Condvar = Condvar::new();

fn held() -> MutexGuard<'static, BTreeMap<(Instant, u64), Done>> {
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Lets the stream continue at this time, or at once if a thread for it cannot be started.
fn finish_at(time: Instant, done: Done) {
    static CLOCK: LazyLock<bool> =
        LazyLock::new(|| std::thread::Builder::new().name("standin-slow".to_owned()).spawn(run_clock).is_ok());
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    if *CLOCK {
        held().insert((time, NUMBER.fetch_add(1, Ordering::Relaxed)), done);
        EARLIER.notify_one();
    }
}

/// Lets every stream continue when its time has come.
fn run_clock() {
    // SAFETY: a number; the delays of this thread alone become exact.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1_u64) };
    let mut held = held();
    loop {
        let now = Instant::now();
        let next = held.first_key_value().map(|(key, _)| key.0);
        held = match next {
            Some(time) if time <= now => {
                let due = held.pop_first();
                drop(held);
                if let Some((_, done)) = due {
                    done.finish();
                }
                self::held()
            }
            Some(time) => EARLIER.wait_timeout(held, time - now).unwrap_or_else(PoisonError::into_inner).0,
            None => EARLIER.wait(held).unwrap_or_else(PoisonError::into_inner),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::more;
    use std::time::Duration;

    #[test]
    fn the_delay_is_a_share_of_the_time() {
        assert_eq!(more(Duration::from_micros(500), 20), Duration::from_micros(100));
        assert_eq!(more(Duration::from_micros(500), 300), Duration::from_micros(1500));
        assert_eq!(more(Duration::MAX, u32::MAX), Duration::MAX / 100);
    }
}
