//! Non-blocking streams and events. The host never waits inside the driver: it queries the stream and sleeps between two
//! queries, so that it can be stopped.
#![allow(unsafe_code)] // calls the driver

use super::super::device::{Address, DeviceError};
use super::super::stream::MapFn;
use super::driver::NOT_READY;
use super::{ContextHandle, Cuda, CudaError, PinnedStaging};
use cudarc::driver::sys::{CUevent, CUstream};
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

/// CU_STREAM_NON_BLOCKING: independent of the default stream.
const NON_BLOCKING: u32 = 1;
/// CU_EVENT_DEFAULT: with times.
const TIMES: u32 = 0;
/// CU_EVENT_DISABLE_TIMING.
const NO_TIMES: u32 = 2;
/// The first pause between two queries; each is twice the one before.
const SHORTEST: Duration = Duration::from_micros(10);
/// The longest pause between two queries.
const LONGEST: Duration = Duration::from_millis(1);

/// A stream of a device; it is destroyed when its last owner drops it.
#[derive(Clone, Debug)]
pub struct CudaStream(Arc<OwnedStream>);

#[derive(Debug)]
struct OwnedStream {
    cuda: &'static Cuda,
    context: ContextHandle,
    raw: CUstream,
}
// SAFETY: the driver's streams may be used from any thread; the handle is never followed here.
unsafe impl Send for OwnedStream {}
// SAFETY: as above.
unsafe impl Sync for OwnedStream {}

impl Drop for OwnedStream {
    fn drop(&mut self) {
        if self.raw.is_null() {
            return; // the null stream, which belongs to the device
        }
        // SAFETY: made by this type and not used any more; the driver finishes the work on it.
        self.cuda.with_context(self.context, |driver| _ = unsafe { driver.stream_destroy(self.raw) });
    }
}

impl CudaStream {
    /// Makes one on the calling thread's device.
    ///
    /// # Errors
    ///
    /// A call of the driver fails.
    pub fn new(cuda: &'static Cuda) -> Result<Self, CudaError> {
        let context = cuda.current()?;
        let mut raw = std::ptr::null_mut();
        // SAFETY: a place for the answer.
        unsafe { cuda.driver.stream_create(&mut raw, NON_BLOCKING) }?;
        Ok(Self(Arc::new(OwnedStream { cuda, context, raw })))
    }

    /// The null stream of the calling thread's device. It does not wait for the streams created by this type, which are non-blocking,
    /// nor do they wait for it. While a program runs, only the kinds of calls made on those streams are made on it.
    ///
    /// # Errors
    ///
    /// A call of the driver fails.
    pub fn null(cuda: &'static Cuda) -> Result<Self, CudaError> {
        Ok(Self(Arc::new(OwnedStream { cuda, context: cuda.current()?, raw: std::ptr::null_mut() })))
    }

    /// The stream as a `cudaStream_t`: the runtime's streams are the driver's.
    pub fn raw(&self) -> *mut c_void {
        self.0.raw.cast()
    }

    /// Copies between device addresses, in stream order.
    ///
    /// # Errors
    ///
    /// A call of the driver fails.
    pub fn copy(&self, to: Address, from: Address, len: u64) -> Result<(), CudaError> {
        if len == 0 {
            return Ok(());
        }
        // SAFETY: both ranges lie inside blocks that live until the stream is drained (see `stream::DeviceStream::copy`).
        unsafe { self.0.cuda.driver.copy(to.0, from.0, len as usize, self.0.raw) }
    }

    /// Copies from pinned memory, in stream order.
    pub(super) fn copy_in(&self, to: Address, from: *const u8, len: u64) -> Result<(), CudaError> {
        if len == 0 {
            return Ok(());
        }
        // SAFETY: as in `copy`; the host's bytes are a `PinnedStaging`'s, which lives as long.
        unsafe { self.0.cuda.driver.copy_in(to.0, from.cast(), len as usize, self.0.raw) }
    }

    /// Copies to pinned memory, in stream order.
    pub(super) fn copy_out(&self, to: *mut u8, from: Address, len: u64) -> Result<(), CudaError> {
        if len == 0 {
            return Ok(());
        }
        // SAFETY: as in `copy_in`.
        unsafe { self.0.cuda.driver.copy_out(to.cast(), from.0, len as usize, self.0.raw) }
    }

    /// Copies the inputs out, computes on a thread of the driver, and copies the result in; all in stream order.
    ///
    /// # Errors
    ///
    /// The pinned memory does not suffice, or a call of the driver fails.
    pub fn map(
        &self,
        reads: Vec<(Address, u64)>,
        out: Address,
        out_len: u64,
        f: MapFn,
        staging: &mut PinnedStaging,
    ) -> Result<(), DeviceError> {
        let mut inputs = Vec::with_capacity(reads.len());
        for (address, len) in reads {
            let piece = staging.take(len)?;
            self.copy_out(piece, address, len)?;
            inputs.push((PinnedPiece(piece), len as usize));
        }
        let result = PinnedPiece(staging.take(out_len)?);
        // Without a value the old bytes are copied back.
        self.copy_out(result.0, out, out_len)?;
        let place = result.0;
        let compute = move || compute(&inputs, result, out_len as usize, &f);
        if self.is_capturing()? {
            self.repeated_host_fn(staging.keep(Box::new(compute)))?;
        } else {
            self.host_fn(Box::new(compute))?;
        }
        Ok(self.copy_in(out, place, out_len)?)
    }

    /// Runs `f` in stream order, on a thread of the driver. It must neither block nor call the driver.
    ///
    /// # Errors
    ///
    /// A call of the driver fails.
    pub fn host_fn(&self, f: Box<dyn FnOnce() + Send>) -> Result<(), CudaError> {
        let data = Box::into_raw(Box::new(f)).cast::<c_void>();
        // SAFETY: `run` takes the box back, once.
        let given = unsafe { self.0.cuda.driver.stream_call(self.0.raw, Some(run), data) };
        if given.is_err() {
            // SAFETY: the driver did not take it.
            drop(unsafe { Box::from_raw(data.cast::<Box<dyn FnOnce() + Send>>()) });
        }
        given
    }

    /// True if the stream's work becomes part of a graph.
    pub(super) fn is_capturing(&self) -> Result<bool, CudaError> {
        let mut status = 0;
        // SAFETY: the handle lives; a place for the answer.
        unsafe { self.0.cuda.driver.capture_status(self.0.raw, &mut status) }?;
        Ok(status != 0)
    }

    /// Runs a function that a [`PinnedStaging`] keeps, in stream order.
    fn repeated_host_fn(&self, kept: *const HostFn) -> Result<(), CudaError> {
        // SAFETY: the function is kept as long as the graph that this stream captures; it may run on any thread.
        unsafe { self.0.cuda.driver.stream_call(self.0.raw, Some(run_again), kept.cast_mut().cast()) }
    }

    /// The stream's handle and driver, for graphs.
    pub(super) fn parts(&self) -> (&'static Cuda, ContextHandle, CUstream) {
        (self.0.cuda, self.0.context, self.0.raw)
    }

    /// Records the event after all work that is in the stream.
    ///
    /// # Errors
    ///
    /// A call of the driver fails.
    pub fn record(&self, event: &CudaEvent) -> Result<(), CudaError> {
        // SAFETY: both handles live.
        unsafe { self.0.cuda.driver.event_record(event.raw, self.0.raw) }
    }

    /// Makes later work wait for the event.
    ///
    /// # Errors
    ///
    /// A call of the driver fails.
    pub fn wait(&self, event: &CudaEvent) -> Result<(), CudaError> {
        // SAFETY: both handles live; the driver keeps what it needs of an event that is destroyed before it is reached.
        unsafe { self.0.cuda.driver.stream_wait(self.0.raw, event.raw, 0) }
    }

    /// Waits for all work that is in the stream and returns true, or returns false as soon as `stop` is true.
    ///
    /// # Errors
    ///
    /// Work in the stream has failed, or a call of the driver fails.
    pub fn synchronize_unless(&self, stop: &dyn Fn() -> bool) -> Result<bool, CudaError> {
        let mut pause = SHORTEST;
        loop {
            // SAFETY: the handle lives.
            match unsafe { self.0.cuda.driver.stream_query(self.0.raw) } {
                Ok(()) => return Ok(true),
                Err(error) if error.code == NOT_READY => {}
                Err(error) => return Err(error),
            }
            if stop() {
                return Ok(false);
            }
            self.0.cuda.sleep_until_woken(pause);
            pause = (pause * 2).min(LONGEST);
        }
    }

    /// Waits for all work that is in the stream.
    pub(super) fn synchronize(&self) -> Result<(), CudaError> {
        self.synchronize_unless(&|| false).map(|_| ())
    }
}

/// A place in pinned memory that one host function may use.
#[derive(Clone, Copy)]
struct PinnedPiece(*mut u8);
// SAFETY: the piece is this function's alone from the copy before it to the copy after it, which the stream orders.
unsafe impl Send for PinnedPiece {}
// SAFETY: as above; a graph runs the function once at a time.
unsafe impl Sync for PinnedPiece {}

fn compute(inputs: &[(PinnedPiece, usize)], out: PinnedPiece, out_len: usize, f: &MapFn) {
    // SAFETY: the copies before this in the stream have filled the pieces, and nothing else uses them now.
    let read = |(piece, len): &(PinnedPiece, usize)| unsafe { std::slice::from_raw_parts(piece.0, *len) }.to_vec();
    let inputs: Vec<Vec<u8>> = inputs.iter().map(read).collect();
    if let Some(result) = f(&inputs) {
        let len = result.len().min(out_len);
        // SAFETY: as above; the piece has `out_len` bytes.
        unsafe { std::ptr::copy_nonoverlapping(result.as_ptr(), out.0, len) };
    }
}

/// The function that the driver calls.
unsafe extern "C" fn run(data: *mut c_void) {
    // SAFETY: `host_fn` created it, and the driver calls this once.
    let f = unsafe { Box::from_raw(data.cast::<Box<dyn FnOnce() + Send>>()) };
    // A panic must not pass through the driver; its hook has reported it.
    let _ = catch_unwind(AssertUnwindSafe(f));
}

/// A host function that can run often.
pub(super) type HostFn = Box<dyn Fn() + Send + Sync>;

/// The function that a graph calls.
unsafe extern "C" fn run_again(data: *mut c_void) {
    // SAFETY: `repeated_host_fn` passed it, and it is kept as long as the graph.
    let f = unsafe { &*data.cast_const().cast::<HostFn>() };
    // A panic must not pass through the driver; its hook has reported it.
    let _ = catch_unwind(AssertUnwindSafe(f));
}

/// A point in a stream.
#[derive(Debug)]
pub struct CudaEvent {
    cuda: &'static Cuda,
    context: ContextHandle,
    raw: CUevent,
}

impl CudaEvent {
    /// Makes one on the calling thread's device.
    ///
    /// # Errors
    ///
    /// A call of the driver fails.
    pub fn new(cuda: &'static Cuda) -> Result<Self, CudaError> {
        Self::with_flags(cuda, NO_TIMES)
    }

    /// The same with a time, for [`CudaEvent::seconds_to`].
    ///
    /// # Errors
    ///
    /// A call of the driver fails.
    pub fn timed(cuda: &'static Cuda) -> Result<Self, CudaError> {
        Self::with_flags(cuda, TIMES)
    }

    fn with_flags(cuda: &'static Cuda, flags: u32) -> Result<Self, CudaError> {
        let context = cuda.current()?;
        let mut raw = std::ptr::null_mut();
        // SAFETY: a place for the answer.
        unsafe { cuda.driver.event_create(&mut raw, flags) }?;
        Ok(Self { cuda, context, raw })
    }

    /// True if its stream has passed its last record.
    ///
    /// # Errors
    ///
    /// Work before it has failed, or a call of the driver fails.
    pub fn is_reached(&self) -> Result<bool, CudaError> {
        // SAFETY: the handle lives.
        match unsafe { self.cuda.driver.event_query(self.raw) } {
            Ok(()) => Ok(true),
            Err(error) if error.code == NOT_READY => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Seconds from this event to a later one. Both have times, and their streams have passed them.
    ///
    /// # Errors
    ///
    /// A call of the driver fails.
    pub fn seconds_to(&self, later: &CudaEvent) -> Result<f64, CudaError> {
        let mut milliseconds = 0.0f32;
        // SAFETY: a place for the answer; both handles live.
        unsafe { self.cuda.driver.event_elapsed(&mut milliseconds, self.raw, later.raw) }?;
        Ok(f64::from(milliseconds) * 1e-3)
    }
}

impl Drop for CudaEvent {
    fn drop(&mut self) {
        // SAFETY: created by this type and no longer used; the driver frees it once it has been reached.
        self.cuda.with_context(self.context, |driver| _ = unsafe { driver.event_destroy(self.raw) });
    }
}
