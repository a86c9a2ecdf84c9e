//! The driver through cudarc's raw layer, as a CUDA program uses it.
use crate::child::{bind, download, upload};
use crate::process::start;
use crate::say;
use cudarc::driver::{result, sys};
use std::ffi::c_void;
use std::sync::{Condvar, Mutex};
use std::time::Instant;

#[test]
fn a_program_works_over_it() {
    let mut child = start("driver", None, &[("COLLSPEC_STANDIN_DEVICES", "3")]);
    assert!(child.end().success(), "{:?}", child.seen);
    assert_eq!(
        child.seen,
        [
            "devices 3, driver 12080",
            "collspec stand-in device, 9.0",
            "without a context: CUDA_ERROR_INVALID_CONTEXT",
            "before the gate opens: event CUDA_ERROR_NOT_READY, other streams finished",
            "after it: [1.0, 2.0, 3.0]",
            "outside: CUDA_ERROR_INVALID_VALUE",
            "no stream: CUDA_ERROR_INVALID_HANDLE",
            "elapsed is a time",
            "done",
        ]
    );
}

#[test]
fn without_devices_it_says_so() {
    let mut child = start("driver", None, &[("COLLSPEC_STANDIN_DEVICES", "0")]);
    assert!(child.end().success());
    assert_eq!(child.seen, ["init: CUDA_ERROR_NO_DEVICE"]);
}

static IS_OPEN: Mutex<bool> = Mutex::new(false);
static OPENED: Condvar = Condvar::new();

/// Blocks until the gate is open.
unsafe extern "C" fn gate(_: *mut c_void) {
    let is_open = IS_OPEN.lock().unwrap();
    drop(OPENED.wait_while(is_open, |is_open| !*is_open).unwrap());
}

fn open_gate() {
    *IS_OPEN.lock().unwrap() = true;
    OPENED.notify_all();
}

fn name<T>(result: Result<T, result::DriverError>) -> String {
    match result {
        Ok(_) => "no error".to_owned(),
        Err(error) => format!("{:?}", error.0),
    }
}

pub fn child() {
    if let Err(error) = result::init() {
        say!("init: {:?}", error.0);
        return;
    }
    let mut version = 0;
    // SAFETY: a place for a number.
    assert_eq!(unsafe { sys::cuDriverGetVersion(&mut version) }, sys::CUresult::CUDA_SUCCESS);
    say!("devices {}, driver {version}", result::device::get_count().unwrap());
    let device = result::device::get(0).unwrap();
    let attribute = |which| {
        // SAFETY: a device that exists.
        unsafe { result::device::get_attribute(device, which) }.unwrap()
    };
    let major = attribute(sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
    let minor = attribute(sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
    say!("{}, {major}.{minor}", result::device::get_name(device).unwrap());
    // SAFETY: nothing is written without a context.
    say!("without a context: {}", name(unsafe { result::malloc_sync(64) }));

    let stream = bind(0);
    let start = result::event::create(sys::CUevent_flags::CU_EVENT_DEFAULT).unwrap();
    let end = result::event::create(sys::CUevent_flags::CU_EVENT_DEFAULT).unwrap();
    let memory = upload(&[1.0, 2.0, 3.0], stream);
    // SAFETY: live streams, events and memory; the gate's function takes no argument.
    unsafe {
        let copy = result::malloc_sync(12).unwrap();
        result::memset_d8_sync(copy, 0xff, 12).unwrap();
        let begun = Instant::now();
        result::event::record(start, stream).unwrap();
        // more blocked streams than the device has threads
        let blocked: Vec<_> = (0..8).map(|_| bind(0)).collect();
        for stream in &blocked {
            result::stream::launch_host_function(*stream, gate, std::ptr::null_mut()).unwrap();
        }
        result::stream::launch_host_function(stream, gate, std::ptr::null_mut()).unwrap();
        result::memcpy_dtod_async(copy, memory, 12, stream).unwrap();
        result::event::record(end, stream).unwrap();
        // a stream that waits for the event, and one that has nothing to do with it
        let (waiter, other) = (bind(0), bind(1));
        result::stream::wait_event(waiter, end, sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT).unwrap();
        let elsewhere = upload(&[5.0], other);
        assert_eq!(download(elsewhere, 1, other), [5.0]);
        let now = sys::cuStreamQuery(waiter);
        assert_eq!(now, sys::CUresult::CUDA_ERROR_NOT_READY);
        say!("before the gate opens: event {}, other streams finished", name(result::event::query(end)));
        open_gate();
        result::stream::synchronize(waiter).unwrap();
        say!("after it: {:?}", download(copy, 3, waiter));
        say!("outside: {}", name(result::memcpy_dtod_async(copy + 4, memory, 12, stream)));
        say!("no stream: {}", name(result::stream::synchronize(std::ptr::without_provenance_mut(77))));
        let milliseconds = result::event::elapsed(start, end).unwrap();
        // both events happened since `begun`; one part in a thousand is for the rounding to float
        let since = begun.elapsed().as_secs_f32() * 1001.0;
        assert!(milliseconds > 0.0 && milliseconds < since, "{milliseconds} ms, while {since} ms passed");
        say!("elapsed is a time");
        let pinned = result::malloc_host(12, 0).unwrap();
        result::memcpy_dtoh_async(std::slice::from_raw_parts_mut(pinned.cast::<f32>(), 3), copy, stream).unwrap();
        result::stream::synchronize(stream).unwrap();
        assert_eq!(std::slice::from_raw_parts(pinned.cast::<f32>(), 3), [1.0, 2.0, 3.0]);
        result::free_host(pinned).unwrap();
        for memory in [memory, copy] {
            result::free_sync(memory).unwrap();
        }
        assert_eq!(name(result::free_sync(copy)), "CUDA_ERROR_INVALID_VALUE");
        for stream in blocked.into_iter().chain([stream, waiter]) {
            result::stream::destroy(stream).unwrap();
        }
        result::event::destroy(start).unwrap();
        result::event::destroy(end).unwrap();
    }
    say!("done");
}
