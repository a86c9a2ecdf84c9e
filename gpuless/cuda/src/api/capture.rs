//! Captures, which the user of streams begins and ends, and nodes that a library adds to the graph by handle.
//!
//! A graph's handle is a point of a gpuless-device capture, and so is a node's, with its number: what is put after a node comes after
//! everything that its stream has captured by then.
use super::launch::{self, Dimensions};
use super::raw::{Function, HostFunction, In};
use super::work::{self, Kernel};
use super::{Handle, Out, Outcome, Runtime, devices, errors, events, handles, put, put_if, runtime, streams};
use gpuless_device::{CapturePoint, CaptureStatus, NodeKind};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ffi::{c_int, c_uint, c_ulonglong, c_void};
use std::ptr::{null, without_provenance_mut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Handles are numbers from here on; never followed.
const FIRST: usize = 0xf00_0000;
/// The last of `cudaStreamCaptureMode`.
const LAST_MODE: c_int = 2;
/// The last of `cudaStreamUpdateCaptureDependenciesFlags`.
const SET_DEPENDENCIES: c_uint = 1;

#[derive(Default)]
struct Handles {
    graphs: BTreeMap<usize, CapturePoint>,
    nodes: BTreeMap<usize, Node>,
    /// The handle of each node, by its capture and its number.
    of_nodes: BTreeMap<(u64, usize), usize>,
    made: usize,
}

/// A node of a capture in progress.
#[derive(Clone)]
struct Node {
    point: CapturePoint,
    number: usize,
}

static HANDLES: Mutex<Option<Handles>> = Mutex::new(None);

fn locked() -> MutexGuard<'static, Option<Handles>> {
    HANDLES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The graph's handle, valid as long as its capture is in progress.
fn graph_handle(point: &CapturePoint) -> Handle {
    let mut handles = locked();
    let Handles { graphs, nodes, of_nodes, made } = handles.get_or_insert_default();
    let known = graphs.iter().find(|(_, known)| known.is_of_capture(point)).map(|(number, _)| *number);
    without_provenance_mut(known.unwrap_or_else(|| {
        // A new capture: those that are over go.
        graphs.retain(|_, point| !point.is_over());
        nodes.retain(|_, node| !node.point.is_over());
        of_nodes.retain(|_, handle| nodes.contains_key(handle));
        *made += 1;
        let handle = handles::handle(FIRST, *made);
        graphs.insert(handle, point.clone());
        handle
    }))
}

fn node_handle(point: &CapturePoint, number: usize) -> Handle {
    let mut handles = locked();
    let Handles { nodes, of_nodes, made, .. } = handles.get_or_insert_default();
    let handle = *of_nodes.entry((point.capture_id(), number)).or_insert_with(|| {
        *made += 1;
        handles::handle(FIRST, *made)
    });
    nodes.entry(handle).or_insert_with(|| Node { point: point.clone(), number });
    without_provenance_mut(handle)
}

/// The graph of a handle, valid as long as its capture is in progress.
pub(super) fn graph(handle: Handle) -> Result<CapturePoint, c_int> {
    let handles = locked();
    let known = handles.as_ref().and_then(|handles| handles.graphs.get(&handle.addr()));
    known.filter(|point| !point.is_over()).cloned().ok_or(errors::INVALID_VALUE)
}

fn node(handle: Handle) -> Result<Node, c_int> {
    let handles = locked();
    let known = handles.as_ref().and_then(|handles| handles.nodes.get(&handle.addr()));
    known.filter(|node| !node.point.is_over()).cloned().ok_or(errors::INVALID_VALUE)
}

fn nodes(list: In<Handle>, count: usize) -> Result<Vec<CapturePoint>, c_int> {
    list.list(count)?.into_iter().map(|handle| node(handle).map(|node| node.point)).collect()
}

/// What a node of a capture in progress does.
pub(super) fn kind(handle: Handle) -> Result<NodeKind, c_int> {
    let Node { point, number } = node(handle)?;
    point.kind(number).ok_or(errors::INVALID_VALUE)
}

/// The nodes that a node of a capture in progress comes after.
pub(super) fn dependencies(handle: Handle) -> Result<Vec<Handle>, c_int> {
    let Node { point, number } = node(handle)?;
    let after = point.after(number).ok_or(errors::INVALID_VALUE)?;
    Ok(after.into_iter().map(|number| node_handle(&point, number)).collect())
}

/// `cudaStreamCaptureStatus` with the capture's number.
fn status_of(status: CaptureStatus) -> (c_int, u64) {
    match status {
        CaptureStatus::None => (0, 0),
        CaptureStatus::Active(id) => (1, id),
        CaptureStatus::Invalidated(id) => (2, id),
    }
}

thread_local! {
    /// The thread's mode of interaction with captures; it is stored, but has no effect.
    static MODE: Cell<c_int> = const { Cell::new(0) };
    /// The list of nodes that the last query of this thread gave, where the caller finds it.
    static FRONTIER: RefCell<Vec<Handle>> = const { RefCell::new(Vec::new()) };
}

/// A query about a capture.
struct Question<'a> {
    status: Out<'a, c_int>,
    id: Out<'a, c_ulonglong>,
    graph: Out<'a, Handle>,
    dependencies: Out<'a, *const Handle>,
    edges: Out<'a, *const c_void>,
    count: Out<'a, usize>,
}

fn answer(stream: Handle, question: Question<'_>) -> Outcome {
    let stream = streams::lookup(stream)?.stream;
    let (status, id) = status_of(stream.capture_status());
    put(question.status, status)?;
    let Some(point) = stream.capture_point() else { return Ok(()) };
    put_if(question.id, id);
    if let Some(place) = question.graph {
        place.write(graph_handle(&point));
    }
    let ends: Vec<Handle> = point.ends().into_iter().map(|number| node_handle(&point, number)).collect();
    put_if(question.edges, null());
    put_if(question.count, ends.len());
    if let Some(place) = question.dependencies {
        let frontier = FRONTIER.try_with(|frontier| {
            *frontier.borrow_mut() = ends;
            frontier.borrow().as_ptr()
        });
        place.write(frontier.unwrap_or(null()));
    }
    Ok(())
}

/// Orders what the stream captures from now on after these nodes. It is still ordered after its previous nodes, too, which is one of
/// the orders that the program allows.
fn update(stream: Handle, list: In<Handle>, count: usize, flags: c_uint) -> Outcome {
    if flags > SET_DEPENDENCIES {
        return Err(errors::INVALID_VALUE);
    }
    let stream = streams::lookup(stream)?.stream;
    if !stream.capture_status().is_capturing() {
        return Err(errors::ILLEGAL_STATE);
    }
    let after = nodes(list, count)?;
    if after.iter().all(|point| stream.capture_after(point)) { Ok(()) } else { Err(errors::INVALID_VALUE) }
}

/// Each node of the second list comes after that of the first.
fn depend(handle: Handle, from: In<Handle>, to: In<Handle>, count: usize) -> Outcome {
    graph(handle)?;
    let pairs = nodes(from, count)?.into_iter().zip(nodes(to, count)?);
    let mut all = true;
    pairs.for_each(|(from, to)| all &= to.put_after(&from));
    if all { Ok(()) } else { Err(errors::INVALID_VALUE) }
}

/// Adds a node after others.
fn add(
    place: Out<'_, Handle>,
    handle: Handle,
    after: (In<Handle>, usize),
    make: impl FnOnce(&CapturePoint) -> Option<CapturePoint>,
) -> Outcome {
    let place = place.ok_or(errors::INVALID_VALUE)?;
    let graph = graph(handle)?;
    let after = nodes(after.0, after.1)?;
    let made = make(&graph).ok_or(errors::INVALID_VALUE)?;
    if !after.iter().all(|point| made.put_after(point)) {
        return Err(errors::INVALID_VALUE);
    }
    let number = made.ends().first().copied().ok_or(errors::INVALID_VALUE)?;
    place.write(node_handle(&made, number));
    Ok(())
}

/// `cudaHostNodeParams`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct HostNode {
    function: Option<Function>,
    argument: *mut c_void,
}

/// `cudaKernelNodeParams`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct KernelNode {
    function: *const (),
    grid: Dimensions,
    block: Dimensions,
    shared: c_uint,
    parameters: In<In<u8>>,
    extra: In<Handle>,
}

mod all {
    use super::*;
    runtime! {
        by_thread cudaStreamIsCapturing_ptsz fn cudaStreamIsCapturing(stream: Handle, status: Out<'_, c_int>) {
            put(status, status_of(streams::lookup(stream)?.stream.capture_status()).0)
        }
        fn cudaThreadExchangeStreamCaptureMode(mode: Option<&mut c_int>) {
            let mode = mode.ok_or(errors::INVALID_VALUE)?;
            if !(0..=LAST_MODE).contains(mode) {
                return Err(errors::INVALID_VALUE);
            }
            *mode = MODE.replace(*mode);
            Ok(())
        }
        by_thread cudaStreamGetCaptureInfo_v2_ptsz fn cudaStreamGetCaptureInfo_v2(
            stream: Handle,
            status: Out<'_, c_int>,
            id: Out<'_, c_ulonglong>,
            graph: Out<'_, Handle>,
            dependencies: Out<'_, *const Handle>,
            count: Out<'_, usize>,
        ) { answer(stream, Question { status, id, graph, dependencies, edges: None, count }) }
        by_thread cudaStreamGetCaptureInfo_v3_ptsz fn cudaStreamGetCaptureInfo_v3(
            stream: Handle,
            status: Out<'_, c_int>,
            id: Out<'_, c_ulonglong>,
            graph: Out<'_, Handle>,
            dependencies: Out<'_, *const Handle>,
            edges: Out<'_, *const c_void>,
            count: Out<'_, usize>,
        ) { answer(stream, Question { status, id, graph, dependencies, edges, count }) }
        by_thread cudaStreamUpdateCaptureDependencies_v2_ptsz fn cudaStreamUpdateCaptureDependencies_v2(
            stream: Handle,
            nodes: In<Handle>,
            _edges: *const c_void,
            count: usize,
            flags: c_uint,
        ) { update(stream, nodes, count, flags) }
        fn cudaGraphAddDependencies_v2(
            graph: Handle,
            from: In<Handle>,
            to: In<Handle>,
            _edges: *const c_void,
            count: usize,
        ) { depend(graph, from, to, count) }
        fn cudaGraphAddEventRecordNode(
            place: Out<'_, Handle>,
            graph: Handle,
            after: In<Handle>,
            count: usize,
            event: Handle,
        ) {
            let event = events::lookup(event)?;
            add(place, graph, (after, count), |graph| graph.record_beside(&event))
        }
        fn cudaGraphAddEventWaitNode(
            place: Out<'_, Handle>,
            graph: Handle,
            after: In<Handle>,
            count: usize,
            event: Handle,
        ) {
            let event = events::lookup(event)?;
            add(place, graph, (after, count), |graph| graph.wait_beside(&event))
        }
        fn cudaGraphAddEmptyNode(place: Out<'_, Handle>, graph: Handle, after: In<Handle>, count: usize) {
            add(place, graph, (after, count), CapturePoint::nothing_beside)
        }
        fn cudaGraphAddHostNode(
            place: Out<'_, Handle>,
            graph: Handle,
            after: In<Handle>,
            count: usize,
            parameters: In<HostNode>,
        ) {
            let HostNode { function, argument } = parameters.get()?;
            let function = HostFunction { function: function.ok_or(errors::INVALID_VALUE)?, argument };
            let call = Arc::new(move || function.call());
            add(place, graph, (after, count), |graph| graph.blocking_host_fn_beside(call))
        }
        fn cudaGraphAddKernelNode(
            place: Out<'_, Handle>,
            graph: Handle,
            after: In<Handle>,
            count: usize,
            parameters: In<KernelNode>,
        ) {
            let KernelNode { function, grid, block, shared, parameters, extra } = parameters.get()?;
            let found = launch::to_launch(function, devices::current())?;
            let configuration = launch::configuration(grid, block, shared as usize);
            launch::check(&found, &configuration)?;
            let parameters = launch::parameters(&found, parameters, extra)?;
            let device = devices::current();
            let kernel =
                Arc::new(Kernel { kernels: found.kernels, name: found.name, device, configuration, parameters });
            add(place, graph, (after, count), |graph| graph.launch_beside(work::kernel_node(kernel)))
        }
    }
}

mod until_12 {
    use super::*;
    runtime! {
        by_thread cudaStreamGetCaptureInfo_ptsz fn cudaStreamGetCaptureInfo(
            stream: Handle,
            status: Out<'_, c_int>,
            id: Out<'_, c_ulonglong>,
        ) { answer(stream, Question { status, id, graph: None, dependencies: None, edges: None, count: None }) }
        by_thread cudaStreamUpdateCaptureDependencies_ptsz fn cudaStreamUpdateCaptureDependencies(
            stream: Handle,
            nodes: In<Handle>,
            count: usize,
            flags: c_uint,
        ) { update(stream, nodes, count, flags) }
        fn cudaGraphAddDependencies(graph: Handle, from: In<Handle>, to: In<Handle>, count: usize) {
            depend(graph, from, to, count)
        }
    }
}

/// 13 has the later versions of these under their first names.
const FROM_13: [(&str, &str); 5] = [
    ("cudaStreamGetCaptureInfo_v3", "cudaStreamGetCaptureInfo"),
    ("cudaStreamGetCaptureInfo_v3_ptsz", "cudaStreamGetCaptureInfo_ptsz"),
    ("cudaStreamUpdateCaptureDependencies_v2", "cudaStreamUpdateCaptureDependencies"),
    ("cudaStreamUpdateCaptureDependencies_v2_ptsz", "cudaStreamUpdateCaptureDependencies_ptsz"),
    ("cudaGraphAddDependencies_v2", "cudaGraphAddDependencies"),
];

pub(super) fn functions(runtime: Runtime) -> Vec<(&'static str, *const ())> {
    let mut functions = all::functions();
    match runtime {
        Runtime::V11 | Runtime::V12 => functions.extend(until_12::functions()),
        Runtime::V13 => {
            for (name, _) in &mut functions {
                if let Some((_, first)) = FROM_13.iter().find(|(later, _)| later == name) {
                    *name = first;
                }
            }
        }
    }
    functions
}
