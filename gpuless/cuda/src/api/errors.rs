//! cudaError: codes, their names and words, each thread's last one, and failures of devices.
use super::settings::settings;
use super::{Outcome, contained, runtime};
use gpuless_device::refusals;
use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int};
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

macro_rules! codes {
    ($($short:ident $number:literal $name:literal $text:literal;)*) => {
        $(
            #[allow(dead_code)] // those of captures come from gpuless-device
            pub(super) const $short: c_int = $number;
        )*
        const TEXTS: &[(c_int, &CStr, &CStr)] = &[$(($number, $name, $text)),*];
    };
}

codes! {
    SUCCESS 0 c"cudaSuccess" c"no error";
    INVALID_VALUE 1 c"cudaErrorInvalidValue" c"invalid argument";
    MEMORY_ALLOCATION 2 c"cudaErrorMemoryAllocation" c"out of memory";
    INVALID_CONFIGURATION 9 c"cudaErrorInvalidConfiguration" c"invalid configuration argument";
    INVALID_SYMBOL 13 c"cudaErrorInvalidSymbol" c"invalid device symbol";
    INVALID_DEVICE_FUNCTION 98 c"cudaErrorInvalidDeviceFunction" c"invalid device function";
    NO_DEVICE 100 c"cudaErrorNoDevice" c"no CUDA-capable device is detected";
    INVALID_DEVICE 101 c"cudaErrorInvalidDevice" c"invalid device ordinal";
    DEVICE_UNINITIALIZED 201 c"cudaErrorDeviceUninitialized" c"invalid device context";
    NO_KERNEL_IMAGE 209 c"cudaErrorNoKernelImageForDevice" c"no kernel image is available for execution on the device";
    INVALID_RESOURCE_HANDLE 400 c"cudaErrorInvalidResourceHandle" c"invalid resource handle";
    ILLEGAL_STATE 401 c"cudaErrorIllegalState" c"the operation cannot be performed in the present state";
    SYMBOL_NOT_FOUND 500 c"cudaErrorSymbolNotFound" c"named symbol not found";
    NOT_READY 600 c"cudaErrorNotReady" c"device not ready";
    PEER_ACCESS_ALREADY_ENABLED 704 c"cudaErrorPeerAccessAlreadyEnabled" c"peer access is already enabled";
    PEER_ACCESS_NOT_ENABLED 705 c"cudaErrorPeerAccessNotEnabled" c"peer access has not been enabled";
    HOST_MEMORY_ALREADY_REGISTERED 712 c"cudaErrorHostMemoryAlreadyRegistered" c"part or all of the requested memory range is already mapped";
    HOST_MEMORY_NOT_REGISTERED 713 c"cudaErrorHostMemoryNotRegistered" c"pointer does not correspond to a registered memory region";
    LAUNCH_FAILURE 719 c"cudaErrorLaunchFailure" c"unspecified launch failure";
    NOT_SUPPORTED 801 c"cudaErrorNotSupported" c"operation not supported";
    CAPTURE_UNSUPPORTED 900 c"cudaErrorStreamCaptureUnsupported" c"operation not permitted when stream is capturing";
    CAPTURE_INVALIDATED 901 c"cudaErrorStreamCaptureInvalidated" c"operation failed due to a previous error during capture";
    CAPTURE_MERGE 902 c"cudaErrorStreamCaptureMerge" c"operation would result in a merge of separate capture sequences";
    CAPTURE_UNMATCHED 903 c"cudaErrorStreamCaptureUnmatched" c"capture was not initiated in this stream";
    CAPTURE_UNJOINED 904 c"cudaErrorStreamCaptureUnjoined" c"capturing stream has unjoined work";
    CAPTURE_ISOLATION 905 c"cudaErrorStreamCaptureIsolation" c"dependency created on uncaptured work in another stream";
    CAPTURE_IMPLICIT 906 c"cudaErrorStreamCaptureImplicit" c"operation would make the legacy stream depend on a capturing blocking stream";
    CAPTURED_EVENT 907 c"cudaErrorCapturedEvent" c"operation not permitted on an event last recorded in a capturing stream";
    CAPTURE_WRONG_THREAD 908 c"cudaErrorStreamCaptureWrongThread" c"attempt to terminate a thread-local capture sequence from another thread";
    UNKNOWN 999 c"cudaErrorUnknown" c"unknown error";
}

thread_local! {
    static LAST: Cell<c_int> = const { Cell::new(SUCCESS) };
}

/// The error for what the system has refused, which is noted if the machine has no more of it.
pub(super) fn refused(what: &str, bytes: usize, error: &io::Error) -> c_int {
    refusals::note(what, bytes, error);
    MEMORY_ALLOCATION
}

/// Records the result of a call as the thread's last error, unless it is success.
pub(super) fn note(code: c_int) {
    if code != SUCCESS {
        // A thread that ends has no last error any more.
        let _ = LAST.try_with(|last| last.set(code));
    }
}

/// A failure that makes a device's calls fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The device's number.
    pub device: usize,
    /// The kernel that failed.
    pub kernel: String,
    /// A description of the failure.
    pub text: String,
}

static FAILURES: Mutex<Vec<Failure>> = Mutex::new(Vec::new());
/// Limit on the stored failures, so that a device whose every launch fails does not fill memory with texts.
const MOST_FAILURES: usize = 1000;

fn locked() -> MutexGuard<'static, Vec<Failure>> {
    FAILURES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A kernel has failed: the calls of its device fail from now on.
pub(super) fn fail(failure: Failure) {
    let mut failures = locked();
    let same = |known: &Failure| (known.device, &known.kernel) == (failure.device, &failure.kernel);
    if settings().tells_failures && !failures.iter().any(same) {
        eprintln!("software GPU: kernel {} on device {}: {}", failure.kernel, failure.device, failure.text);
    }
    if failures.len() < MOST_FAILURES {
        failures.push(failure);
    }
}

/// The failures of kernels since the last [`forget_failures`], in the order in which they happened.
pub fn failures() -> Vec<Failure> {
    locked().clone()
}

/// Makes all devices usable again after failures; a real device recovers only in a new process.
pub fn forget_failures() {
    locked().clear();
}

/// An error if a kernel of this device has failed.
pub(super) fn check(device: usize) -> Outcome {
    let failed = locked().iter().any(|failure| failure.device == device);
    if failed { Err(LAUNCH_FAILURE) } else { Ok(()) }
}

fn words(code: c_int) -> (&'static CStr, &'static CStr) {
    let known = TEXTS.iter().find(|(number, ..)| *number == code);
    known.map_or((c"unrecognized error code", c"unrecognized error code"), |(_, name, text)| (*name, *text))
}

extern "C" fn cudaGetErrorName(code: c_int) -> *const c_char {
    words(code).0.as_ptr()
}

extern "C" fn cudaGetErrorString(code: c_int) -> *const c_char {
    words(code).1.as_ptr()
}

/// The thread's last error, which is forgotten.
extern "C" fn cudaGetLastError() -> c_int {
    contained(|| match LAST.try_with(|last| last.replace(SUCCESS)) {
        Ok(SUCCESS) | Err(_) => check(super::devices::current()),
        Ok(code) => Err(code),
    })
}

extern "C" fn cudaPeekAtLastError() -> c_int {
    contained(|| match LAST.try_with(Cell::get) {
        Ok(SUCCESS) | Err(_) => check(super::devices::current()),
        Ok(code) => Err(code),
    })
}

mod plain {
    use super::runtime;
    runtime! {
        fn cudaProfilerStart() { Ok(()) }
        fn cudaProfilerStop() { Ok(()) }
    }
}

pub(super) fn functions() -> Vec<(&'static str, *const ())> {
    let mut all = plain::functions();
    all.extend([
        ("cudaGetErrorName", cudaGetErrorName as *const ()),
        ("cudaGetErrorString", cudaGetErrorString as *const ()),
        ("cudaGetLastError", cudaGetLastError as *const ()),
        ("cudaPeekAtLastError", cudaPeekAtLastError as *const ()),
    ]);
    all
}
