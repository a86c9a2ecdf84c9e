//! Captures that programs begin and end, and the graphs that come of them. NCCL only adds to captures of others ([`super::capture`]).
use super::raw::Room;
use super::{Handle, Out, Outcome, Runtime, capture, errors, handles, put, runtime, streams};
use gpuless_device::{CaptureError, CaptureMode, Graph, GraphExec, NodeKind};
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
    /// Graph and number of each node that was asked for, and its handle by these.
    nodes: BTreeMap<usize, (usize, usize)>,
    of_nodes: BTreeMap<(usize, usize), usize>,
    made: usize,
}

static GRAPHS: Mutex<Option<Graphs>> = Mutex::new(None);

fn locked() -> MutexGuard<'static, Option<Graphs>> {
    GRAPHS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn instantiate(place: Out<'_, Handle>, graph: Handle) -> Outcome {
    let mut graphs = locked();
    let Graphs { graphs, executable, made, .. } = graphs.get_or_insert_default();
    let ready = graphs.get(&graph.addr()).ok_or(errors::INVALID_VALUE)?.instantiate();
    *made += 1;
    let handle = handles::handle(FIRST, *made);
    put(place, without_provenance_mut(handle))?;
    executable.insert(handle, Arc::new(ready));
    Ok(())
}

impl Graphs {
    fn node_handle(&mut self, graph: usize, number: usize) -> Handle {
        let handle = *self.of_nodes.entry((graph, number)).or_insert_with(|| {
            self.made += 1;
            handles::handle(FIRST, self.made)
        });
        self.nodes.insert(handle, (graph, number));
        without_provenance_mut(handle)
    }

    fn node(&self, handle: Handle) -> Option<(usize, Graph, usize)> {
        let (graph, number) = self.nodes.get(&handle.addr())?;
        Some((*graph, self.graphs.get(graph)?.clone(), *number))
    }
}

/// The nodes of a graph.
fn all_nodes(graph: Handle) -> Result<Vec<Handle>, c_int> {
    let mut graphs = locked();
    let graphs = graphs.get_or_insert_default();
    let len = graphs.graphs.get(&graph.addr()).ok_or(errors::INVALID_VALUE)?.len();
    Ok((0..len).map(|number| graphs.node_handle(graph.addr(), number)).collect())
}

/// The nodes that a node comes after directly.
fn dependencies(node: Handle) -> Result<Vec<Handle>, c_int> {
    let mut graphs = locked();
    let graphs = graphs.get_or_insert_default();
    let Some((of, graph, number)) = graphs.node(node) else { return capture::dependencies(node) };
    let after = graph.after(number).ok_or(errors::INVALID_VALUE)?;
    Ok(after.into_iter().map(|number| graphs.node_handle(of, number)).collect())
}

/// `cudaGraphNodeType`.
fn node_type(node: Handle) -> Result<c_int, c_int> {
    let known = locked().as_ref().and_then(|graphs| graphs.node(node));
    let kind = match known {
        Some((_, graph, number)) => graph.kind(number).ok_or(errors::INVALID_VALUE)?,
        None => capture::kind(node)?,
    };
    Ok(match kind {
        NodeKind::Kernel => 0,
        NodeKind::Copy => 1,
        NodeKind::Fill => 2,
        NodeKind::Host => 3,
        NodeKind::Empty => 5,
        NodeKind::Wait => 6,
        NodeKind::Record => 7,
    })
}

/// Size of `cudaGraphEdgeData`.
const EDGE: usize = 8;

/// Without a place, how many there are; with one, as many as it has room for, and zeros behind them. All edges are plain ones.
fn list(found: &[Handle], place: Room, edges: Room, count: Option<&mut usize>) -> Outcome {
    let count = count.ok_or(errors::INVALID_VALUE)?;
    if place.is_null() {
        *count = found.len();
        return Ok(());
    }
    let given = found.len().min(*count);
    let handles: Vec<u8> = found[..given].iter().flat_map(|node| node.addr().to_ne_bytes()).collect();
    place.write(&handles)?;
    place.clear(handles.len(), (*count - given).saturating_mul(size_of::<Handle>()));
    if !edges.is_null() {
        edges.write(&vec![0; EDGE * given])?;
    }
    *count = given;
    Ok(())
}

mod all {
    use super::*;
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
            let mut graphs = locked();
            let known = graphs.get_or_insert_default();
            known.nodes.retain(|_, (of, _)| *of != graph.addr());
            known.of_nodes.retain(|(of, _), _| *of != graph.addr());
            let gone = known.graphs.remove(&graph.addr());
            // What it keeps may call back when it is dropped.
            drop(graphs);
            gone.map(|_| ()).ok_or(errors::INVALID_VALUE)
        }
        /// A launch that is under way continues to its end.
        fn cudaGraphExecDestroy(graph: Handle) {
            let gone = locked().as_mut().and_then(|graphs| graphs.executable.remove(&graph.addr()));
            gone.map(|_| ()).ok_or(errors::INVALID_VALUE)
        }
        fn cudaGraphGetNodes(graph: Handle, place: Room, count: Option<&mut usize>) {
            list(&all_nodes(graph)?, place, Room::null(), count)
        }
        fn cudaGraphNodeGetType(node: Handle, place: Out<'_, c_int>) { put(place, node_type(node)?) }
        fn cudaGraphNodeGetDependencies_v2(node: Handle, place: Room, edges: Room, count: Option<&mut usize>) {
            list(&dependencies(node)?, place, edges, count)
        }
    }
}

mod until_12 {
    use super::*;
    runtime! {
        fn cudaGraphNodeGetDependencies(node: Handle, place: Room, count: Option<&mut usize>) {
            list(&dependencies(node)?, place, Room::null(), count)
        }
    }
}

pub(super) fn functions(runtime: Runtime) -> Vec<(&'static str, *const ())> {
    let own = match runtime {
        Runtime::V11 | Runtime::V12 => until_12::functions(),
        // 13 has the later version under the first name.
        Runtime::V13 => vec![("cudaGraphNodeGetDependencies", all::cudaGraphNodeGetDependencies_v2 as *const ())],
    };
    [all::functions(), own].concat()
}

#[cfg(test)]
pub(super) use all::*;
