//! Stream captures and the graphs that they make.
#![allow(unsafe_code)] // calls the driver

use super::{ContextHandle, Cuda, CudaError, CudaStream};
use cudarc::driver::sys::{CUgraph, CUgraphExec};
use std::ptr::null_mut;

/// CU_STREAM_CAPTURE_MODE_RELAXED: calls on other streams work as usual.
const RELAXED: u32 = 2;

/// A graph that can be launched; it is destroyed when it is dropped.
pub struct CudaGraph {
    cuda: &'static Cuda,
    context: ContextHandle,
    raw: CUgraphExec,
}

// SAFETY: the driver's graphs may be used from any thread, one at a time; the handle is never followed here.
unsafe impl Send for CudaGraph {}
// SAFETY: as above; the rank that owns a graph is the only one that launches it.
unsafe impl Sync for CudaGraph {}

impl CudaStream {
    /// Makes the stream's work part of a graph from now on.
    ///
    /// # Errors
    ///
    /// A call of the driver fails.
    pub fn begin_capture(&self) -> Result<(), CudaError> {
        let (cuda, _, stream) = self.parts();
        // SAFETY: the handle lives.
        unsafe { cuda.driver.capture_begin(stream, RELAXED) }
    }

    /// Ends the capture and returns its graph.
    ///
    /// # Errors
    ///
    /// A call of the driver fails.
    pub fn end_capture(&self) -> Result<CudaGraph, CudaError> {
        let (cuda, context, stream) = self.parts();
        let (mut graph, mut raw): (CUgraph, CUgraphExec) = (null_mut(), null_mut());
        // SAFETY: the handle lives; a place for the answer.
        unsafe { cuda.driver.capture_end(stream, &mut graph) }?;
        // SAFETY: a place for the answer; the graph is the driver's.
        let made = unsafe { cuda.driver.graph_instantiate(&mut raw, graph, 0) };
        // SAFETY: the driver gave it, and the executable graph does not need it.
        let ended = unsafe { cuda.driver.graph_destroy(graph) };
        made?;
        let graph = CudaGraph { cuda, context, raw };
        ended.map(|()| graph)
    }
}

impl CudaGraph {
    /// Puts the graph on a stream.
    ///
    /// # Errors
    ///
    /// A call of the driver fails.
    pub fn launch(&self, stream: &CudaStream) -> Result<(), CudaError> {
        // SAFETY: both handles live.
        unsafe { self.cuda.driver.graph_launch(self.raw, stream.parts().2) }
    }
}

impl Drop for CudaGraph {
    fn drop(&mut self) {
        // SAFETY: created by this type and no longer used; the driver finishes a launch that is under way.
        self.cuda.with_context(self.context, |driver| _ = unsafe { driver.graph_exec_destroy(self.raw) });
    }
}
