//! CUDA devices through cudarc's raw driver layer: primary contexts, non-blocking streams, memory in its own right.
//!
//! Everything goes through streams and pinned memory; nothing here allocates, frees or makes a call that waits for a whole device
//! between the moment when a job is loaded and the moment when it is drained, because such calls may wait for a device on
//! which a collective still spins. A rank's device is its number modulo the number of devices.
#![allow(unsafe_code)] // calls the driver

mod driver;
mod memory;
mod probe;
mod stream;

pub use driver::{CudaError, OUT_OF_MEMORY};
pub use memory::{Memory, Staging};
pub use probe::{DeviceInfo, DriverState, Gpus, probe};
pub use stream::{Event, Stream};

use cudarc::driver::sys::CUcontext;
use driver::Driver;
use std::ffi::c_int;
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

/// The driver at work in this process, with one primary context for each device that a rank has used.
pub struct Cuda {
    driver: Driver,
    contexts: Vec<OnceLock<Result<Context, CudaError>>>,
    /// Wakes threads that sleep between two looks at a stream.
    alarm: (Mutex<u64>, Condvar),
}

impl std::fmt::Debug for Cuda {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "CUDA with {} devices", self.contexts.len())
    }
}

/// A context handle: never followed here, only handed to the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Context(CUcontext);
// SAFETY: the driver's contexts may be bound by any number of threads.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

impl Cuda {
    /// Starts the driver in this process, for its whole life.
    pub fn open() -> Result<&'static Self, DriverState> {
        let driver = probe::start()?;
        let count = probe::count(&driver).map_err(|error| DriverState::Driver(error.code, error.name))?;
        if count == 0 {
            return Err(DriverState::NoDevices);
        }
        let contexts = (0..count).map(|_| OnceLock::new()).collect();
        Ok(Box::leak(Box::new(Self { driver, contexts, alarm: Default::default() })))
    }

    /// The primary context of a rank's device becomes the calling thread's.
    pub fn bind(&self, rank: usize) -> Result<(), CudaError> {
        let number = rank % self.contexts.len();
        let made = self.contexts[number].get_or_init(|| self.retain(number));
        let context = made.clone()?;
        // SAFETY: the context is retained for the life of the process.
        unsafe { self.driver.context_bind(context.0) }
    }

    fn retain(&self, number: usize) -> Result<Context, CudaError> {
        let (mut device, mut context) = (0, std::ptr::null_mut());
        // SAFETY: a place for the answer.
        unsafe { self.driver.device_get(&mut device, c_int::try_from(number).unwrap_or(c_int::MAX)) }?;
        // SAFETY: the device is the driver's.
        unsafe { self.driver.context_retain(&mut context, device) }?;
        Ok(Context(context))
    }

    /// The calling thread's context.
    fn current(&self) -> Result<Context, CudaError> {
        let mut context = std::ptr::null_mut();
        // SAFETY: a place for the answer.
        unsafe { self.driver.context_current(&mut context) }?;
        Ok(Context(context))
    }

    /// The number of the calling thread's device.
    pub fn current_number(&self) -> Option<i32> {
        let current = self.current().ok()?;
        let own = |made: &OnceLock<Result<Context, CudaError>>| made.get().is_some_and(|made| *made == Ok(current));
        self.contexts.iter().position(own).and_then(|number| i32::try_from(number).ok())
    }

    /// Does something under a context, whatever the thread's own is: things are also given back by threads that are no
    /// rank's. Best effort: after a device's failure everything here fails too.
    fn under(&self, context: Context, f: impl FnOnce(&Driver)) {
        // SAFETY: the context lives as long as the process.
        if unsafe { self.driver.context_push(context.0) }.is_ok() {
            f(&self.driver);
            let mut old = std::ptr::null_mut();
            // SAFETY: a place for the answer; what was pushed is popped.
            let _ = unsafe { self.driver.context_pop(&mut old) };
        }
    }

    fn alarm(&self) -> MutexGuard<'_, u64> {
        self.alarm.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes sleeping threads look again.
    pub fn wake(&self) {
        *self.alarm() += 1;
        self.alarm.1.notify_all();
    }

    /// Sleeps for a while, or until somebody wakes all.
    fn pause(&self, time: Duration) {
        let guard = self.alarm();
        let before = *guard;
        drop(
            self.alarm.1.wait_timeout_while(guard, time, |now| *now == before).unwrap_or_else(PoisonError::into_inner),
        );
    }
}
