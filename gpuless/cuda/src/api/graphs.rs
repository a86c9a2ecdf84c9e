//! Captures that programs begin and end, and the graphs that come of them. NCCL only adds to captures of others ([`super::capture`]).
use super::{Handle, Out, Outcome, errors, handles, put, runtime, streams};
use gpuless_device::{CaptureError, CaptureMode, Graph, GraphExec};
use std::collections::BTreeMap;
use std::ffi::{c_int, c_ulonglong};
use std::ptr::{null_mut, without_provenance_mut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Handles are numbers from here on; never followed.
const FIRST: usize = 0xa00_0000;

#[derive(Default)]
struct Graphs {
    graphs: BTreeMap<usize, Graph>,
    executable: BTreeMap<usize, Arc<GraphExec>>,
    made: usize,
}

static GRAPHS: Mutex<Option<Graphs>> = Mutex::new(None);

fn locked() -> MutexGuard<'static, Option<Graphs>> {
    GRAPHS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn instantiate(place: Out<'_, Handle>, graph: Handle) -> Outcome {
    let mut graphs = locked();
    let Graphs { graphs, executable, made } = graphs.get_or_insert_default();
    let ready = graphs.get(&graph.addr()).ok_or(errors::INVALID_VALUE)?.instantiate();
    *made += 1;
    let handle = handles::handle(FIRST, *made);
    put(place, without_provenance_mut(handle))?;
    executable.insert(handle, Arc::new(ready));
    Ok(())
}

runtime! {
    by_thread cudaStreamBeginCapture_ptsz fn cudaStreamBeginCapture(stream: Handle, mode: c_int) {
        let mode = match mode {
            0 => CaptureMode::Global,
            1 => CaptureMode::ThreadLocal,
            2 => CaptureMode::Relaxed,
            _ => return Err(errors::INVALID_VALUE),
        };
        streams::lookup(stream)?.stream.begin_capture(mode).map_err(CaptureError::code)
    }
    by_thread cudaStreamEndCapture_ptsz fn cudaStreamEndCapture(stream: Handle, place: Out<'_, Handle>) {
        let place = place.ok_or(errors::INVALID_VALUE)?;
        place.write(null_mut());
        let graph = streams::lookup(stream)?.stream.end_capture().map_err(CaptureError::code)?;
        let mut graphs = locked();
        let Graphs { graphs, made, .. } = graphs.get_or_insert_default();
        *made += 1;
        let handle = handles::handle(FIRST, *made);
        graphs.insert(handle, graph);
        place.write(without_provenance_mut(handle));
        Ok(())
    }
    /// The parameters that follow, which differ by version, have no effect.
    fn cudaGraphInstantiate(place: Out<'_, Handle>, graph: Handle) { instantiate(place, graph) }
    fn cudaGraphInstantiateWithFlags(place: Out<'_, Handle>, graph: Handle, _flags: c_ulonglong) {
        instantiate(place, graph)
    }
    by_thread cudaGraphUpload_ptsz fn cudaGraphUpload(_graph: Handle, stream: Handle) { streams::lookup(stream).map(|_| ()) }
    by_thread cudaGraphLaunch_ptsz fn cudaGraphLaunch(graph: Handle, stream: Handle) {
        let known = locked().as_ref().and_then(|graphs| graphs.executable.get(&graph.addr()).cloned());
        let (graph, target) = (known.ok_or(errors::INVALID_VALUE)?, streams::lookup(stream)?);
        errors::check(target.device)?;
        graph.launch(&target.stream).map_err(CaptureError::code)
    }
    fn cudaGraphDestroy(graph: Handle) {
        let gone = locked().as_mut().and_then(|graphs| graphs.graphs.remove(&graph.addr()));
        gone.map(|_| ()).ok_or(errors::INVALID_VALUE)
    }
    /// A launch that is under way continues to its end.
    fn cudaGraphExecDestroy(graph: Handle) {
        let gone = locked().as_mut().and_then(|graphs| graphs.executable.remove(&graph.addr()));
        gone.map(|_| ()).ok_or(errors::INVALID_VALUE)
    }
}
