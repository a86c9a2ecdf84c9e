//! The driver's functions for programs that call the driver themselves, over the runtime's.
//!
//! Most take and return the same as a function of the runtime, codes included, and are that function; so an error of theirs is also the
//! runtime's last error. Contexts are the devices' primary ones, and every thread has one from the beginning.
use super::driver::{self, context, device_of, driver};
use super::raw::{Bytes, In, Room, Text};
use super::settings::settings;
use super::streams::Target;
use super::{
    Handle, Out, Outcome, Runtime, blocks, devices, dma_buf, errors, int, kernels, memory, modules, multicast, put,
    put_if, stream_memory, streams, transfer, virtual_memory,
};
use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::{c_int, c_uint, c_ulonglong, c_ushort};
use std::ptr::null_mut;
use std::sync::{Once, OnceLock};

/// The driver's functions that are functions of the runtime.
const SAME: &[(&str, &str)] = &[
    ("cuCtxGetLimit", "cudaDeviceGetLimit"),
    ("cuCtxGetStreamPriorityRange", "cudaDeviceGetStreamPriorityRange"),
    ("cuCtxSetLimit", "cudaDeviceSetLimit"),
    ("cuCtxSynchronize", "cudaDeviceSynchronize"),
    ("cuDeviceCanAccessPeer", "cudaDeviceCanAccessPeer"),
    ("cuDeviceGetByPCIBusId", "cudaDeviceGetByPCIBusId"),
    ("cuDeviceGetCount", "cudaGetDeviceCount"),
    ("cuDeviceGetDefaultMemPool", "cudaDeviceGetDefaultMemPool"),
    ("cuDeviceGetMemPool", "cudaDeviceGetDefaultMemPool"),
    ("cuDeviceGetP2PAttribute", "cudaDeviceGetP2PAttribute"),
    ("cuDeviceGetPCIBusId", "cudaDeviceGetPCIBusId"),
    ("cuDriverGetVersion", "cudaDriverGetVersion"),
    ("cuEventCreate", "cudaEventCreateWithFlags"),
    ("cuEventDestroy", "cudaEventDestroy"),
    ("cuEventElapsedTime", "cudaEventElapsedTime"),
    ("cuEventQuery", "cudaEventQuery"),
    ("cuEventRecord", "cudaEventRecord"),
    ("cuEventRecordWithFlags", "cudaEventRecordWithFlags"),
    ("cuEventSynchronize", "cudaEventSynchronize"),
    ("cuGraphDestroy", "cudaGraphDestroy"),
    ("cuGraphExecDestroy", "cudaGraphExecDestroy"),
    ("cuGraphAddEmptyNode", "cudaGraphAddEmptyNode"),
    ("cuGraphGetNodes", "cudaGraphGetNodes"),
    ("cuGraphInstantiate", "cudaGraphInstantiate"),
    ("cuGraphInstantiateWithFlags", "cudaGraphInstantiateWithFlags"),
    ("cuGraphLaunch", "cudaGraphLaunch"),
    ("cuGraphNodeGetDependencies", "cudaGraphNodeGetDependencies"),
    ("cuGraphNodeGetDependencies_v2", "cudaGraphNodeGetDependencies_v2"),
    ("cuGraphNodeGetType", "cudaGraphNodeGetType"),
    ("cuGraphUpload", "cudaGraphUpload"),
    ("cuIpcCloseMemHandle", "cudaIpcCloseMemHandle"),
    ("cuIpcGetEventHandle", "cudaIpcGetEventHandle"),
    ("cuIpcGetMemHandle", "cudaIpcGetMemHandle"),
    ("cuIpcOpenEventHandle", "cudaIpcOpenEventHandle"),
    ("cuIpcOpenMemHandle", "cudaIpcOpenMemHandle"),
    ("cuLaunchHostFunc", "cudaLaunchHostFunc"),
    ("cuMemAlloc", "cudaMalloc"),
    ("cuMemAllocAsync", "cudaMallocAsync"),
    ("cuMemAllocFromPoolAsync", "cudaMallocFromPoolAsync"),
    ("cuMemAllocHost", "cudaMallocHost"),
    ("cuMemFree", "cudaFree"),
    ("cuMemFreeAsync", "cudaFreeAsync"),
    ("cuMemFreeHost", "cudaFreeHost"),
    ("cuMemGetInfo", "cudaMemGetInfo"),
    ("cuMemHostAlloc", "cudaHostAlloc"),
    ("cuMemHostGetDevicePointer", "cudaHostGetDevicePointer"),
    ("cuMemHostGetFlags", "cudaHostGetFlags"),
    ("cuMemHostRegister", "cudaHostRegister"),
    ("cuMemHostUnregister", "cudaHostUnregister"),
    ("cuMemPoolCreate", "cudaMemPoolCreate"),
    ("cuMemPoolDestroy", "cudaMemPoolDestroy"),
    ("cuMemPoolGetAccess", "cudaMemPoolGetAccess"),
    ("cuMemPoolGetAttribute", "cudaMemPoolGetAttribute"),
    ("cuMemPoolSetAccess", "cudaMemPoolSetAccess"),
    ("cuMemPoolSetAttribute", "cudaMemPoolSetAttribute"),
    ("cuMemPoolTrimTo", "cudaMemPoolTrimTo"),
    ("cuMemsetD8", "cudaMemset"),
    ("cuMemsetD8Async", "cudaMemsetAsync"),
    ("cuProfilerStart", "cudaProfilerStart"),
    ("cuProfilerStop", "cudaProfilerStop"),
    ("cuStreamBeginCapture", "cudaStreamBeginCapture"),
    ("cuStreamCreate", "cudaStreamCreateWithFlags"),
    ("cuStreamCreateWithPriority", "cudaStreamCreateWithPriority"),
    ("cuStreamDestroy", "cudaStreamDestroy"),
    ("cuStreamEndCapture", "cudaStreamEndCapture"),
    ("cuStreamGetCaptureInfo_v2", "cudaStreamGetCaptureInfo_v2"),
    ("cuStreamGetCaptureInfo_v3", "cudaStreamGetCaptureInfo_v3"),
    ("cuStreamGetDevice", "cudaStreamGetDevice"),
    ("cuStreamGetFlags", "cudaStreamGetFlags"),
    ("cuStreamGetId", "cudaStreamGetId"),
    ("cuStreamGetPriority", "cudaStreamGetPriority"),
    ("cuStreamIsCapturing", "cudaStreamIsCapturing"),
    ("cuStreamQuery", "cudaStreamQuery"),
    ("cuStreamSynchronize", "cudaStreamSynchronize"),
    ("cuStreamWaitEvent", "cudaStreamWaitEvent"),
    ("cuThreadExchangeStreamCaptureMode", "cudaThreadExchangeStreamCaptureMode"),
];

/// `CU_GET_PROC_ADDRESS_SUCCESS` and `_SYMBOL_NOT_FOUND`.
const FOUND: c_int = 0;
const NO_SUCH_FUNCTION: c_int = 1;
/// The last of `cudaMemcpyKind`: addresses alone tell the kind of memory.
const ANY_KIND: c_int = 4;
/// The version of contexts since CUDA 3.2.
const CONTEXT_VERSION: c_uint = 3020;

thread_local! {
    /// The devices whose contexts lie below the current one on the thread's stack.
    static BELOW: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

fn below<T>(f: impl FnOnce(&mut Vec<usize>) -> T) -> Result<T, c_int> {
    // A thread that ends has no stack any more.
    BELOW.try_with(|below| f(&mut below.borrow_mut())).map_err(|_| errors::DEVICE_UNINITIALIZED)
}

fn copy_now(to: Bytes, from: Bytes, len: usize) -> Outcome {
    let target = streams::lookup(null_mut())?;
    transfer::copy(&target, to, from, len, ANY_KIND)?;
    streams::synchronize(&target)
}

fn copy_later(to: Bytes, from: Bytes, len: usize, stream: Handle) -> Outcome {
    transfer::copy(&streams::lookup(stream)?, to, from, len, ANY_KIND)
}

/// Fills memory with a value of several bytes.
fn fill(target: &Target, to: Bytes, value: &[u8], count: usize) -> Outcome {
    let bytes = blocks::find(to.address().addr()).map_or(0, |found| found.start + found.len - to.address().addr());
    if count > bytes / value.len() {
        return Err(errors::INVALID_VALUE);
    }
    // The stream copies pageable memory at once.
    let mut pattern = value.repeat(count);
    let from = Bytes::from(pattern.as_mut_slice());
    transfer::copy(target, to, from, pattern.len(), ANY_KIND)
}

/// The function that a program of this version of CUDA means by a name.
fn lookup(name: Text, version: c_int, place: Out<'_, Handle>, status: Out<'_, c_int>) -> Outcome {
    let place = place.ok_or(errors::INVALID_VALUE)?;
    let name = name.get()?;
    let found = driver_function(match name.as_str() {
        "cuGetProcAddress" if version >= 12000 => "cuGetProcAddress_v2",
        "cuStreamGetCaptureInfo" if version >= 12030 => "cuStreamGetCaptureInfo_v3",
        "cuStreamGetCaptureInfo" if version >= 11030 => "cuStreamGetCaptureInfo_v2",
        name => name,
    });
    place.write(found.map_or(null_mut(), |address| address.cast_mut().cast()));
    put_if(status, if found.is_some() { FOUND } else { NO_SUCH_FUNCTION });
    if found.is_some() { Ok(()) } else { Err(errors::SYMBOL_NOT_FOUND) }
}

driver! {
    fn cuInit(flags: c_uint) {
        match (flags, settings().devices) {
            (0, 0) => Err(errors::NO_DEVICE),
            (0, _) => Ok(()),
            _ => Err(errors::INVALID_VALUE),
        }
    }
    fn cuGetProcAddress(name: Text, place: Out<'_, Handle>, version: c_int, _flags: c_ulonglong) {
        lookup(name, version, place, None)
    }
    fn cuGetProcAddress_v2(
        name: Text,
        place: Out<'_, Handle>,
        version: c_int,
        _flags: c_ulonglong,
        status: Out<'_, c_int>,
    ) { lookup(name, version, place, status) }

    /// NVIDIA's runtime needs these private tables, where it could not be replaced.
    fn cuGetExportTable(_table: Out<'_, Handle>, _id: In<u8>) {
        static TOLD: Once = Once::new();
        TOLD.call_once(|| eprintln!("software GPU: a CUDA runtime inside a stripped file calls the driver, which cannot work"));
        Err(errors::NOT_SUPPORTED)
    }

    fn cuDeviceGetName(place: Room, len: c_int, number: c_int) {
        devices::device(number)?;
        place.write_text(len, &settings().name)
    }
    fn cuDeviceTotalMem(place: Out<'_, usize>, number: c_int) {
        devices::device(number)?;
        put(place, settings().memory)
    }
    fn cuDeviceComputeCapability(major: Out<'_, c_int>, minor: Out<'_, c_int>, number: c_int) {
        devices::device(number)?;
        let (first, second) = settings().capability;
        put(major, int(first as usize))?;
        put(minor, int(second as usize))
    }

    fn cuDevicePrimaryCtxRetain(place: Out<'_, Handle>, number: c_int) { put(place, context(devices::device(number)?)) }
    fn cuDevicePrimaryCtxRelease(number: c_int) { devices::device(number).map(|_| ()) }
    fn cuDevicePrimaryCtxSetFlags(number: c_int, _flags: c_uint) { devices::device(number).map(|_| ()) }
    fn cuDevicePrimaryCtxGetState(number: c_int, flags: Out<'_, c_uint>, active: Out<'_, c_int>) {
        devices::device(number)?;
        put(flags, 0)?;
        put(active, 1)
    }
    fn cuCtxPushCurrent(handle: Handle) {
        let device = device_of(handle)?;
        below(|below| below.push(devices::current()))?;
        gpuless_device::set_current(device);
        Ok(())
    }
    fn cuCtxPopCurrent(place: Out<'_, Handle>) {
        put_if(place, context(devices::current()));
        if let Some(device) = below(Vec::pop)? {
            gpuless_device::set_current(device);
        }
        Ok(())
    }
    fn cuCtxGetApiVersion(handle: Handle, version: Out<'_, c_uint>) {
        device_of(handle)?;
        put(version, CONTEXT_VERSION)
    }
    fn cuCtxGetId(handle: Handle, id: Out<'_, c_ulonglong>) {
        let device = if handle.is_null() { devices::current() } else { device_of(handle)? };
        put(id, device as c_ulonglong + 1)
    }
    fn cuCtxGetFlags(flags: Out<'_, c_uint>) { put(flags, 0) }
    /// Every device reaches every other's memory.
    fn cuCtxEnablePeerAccess(peer: Handle, _flags: c_uint) { device_of(peer).map(|_| ()) }
    fn cuCtxDisablePeerAccess(peer: Handle) { device_of(peer).map(|_| ()) }
    fn cuStreamGetCtx(stream: Handle, place: Out<'_, Handle>) { put(place, context(streams::lookup(stream)?.device)) }

    fn cuPointerGetAttributes(count: c_uint, attributes: In<c_int>, places: In<Room>, address: usize) {
        for index in 0..count as usize {
            let (place, attribute) = (places.at(index)?, attributes.at(index)?);
            // Of memory that it does not know, the driver says zero.
            if blocks::find(address).is_some() {
                memory::pointer_attribute(place, attribute, address)?;
            } else {
                place.write(&vec![0; memory::attribute_size(attribute)])?;
            }
        }
        Ok(())
    }
    fn cuMemcpy(to: Bytes, from: Bytes, len: usize) { copy_now(to, from, len) }
    fn cuMemcpyDtoD(to: Bytes, from: Bytes, len: usize) { copy_now(to, from, len) }
    fn cuMemcpyDtoH(to: Bytes, from: Bytes, len: usize) { copy_now(to, from, len) }
    fn cuMemcpyHtoD(to: Bytes, from: Bytes, len: usize) { copy_now(to, from, len) }
    fn cuMemcpyAsync(to: Bytes, from: Bytes, len: usize, stream: Handle) { copy_later(to, from, len, stream) }
    fn cuMemcpyDtoDAsync(to: Bytes, from: Bytes, len: usize, stream: Handle) { copy_later(to, from, len, stream) }
    fn cuMemcpyDtoHAsync(to: Bytes, from: Bytes, len: usize, stream: Handle) { copy_later(to, from, len, stream) }
    fn cuMemcpyHtoDAsync(to: Bytes, from: Bytes, len: usize, stream: Handle) { copy_later(to, from, len, stream) }
    fn cuMemcpyPeerAsync(to: Bytes, there: Handle, from: Bytes, here: Handle, len: usize, stream: Handle) {
        device_of(there).and(device_of(here))?;
        copy_later(to, from, len, stream)
    }
    fn cuMemsetD16(to: Bytes, value: c_ushort, count: usize) {
        let target = streams::lookup(null_mut())?;
        fill(&target, to, &value.to_ne_bytes(), count)?;
        streams::synchronize(&target)
    }
    fn cuMemsetD32(to: Bytes, value: c_uint, count: usize) {
        let target = streams::lookup(null_mut())?;
        fill(&target, to, &value.to_ne_bytes(), count)?;
        streams::synchronize(&target)
    }
    fn cuMemsetD16Async(to: Bytes, value: c_ushort, count: usize, stream: Handle) {
        fill(&streams::lookup(stream)?, to, &value.to_ne_bytes(), count)
    }
    fn cuMemsetD32Async(to: Bytes, value: c_uint, count: usize, stream: Handle) {
        fill(&streams::lookup(stream)?, to, &value.to_ne_bytes(), count)
    }
}

/// All names with their functions.
fn all() -> &'static HashMap<&'static str, usize> {
    static ALL: OnceLock<HashMap<&'static str, usize>> = OnceLock::new();
    ALL.get_or_init(|| {
        // These functions are the same in all versions of the runtime.
        let runtime: HashMap<_, _> = super::functions(Runtime::V12).into_iter().collect();
        let same = SAME.iter().filter_map(|(name, like)| Some((*name, *runtime.get(like)?)));
        let virtual_memory =
            [virtual_memory::functions(), dma_buf::functions(), multicast::functions(), stream_memory::functions()]
                .concat();
        let own = [driver::functions(), modules::functions(), kernels::functions(), functions(), virtual_memory]
            .concat()
            .into_iter();
        own.chain(same).map(|(name, address)| (name, address.expose_provenance())).collect()
    })
}

/// A function of the driver, by its name with or without the suffix of today's version; or one of those with which programs register
/// their kernels.
pub fn driver_function(name: &str) -> Option<*const ()> {
    let all = all();
    let address = all.get(name).or_else(|| all.get(name.strip_suffix("_v2")?))?;
    Some(std::ptr::with_exposed_provenance(*address))
}
