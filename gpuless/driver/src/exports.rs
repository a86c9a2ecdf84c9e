//! The functions of the driver and of NVML under their own names. Each jumps to the function of `gpuless-cuda`, which its first call looks up.
//!
//! And those of the runtime's library with which programs and libraries register their kernels: this library is searched before the
//! runtime's, so that nothing is registered there before the runtime's functions are replaced.
#![allow(unsafe_code)] // exported C functions

use gpuless_cuda::api::driver_function;
use gpuless_cuda::nvml_function;
use std::ffi::c_void;
use std::sync::atomic::{AtomicPtr, Ordering};

/// A function of the driver. The code of the exported function knows that the target comes first.
#[repr(C)]
pub struct Export {
    target: AtomicPtr<c_void>,
    name: &'static str,
}

impl Export {
    pub const fn new(name: &'static str) -> Self {
        Self { target: AtomicPtr::new(first_call as *mut c_void), name }
    }
}

/// The target before the first call, which keeps the registers of the call's arguments. The export is in r11.
#[unsafe(naked)]
unsafe extern "C" fn first_call() {
    core::arch::naked_asm!(
        "push rdi",
        "push rsi",
        "push rdx",
        "push rcx",
        "push r8",
        "push r9",
        "sub rsp, 8",
        "mov rdi, r11",
        "call {find}",
        "add rsp, 8",
        "pop r9",
        "pop r8",
        "pop rcx",
        "pop rdx",
        "pop rsi",
        "pop rdi",
        "jmp rax",
        find = sym find,
    )
}

/// A function of the driver, or of NVML.
fn function(name: &str) -> Option<*const ()> {
    nvml_function(name).or_else(|| driver_function(name))
}

extern "C" fn find(export: &Export) -> *mut c_void {
    let target = function(export.name).unwrap_or_else(|| {
        eprintln!("software GPU: {} is not supported", export.name);
        not_supported as *const ()
    });
    let target = target.cast_mut().cast();
    export.target.store(target, Ordering::Release);
    target
}

/// `CUDA_ERROR_NOT_SUPPORTED`.
extern "C" fn not_supported() -> std::ffi::c_int {
    801
}

macro_rules! exports {
    ($($name:ident)*) => {
        #[allow(non_upper_case_globals)]
        mod by_name {
            $(pub(super) static $name: $crate::exports::Export = $crate::exports::Export::new(stringify!($name));)*
        }
        $(
            #[allow(non_snake_case)]
            #[unsafe(naked)]
            #[cfg_attr(not(test), unsafe(no_mangle))]
            #[cfg_attr(test, allow(dead_code))]
            unsafe extern "C" fn $name() {
                core::arch::naked_asm!("lea r11, [rip + {export}]", "jmp qword ptr [r11]", export = sym by_name::$name)
            }
        )*
        #[cfg(test)]
        const NAMES: &[&str] = &[$(stringify!($name)),*];
    };
}
pub(crate) use exports;

exports! {
    cuCtxDisablePeerAccess cuCtxEnablePeerAccess cuCtxGetApiVersion cuCtxGetCurrent cuCtxGetDevice cuCtxGetFlags cuCtxGetId
    cuCtxGetLimit cuCtxGetStreamPriorityRange cuCtxPopCurrent cuCtxPopCurrent_v2 cuCtxPushCurrent cuCtxPushCurrent_v2
    cuCtxSetCurrent cuCtxSetLimit cuCtxSynchronize
    cuDeviceCanAccessPeer cuDeviceComputeCapability cuDeviceGet cuDeviceGetAttribute cuDeviceGetByPCIBusId cuDeviceGetCount
    cuDeviceGetDefaultMemPool cuDeviceGetMemPool cuDeviceGetName cuDeviceGetP2PAttribute cuDeviceGetPCIBusId cuDeviceGetUuid
    cuDeviceGetUuid_v2 cuDevicePrimaryCtxGetState cuDevicePrimaryCtxRelease cuDevicePrimaryCtxRelease_v2
    cuDevicePrimaryCtxRetain cuDevicePrimaryCtxSetFlags cuDevicePrimaryCtxSetFlags_v2 cuDeviceTotalMem cuDeviceTotalMem_v2
    cuDriverGetVersion
    cuEventCreate cuEventDestroy cuEventDestroy_v2 cuEventElapsedTime cuEventElapsedTime_v2 cuEventQuery cuEventRecord
    cuEventRecordWithFlags cuEventSynchronize
    cuFuncGetAttribute cuFuncSetAttribute cuKernelGetAttribute cuKernelGetFunction cuKernelSetAttribute cuLaunchKernel
    cuLaunchKernelEx cuLibraryGetKernel cuLibraryGetModule cuLibraryLoadData cuLibraryUnload cuModuleGetFunction
    cuModuleGetGlobal cuModuleGetGlobal_v2 cuModuleLoadData cuModuleLoadDataEx cuModuleUnload
    cuGetErrorName cuGetErrorString cuGetExportTable cuGetProcAddress cuGetProcAddress_v2 cuInit
    cuGraphAddEmptyNode cuGraphDestroy cuGraphExecDestroy cuGraphGetNodes cuGraphInstantiate cuGraphInstantiateWithFlags cuGraphInstantiate_v2 cuGraphLaunch
    cuGraphNodeGetDependencies cuGraphNodeGetDependencies_v2 cuGraphNodeGetType
    cuGraphUpload cuIpcCloseMemHandle cuIpcGetEventHandle cuIpcGetMemHandle cuIpcOpenEventHandle cuIpcOpenMemHandle cuIpcOpenMemHandle_v2 cuLaunchHostFunc
    cuMemAlloc cuMemAlloc_v2 cuMemAllocAsync cuMemAllocFromPoolAsync cuMemAllocHost cuMemAllocHost_v2 cuMemFree cuMemFree_v2
    cuMemFreeAsync cuMemFreeHost cuMemGetAddressRange cuMemGetAddressRange_v2 cuMemGetInfo cuMemGetInfo_v2 cuMemHostAlloc
    cuMemHostGetDevicePointer cuMemHostGetDevicePointer_v2 cuMemHostGetFlags cuMemHostRegister cuMemHostRegister_v2
    cuMemHostUnregister cuMemPoolCreate cuMemPoolDestroy cuMemPoolGetAccess cuMemPoolGetAttribute cuMemPoolSetAccess cuMemPoolSetAttribute cuMemPoolTrimTo
    cuMemcpy cuMemcpyAsync cuMemcpyDtoD cuMemcpyDtoD_v2 cuMemcpyDtoDAsync cuMemcpyDtoDAsync_v2 cuMemcpyDtoH cuMemcpyDtoH_v2
    cuMemcpyDtoHAsync cuMemcpyDtoHAsync_v2 cuMemcpyHtoD cuMemcpyHtoD_v2 cuMemcpyHtoDAsync cuMemcpyHtoDAsync_v2
    cuMemcpyPeerAsync cuMemsetD16 cuMemsetD16_v2 cuMemsetD16Async cuMemsetD32 cuMemsetD32_v2 cuMemsetD32Async cuMemsetD8
    cuMemsetD8_v2 cuMemsetD8Async
    cuPointerGetAttribute cuPointerGetAttributes cuProfilerStart cuProfilerStop
    cuStreamBeginCapture cuStreamBeginCapture_v2 cuStreamEndCapture cuStreamGetCaptureInfo_v2 cuStreamGetCaptureInfo_v3
    cuStreamCreate cuStreamCreateWithPriority cuStreamDestroy cuStreamDestroy_v2 cuStreamGetCtx cuStreamGetDevice
    cuStreamGetFlags cuStreamGetId cuStreamGetPriority cuStreamIsCapturing cuStreamQuery cuStreamSynchronize
    cuStreamWaitEvent cuThreadExchangeStreamCaptureMode
    cuMemAddressFree cuMemAddressReserve cuMemCreate cuMemExportToShareableHandle cuMemGetAccess
    cuMemGetAllocationGranularity cuMemGetAllocationPropertiesFromHandle cuMemGetHandleForAddressRange cuMemImportFromShareableHandle cuMemMap
    cuMemRelease cuMemRetainAllocationHandle cuMemSetAccess cuMemUnmap cuMulticastAddDevice cuMulticastBindAddr
    cuMulticastBindMem cuMulticastCreate cuMulticastGetGranularity cuMulticastUnbind cuStreamBatchMemOp
    cuStreamBatchMemOp_v2 cuStreamWaitValue32 cuStreamWaitValue32_v2 cuStreamWaitValue64 cuStreamWaitValue64_v2
    cuStreamWriteValue32 cuStreamWriteValue32_v2 cuStreamWriteValue64 cuStreamWriteValue64_v2
    nvmlDeviceGetCount nvmlDeviceGetCount_v2 nvmlDeviceGetCudaComputeCapability nvmlDeviceGetCurrPcieLinkGeneration
    nvmlDeviceGetCurrPcieLinkWidth nvmlDeviceGetFieldValues nvmlDeviceGetGpuFabricInfoV nvmlDeviceGetHandleByIndex
    nvmlDeviceGetHandleByIndex_v2 nvmlDeviceGetHandleByPciBusId nvmlDeviceGetHandleByPciBusId_v2 nvmlDeviceGetHandleByUUID
    nvmlDeviceGetIndex nvmlDeviceGetMemoryErrorCounter nvmlDeviceGetMemoryInfo nvmlDeviceGetMemoryInfo_v2 nvmlDeviceGetName
    nvmlDeviceGetNvLinkCapability nvmlDeviceGetNvLinkRemoteDeviceType nvmlDeviceGetNvLinkRemotePciInfo
    nvmlDeviceGetNvLinkRemotePciInfo_v2 nvmlDeviceGetNvLinkState nvmlDeviceGetP2PStatus nvmlDeviceGetPciInfo
    nvmlDeviceGetPciInfoExt nvmlDeviceGetPciInfo_v2 nvmlDeviceGetPciInfo_v3 nvmlDeviceGetPcieLinkMaxSpeed
    nvmlDeviceGetPlatformInfo nvmlDeviceGetUUID nvmlErrorString nvmlInit nvmlInitWithFlags nvmlInit_v2 nvmlShutdown
    nvmlSystemGetConfComputeSettings nvmlSystemGetConfComputeState nvmlSystemGetDriverVersion nvmlSystemGetNVMLVersion
    __cudaInitModule __cudaRegisterFatBinary __cudaRegisterFatBinaryEnd __cudaRegisterFunction __cudaRegisterHostVar
    __cudaRegisterManagedVar __cudaRegisterSurface __cudaRegisterTexture __cudaRegisterUnifiedTable __cudaRegisterVar
    __cudaUnregisterFatBinary
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_exported_function_is_there() {
        let missing: Vec<_> = NAMES.iter().filter(|name| function(name).is_none()).collect();
        assert!(missing.is_empty(), "{missing:?}");
    }
}
