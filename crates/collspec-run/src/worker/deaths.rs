//! Deaths of ranks: when each may happen, or has happened, as the parent says; and how this process ends.
use collspec_core::ops::ExitStatus;
use rustix::process::{DumpableBehavior, Resource, Rlimit, Signal};
use std::collections::BTreeSet;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The deaths that the parent has reported.
#[derive(Default)]
pub struct Deaths {
    told: Mutex<BTreeSet<u32>>,
    changed: Condvar,
}

impl Deaths {
    fn lock(&self) -> MutexGuard<'_, BTreeSet<u32>> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The parent has reported a death.
    pub fn tell(&self, death: u32) {
        self.lock().insert(death);
        self.changed.notify_all();
    }

    /// Waits until the parent reports a death; false if `stopped` returns true before that.
    pub fn wait(&self, death: u32, stopped: impl Fn() -> bool) -> bool {
        let mut told = self.lock();
        while !told.contains(&death) {
            if stopped() {
                return false;
            }
            told = self.changed.wait(told).unwrap_or_else(PoisonError::into_inner);
        }
        true
    }

    /// Lets waiting threads check whether they should stop.
    pub fn wake(&self) {
        let _told = self.lock();
        self.changed.notify_all();
    }
}

pub fn end_process(status: ExitStatus) -> ! {
    let signal = match status {
        ExitStatus::Code(code) => std::process::exit(i32::from(code)),
        ExitStatus::Signal(number) => Signal::from_named_raw(number).unwrap_or(Signal::KILL),
    };
    // No core file is wanted of an end that is meant. The limit alone does not keep a core from a program that takes it by a pipe.
    let _ = rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable);
    let _ = rustix::process::setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
    loop {
        let _ = rustix::process::kill_process(rustix::process::getpid(), signal);
        // Rust's own handler of SIGSEGV and SIGBUS only removes itself at the first signal that is not a stack overflow.
        std::thread::park_timeout(Duration::from_millis(1));
    }
}
