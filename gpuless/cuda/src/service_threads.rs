//! The waits of a library's service threads.
//!
//! NCCL has two such threads for each rank of each communicator. They wait half a second at a time, check whether they should end, and
//! wait again, so whoever destroys a communicator would wait for that. It joins them, which is when they are woken here: a thread that is
//! joined sees an early end of its wait, with nothing. Shorter waits for all would do it as well, but hundreds of threads of
//! communicators that nobody uses would then take most of a processor.
#![allow(unsafe_code)] // C functions are called with their callers' arguments

use libc::{c_int, c_void, nfds_t, pollfd};
use std::cell::RefCell;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
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

/// How many threads are joining others.
static JOINING: AtomicUsize = AtomicUsize::new(0);

/// A descriptor that can be read while a thread is joined; none if the system refuses it.
fn wakes() -> Option<&'static OwnedFd> {
    static WAKES: OnceLock<Option<OwnedFd>> = OnceLock::new();
    let open = || {
        // SAFETY: only numbers.
        let descriptor = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        // SAFETY: a new descriptor of this process, which nothing else has.
        (descriptor >= 0).then(|| unsafe { OwnedFd::from_raw_fd(descriptor) })
    };
    WAKES.get_or_init(open).as_ref()
}

/// One more thread joins another, or one fewer.
fn count_joins(more: bool) {
    static COUNT: Mutex<()> = Mutex::new(());
    let _counted = COUNT.lock().unwrap_or_else(PoisonError::into_inner);
    let (one, mut none) = (1_u64.to_ne_bytes(), [0; 8]);
    let before = if more { JOINING.fetch_add(1, Ordering::SeqCst) } else { JOINING.fetch_sub(1, Ordering::SeqCst) - 1 };
    let Some(wakes) = wakes().filter(|_| before == 0) else { return };
    // SAFETY: eight bytes of this function's.
    unsafe {
        match more {
            true => _ = libc::write(wakes.as_raw_fd(), one.as_ptr().cast(), one.len()),
            false => _ = libc::read(wakes.as_raw_fd(), none.as_mut_ptr().cast(), none.len()),
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
    // SAFETY: as the caller says, its object.
    unsafe {
        let thread = std::mem::take(&mut *object);
        if thread != 0 {
            join(thread, std::ptr::null_mut());
        }
    }
}

/// `poll`: a wait of at most half a second may end early, with nothing; longer ones last as long as asked.
unsafe extern "C" fn poll(wanted: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int {
    thread_local! {
        static ALL: RefCell<Vec<pollfd>> = const { RefCell::new(Vec::new()) };
    }
    let is_service = (1..=MOST_CUT).contains(&timeout);
    let wakes = wakes().filter(|_| is_service && JOINING.load(Ordering::SeqCst) == 0);
    let Some((wakes, len)) = wakes.zip(usize::try_from(count).ok()) else {
        let timeout = if is_service { timeout.min(STEP) } else { timeout };
        // SAFETY: as the caller says.
        return unsafe { libc::poll(wanted, count, timeout) };
    };
    // SAFETY: as the caller says, there are so many; without any the pointer may be null.
    let wanted = if len == 0 { &mut [] } else { unsafe { std::slice::from_raw_parts_mut(wanted, len) } };
    ALL.with_borrow_mut(|all| {
        all.clear();
        all.extend_from_slice(wanted);
        all.push(pollfd { fd: wakes.as_raw_fd(), events: libc::POLLIN, revents: 0 });
        // SAFETY: elements of this thread's.
        let got = unsafe { libc::poll(all.as_mut_ptr(), count + 1, timeout) };
        let woken = got > 0 && all.pop().is_some_and(|last| last.revents != 0);
        if got >= 0 {
            wanted.copy_from_slice(all.get(..len).unwrap_or_default());
        }
        got - c_int::from(woken)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    /// How long a wait of so many milliseconds lasts, in which nothing happens.
    fn waited(timeout: c_int) -> Duration {
        let start = Instant::now();
        // SAFETY: no descriptors.
        assert_eq!(unsafe { poll(std::ptr::null_mut(), 0, timeout) }, 0);
        start.elapsed()
    }

    /// In one test, because threads that are joined wake those of other tests.
    #[test]
    fn waits_last_as_long_as_asked_until_a_thread_is_joined() {
        assert!(waited(100) >= Duration::from_millis(100) && waited(0) < Duration::from_millis(90));
        let (reading, writing) = std::os::unix::net::UnixStream::pair().unwrap();
        let mut both =
            [&reading, &writing].map(|socket| pollfd { fd: socket.as_raw_fd(), events: libc::POLLOUT, revents: 7 });
        // SAFETY: two elements of this test's.
        assert_eq!(unsafe { poll(both.as_mut_ptr(), 2, 500) }, 2);
        assert_eq!(both.map(|one| one.revents), [libc::POLLOUT; 2]);

        extern "C" fn wait_for_half_a_second(_: *mut c_void) -> *mut c_void {
            waited(500);
            std::ptr::null_mut()
        }
        let start = Instant::now();
        // SAFETY: a thread that is joined once; the second call has none.
        unsafe {
            let mut thread = std::mem::zeroed();
            let begun =
                libc::pthread_create(&raw mut thread, std::ptr::null(), wait_for_half_a_second, std::ptr::null_mut());
            assert_eq!(begun, 0);
            join_of_cpp(&raw mut thread);
            assert_eq!(thread, 0);
            join_of_cpp(&raw mut thread);
        }
        assert!(start.elapsed() < Duration::from_millis(400));
        assert!(waited(100) >= Duration::from_millis(100), "nobody is joined any more");
        assert!(waited(501) >= Duration::from_millis(501));
    }
}
