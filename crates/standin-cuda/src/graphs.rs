//! Stream captures, and graphs by handle.
use crate::{Out, codes, driver, put, streams};
use gpuless_device::{CaptureMode, CaptureStatus, Graph, GraphExec};
use std::cell::Cell;
use std::collections::HashMap;
use std::ffi::{c_int, c_ulonglong, c_void};
use std::ptr::without_provenance_mut;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[derive(Default)]
struct Graphs {
    graphs: HashMap<usize, Graph>,
    executable: HashMap<usize, Arc<GraphExec>>,
    made: usize,
}

/// Handles are numbers from here on; never followed.
const FIRST: usize = 0xf0_0000;
static GRAPHS: Mutex<Option<Graphs>> = Mutex::new(None);

fn locked() -> MutexGuard<'static, Option<Graphs>> {
    GRAPHS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn number(graphs: &mut Graphs) -> usize {
    graphs.made += 1;
    FIRST + graphs.made
}

fn mode(mode: c_int) -> Result<CaptureMode, c_int> {
    match mode {
        0 => Ok(CaptureMode::Global),
        1 => Ok(CaptureMode::ThreadLocal),
        2 => Ok(CaptureMode::Relaxed),
        _ => Err(codes::INVALID_VALUE),
    }
}

/// `CUstreamCaptureStatus`.
fn status_number(status: CaptureStatus) -> c_int {
    match status {
        CaptureStatus::None => 0,
        CaptureStatus::Active(_) => 1,
        CaptureStatus::Invalidated(_) => 2,
    }
}

fn capture_number(status: CaptureStatus) -> u64 {
    match status {
        CaptureStatus::None => 0,
        CaptureStatus::Active(id) | CaptureStatus::Invalidated(id) => id,
    }
}

fn instantiate(place: Out<'_, *mut c_void>, graph: *mut c_void) -> Result<(), c_int> {
    let place = place.ok_or(codes::INVALID_VALUE)?;
    let mut graphs = locked();
    let graphs = graphs.get_or_insert_default();
    let made = graphs.graphs.get(&graph.addr()).ok_or(codes::INVALID_VALUE)?.instantiate();
    let handle = number(graphs);
    graphs.executable.insert(handle, Arc::new(made));
    place.write(without_provenance_mut(handle));
    Ok(())
}

thread_local! {
    /// The thread's mode of interaction with captures, which nothing here depends on.
    static MODE: Cell<c_int> = const { Cell::new(0) };
}

driver! {
    fn cuStreamIsCapturing(stream: *mut c_void, status: Out<'_, c_int>) {
        put(status, status_number(streams::lookup(stream)?.capture_status()))
    }
    fn cuStreamBeginCapture_v2(stream: *mut c_void, how: c_int) {
        let how = mode(how)?;
        if matches!(stream.addr(), 0 | streams::LEGACY) {
            return Err(codes::CAPTURE_IMPLICIT);
        }
        streams::lookup(stream)?.begin_capture(how).map_err(gpuless_device::CaptureError::code)
    }
    fn cuStreamEndCapture(stream: *mut c_void, place: Out<'_, *mut c_void>) {
        let place = place.ok_or(codes::INVALID_VALUE)?;
        place.write(std::ptr::null_mut());
        let graph = streams::lookup(stream)?.end_capture().map_err(gpuless_device::CaptureError::code)?;
        let mut graphs = locked();
        let graphs = graphs.get_or_insert_default();
        let handle = number(graphs);
        graphs.graphs.insert(handle, graph);
        place.write(without_provenance_mut(handle));
        Ok(())
    }
    /// The graph's handle exists only when the capture is over, and there are no dependencies to report.
    fn cuStreamGetCaptureInfo_v2(
        stream: *mut c_void,
        status: Out<'_, c_int>,
        id: Out<'_, c_ulonglong>,
        graph: Out<'_, *mut c_void>,
        dependencies: Out<'_, *const c_void>,
        count: Out<'_, usize>,
    ) {
        let now = streams::lookup(stream)?.capture_status();
        put(status, status_number(now))?;
        id.into_iter().for_each(|place| _ = place.write(capture_number(now)));
        graph.into_iter().for_each(|place| _ = place.write(std::ptr::null_mut()));
        dependencies.into_iter().for_each(|place| _ = place.write(std::ptr::null()));
        count.into_iter().for_each(|place| _ = place.write(0));
        Ok(())
    }
    fn cuThreadExchangeStreamCaptureMode(how: Option<&mut c_int>) {
        let how = how.ok_or(codes::INVALID_VALUE)?;
        mode(*how)?;
        *how = MODE.replace(*how);
        Ok(())
    }
    fn cuGraphInstantiateWithFlags(place: Out<'_, *mut c_void>, graph: *mut c_void, flags: c_ulonglong) {
        if flags != 0 {
            return Err(codes::NOT_SUPPORTED);
        }
        instantiate(place, graph)
    }
    fn cuGraphInstantiate_v2(
        place: Out<'_, *mut c_void>,
        graph: *mut c_void,
        _node: *mut c_void,
        _log: *mut c_void,
        _bytes: usize,
    ) { instantiate(place, graph) }
    fn cuGraphLaunch(graph: *mut c_void, stream: *mut c_void) {
        let known = locked().as_ref().and_then(|graphs| graphs.executable.get(&graph.addr()).cloned());
        let graph = known.ok_or(codes::INVALID_VALUE)?;
        graph.launch(&streams::lookup(stream)?).map_err(gpuless_device::CaptureError::code)
    }
    fn cuGraphDestroy(graph: *mut c_void) {
        let gone = locked().as_mut().and_then(|graphs| graphs.graphs.remove(&graph.addr()));
        gone.map(|_| ()).ok_or(codes::INVALID_VALUE)
    }
    /// A launch that is under way continues to its end.
    fn cuGraphExecDestroy(graph: *mut c_void) {
        let gone = locked().as_mut().and_then(|graphs| graphs.executable.remove(&graph.addr()));
        gone.map(|_| ()).ok_or(codes::INVALID_VALUE)
    }
    fn cuGraphGetNodes(graph: *mut c_void, nodes: *mut *mut c_void, count: Out<'_, usize>) {
        let graphs = locked();
        let graph = graphs.as_ref().and_then(|graphs| graphs.graphs.get(&graph.addr()));
        let graph = graph.ok_or(codes::INVALID_VALUE)?;
        if !nodes.is_null() {
            return Err(codes::NOT_SUPPORTED);
        }
        put(count, graph.len())
    }
}
