//! Functions of the driver that the runtime hands out: those that NCCL needs. They have no last error.
use super::blocks::Kind;
use super::launch::{Launch, LaunchAttribute};
use super::raw::{In, Room};
use super::{
    Handle, Out, blocks, devices, dma_buf, errors, handles, int, launch, memory, multicast, put, put_if, stream_memory,
    virtual_memory,
};
use crate::api::kernels::Configuration;
use std::ffi::{CStr, c_char, c_int, c_uint};
use std::ptr::without_provenance_mut;

/// Contexts are the devices' primary ones: numbers from here on, never followed.
const FIRST_CONTEXT: usize = 0xc0_0000;

/// CUresult, where it differs from cudaError, or names it otherwise.
const INVALID_CONTEXT: c_int = 201;
const TEXTS: &[(c_int, &CStr, &CStr)] = &[
    (0, c"CUDA_SUCCESS", c"no error"),
    (1, c"CUDA_ERROR_INVALID_VALUE", c"invalid argument"),
    (2, c"CUDA_ERROR_OUT_OF_MEMORY", c"out of memory"),
    (3, c"CUDA_ERROR_NOT_INITIALIZED", c"initialization error"),
    (100, c"CUDA_ERROR_NO_DEVICE", c"no CUDA-capable device is detected"),
    (101, c"CUDA_ERROR_INVALID_DEVICE", c"invalid device ordinal"),
    (201, c"CUDA_ERROR_INVALID_CONTEXT", c"invalid device context"),
    (209, c"CUDA_ERROR_NO_BINARY_FOR_GPU", c"no kernel image is available for execution on the device"),
    (400, c"CUDA_ERROR_INVALID_HANDLE", c"invalid resource handle"),
    (500, c"CUDA_ERROR_NOT_FOUND", c"named symbol not found"),
    (600, c"CUDA_ERROR_NOT_READY", c"device not ready"),
    (700, c"CUDA_ERROR_ILLEGAL_ADDRESS", c"an illegal memory access was encountered"),
    (719, c"CUDA_ERROR_LAUNCH_FAILED", c"unspecified launch failure"),
    (801, c"CUDA_ERROR_NOT_SUPPORTED", c"operation not supported"),
    (900, c"CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", c"operation not permitted when stream is capturing"),
    (901, c"CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", c"operation failed due to a previous error during capture"),
    (999, c"CUDA_ERROR_UNKNOWN", c"unknown error"),
];

fn words(code: c_int) -> Result<(&'static CStr, &'static CStr), c_int> {
    let known = TEXTS.iter().find(|(number, ..)| *number == code);
    known.map(|(_, name, text)| (*name, *text)).ok_or(errors::INVALID_VALUE)
}

/// The CUresult for a cudaError.
pub(super) fn result(code: c_int) -> c_int {
    match code {
        errors::INVALID_CONFIGURATION => errors::INVALID_VALUE,
        errors::INVALID_DEVICE_FUNCTION => errors::INVALID_RESOURCE_HANDLE,
        code => code,
    }
}

pub(super) fn context(device: usize) -> Handle {
    without_provenance_mut(handles::handle(FIRST_CONTEXT, device))
}

/// `CUlaunchConfig`.
#[repr(C)]
#[derive(Clone, Copy)]
struct DriverLaunchConfig {
    grid: [c_uint; 3],
    block: [c_uint; 3],
    shared: c_uint,
    stream: Handle,
    attributes: In<LaunchAttribute>,
    count: c_uint,
}

pub(super) fn device_of(context: Handle) -> Result<usize, c_int> {
    let device = handles::number(FIRST_CONTEXT, context.addr()).map(int).ok_or(INVALID_CONTEXT)?;
    devices::device(device).map_err(|_| INVALID_CONTEXT)
}

/// Defines driver functions, and `functions()`, their names with their addresses.
macro_rules! driver {
    ($($(#[$doc:meta])* fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $body:block)*) => {
        $(
            $(#[$doc])*
            extern "C" fn $name($($arg: $ty),*) -> std::ffi::c_int {
                $crate::api::driver::result($crate::api::contained(move || $body))
            }
        )*
        pub(super) fn functions() -> Vec<(&'static str, *const ())> {
            vec![$((stringify!($name), $name as *const ())),*]
        }
    };
}

pub(super) use driver;

driver! {
    fn cuGetErrorName(code: c_int, place: Out<'_, *const c_char>) { put(place, words(code)?.0.as_ptr()) }
    fn cuGetErrorString(code: c_int, place: Out<'_, *const c_char>) { put(place, words(code)?.1.as_ptr()) }
    fn cuDeviceGet(place: Out<'_, c_int>, number: c_int) { devices::device(number).and_then(|_| put(place, number)) }
    fn cuDeviceGetUuid(place: Room, number: c_int) { place.write(&gpuless_device::uuid(devices::device(number)?)) }
    fn cuDeviceGetAttribute(place: Out<'_, c_int>, attribute: c_int, number: c_int) {
        put(place, devices::attribute(attribute, devices::device(number)?)?)
    }
    fn cuCtxGetCurrent(place: Out<'_, Handle>) { put(place, context(devices::current())) }
    /// Null leaves the thread where it is: every thread has a device.
    fn cuCtxSetCurrent(handle: Handle) {
        if handle.is_null() {
            return Ok(());
        }
        gpuless_device::set_current(device_of(handle)?);
        Ok(())
    }
    fn cuCtxGetDevice(place: Out<'_, c_int>) { put(place, int(devices::current())) }
    fn cuMemGetAddressRange(base: Out<'_, usize>, len: Out<'_, usize>, address: usize) {
        let found = blocks::find(address).filter(|found| found.kind.on_device() || found.kind == Kind::VirtualHost).ok_or(errors::INVALID_VALUE)?;
        put_if(base, found.start);
        put_if(len, found.len);
        Ok(())
    }
    fn cuPointerGetAttribute(place: Room, attribute: c_int, address: usize) {
        memory::pointer_attribute(place, attribute, address)
    }
    fn cuLaunchKernel(
        function: *const (),
        grid_x: c_uint, grid_y: c_uint, grid_z: c_uint,
        block_x: c_uint, block_y: c_uint, block_z: c_uint,
        shared: c_uint,
        stream: Handle,
        parameters: In<In<u8>>,
        extra: In<Handle>,
    ) {
        let configuration = Configuration {
            grid: [grid_x, grid_y, grid_z],
            block: [block_x, block_y, block_z],
            cluster: [1; 3],
            dynamic_shared: shared as usize,
        };
        launch::launch(Launch { function, configuration, parameters, extra, stream, attributes: Vec::new() })
    }
    fn cuLaunchKernelEx(
        config: In<DriverLaunchConfig>,
        function: *const (),
        parameters: In<In<u8>>,
        extra: In<Handle>,
    ) {
        let DriverLaunchConfig { grid, block, shared, stream, attributes, count } = config.get()?;
        let configuration = Configuration { grid, block, cluster: [1; 3], dynamic_shared: shared as usize };
        let attributes = attributes.list(count as usize)?;
        launch::launch(Launch { function, configuration, parameters, extra, stream, attributes })
    }
}

/// A function by its name.
pub(super) fn find(name: &str) -> Option<*const ()> {
    let all = [
        functions(),
        virtual_memory::functions(),
        dma_buf::functions(),
        multicast::functions(),
        stream_memory::functions(),
    ]
    .concat();
    all.into_iter().find(|(known, _)| *known == name).map(|(_, address)| address)
}
