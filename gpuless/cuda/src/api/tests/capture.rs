//! Captures, as NCCL takes part in them.
use super::fake::{self, NOTES, WAITS};
use super::launch::{launch, with_parameters};
use super::{alone, asked, named};
use crate::api::events::*;
use crate::api::launch::cudaLaunchKernel;
use crate::api::objects::*;
use crate::api::raw::In;
use crate::api::streams::*;
use crate::api::{Handle, Out, Runtime, errors};
use gpuless_device::{CaptureMode, Stream};
use std::ffi::{c_int, c_uint, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering};

type Info = extern "C" fn(
    Handle,
    Out<'_, c_int>,
    Out<'_, u64>,
    Out<'_, Handle>,
    Out<'_, *const Handle>,
    Out<'_, *const c_void>,
    Out<'_, usize>,
) -> c_int;
type Update = extern "C" fn(Handle, *const Handle, *const c_void, usize, c_uint) -> c_int;
type Depend = extern "C" fn(Handle, *const Handle, *const Handle, *const c_void, usize) -> c_int;
type AddEvent = extern "C" fn(Out<'_, Handle>, Handle, *const Handle, usize, Handle) -> c_int;
type AddOther = extern "C" fn(Out<'_, Handle>, Handle, *const Handle, usize, *const c_void) -> c_int;
type IsCapturing = extern "C" fn(Handle, Out<'_, c_int>) -> c_int;

/// Graph and frontier of a capturing stream.
fn frontier(stream: Handle) -> (Handle, Vec<Handle>) {
    let info: Info = named(Runtime::V13, "cudaStreamGetCaptureInfo");
    let (mut id, mut graph) = (std::mem::MaybeUninit::new(0), std::mem::MaybeUninit::new(null_mut()));
    let (mut list, mut count) = (std::mem::MaybeUninit::new(std::ptr::null()), std::mem::MaybeUninit::new(0));
    let status =
        asked(|status| info(stream, status, Some(&mut id), Some(&mut graph), Some(&mut list), None, Some(&mut count)));
    assert_eq!(status, Ok(1));
    // SAFETY: all were initialized with a value, and the list has the same number of handles.
    unsafe {
        assert_ne!(id.assume_init(), 0);
        let (list, count) = (list.assume_init(), count.assume_init());
        (graph.assume_init(), (0..count).map(|at| *list.add(at)).collect())
    }
}

extern "C" fn count(counter: *mut c_void) {
    // SAFETY: the tests give counters that live long enough.
    unsafe { &*counter.cast::<AtomicUsize>() }.fetch_add(1, Ordering::SeqCst);
}

fn argument(counter: &AtomicUsize) -> *mut c_void {
    (&raw const *counter).cast_mut().cast()
}

/// A user object that counts its end, given to a graph.
fn keep(graph: Handle, counter: &AtomicUsize) {
    let object: Handle = asked(|place| cudaUserObjectCreate(place, argument(counter), Some(count), 1, 1)).unwrap();
    assert_eq!(cudaGraphRetainUserObject(graph, object, 1, 1), 0);
    // The graph has it now.
    assert_eq!(cudaUserObjectRelease(object, 1), errors::INVALID_VALUE);
}

/// As NCCL does from 2.27 on: its own stream joins without dependencies, waits for work outside, and records an event for it.
#[test]
fn a_library_s_stream_takes_part_in_a_capture() {
    let _alone = alone();
    let user = Stream::new();
    let own = asked(|place| cudaStreamCreateWithFlags(place, 1)).unwrap();
    let event = || asked::<Handle>(|place| cudaEventCreateWithFlags(place, 2)).unwrap();
    let (scratch, serial) = (event(), event());
    let (ended, ran) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let update: Update = named(Runtime::V13, "cudaStreamUpdateCaptureDependencies");
    let depend: Depend = named(Runtime::V13, "cudaGraphAddDependencies");
    let record_node: AddEvent = named(Runtime::V13, "cudaGraphAddEventRecordNode");
    assert_eq!(update(own, std::ptr::null(), std::ptr::null(), 0, 1), errors::ILLEGAL_STATE);

    user.begin_capture(CaptureMode::Global).unwrap();
    let (graph, _) = frontier(user.raw());
    assert_eq!((cudaEventRecord(scratch, user.raw()), cudaStreamWaitEvent(own, scratch, 0)), (0, 0));
    assert_eq!(cudaEventQuery(scratch), errors::CAPTURED_EVENT);
    assert_eq!(update(own, std::ptr::null(), std::ptr::null(), 0, 1), 0);
    assert_eq!(cudaStreamWaitEvent(own, serial, 1), 0);
    assert_eq!(launch(cudaLaunchKernel, NOTES, own), 0);
    assert_eq!(cudaLaunchHostFunc(own, Some(count), argument(&ran)), 0);
    let node = asked(|place| record_node(place, graph, std::ptr::null(), 0, serial)).unwrap();
    let (same, nodes) = frontier(own);
    assert_eq!((same, nodes.len()), (graph, 1));
    assert_eq!(depend(graph, nodes.as_ptr(), &node, std::ptr::null(), 1), 0);
    assert_eq!(update(own, &node, std::ptr::null(), 1, 1), 0);
    assert_eq!(update(own, &graph, std::ptr::null(), 1, 1), errors::INVALID_VALUE);
    assert_eq!((cudaEventRecord(scratch, own), cudaStreamWaitEvent(user.raw(), scratch, 0)), (0, 0));
    keep(graph, &ended);
    let captured = user.end_capture().unwrap();
    // Handles end with the capture.
    assert_eq!(asked(|place| record_node(place, graph, std::ptr::null(), 0, serial)), Err::<Handle, _>(1));
    let executable = captured.instantiate();
    drop(captured);

    // A launch waits for records made outside before it, and later waits outside wait for the launch.
    fake::launched();
    let gate = fake::gate();
    let outside = asked(|place| cudaStreamCreateWithFlags(place, 1)).unwrap();
    assert_eq!((launch(cudaLaunchKernel, WAITS, outside), cudaEventRecord(serial, outside)), (0, 0));
    executable.launch(&user).unwrap();
    drop(executable);
    assert_eq!(cudaStreamWaitEvent(outside, serial, 0), 0);
    assert_eq!(cudaStreamQuery(outside), errors::NOT_READY);
    assert_eq!((fake::launched().len(), ran.load(Ordering::SeqCst), ended.load(Ordering::SeqCst)), (0, 0, 0));
    gate.send(()).unwrap();
    assert_eq!((cudaStreamSynchronize(outside), cudaStreamSynchronize(user.raw())), (0, 0));
    assert_eq!((fake::launched().len(), ran.load(Ordering::SeqCst), ended.load(Ordering::SeqCst)), (1, 1, 1));
    for stream in [own, outside] {
        assert_eq!(cudaStreamDestroy(stream), 0);
    }
    assert_eq!((cudaEventDestroy(scratch), cudaEventDestroy(serial)), (0, 0));
}

#[repr(C)]
struct HostNode {
    function: extern "C" fn(*mut c_void),
    argument: *mut c_void,
}

#[repr(C)]
struct KernelNode {
    function: *const (),
    sizes: [c_uint; 6],
    shared: c_uint,
    parameters: In<In<u8>>,
    extra: *const c_void,
}

/// As NCCL does until 2.26: nodes are made one by one, each after the previous one.
#[test]
fn a_library_adds_nodes_to_a_graph() {
    let _alone = alone();
    let user = Stream::new();
    let serial = asked(|place| cudaEventCreateWithFlags(place, 2)).unwrap();
    let (ended, ran) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let wait_node: AddEvent = named(Runtime::V11, "cudaGraphAddEventWaitNode");
    let record_node: AddEvent = named(Runtime::V11, "cudaGraphAddEventRecordNode");
    let host_node: AddOther = named(Runtime::V11, "cudaGraphAddHostNode");
    let kernel_node: AddOther = named(Runtime::V11, "cudaGraphAddKernelNode");
    let update: extern "C" fn(Handle, *const Handle, usize, c_uint) -> c_int =
        named(Runtime::V11, "cudaStreamUpdateCaptureDependencies");

    user.begin_capture(CaptureMode::Global).unwrap();
    let (graph, nodes) = frontier(user.raw());
    assert_eq!(nodes, [], "the stream has captured nothing");
    let mut tip = asked(|place| wait_node(place, graph, nodes.as_ptr(), 0, serial)).unwrap();
    let sizes = [1, 1, 1, 32, 1, 1];
    let node =
        |kernel, parameters| KernelNode { function: kernel, sizes, shared: 5, parameters, extra: std::ptr::null() };
    tip = with_parameters(|parameters| {
        let node = node(fake::stub(NOTES), parameters);
        asked(|place| kernel_node(place, graph, &tip, 1, (&raw const node).cast())).unwrap()
    });
    let wrong = node(null_mut(), In::null());
    let refused = asked::<Handle>(|place| kernel_node(place, graph, &tip, 1, (&raw const wrong).cast()));
    assert_eq!(refused, Err(errors::INVALID_DEVICE_FUNCTION));
    let host = HostNode { function: count, argument: argument(&ran) };
    tip = asked(|place| host_node(place, graph, &tip, 1, (&raw const host).cast())).unwrap();
    tip = asked(|place| record_node(place, graph, &tip, 1, serial)).unwrap();
    assert_eq!(update(user.raw(), &tip, 1, 1), 0);
    assert_eq!(asked(|place| wait_node(place, null_mut(), &tip, 1, serial)), Err::<Handle, _>(errors::INVALID_VALUE));
    keep(graph, &ended);
    let executable = user.end_capture().unwrap().instantiate();

    fake::launched();
    for round in 1..=3 {
        executable.launch(&user).unwrap();
        assert_eq!((cudaStreamSynchronize(user.raw()), cudaEventSynchronize(serial)), (0, 0));
        assert_eq!((fake::launched().len(), ran.load(Ordering::SeqCst)), (1, round));
    }
    assert_eq!(ended.load(Ordering::SeqCst), 0);
    drop(executable);
    assert_eq!(ended.load(Ordering::SeqCst), 1);
    assert_eq!(cudaEventDestroy(serial), 0);
}

#[test]
fn streams_say_whether_they_capture() {
    let is_capturing: IsCapturing = named(Runtime::V12, "cudaStreamIsCapturing");
    let old: extern "C" fn(Handle, Out<'_, c_int>, Out<'_, u64>) -> c_int =
        named(Runtime::V12, "cudaStreamGetCaptureInfo");
    let user = Stream::new();
    assert_eq!(asked(|place| is_capturing(user.raw(), place)), Ok(0));
    assert_eq!(asked(|place| old(user.raw(), place, None)), Ok(0));
    user.begin_capture(CaptureMode::Relaxed).unwrap();
    assert_eq!(asked(|place| is_capturing(user.raw(), place)), Ok(1));
    let mut status = std::mem::MaybeUninit::new(7);
    assert_ne!(asked(|place| old(user.raw(), Some(&mut status), place)), Ok(0));
    // SAFETY: it was initialized with a value.
    assert_eq!(unsafe { status.assume_init() }, 1);
    // Waiting for a stream that is capturing makes the capture invalid.
    assert_eq!(cudaStreamSynchronize(user.raw()), errors::CAPTURE_UNSUPPORTED);
    assert_eq!(asked(|place| is_capturing(user.raw(), place)), Ok(2));
    assert!(user.end_capture().is_err());

    let exchange: extern "C" fn(*mut c_int) -> c_int = named(Runtime::V12, "cudaThreadExchangeStreamCaptureMode");
    let mut mode = 2;
    assert_eq!((exchange(&mut mode), mode), (0, 0));
    assert_eq!((exchange(&mut mode), mode), (0, 2));
    mode = 3;
    assert_eq!((exchange(&mut mode), exchange(null_mut())), (errors::INVALID_VALUE, errors::INVALID_VALUE));
}

#[test]
fn user_objects_end_with_their_last_reference() {
    let ended = AtomicUsize::new(0);
    let create = |references, flags| {
        asked::<Handle>(|place| cudaUserObjectCreate(place, argument(&ended), Some(count), references, flags))
    };
    assert_eq!((create(0, 1), create(1, 0)), (Err(errors::INVALID_VALUE), Err(errors::INVALID_VALUE)));
    let object = create(2, 1).unwrap();
    assert_eq!((cudaUserObjectRetain(object, 1), cudaUserObjectRelease(object, 4)), (0, errors::INVALID_VALUE));
    assert_eq!((cudaUserObjectRelease(object, 2), ended.load(Ordering::SeqCst)), (0, 0));
    assert_eq!(cudaGraphRetainUserObject(null_mut(), object, 1, 1), errors::INVALID_VALUE);
    assert_eq!((cudaUserObjectRelease(object, 1), ended.load(Ordering::SeqCst)), (0, 1));
}
