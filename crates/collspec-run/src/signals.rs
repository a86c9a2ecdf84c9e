//! Signals that must not end a process which can report the error itself.
#![allow(unsafe_code)] // the disposition of a signal
use std::io::{self, Read};
use std::os::fd::IntoRawFd;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::thread;

/// A write beyond the limit of file sizes (`ulimit -f`) answers with an error from now on, here and in child processes. By
/// default the signal SIGXFSZ ends the process, and every verdict is lost.
pub fn report_file_size_limit() {
    // SAFETY: ignoring a signal runs no code of ours; nothing else in this program sets this one.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

static INTERRUPTED: AtomicBool = AtomicBool::new(false);
/// The pipe on whose other end the thread of [`at_interrupt`] waits; -1 without one.
static WAKES: AtomicI32 = AtomicI32::new(-1);

/// The first SIGINT from now on is only noted; the second one ends the process.
pub fn catch_interrupt() {
    extern "C" fn note(_: libc::c_int) {
        INTERRUPTED.store(true, Ordering::Relaxed);
        let wakes = WAKES.load(Ordering::Relaxed);
        if wakes >= 0 {
            // SAFETY: the calls are ones that a handler may make; the descriptor is never closed, and the error number of the thread
            // that was interrupted is put back.
            unsafe {
                let error = libc::__errno_location();
                let before = *error;
                libc::write(wakes, c"".as_ptr().cast(), 1);
                *error = before;
            }
        }
    }
    let handler: extern "C" fn(libc::c_int) = note;
    // SAFETY: all fields of the structure are numbers and null pointers, for which zeros are values.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler as libc::sighandler_t;
    // system calls continue, and the next signal has its default effect
    action.sa_flags = libc::SA_RESTART | libc::SA_RESETHAND;
    // SAFETY: the handler stores to an atomic and writes to a pipe, which a handler may do; the old action is not wanted.
    unsafe { libc::sigaction(libc::SIGINT, &action, std::ptr::null_mut()) };
}

/// Does the same as [`catch_interrupt`]. When the first signal comes, a separate thread also runs `action`.
///
/// # Errors
///
/// The system gives no pipe or thread.
pub fn at_interrupt(action: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let (mut comes, wakes) = io::pipe()?;
    thread::Builder::new().name("interrupt".to_owned()).spawn(move || {
        if comes.read(&mut [0]).is_ok_and(|bytes| bytes > 0) {
            action();
        }
    })?;
    WAKES.store(wakes.into_raw_fd(), Ordering::Relaxed);
    catch_interrupt();
    Ok(())
}

/// True once SIGINT was received, or another signal that ends a program to which it is passed on.
pub fn is_interrupted() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}

/// The most programs that signals are passed on to.
pub const MOST_PROGRAMS: usize = 64;
/// The programs to which [`pass_on_to`] passes signals; 0 without one.
static PROGRAMS: [AtomicI32; MOST_PROGRAMS] = [const { AtomicI32::new(0) }; MOST_PROGRAMS];
/// The signal that is to be passed on; 0 without one. Whoever takes it sends it, so that none is lost and none sent twice.
static TO_PASS_ON: AtomicI32 = AtomicI32::new(0);

/// Sends the programs the signal that they have not got yet.
fn pass_on() {
    let programs = || PROGRAMS.iter().map(|program| program.load(Ordering::SeqCst)).filter(|program| *program > 0);
    if programs().next().is_none() {
        return;
    }
    let signal = TO_PASS_ON.swap(0, Ordering::SeqCst);
    for program in programs().filter(|_| signal > 0) {
        // SAFETY: a call that a handler may make. The program is this process's child and was not waited for while its number is here.
        unsafe { libc::kill(program, signal) };
    }
}

/// From now on this process outlives what ends the program that it is about to start: SIGINT and SIGQUIT, which a terminal sends to both, are left to
/// the program, and SIGTERM and SIGHUP are passed on to it by [`pass_on_to`]. Each of them counts as an interrupt.
pub fn outlive_program() {
    extern "C" fn note(signal: libc::c_int) {
        INTERRUPTED.store(true, Ordering::Relaxed);
        if matches!(signal, libc::SIGTERM | libc::SIGHUP) {
            TO_PASS_ON.store(signal, Ordering::SeqCst);
            pass_on();
        }
    }
    let handler: extern "C" fn(libc::c_int) = note;
    // SAFETY: all fields of the structure are numbers and null pointers, for which zeros are values.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler as libc::sighandler_t;
    action.sa_flags = libc::SA_RESTART;
    for signal in [libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: the handler uses atomics and sends a signal, which a handler may do; the old action is not wanted.
        unsafe { libc::sigaction(signal, &action, std::ptr::null_mut()) };
    }
}

/// Passes signals on to these programs, also one that came after [`outlive_program`] and before the programs were started.
pub fn pass_on_to(programs: &[u32]) {
    for (place, program) in PROGRAMS.iter().zip(programs) {
        place.store(i32::try_from(*program).unwrap_or(0), Ordering::SeqCst);
    }
    pass_on();
}

/// Stops passing signals on to a program. It has ended, and once it was waited for its process id may belong to another process.
pub fn pass_on_no_more(program: u32) {
    for place in &PROGRAMS {
        let _ = place.compare_exchange(program.cast_signed(), 0, Ordering::SeqCst, Ordering::SeqCst);
    }
}
