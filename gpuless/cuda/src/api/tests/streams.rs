//! Streams and events.
use super::fake::{self, WAITS};
use super::{alone, asked, driver, launch, named};
use crate::api::devices::cudaSetDevice;
use crate::api::events::*;
use crate::api::pools::cudaDeviceGetDefaultMemPool;
use crate::api::streams::*;
use crate::api::{Handle, Runtime, errors};
use std::ffi::{c_int, c_void};
use std::ptr::{null_mut, without_provenance_mut};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

#[test]
fn streams_are_found_by_handle() {
    cudaSetDevice(3);
    let stream = asked(|place| cudaStreamCreateWithPriority(place, 1, -9)).unwrap();
    cudaSetDevice(0);
    assert_eq!(asked(|place| cudaStreamGetPriority(stream, place)), Ok(-5));
    type Range = extern "C" fn(*mut c_int, *mut c_int) -> c_int;
    let of_driver: Range = driver("cuCtxGetStreamPriorityRange");
    let (mut least, mut greatest) = (7, 7);
    assert_eq!((of_driver(&raw mut least, &raw mut greatest), least, greatest), (0, 0, -5));
    for (asked_for, given) in [(1, 0), (0, 0), (-3, -3), (-5, -5), (c_int::MIN, -5)] {
        let stream = asked(|place| cudaStreamCreateWithPriority(place, 1, asked_for)).unwrap();
        assert_eq!(asked(|place| cudaStreamGetPriority(stream, place)), Ok(given));
        assert_eq!(cudaStreamDestroy(stream), 0);
    }
    assert_eq!(asked(|place| cudaStreamGetPriority(null_mut(), place)), Ok(0));
    assert_eq!(asked(|place| cudaStreamGetFlags(stream, place)), Ok(1));
    assert_eq!(asked(|place| cudaStreamGetDevice(stream, place)), Ok(3));
    assert_eq!((cudaStreamSynchronize(stream), cudaStreamQuery(stream)), (0, 0));
    assert_eq!(cudaStreamDestroy(stream), 0);
    assert_eq!(cudaStreamQuery(stream), errors::INVALID_RESOURCE_HANDLE);
    assert_eq!(cudaStreamDestroy(stream), errors::INVALID_RESOURCE_HANDLE);
    assert_eq!(cudaStreamSynchronize(without_provenance_mut(0x20)), errors::INVALID_RESOURCE_HANDLE);
    assert_eq!(asked::<Handle>(|place| cudaStreamCreateWithFlags(place, 2)), Err(errors::INVALID_VALUE));
    // A stream of gpuless-device is one here, too, but not the runtime's to destroy.
    let user = gpuless_device::Stream::new();
    assert_eq!(cudaStreamSynchronize(user.raw()), 0);
    assert_eq!(cudaStreamDestroy(user.raw()), errors::INVALID_RESOURCE_HANDLE);
}

#[test]
fn null_is_the_device_s_stream_or_the_thread_s() {
    let id = |handle| asked(|place| cudaStreamGetId(handle, place)).unwrap();
    let by_thread: extern "C" fn(Handle, crate::api::Out<'_, u64>) -> c_int =
        named(Runtime::V12, "cudaStreamGetId_ptsz");
    cudaSetDevice(4);
    let (legacy, own) = (without_provenance_mut(1), without_provenance_mut(2));
    let of_device = gpuless_device::Stream::of_device(4).id() as u64;
    assert_eq!((id(null_mut()), id(legacy)), (of_device, of_device));
    assert_ne!(id(own), of_device);
    assert_eq!(asked(|place| by_thread(null_mut(), place)), Ok(id(own)));
    assert_eq!(id(null_mut()), of_device);
    let other = std::thread::spawn(move || {
        cudaSetDevice(4);
        asked(|place| cudaStreamGetId(without_provenance_mut(2), place))
    });
    assert_ne!(other.join().unwrap(), Ok(id(own)));
    cudaSetDevice(5);
    assert_ne!(id(null_mut()), of_device);
}

#[test]
fn a_device_is_waited_for_with_all_its_streams() {
    let _alone = alone();
    cudaSetDevice(5);
    let user = gpuless_device::Stream::new();
    let gate = fake::gate();
    let launch: launch::LaunchKernel = named(Runtime::V13, "cudaLaunchKernel");
    assert_eq!(launch::launch(launch, WAITS, user.raw()), 0);
    let event = asked(|place| cudaEventCreateWithFlags(place, 2)).unwrap();
    assert_eq!(cudaEventRecord(event, user.raw()), 0);
    assert_eq!((cudaStreamQuery(user.raw()), cudaEventQuery(event)), (errors::NOT_READY, errors::NOT_READY));
    // Another device's work is not waited for.
    cudaSetDevice(4);
    assert_eq!(cudaDeviceSynchronize(), 0);
    assert_eq!(cudaEventQuery(event), errors::NOT_READY);
    let ends = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(20));
        gate.send(()).unwrap();
    });
    cudaSetDevice(5);
    assert_eq!(cudaDeviceSynchronize(), 0);
    assert_eq!((cudaEventQuery(event), cudaEventDestroy(event)), (0, 0));
    ends.join().unwrap();
}

extern "C" fn count(counter: *mut c_void) {
    // SAFETY: the test gives a counter that lives until the stream is synchronized.
    unsafe { &*counter.cast::<AtomicUsize>() }.fetch_add(1, Ordering::Relaxed);
}

#[test]
fn events_order_streams_and_measure() {
    let create = || asked(|place| cudaStreamCreateWithFlags(place, 1)).unwrap();
    let (one, other) = (create(), create());
    let event = |flags| asked::<Handle>(|place| cudaEventCreateWithFlags(place, flags));
    let (start, end, plain) = (event(0).unwrap(), event(1).unwrap(), event(2).unwrap());
    assert_eq!(event(8), Err(errors::INVALID_VALUE));
    assert_eq!(event(4), Err(errors::INVALID_VALUE));
    let counter = AtomicUsize::new(0);
    let argument = (&raw const counter).cast_mut().cast();
    let time = |start, end| asked::<f32>(|place| cudaEventElapsedTime(place, start, end));
    assert_eq!(time(start, end), Err(errors::INVALID_RESOURCE_HANDLE));
    assert_eq!(cudaEventRecord(start, one), 0);
    assert_eq!(cudaLaunchHostFunc(one, Some(count), argument), 0);
    assert_eq!(cudaLaunchHostFunc(one, None, argument), errors::INVALID_VALUE);
    assert_eq!(cudaEventRecordWithFlags(plain, one, 1), 0);
    assert_eq!(cudaStreamWaitEvent(other, plain, 0), 0);
    assert_eq!(cudaStreamWaitEvent(other, plain, 4), errors::INVALID_VALUE);
    assert_eq!(cudaEventRecord(end, other), 0);
    assert_eq!(cudaEventSynchronize(end), 0);
    assert_eq!(counter.load(Ordering::Relaxed), 1);
    assert!(time(start, end).unwrap() >= 0.0);
    assert_eq!(time(start, plain), Err(errors::INVALID_RESOURCE_HANDLE));
    for gone in [start, end, plain] {
        assert_eq!(cudaEventDestroy(gone), 0);
    }
    assert_eq!(cudaEventRecord(start, one), errors::INVALID_RESOURCE_HANDLE);
    assert_eq!(cudaEventQuery(null_mut()), errors::INVALID_RESOURCE_HANDLE);
    assert_eq!((cudaStreamDestroy(one), cudaStreamDestroy(other)), (0, 0));
}

/// Programs keep marks of their own in the low bits of handles: PyTorch takes a stream with an odd one for one of its own.
#[test]
fn handles_look_like_aligned_addresses() {
    let stream = || asked::<Handle>(|place| cudaStreamCreateWithPriority(place, 1, 0)).unwrap().addr();
    let event = || asked::<Handle>(|place| cudaEventCreateWithFlags(place, 0)).unwrap().addr();
    let pool = |device| asked::<Handle>(|place| cudaDeviceGetDefaultMemPool(place, device)).unwrap().addr();
    let context = |device| crate::api::driver::context(device).addr();
    let handles = [stream(), stream(), event(), event(), pool(0), pool(7), context(0), context(7)];
    for handle in handles {
        assert!(handle != 0 && handle.is_multiple_of(16), "{handle:#x}");
    }
}
