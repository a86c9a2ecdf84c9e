//! The CUDA driver's functions, all looked up once in the library that cudarc opens.
//!
//! cudarc looks each function up at its first call and panics if one is absent, and its result type knows only the codes
//! of one CUDA release. This module looks up all functions before the first call, and a code is a number.
#![allow(unsafe_code)] // looks functions up and calls them

use cudarc::driver::sys::{
    CUcontext, CUdevice, CUdeviceptr, CUevent, CUgraph, CUgraphExec, CUhostFn, CUstream, CUuuid,
};
use cudarc::driver::sys::{culib, is_culib_present};
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::panic::catch_unwind;

/// CUDA_ERROR_OUT_OF_MEMORY.
pub const OUT_OF_MEMORY: u32 = 2;
/// CUDA_ERROR_NO_DEVICE.
pub const NO_DEVICE: u32 = 100;
/// CUDA_ERROR_NOT_READY.
pub const NOT_READY: u32 = 600;

/// An error of the driver.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("{call}: {name} ({code})")]
pub struct CudaError {
    /// The name of the driver's function.
    pub call: &'static str,
    /// The result code of the call.
    pub code: u32,
    /// The driver's name of the code.
    pub name: String,
}

/// The reason why there is no driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DriverAbsent {
    /// No library with the driver's name was found.
    Library,
    /// The library lacks this function.
    Function(&'static str),
}

macro_rules! functions {
    ($($name:ident $symbol:ident ($($arg:ident: $ty:ty),*);)*) => {
        /// The driver with all its functions.
        pub struct Driver {
            error_name: unsafe extern "C" fn(c_uint, *mut *const c_char) -> c_uint,
            standin: Option<unsafe extern "C" fn() -> *const c_char>,
            $($name: unsafe extern "C" fn($($ty),*) -> c_uint,)*
        }

        impl Driver {
            /// Opens the library and looks up all functions. The library stays open.
            ///
            /// # Errors
            ///
            /// The driver is missing, or it lacks a function.
            pub fn open() -> Result<Self, DriverAbsent> {
                // SAFETY: runs the initialisers of whatever is called libcuda, as requested.
                if !catch_unwind(|| unsafe { is_culib_present() }).unwrap_or(false) {
                    return Err(DriverAbsent::Library);
                }
                // SAFETY: as above. It panics if the library has disappeared in the meantime.
                let library = catch_unwind(|| unsafe { culib() }).map_err(|_| DriverAbsent::Library)?;
                Ok(Self {
                    // SAFETY: the type is that of the driver's documentation.
                    error_name: *unsafe { library.get(b"cuGetErrorName\0") }
                        .map_err(|_| DriverAbsent::Function("cuGetErrorName"))?,
                    // SAFETY: the stand-in driver's own function; no other library has that name.
                    standin: unsafe { library.get(b"collspecStandin\0") }.ok().map(|f| *f),
                    // SAFETY: the types are those of the driver's documentation.
                    $($name: *unsafe { library.get(concat!(stringify!($symbol), "\0").as_bytes()) }
                        .map_err(|_| DriverAbsent::Function(stringify!($symbol)))?,)*
                })
            }

            $(
            /// The driver's function of the similar name.
            ///
            /// # Safety
            /// As the driver's documentation demands of its arguments.
            pub unsafe fn $name(&self, $($arg: $ty),*) -> Result<(), CudaError> {
                // SAFETY: the caller's promise.
                let code = unsafe { (self.$name)($($arg),*) };
                if code == 0 { Ok(()) } else { Err(self.error(stringify!($symbol), code)) }
            }
            )*
        }
    };
}

functions! {
    init cuInit(flags: c_uint);
    driver_version cuDriverGetVersion(out: *mut c_int);
    device_count cuDeviceGetCount(out: *mut c_int);
    device_get cuDeviceGet(out: *mut CUdevice, number: c_int);
    device_name cuDeviceGetName(out: *mut c_char, len: c_int, device: CUdevice);
    device_uuid cuDeviceGetUuid(out: *mut CUuuid, device: CUdevice);
    device_memory cuDeviceTotalMem_v2(out: *mut usize, device: CUdevice);
    device_attribute cuDeviceGetAttribute(out: *mut c_int, which: c_uint, device: CUdevice);
    device_bus_id cuDeviceGetPCIBusId(out: *mut c_char, len: c_int, device: CUdevice);
    device_reaches cuDeviceCanAccessPeer(out: *mut c_int, from: CUdevice, to: CUdevice);
    context_retain cuDevicePrimaryCtxRetain(out: *mut CUcontext, device: CUdevice);
    context_bind cuCtxSetCurrent(context: CUcontext);
    context_push cuCtxPushCurrent_v2(context: CUcontext);
    context_pop cuCtxPopCurrent_v2(out: *mut CUcontext);
    context_current cuCtxGetCurrent(out: *mut CUcontext);
    memory_alloc cuMemAlloc_v2(out: *mut CUdeviceptr, len: usize);
    memory_free cuMemFree_v2(memory: CUdeviceptr);
    memory_info cuMemGetInfo_v2(free: *mut usize, total: *mut usize);
    host_alloc cuMemHostAlloc(out: *mut *mut c_void, len: usize, flags: c_uint);
    host_free cuMemFreeHost(memory: *mut c_void);
    copy_in cuMemcpyHtoDAsync_v2(to: CUdeviceptr, from: *const c_void, len: usize, stream: CUstream);
    copy_out cuMemcpyDtoHAsync_v2(to: *mut c_void, from: CUdeviceptr, len: usize, stream: CUstream);
    copy cuMemcpyDtoDAsync_v2(to: CUdeviceptr, from: CUdeviceptr, len: usize, stream: CUstream);
    stream_create cuStreamCreate(out: *mut CUstream, flags: c_uint);
    stream_destroy cuStreamDestroy_v2(stream: CUstream);
    stream_query cuStreamQuery(stream: CUstream);
    stream_wait cuStreamWaitEvent(stream: CUstream, event: CUevent, flags: c_uint);
    stream_call cuLaunchHostFunc(stream: CUstream, f: CUhostFn, data: *mut c_void);
    capture_begin cuStreamBeginCapture_v2(stream: CUstream, mode: c_uint);
    capture_end cuStreamEndCapture(stream: CUstream, out: *mut CUgraph);
    capture_status cuStreamIsCapturing(stream: CUstream, out: *mut c_uint);
    graph_instantiate cuGraphInstantiateWithFlags(out: *mut CUgraphExec, graph: CUgraph, flags: u64);
    graph_launch cuGraphLaunch(graph: CUgraphExec, stream: CUstream);
    graph_destroy cuGraphDestroy(graph: CUgraph);
    graph_exec_destroy cuGraphExecDestroy(graph: CUgraphExec);
    event_create cuEventCreate(out: *mut CUevent, flags: c_uint);
    event_record cuEventRecord(event: CUevent, stream: CUstream);
    event_query cuEventQuery(event: CUevent);
    event_destroy cuEventDestroy_v2(event: CUevent);
    event_elapsed cuEventElapsedTime(milliseconds: *mut f32, from: CUevent, to: CUevent);
}

impl Driver {
    fn error(&self, call: &'static str, code: u32) -> CudaError {
        let mut name: *const c_char = std::ptr::null();
        // SAFETY: the driver writes a pointer to a static text, or nothing.
        let known = unsafe { (self.error_name)(code, &mut name) } == 0 && !name.is_null();
        // SAFETY: as above.
        let name = known.then(|| unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned());
        CudaError { call, code, name: name.unwrap_or_else(|| "an error without a name".into()) }
    }

    /// The description of the stand-in driver; `None` for any other driver.
    pub fn standin(&self) -> Option<String> {
        // SAFETY: the function takes nothing and answers a static text.
        let text = unsafe { self.standin?() };
        // SAFETY: as above.
        (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
    }
}
