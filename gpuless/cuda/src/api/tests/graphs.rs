//! Graphs, as programs capture them and look into them.
use super::fake::{self, NOTES};
use super::launch::launch;
use super::{alone, asked, named};
use crate::api::events::*;
use crate::api::graphs::*;
use crate::api::launch::cudaLaunchKernel;
use crate::api::memory::*;
use crate::api::raw::{Bytes, Room};
use crate::api::streams::*;
use crate::api::transfer::*;
use crate::api::{Handle, Out, Runtime, errors};
use std::ffi::{c_int, c_void};
use std::ptr::{null, null_mut};
use std::sync::Mutex;

type Dependencies = extern "C" fn(Handle, *mut Handle, *mut c_void, *mut usize) -> c_int;
type OfTwelve = extern "C" fn(Handle, *mut Handle, *mut usize) -> c_int;
type Info =
    extern "C" fn(Handle, *mut c_int, *mut u64, *mut Handle, *mut *const Handle, *mut c_void, *mut usize) -> c_int;
type AddEmpty = extern "C" fn(Out<'_, Handle>, Handle, *const Handle, usize) -> c_int;

/// The nodes that a node comes after.
fn after(node: Handle) -> Vec<Handle> {
    let ask: Dependencies = named(Runtime::V13, "cudaGraphNodeGetDependencies");
    let older: OfTwelve = named(Runtime::V12, "cudaGraphNodeGetDependencies");
    let mut count = 99;
    assert_eq!(older(node, null_mut(), &raw mut count), 0);
    let (mut nodes, mut edges, mut same) = (vec![null_mut(); count], vec![0xaa_u64; count], vec![null_mut(); count]);
    assert_eq!(ask(node, nodes.as_mut_ptr(), edges.as_mut_ptr().cast(), &raw mut count), 0);
    assert_eq!(older(node, same.as_mut_ptr(), &raw mut count), 0);
    assert_eq!((&nodes, edges), (&same, vec![0; count]));
    nodes
}

fn kind(node: Handle) -> c_int {
    asked(|place| cudaGraphNodeGetType(node, place)).unwrap()
}

/// Graph and last nodes of a capturing stream.
fn ends(stream: Handle) -> (Handle, Vec<Handle>) {
    let info: Info = named(Runtime::V13, "cudaStreamGetCaptureInfo");
    let (mut status, mut id, mut graph, mut list, mut count) = (0, 0, null_mut(), null(), 0);
    let code = info(stream, &mut status, &mut id, &mut graph, &mut list, null_mut(), &mut count);
    assert_eq!((code, status), (0, 1));
    // SAFETY: the list has this many handles until the thread's next call.
    (graph, (0..count).map(|at| unsafe { *list.add(at) }).collect())
}

static SAID: Mutex<Vec<usize>> = Mutex::new(Vec::new());

extern "C" fn say(word: *mut c_void) {
    SAID.lock().unwrap().push(word.addr());
}

fn word(number: usize) -> *mut c_void {
    std::ptr::without_provenance_mut(number)
}

#[test]
fn the_nodes_of_a_graph_are_told_with_their_kinds_and_dependencies() {
    let _alone = alone();
    let create = || asked(|place| cudaStreamCreateWithFlags(place, 1)).unwrap();
    let (user, side) = (create(), create());
    let event = || asked::<Handle>(|place| cudaEventCreateWithFlags(place, 2)).unwrap();
    let (fork, join) = (event(), event());
    let memory: Handle = asked(|place| cudaMalloc(place, 64)).unwrap();
    let empty: AddEmpty = named(Runtime::V12, "cudaGraphAddEmptyNode");

    assert_eq!(cudaStreamBeginCapture(user, 1), 0);
    assert_eq!(ends(user).1, []);
    assert_eq!(cudaMemsetAsync(Bytes::of(memory), 3, 64, user), 0);
    let (graph, first) = ends(user);
    assert_eq!((first.len(), kind(first[0]), after(first[0])), (1, 2, vec![]));
    assert_eq!((cudaEventRecord(fork, user), cudaStreamWaitEvent(side, fork, 0)), (0, 0));
    assert_eq!(ends(side), (graph, first.clone()), "the other stream's next node comes after it");
    assert_eq!(launch(cudaLaunchKernel, NOTES, side), 0);
    assert_eq!(cudaLaunchHostFunc(user, Some(say), word(1)), 0);
    let (kernel, host) = (ends(side).1[0], ends(user).1[0]);
    // What the stream has waited for before its own last node is no predecessor of what came before that.
    assert_eq!((kind(kernel), after(kernel), after(host)), (0, first.clone(), first.clone()));
    assert_eq!((cudaEventRecord(join, side), cudaStreamWaitEvent(user, join, 0)), (0, 0));
    let mut both = ends(user).1;
    both.sort_unstable();
    let mut expected = vec![kernel, host];
    expected.sort_unstable();
    assert_eq!(both, expected);
    let beside = asked(|place| empty(place, graph, both.as_ptr(), 2)).unwrap();
    assert_eq!((kind(beside), after(beside).len()), (5, 2));
    assert_eq!(cudaMemcpyAsync(Bytes::of(memory), Bytes::of(memory.wrapping_byte_add(32)), 32, 4, user), 0);
    let captured: Handle = asked(|place| cudaStreamEndCapture(user, place)).unwrap();
    // Handles of the capture end with it.
    assert_eq!(asked::<c_int>(|place| cudaGraphNodeGetType(host, place)), Err(errors::INVALID_VALUE));

    let mut count = 0;
    assert_eq!((cudaGraphGetNodes(captured, Room::null(), Some(&mut count)), count), (0, 5));
    let mut nodes = [word(77); 8];
    count = 7;
    assert_eq!((cudaGraphGetNodes(captured, Room::of(nodes.as_mut_ptr()), Some(&mut count)), count), (0, 5));
    assert_eq!(nodes[5..], [null_mut(), null_mut(), word(77)]);
    assert_eq!(nodes[..5].iter().map(|node| kind(*node)).collect::<Vec<_>>(), [2, 0, 3, 5, 1]);
    assert_eq!(after(nodes[0]), []);
    assert_eq!([1, 2].map(|at| after(nodes[at])), [[nodes[0]], [nodes[0]]]);
    assert_eq!([3, 4].map(|at| after(nodes[at])), [[nodes[1], nodes[2]], [nodes[1], nodes[2]]]);
    count = 2;
    assert_eq!((cudaGraphGetNodes(captured, Room::of(nodes.as_mut_ptr()), Some(&mut count)), count), (0, 2));
    for wrong in [cudaGraphGetNodes(captured, Room::null(), None), cudaGraphGetNodes(user, Room::null(), None)] {
        assert_eq!(wrong, errors::INVALID_VALUE);
    }
    assert_eq!(cudaGraphDestroy(captured), 0);
    assert_eq!(asked::<c_int>(|place| cudaGraphNodeGetType(nodes[0], place)), Err(errors::INVALID_VALUE));
    assert_eq!((cudaFree(memory), cudaStreamDestroy(user), cudaStreamDestroy(side)), (0, 0, 0));
    fake::launched();
}

/// A Python package may make every operation a function of the host.
#[test]
fn host_functions_run_at_each_launch_in_their_place() {
    let _alone = alone();
    let stream = asked(|place| cudaStreamCreateWithFlags(place, 1)).unwrap();
    assert_eq!(cudaStreamBeginCapture(stream, 1), 0);
    for number in 1..4 {
        assert_eq!(cudaLaunchHostFunc(stream, Some(say), word(number)), 0);
    }
    let graph: Handle = asked(|place| cudaStreamEndCapture(stream, place)).unwrap();
    let ready: Handle = asked(|place| cudaGraphInstantiateWithFlags(place, graph, 0)).unwrap();
    SAID.lock().unwrap().clear();
    for round in 1..4 {
        assert_eq!(cudaGraphLaunch(ready, stream), 0);
        assert_eq!(cudaLaunchHostFunc(stream, Some(say), word(10 * round)), 0);
    }
    assert_eq!(cudaStreamSynchronize(stream), 0);
    assert_eq!(*SAID.lock().unwrap(), [1, 2, 3, 10, 1, 2, 3, 20, 1, 2, 3, 30]);
    assert_eq!((cudaGraphExecDestroy(ready), cudaGraphDestroy(graph), cudaStreamDestroy(stream)), (0, 0, 0));
}
