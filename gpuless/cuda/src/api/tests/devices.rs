//! Devices, errors, and the functions by version.
use super::{asked, named};
use crate::api::devices::*;
use crate::api::raw::{Room, Text};
use crate::api::{AlreadyConfigured, Handle, Out, Runtime, Settings, configure, errors, functions};
use std::ffi::{CStr, c_char, c_int, c_uint, c_ulonglong};
use std::ptr::null_mut;

#[test]
fn each_thread_has_a_device_and_a_last_error() {
    let last: extern "C" fn() -> c_int = named(Runtime::V12, "cudaGetLastError");
    let peek: extern "C" fn() -> c_int = named(Runtime::V12, "cudaPeekAtLastError");
    let text: extern "C" fn(c_int) -> *const c_char = named(Runtime::V12, "cudaGetErrorString");
    assert_eq!(asked::<c_int>(|place| cudaGetDevice(place)), Ok(0));
    assert_eq!(cudaSetDevice(3), 0);
    assert_eq!(cudaSetDevice(8), errors::INVALID_DEVICE);
    assert_eq!(cudaSetDevice(-1), errors::INVALID_DEVICE);
    let other = std::thread::spawn(move || (asked::<c_int>(|place| cudaGetDevice(place)), last()));
    assert_eq!(other.join().unwrap(), (Ok(0), 0));
    assert_eq!(asked::<c_int>(|place| cudaGetDevice(place)), Ok(3));
    assert_eq!((peek(), last(), last()), (errors::INVALID_DEVICE, errors::INVALID_DEVICE, 0));
    // SAFETY: a text with its end.
    let word = |code| unsafe { CStr::from_ptr(text(code)) };
    assert_eq!(word(errors::INVALID_DEVICE), c"invalid device ordinal");
    assert_eq!(word(4711), c"unrecognized error code");
    assert_eq!(cudaGetDevice(None), errors::INVALID_VALUE);
    // A device that another part of the program has chosen is the runtime's, too.
    gpuless_device::set_current(5);
    assert_eq!(asked::<c_int>(|place| cudaGetDevice(place)), Ok(5));
}

#[test]
fn devices_are_found_by_their_place() {
    let mut text = [1u8; 16];
    assert_eq!(cudaDeviceGetPCIBusId(Room::of(text.as_mut_ptr()), 12, 2), errors::INVALID_VALUE);
    assert_eq!(cudaDeviceGetPCIBusId(Room::of(text.as_mut_ptr()), 13, 2), 0);
    assert_eq!(&text[..14], b"0000:12:00.0\0\x01");
    let at = |text| asked::<c_int>(|place| cudaDeviceGetByPCIBusId(place, Text::of(text)));
    assert_eq!(at(c"0000:12:00.0"), Ok(2));
    assert_eq!(at(c"0000:99:00.0"), Err(errors::INVALID_DEVICE));
    assert_eq!(at(c""), Err(errors::INVALID_DEVICE));
    let attribute = |number| asked::<c_int>(|place| cudaDeviceGetAttribute(place, number, 2));
    assert_eq!((attribute(75), attribute(97), attribute(33)), (Ok(12), Ok(227 << 10), Ok(0x12)));
    assert_eq!((attribute(0), attribute(116)), (Err(errors::INVALID_VALUE), Ok(0)));
}

#[test]
fn peers_are_enabled_once() {
    cudaSetDevice(1);
    assert_eq!(asked::<c_int>(|place| cudaDeviceCanAccessPeer(place, 1, 2)), Ok(1));
    assert_eq!(asked::<c_int>(|place| cudaDeviceCanAccessPeer(place, 1, 1)), Ok(0));
    assert_eq!(cudaDeviceEnablePeerAccess(6, 0), 0);
    assert_eq!(cudaDeviceEnablePeerAccess(6, 0), errors::PEER_ACCESS_ALREADY_ENABLED);
    assert_eq!(cudaDeviceEnablePeerAccess(1, 0), errors::INVALID_DEVICE);
    assert_eq!(cudaDeviceDisablePeerAccess(6), 0);
    assert_eq!(cudaDeviceDisablePeerAccess(6), errors::PEER_ACCESS_NOT_ENABLED);
}

#[test]
fn settings_stand_once_they_were_used() {
    assert_eq!(cudaSetDevice(0), 0);
    assert_eq!(configure(Settings::default()), Err(AlreadyConfigured));
}

/// The structures of two runtimes in one process: each function fills its own version.
#[test]
fn properties_have_the_layout_of_the_runtime() {
    let number = |bytes: &[u8], offset: usize| c_int::from_ne_bytes(bytes[offset..offset + 4].try_into().unwrap());
    let cases = [
        (Runtime::V11, "cudaGetDeviceProperties", 720, 388, 696),
        (Runtime::V12, "cudaGetDeviceProperties", 720, 388, 696),
        (Runtime::V12, "cudaGetDeviceProperties_v2", 1032, 388, 696),
        (Runtime::V13, "cudaGetDeviceProperties", 1008, 384, 672),
    ];
    for (runtime, name, len, multiprocessors, opt_in) in cases {
        let get: extern "C" fn(*mut u8, c_int) -> c_int = named(runtime, name);
        let mut bytes = [0xaa; 1100];
        assert_eq!(get(bytes.as_mut_ptr(), 1), 0);
        assert_eq!((bytes[len - 1], bytes[len]), (0, 0xaa), "{runtime:?}");
        assert!(bytes.starts_with(b"software GPU\0"));
        assert_eq!((number(&bytes, 360), number(&bytes, 364)), (12, 0));
        assert_eq!((number(&bytes, multiprocessors), number(&bytes, opt_in)), (132, 227 << 10), "{runtime:?}");
        assert_eq!(usize::from_ne_bytes(bytes[288..296].try_into().unwrap()), 80 << 30);
        assert_eq!(get(bytes.as_mut_ptr(), 8), errors::INVALID_DEVICE);
        assert_eq!(get(null_mut(), 0), errors::INVALID_VALUE);
    }
    let version = |runtime| {
        let get: extern "C" fn(Out<'_, c_int>) -> c_int = named(runtime, "cudaRuntimeGetVersion");
        asked(|place| get(place))
    };
    assert_eq!([Runtime::V11, Runtime::V12, Runtime::V13].map(version), [Ok(11080), Ok(12080), Ok(13000)]);
}

#[test]
fn no_runtime_has_a_function_twice() {
    for runtime in [Runtime::V11, Runtime::V12, Runtime::V13] {
        let mut names: Vec<_> = functions(runtime).into_iter().map(|(name, _)| name).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
    let has = |runtime, name| functions(runtime).iter().any(|(known, _)| *known == name);
    assert!(has(Runtime::V12, "cudaStreamGetCaptureInfo_v2_ptsz") && has(Runtime::V12, "cudaMemcpy_ptds"));
    assert!(!has(Runtime::V13, "cudaStreamGetCaptureInfo_v3") && !has(Runtime::V13, "cudaGetDeviceProperties_v2"));
}

#[test]
fn a_runtime_is_known_by_its_functions() {
    for runtime in [Runtime::V11, Runtime::V12, Runtime::V13] {
        let names = functions(runtime);
        let known = Runtime::of(|name| names.iter().any(|(known, _)| *known == name));
        assert_eq!(known, runtime);
    }
}

type EntryPoint = extern "C" fn(*const c_char, Out<'_, Handle>, c_ulonglong, Out<'_, c_int>) -> c_int;
type EntryPointByVersion = extern "C" fn(*const c_char, Out<'_, Handle>, c_uint, c_ulonglong, Out<'_, c_int>) -> c_int;
type OldEntryPoint = extern "C" fn(*const c_char, Out<'_, Handle>, c_ulonglong) -> c_int;

#[test]
fn driver_functions_are_handed_out_by_name() {
    let later: EntryPoint = named(Runtime::V12, "cudaGetDriverEntryPoint");
    let by_version: EntryPointByVersion = named(Runtime::V13, "cudaGetDriverEntryPointByVersion");
    let old: OldEntryPoint = named(Runtime::V11, "cudaGetDriverEntryPoint");
    let name = c"cuCtxGetDevice";
    let status = |place| asked::<Handle>(|found| later(name.as_ptr(), found, 0, place)).unwrap();
    let mut place = std::mem::MaybeUninit::new(7);
    let address = status(Some(&mut place));
    // SAFETY: it was initialized with a value.
    assert_eq!(unsafe { place.assume_init() }, 0);
    assert_eq!(asked::<Handle>(|found| by_version(name.as_ptr(), found, 12000, 0, None)), Ok(address));
    assert_eq!(asked::<Handle>(|found| old(name.as_ptr(), found, 0)), Ok(address));
    // SAFETY: the driver's function of this name.
    let device: extern "C" fn(Out<'_, c_int>) -> c_int = unsafe { std::mem::transmute(address) };
    cudaSetDevice(4);
    assert_eq!(asked(|place| device(place)), Ok(4));

    let missing = c"cuArrayCreate_v2".as_ptr();
    let status = asked(|status| {
        let mut found = std::mem::MaybeUninit::new(address);
        let code = later(missing, Some(&mut found), 0, status);
        // SAFETY: it was initialized with a value.
        assert!(unsafe { found.assume_init() }.is_null());
        code
    });
    assert_eq!(status, Ok(1));
    assert_eq!(asked::<Handle>(|found| old(missing, found, 0)), Err(errors::SYMBOL_NOT_FOUND));
}

#[test]
fn functions_that_are_not_there_say_so() {
    let last: extern "C" fn() -> c_int = named(Runtime::V12, "cudaGetLastError");
    crate::api::note_unsupported();
    assert_eq!((last(), last()), (errors::NOT_SUPPORTED, errors::SUCCESS));
    // A panic does not leave a function.
    assert_eq!(crate::api::enter(|| panic!("a test")), errors::UNKNOWN);
}
