//! Kernels.
use super::fake::{self, DROPPED, FAILS, Launched, MISSING, NOTES};
use super::{alone, asked, named};
use crate::api::devices::cudaSetDevice;
use crate::api::events::*;
use crate::api::launch::*;
use crate::api::memory::*;
use crate::api::raw::{Bytes, In, Room};
use crate::api::streams::*;
use crate::api::transfer::*;
use crate::api::{Configuration, Handle, Runtime, errors, failures, forget_failures};
use std::ffi::{c_int, c_uint, c_void};
use std::ptr::null_mut;

pub type LaunchKernel = extern "C" fn(*const (), Dimensions, Dimensions, In<In<u8>>, usize, Handle) -> c_int;

const ONE: Dimensions = Dimensions { x: 1, y: 1, z: 1 };

/// Launches a kernel with the parameters 0x1122334455667788, 9 and 10.
pub fn launch(function: LaunchKernel, kernel: usize, stream: Handle) -> c_int {
    with_parameters(|list| function(fake::stub(kernel), ONE, Dimensions { x: 32, y: 2, z: 1 }, list, 100, stream))
}

pub fn with_parameters<T>(f: impl FnOnce(In<In<u8>>) -> T) -> T {
    let (first, second, third) = (0x1122_3344_5566_7788u64, 9u8, 10u32);
    let list: [*const c_void; 3] = [(&raw const first).cast(), (&raw const second).cast(), (&raw const third).cast()];
    f(In::of((&raw const list).cast()))
}

fn packed() -> Vec<u8> {
    let mut block = 0x1122_3344_5566_7788u64.to_ne_bytes().to_vec();
    block.extend([9, 0, 0, 0]);
    block.extend(10u32.to_ne_bytes());
    block
}

/// `cudaLaunchConfig_t` and `CUlaunchConfig`, which differ only in the place of the dynamic memory.
#[repr(C)]
struct Config<S> {
    sizes: [c_uint; 6],
    shared: S,
    stream: Handle,
    attributes: *const Attribute,
    count: c_uint,
}

#[repr(C)]
struct Attribute {
    id: c_int,
    unused: c_int,
    value: [u64; 8],
}

#[test]
fn all_ways_to_launch_a_kernel_are_one() {
    let _alone = alone();
    cudaSetDevice(2);
    let stream = asked(|place| cudaStreamCreateWithFlags(place, 1)).unwrap();
    let event = asked(|place| cudaEventCreateWithFlags(place, 2)).unwrap();
    cudaSetDevice(0);
    fake::launched();
    assert_eq!(launch(cudaLaunchKernel, NOTES, stream), 0);
    let mut value = [0; 8];
    (value[0], value[1]) = (2 | 1 << 32, 1);
    let cluster = Attribute { id: 4, unused: 0, value };
    let begun = Attribute { id: 12, unused: 0, value: [event.addr() as u64, 0, 0, 0, 0, 0, 0, 0] };
    let attributes = [cluster, begun];
    let (attributes, count) = (attributes.as_ptr(), 2);
    let config = Config { sizes: [4, 1, 1, 64, 1, 1], shared: 7usize, stream, attributes, count };
    let launched =
        with_parameters(|list| cudaLaunchKernelExC(In::of((&raw const config).cast()), fake::stub(NOTES), list));
    assert_eq!(launched, 0);
    let driver = |name| -> Handle {
        let find: extern "C" fn(*const i8, crate::api::Out<'_, Handle>, u64, *mut c_int) -> c_int =
            named(Runtime::V12, "cudaGetDriverEntryPoint");
        asked(|place| find(name, place, 0, null_mut())).unwrap()
    };
    type DriverLaunch = extern "C" fn(*const Config<c_uint>, Handle, *mut c_void, *const *const c_void) -> c_int;
    // SAFETY: the driver's function of this name.
    let driver: DriverLaunch = unsafe { std::mem::transmute(driver(c"cuLaunchKernelEx".as_ptr())) };
    let function: Handle = asked(|place| cudaGetFuncBySymbol(place, fake::stub(NOTES))).unwrap();
    let config = Config { sizes: [4, 1, 1, 64, 1, 1], shared: 7u32, stream, attributes, count };
    let (block, len) = (packed(), 16usize);
    let mark = |number| std::ptr::without_provenance::<c_void>(number);
    let extra = [mark(1), block.as_ptr().cast(), mark(2), (&raw const len).cast(), mark(0)];
    assert_eq!(driver(&config, function, null_mut(), extra.as_ptr()), 0);
    // A mark that is not known, and a function that is not one.
    let wrong = [mark(3), mark(0)];
    assert_eq!(driver(&config, function, null_mut(), wrong.as_ptr()), errors::INVALID_VALUE);
    assert_eq!(driver(&config, null_mut(), null_mut(), extra.as_ptr()), errors::INVALID_RESOURCE_HANDLE);

    assert_eq!((cudaStreamSynchronize(stream), cudaEventQuery(event)), (0, 0));
    let (parameters, device) = (packed(), 2);
    let plain = Configuration { grid: [1; 3], block: [32, 2, 1], cluster: [1; 3], dynamic_shared: 100 };
    let large = Configuration { grid: [4, 1, 1], block: [64, 1, 1], cluster: [2, 1, 1], dynamic_shared: 7 };
    let made = |configuration| Launched { device, configuration, parameters: parameters.clone() };
    assert_eq!(fake::launched(), [made(plain), made(large), made(large)]);
    assert_eq!((cudaEventDestroy(event), cudaStreamDestroy(stream)), (0, 0));
}

#[test]
fn launches_that_cannot_be_are_refused() {
    let launch = |kernel, grid, block, shared| {
        let sized = |x| Dimensions { x, y: 1, z: 1 };
        with_parameters(|list| cudaLaunchKernel(kernel, sized(grid), sized(block), list, shared, null_mut()))
    };
    let kernel = fake::stub(NOTES);
    assert_eq!(launch(kernel, 0, 32, 0), errors::INVALID_CONFIGURATION);
    assert_eq!(launch(kernel, 1, 0, 0), errors::INVALID_CONFIGURATION);
    // This kernel has 640 threads at most.
    assert_eq!(launch(kernel, 1, 641, 0), errors::INVALID_CONFIGURATION);
    assert_eq!(launch(kernel, 1, 32, 227 << 10), errors::INVALID_VALUE);
    assert_eq!(launch(null_mut(), 1, 32, 0), errors::INVALID_DEVICE_FUNCTION);
    assert_eq!(launch(fake::stub(MISSING), 1, 32, 0), errors::NO_KERNEL_IMAGE);
    assert_eq!(
        cudaLaunchKernel(kernel, ONE, ONE, In::of([In::null(); 3].as_ptr()), 0, null_mut()),
        errors::INVALID_VALUE
    );
}

#[test]
fn kernels_say_what_they_are_like() {
    type Get = extern "C" fn(Room, *const ()) -> c_int;
    let mut bytes = [0xaau8; 150];
    for (runtime, len) in [(Runtime::V13, 144), (Runtime::V12, 144), (Runtime::V11, 56)] {
        bytes.fill(0xaa);
        let get: Get = named(runtime, "cudaFuncGetAttributes");
        assert_eq!(get(Room::of(bytes.as_mut_ptr()), fake::stub(NOTES)), 0);
        assert_eq!((bytes[55], bytes[len - 1], bytes[len]), (0, 0, 0xaa));
    }
    let number = |offset: usize| c_int::from_ne_bytes(bytes[offset..offset + 4].try_into().unwrap());
    let found = [0, 8, 16, 24, 28, 32, 36, 44].map(number);
    assert_eq!(found, [1000, 16, 32, 640, 96, 120, 120, (227 << 10) - 1000]);
    let unknown = (&raw const bytes).cast();
    let get: Get = named(Runtime::V12, "cudaFuncGetAttributes");
    assert_eq!(get(Room::of(bytes.as_mut_ptr()), unknown), errors::INVALID_DEVICE_FUNCTION);
    assert_eq!(asked::<Handle>(|place| cudaGetFuncBySymbol(place, unknown)), Err(errors::INVALID_DEVICE_FUNCTION));
    let set = |attribute, value| cudaFuncSetAttribute(fake::stub(NOTES), attribute, value);
    assert_eq!((set(8, 200 << 10), set(8, 227 << 10), set(9, 50), set(3, 0)), (0, 1, 0, 1));
    let occupancy = |threads, shared| {
        asked(|place| cudaOccupancyMaxActiveBlocksPerMultiprocessor(place, fake::stub(NOTES), threads, shared))
    };
    assert_eq!((occupancy(512, 0), occupancy(32, 100 << 10), occupancy(2000, 0)), (Ok(4), Ok(2), Ok(0)));
    assert_eq!(occupancy(0, 0), Err(errors::INVALID_VALUE));
}

#[test]
fn a_failure_stays_with_its_device() {
    let _alone = alone();
    for (kernel, name, text) in [
        (FAILS, "fails", "line 7: an address outside of all memory"),
        (DROPPED, "dropped", "whoever executes it has given it up"),
    ] {
        cudaSetDevice(7);
        let block = asked(|place| cudaMalloc(place, 64)).unwrap();
        let stream = asked(|place| cudaStreamCreate(place)).unwrap();
        assert_eq!(launch(cudaLaunchKernel, kernel, stream), 0);
        assert_eq!(cudaStreamSynchronize(stream), errors::LAUNCH_FAILURE);
        let failed = failures();
        assert_eq!((failed.len(), failed[0].device), (1, 7));
        assert_eq!((failed[0].kernel.as_str(), failed[0].text.as_str()), (name, text));
        fake::launched();
        assert_eq!(launch(cudaLaunchKernel, NOTES, stream), errors::LAUNCH_FAILURE);
        assert_eq!(cudaMemset(Bytes::of(block), 0, 64), errors::LAUNCH_FAILURE);
        assert_eq!(cudaStreamQuery(stream), errors::LAUNCH_FAILURE);
        assert_eq!(asked::<Handle>(|place| cudaMalloc(place, 64)), Err(errors::LAUNCH_FAILURE));
        let last: extern "C" fn() -> c_int = named(Runtime::V12, "cudaGetLastError");
        assert_eq!((last(), last()), (errors::LAUNCH_FAILURE, errors::LAUNCH_FAILURE));
        // The failed device's resources can be released, and other devices continue.
        assert_eq!((cudaFree(block), cudaStreamDestroy(stream)), (0, 0));
        cudaSetDevice(0);
        assert_eq!((cudaDeviceSynchronize(), launch(cudaLaunchKernel, NOTES, null_mut())), (0, 0));
        assert_eq!(cudaStreamSynchronize(null_mut()), 0);
        assert_eq!(fake::launched().len(), 1);
        forget_failures();
        cudaSetDevice(7);
        assert_eq!((last(), cudaDeviceSynchronize()), (0, 0));
    }
}
