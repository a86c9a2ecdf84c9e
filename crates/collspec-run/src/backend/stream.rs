//! Work on a device: streams, the points in them, and captured work.
use super::device::{Address, DeviceError, SetAside, Staging};
use super::{cuda, host, software_gpus};
use std::ffi::c_void;

/// A queue of work on the device.
#[derive(Clone)]
pub struct DeviceStream(pub(super) StreamKind);

#[derive(Clone)]
pub(super) enum StreamKind {
    Host(host::Stream),
    Cuda(cuda::CudaStream),
}

impl std::fmt::Debug for DeviceStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "stream {:?}", self.raw())
    }
}

/// A point in a stream.
pub struct DeviceEvent(pub(super) EventKind);

pub(super) enum EventKind {
    Host(gpuless_device::Event),
    Cuda(cuda::CudaEvent),
}

/// A point in a stream that records the time at which the stream passed it.
pub struct TimedEvent(pub(super) EventKind);

impl DeviceEvent {
    /// True if its stream has passed its last record.
    ///
    /// # Errors
    ///
    /// Work before it has failed, or a call of the CUDA driver fails.
    pub fn is_reached(&self) -> Result<bool, DeviceError> {
        match &self.0 {
            EventKind::Host(event) => Ok(event.query()),
            EventKind::Cuda(event) => Ok(event.is_reached()?),
        }
    }
}

impl TimedEvent {
    /// Seconds from this point to a later one. Their stream has passed both.
    ///
    /// # Errors
    ///
    /// The points are of different kinds of device, a stream has not come past one of them, or a call of the CUDA driver fails.
    pub fn seconds_to(&self, later: &TimedEvent) -> Result<f64, DeviceError> {
        match (&self.0, &later.0) {
            (EventKind::Host(from), EventKind::Host(to)) => {
                from.time_to(to).map(|time| time.as_secs_f64()).ok_or(DeviceError::NotReached)
            }
            (EventKind::Cuda(from), EventKind::Cuda(to)) => Ok(from.seconds_to(to)?),
            _ => Err(DeviceError::Mixed),
        }
    }
}

/// Computes a map: from the bytes that it reads to the bytes that it writes, or `None` to write nothing.
pub type MapFn = Box<dyn Fn(&[Vec<u8>]) -> Option<Vec<u8>> + Send + Sync>;

/// Captured work that runs each time it is launched.
pub struct DeviceGraph(GraphKind);

enum GraphKind {
    Host(gpuless_device::GraphExec),
    Cuda(cuda::CudaGraph),
}

impl DeviceGraph {
    /// Puts the graph on a stream.
    ///
    /// # Errors
    ///
    /// The stream is of another kind of device, the graph cannot be launched, or a call of the CUDA driver fails.
    pub fn launch(&self, stream: &DeviceStream) -> Result<(), DeviceError> {
        match (&self.0, &stream.0) {
            (GraphKind::Host(graph), StreamKind::Host(stream)) => graph.launch(stream)?,
            (GraphKind::Cuda(graph), StreamKind::Cuda(stream)) => graph.launch(stream)?,
            _ => return Err(DeviceError::Mixed),
        }
        Ok(())
    }
}

impl DeviceStream {
    /// The stream as a `cudaStream_t`.
    pub fn raw(&self) -> *mut c_void {
        match &self.0 {
            StreamKind::Host(stream) => stream.raw(),
            StreamKind::Cuda(stream) => stream.raw(),
        }
    }
    /// Copies between device addresses, in stream order. Both ranges lie inside blocks that live until then.
    ///
    /// # Errors
    ///
    /// A call of the CUDA driver fails.
    pub fn copy(&self, to: Address, from: Address, len: u64) -> Result<(), DeviceError> {
        match &self.0 {
            StreamKind::Host(stream) => host::copy(stream, to, from, len),
            StreamKind::Cuda(stream) => stream.copy(to, from, len)?,
        }
        Ok(())
    }
    /// Computes on the host, in stream order. If the stream is being captured, `via` lives as long as the graph.
    ///
    /// # Errors
    ///
    /// The host memory does not suffice, a stream is of another kind of device, or a call of the CUDA driver fails.
    pub fn map(
        &self,
        reads: Vec<(Address, u64)>,
        out: Address,
        out_len: u64,
        f: MapFn,
        via: &mut Staging,
    ) -> Result<(), DeviceError> {
        match (&self.0, &mut via.0) {
            (StreamKind::Host(stream), None) => host::map(stream, reads, out, out_len, f),
            (StreamKind::Cuda(stream), Some(via)) => stream.map(reads, out, out_len, f, via)?,
            _ => return Err(DeviceError::Mixed),
        }
        Ok(())
    }
    /// Like [`DeviceStream::map`], in memory that only maps of this stream use.
    pub fn map_in(
        &self,
        reads: Vec<(Address, u64)>,
        out: Address,
        out_len: u64,
        f: MapFn,
        (via, place): (&mut Staging, SetAside),
    ) -> Result<(), DeviceError> {
        let Some((staging, place)) = via.0.as_mut().zip(place.0) else { return self.map(reads, out, out_len, f, via) };
        let used = staging.go_to(place);
        let done = self.map(reads, out, out_len, f, via);
        via.0.as_mut().map(|staging| staging.go_to(used));
        done
    }
    /// Runs `f` in stream order. It must not block.
    ///
    /// # Errors
    ///
    /// A call of the CUDA driver fails.
    pub fn host_fn(&self, f: Box<dyn FnOnce() + Send>) -> Result<(), DeviceError> {
        match &self.0 {
            StreamKind::Host(stream) => stream.host_fn(f),
            StreamKind::Cuda(stream) => stream.host_fn(f)?,
        }
        Ok(())
    }
    /// Records the event after all work that is in the stream.
    ///
    /// # Errors
    ///
    /// The event is of another kind of device, or a call of the CUDA driver fails.
    pub fn record(&self, event: &DeviceEvent) -> Result<(), DeviceError> {
        self.record_kind(&event.0)
    }
    /// Records the event, which has a time, after all work that is in the stream.
    pub fn record_time(&self, event: &TimedEvent) -> Result<(), DeviceError> {
        self.record_kind(&event.0)
    }
    fn record_kind(&self, event: &EventKind) -> Result<(), DeviceError> {
        match (&self.0, event) {
            (StreamKind::Host(stream), EventKind::Host(event)) => stream.record(event),
            (StreamKind::Cuda(stream), EventKind::Cuda(event)) => stream.record(event)?,
            _ => return Err(DeviceError::Mixed),
        }
        Ok(())
    }
    /// Makes later work wait for the event.
    ///
    /// # Errors
    ///
    /// The event is of another kind of device, or a call of the CUDA driver fails.
    pub fn wait(&self, event: &DeviceEvent) -> Result<(), DeviceError> {
        match (&self.0, &event.0) {
            (StreamKind::Host(stream), EventKind::Host(event)) => stream.wait(event)?,
            (StreamKind::Cuda(stream), EventKind::Cuda(event)) => stream.wait(event)?,
            _ => return Err(DeviceError::Mixed),
        }
        Ok(())
    }
    /// Makes the stream's work part of a graph from now on instead of running it, and also that of streams that wait for it.
    ///
    /// # Errors
    ///
    /// The stream cannot be captured, or a call of the CUDA driver fails.
    pub fn begin_capture(&self) -> Result<(), DeviceError> {
        match &self.0 {
            StreamKind::Host(stream) => stream.begin_capture(gpuless_device::CaptureMode::Relaxed)?,
            StreamKind::Cuda(stream) => stream.begin_capture()?,
        }
        Ok(())
    }
    /// The graph of everything that was captured since the capture began on this stream.
    ///
    /// # Errors
    ///
    /// Something cannot be captured, or a call of the CUDA driver fails.
    pub fn end_capture(&self) -> Result<DeviceGraph, DeviceError> {
        Ok(DeviceGraph(match &self.0 {
            StreamKind::Host(stream) => GraphKind::Host(stream.end_capture()?.instantiate()),
            StreamKind::Cuda(stream) => GraphKind::Cuda(stream.end_capture()?),
        }))
    }
    /// Waits for all work that is in the stream and returns true, or returns false as soon as `stop` is true.
    ///
    /// # Errors
    ///
    /// Work in the stream has failed, or a call of the CUDA driver fails.
    pub fn synchronize_unless(&self, stop: &dyn Fn() -> bool) -> Result<bool, DeviceError> {
        Ok(match &self.0 {
            StreamKind::Host(stream) if stream.capture_status().is_capturing() => {
                stream.invalidate_capture();
                return Err(gpuless_device::CaptureError::Unsupported.into());
            }
            StreamKind::Host(stream) => {
                let done = stream.synchronize_unless(stop);
                if let Some(text) = software_gpus::failure(stream.device()) {
                    return Err(DeviceError::Kernel(text));
                }
                done
            }
            StreamKind::Cuda(stream) => stream.synchronize_unless(stop)?,
        })
    }
}
