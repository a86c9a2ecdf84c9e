//! The waits of a library's service threads.
//!
//! NCCL has two such threads for each rank of each communicator. They wait for half a second, check whether they should end, and wait
//! again. A thread that destroys a communicator joins them, and would lose up to half a second each time. So when a thread joins another,
//! all waits end early, as if nothing had happened, and they stay short until it has joined: which thread is waited for is not known
//! here. Waits that are always short would do as well, but the hundreds of threads of idle communicators would keep a processor busy.
#![allow(unsafe_code)] // C functions are called with their callers' arguments

use libc::{c_int, c_void, nfds_t, pollfd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

/// The replacements, by the names of the imported functions. Each has the parameters and result of the C function of that name.
pub(crate) fn functions() -> [(&'static str, *const ()); 3] {
    [
        ("poll", poll as *const ()),
        ("pthread_join", join as *const ()),
        ("_ZNSt6thread4joinEv", join_of_cpp as *const ()),
    ]
}

/// Waits of more milliseconds than this are not those of service threads.
const MOST_CUT: c_int = 500;
/// The longest wait while threads are joined, in milliseconds.
const STEP: c_int = 20;

/// Waits for more descriptors than this are only shortened. NCCL's have 65 at the most, and these are on the stack: a thread that ends,
/// and a signal handler, have no other place.
const MOST_WAITED_FOR: usize = 127;

/// How many threads are joining others.
static JOINING: AtomicUsize = AtomicUsize::new(0);
/// Set once the descriptor that wakes is known to be another's: a program may close what it has not opened.
static IS_LOST: AtomicBool = AtomicBool::new(false);

/// A descriptor that can be read while a thread is joined, and the process that opened it. None if the system refuses it, and in a
/// process that was forked from that one, which shares it.
fn wakes() -> Option<c_int> {
    static WAKES: OnceLock<Option<(u32, c_int)>> = OnceLock::new();
    let own = std::process::id();
    let open = || {
        // SAFETY: only numbers. A large one is not among those that programs close or replace.
        let descriptor = unsafe {
            let low = libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK);
            let high = libc::fcntl(low, libc::F_DUPFD_CLOEXEC, 500);
            if low >= 0 && high >= 0 {
                libc::close(low);
            }
            high
        };
        (descriptor >= 0).then_some((own, descriptor))
    };
    let (process, descriptor) = (*WAKES.get_or_init(open))?;
    (process == own && !IS_LOST.load(Ordering::Relaxed)).then_some(descriptor)
}

/// One more thread joins another, or one fewer.
fn count_joins(more: bool) {
    static COUNT: Mutex<()> = Mutex::new(());
    let Some(wakes) = wakes() else { return };
    let _counted = COUNT.lock().unwrap_or_else(PoisonError::into_inner);
    let (one, mut none) = (1_u64.to_ne_bytes(), [0; 8]);
    let others = if more { JOINING.fetch_add(1, Ordering::SeqCst) } else { JOINING.fetch_sub(1, Ordering::SeqCst) - 1 };
    if others > 0 {
        return;
    }
    // SAFETY: eight bytes of this function's.
    unsafe {
        match more {
            true => _ = libc::write(wakes, one.as_ptr().cast(), one.len()),
            false => _ = libc::read(wakes, none.as_mut_ptr().cast(), none.len()),
        }
    }
}

/// `pthread_join`.
unsafe extern "C" fn join(thread: libc::pthread_t, result: *mut *mut c_void) -> c_int {
    count_joins(true);
    // SAFETY: as the caller says.
    let joined = unsafe { libc::pthread_join(thread, result) };
    count_joins(false);
    joined
}

/// `std::thread::join` of the C++ library, by which NCCL joins its threads from 2.29.2 on. The object is the thread's number, or 0 if it
/// has none, of which C++ would throw an exception; NCCL asks before.
unsafe extern "C" fn join_of_cpp(object: *mut libc::pthread_t) {
    // SAFETY: as the caller says, its object, which is the thread's number until it has ended.
    unsafe {
        let thread = *object;
        if thread != 0 && join(thread, std::ptr::null_mut()) == 0 {
            *object = 0;
        }
    }
}

/// `poll`: a wait of at most half a second may end early, with nothing; longer ones last as long as asked.
unsafe extern "C" fn poll(wanted: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int {
    if !(1..=MOST_CUT).contains(&timeout) {
        // SAFETY: as the caller says.
        return unsafe { libc::poll(wanted, count, timeout) };
    }
    let len = usize::try_from(count).ok().filter(|len| *len <= MOST_WAITED_FOR && (*len == 0 || !wanted.is_null()));
    let wakes = if JOINING.load(Ordering::SeqCst) == 0 { wakes() } else { None };
    if let Some((len, wakes)) = len.zip(wakes) {
        let mut all = [pollfd { fd: wakes, events: libc::POLLIN, revents: 0 }; MOST_WAITED_FOR + 1];
        // SAFETY: as the caller says, `wanted` has `len` elements. Only their `revents` are written, as C does.
        let (got, woken) = unsafe {
            std::ptr::copy_nonoverlapping(wanted, all.as_mut_ptr(), len);
            let got = libc::poll(all.as_mut_ptr(), count + 1, timeout);
            for (number, one) in all.iter().take(len).enumerate().filter(|_| got >= 0) {
                (*wanted.add(number)).revents = one.revents;
            }
            (got, all.get(len).map_or(0, |last| last.revents))
        };
        if got <= 0 || woken & !libc::POLLIN == 0 {
            return got - c_int::from(got > 0 && woken != 0);
        }
        IS_LOST.store(true, Ordering::Relaxed);
    }
    // SAFETY: as the caller says.
    unsafe { libc::poll(wanted, count, timeout.min(STEP)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;
    use std::time::{Duration, Instant};

    /// Waits for at most `timeout` milliseconds without descriptors, and returns the time that this took.
    fn waited(timeout: c_int) -> Duration {
        let start = Instant::now();
        // SAFETY: no descriptors.
        assert_eq!(unsafe { poll(std::ptr::null_mut(), 0, timeout) }, 0);
        start.elapsed()
    }

    /// In one test, because threads that are joined wake those of other tests.
    #[test]
    fn waits_last_as_long_as_asked_until_a_thread_is_joined() {
        assert!(waited(100) >= Duration::from_millis(100));
        let (reading, writing) = std::os::unix::net::UnixStream::pair().unwrap();
        let mut both =
            [&reading, &writing].map(|socket| pollfd { fd: socket.as_raw_fd(), events: libc::POLLOUT, revents: 7 });
        // SAFETY: two elements of this test's.
        assert_eq!(unsafe { poll(both.as_mut_ptr(), 2, 500) }, 2);
        assert_eq!(both.map(|one| one.revents), [libc::POLLOUT; 2]);

        extern "C" fn wait_ten_times(_: *mut c_void) -> *mut c_void {
            (0..10).for_each(|_| _ = waited(500));
            std::ptr::null_mut()
        }
        let start = Instant::now();
        // SAFETY: a thread that is joined once; the second call has none.
        unsafe {
            let mut thread = std::mem::zeroed();
            let begun = libc::pthread_create(&raw mut thread, std::ptr::null(), wait_ten_times, std::ptr::null_mut());
            assert_eq!(begun, 0);
            join_of_cpp(&raw mut thread);
            assert_eq!(thread, 0);
            join_of_cpp(&raw mut thread);
        }
        assert!(start.elapsed() < Duration::from_secs(4), "ten steps of 20 ms, and not five seconds");
        assert!(waited(100) >= Duration::from_millis(100), "nobody is joined any more");
        assert!(waited(501) >= Duration::from_millis(501));
    }
}
