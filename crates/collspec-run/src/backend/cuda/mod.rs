//! CUDA devices through cudarc's raw driver layer: primary contexts, non-blocking streams, device memory.
//!
//! Everything goes through streams and pinned memory; nothing in this module allocates, frees or makes a call that waits for a whole device
//! between the moment when a job is loaded and the moment when it is drained, because such calls may wait for a device on
//! which a collective still spins.
//!
//! What remains in between: NCCL's calls, asynchronous copies from and to pinned memory, events and host functions. A map copies its
//! inputs to pinned memory that was set aside at loading, computes in a host function, and copies the result back on the step's stream.
//! A rank that waits looks at its stream and the communicators' asynchronous errors, and sleeps in between, so that it can be told
//! to stop.
#![allow(unsafe_code)] // calls the driver

mod driver;
mod graph;
mod memory;
mod probe;
mod stream;

pub use driver::{CudaError, OUT_OF_MEMORY};
pub use graph::CudaGraph;
pub use memory::{CudaMemory, PinnedStaging};
pub use probe::{DeviceInfo, DriverReport, DriverState, probe};
pub use stream::{CudaEvent, CudaStream};

use cudarc::driver::sys::CUcontext;
use driver::Driver;
use std::ffi::c_int;
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

/// The driver in this process, with a primary context for each device that a rank has used.
pub struct Cuda {
    driver: Driver,
    contexts: Vec<OnceLock<Result<ContextHandle, CudaError>>>,
    /// The offset from a rank's number to the number of its device.
    offset: usize,
    /// Wakes threads that sleep between two queries of a stream.
    alarm: (Mutex<u64>, Condvar),
}

impl std::fmt::Debug for Cuda {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "CUDA with {} devices", self.contexts.len())
    }
}

/// A context handle, which is only passed to the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ContextHandle(CUcontext);
// SAFETY: the driver's contexts may be bound by any number of threads.
unsafe impl Send for ContextHandle {}
// SAFETY: as above.
unsafe impl Sync for ContextHandle {}

impl Cuda {
    /// Starts the driver in this process, for its whole life. A rank's device is its number plus `offset`, modulo the number of
    /// devices.
    ///
    /// # Errors
    ///
    /// The state of a driver that cannot be used.
    pub fn open(offset: usize) -> Result<&'static Self, DriverState> {
        let driver = probe::start_driver()?;
        let count = probe::device_count(&driver).map_err(|error| DriverState::Driver(error.code, error.name))?;
        if count == 0 {
            return Err(DriverState::NoDevices);
        }
        let contexts = (0..count).map(|_| OnceLock::new()).collect();
        Ok(Box::leak(Box::new(Self { driver, contexts, offset, alarm: Default::default() })))
    }

    /// Makes the primary context of a rank's device the calling thread's.
    ///
    /// # Errors
    ///
    /// A call of the driver fails.
    pub fn bind(&self, rank: usize) -> Result<(), CudaError> {
        let number = rank.wrapping_add(self.offset) % self.contexts.len();
        let made = self.contexts[number].get_or_init(|| self.retain_context(number));
        let context = made.clone()?;
        // SAFETY: the context is retained for the life of the process.
        unsafe { self.driver.context_bind(context.0) }
    }

    fn retain_context(&self, number: usize) -> Result<ContextHandle, CudaError> {
        let (mut device, mut context) = (0, std::ptr::null_mut());
        // SAFETY: a place for the answer.
        unsafe { self.driver.device_get(&mut device, c_int::try_from(number).unwrap_or(c_int::MAX)) }?;
        // SAFETY: the device is the driver's.
        unsafe { self.driver.context_retain(&mut context, device) }?;
        Ok(ContextHandle(context))
    }

    /// The calling thread's context.
    fn current(&self) -> Result<ContextHandle, CudaError> {
        let mut context = std::ptr::null_mut();
        // SAFETY: a place for the answer.
        unsafe { self.driver.context_current(&mut context) }?;
        Ok(ContextHandle(context))
    }

    /// The number of the calling thread's device.
    pub fn current_number(&self) -> Option<i32> {
        let current = self.current().ok()?;
        let own =
            |made: &OnceLock<Result<ContextHandle, CudaError>>| made.get().is_some_and(|made| *made == Ok(current));
        self.contexts.iter().position(own).and_then(|number| i32::try_from(number).ok())
    }

    /// True for the stand-in driver.
    pub fn is_standin(&self) -> bool {
        self.driver.standin().is_some()
    }

    /// Bytes of memory in use on the calling thread's device, by all processes.
    ///
    /// # Errors
    ///
    /// A call of the driver fails.
    pub fn memory_in_use(&self) -> Result<u64, CudaError> {
        let (mut free, mut total) = (0, 0);
        // SAFETY: places for the answers.
        unsafe { self.driver.memory_info(&mut free, &mut total) }?;
        Ok(total.saturating_sub(free) as u64)
    }

    /// Calls `f` with this context as the thread's: other threads than those of ranks free memory too. Errors are ignored:
    /// after a device's failure all calls fail.
    fn with_context(&self, context: ContextHandle, f: impl FnOnce(&Driver)) {
        // SAFETY: the context lives as long as the process.
        if unsafe { self.driver.context_push(context.0) }.is_ok() {
            f(&self.driver);
            let mut old = std::ptr::null_mut();
            // SAFETY: a place for the answer; the pushed context is popped.
            let _ = unsafe { self.driver.context_pop(&mut old) };
        }
    }

    fn wake_count(&self) -> MutexGuard<'_, u64> {
        self.alarm.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the threads that sleep between two queries.
    pub fn wake(&self) {
        *self.wake_count() += 1;
        self.alarm.1.notify_all();
    }

    /// Sleeps for this time, or until [`Self::wake`].
    fn sleep_until_woken(&self, time: Duration) {
        let guard = self.wake_count();
        let before = *guard;
        drop(
            self.alarm.1.wait_timeout_while(guard, time, |now| *now == before).unwrap_or_else(PoisonError::into_inner),
        );
    }
}
