//! The functions as NCCL calls them. Initialization is a state of the whole process, so all of it is one test.
use super::devices::*;
use super::handles::*;
use super::links::*;
use super::pci::*;
use super::system::*;
use super::{INSUFFICIENT_SIZE, INVALID_ARGUMENT, NOT_FOUND, NOT_SUPPORTED, UNINITIALIZED, VERSION_MISMATCH};
use crate::api::{self, NvLinkDomain, Settings};
use crate::test_process;
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::mem::MaybeUninit;
use std::ptr::null_mut;

/// The answer that a function writes through its last parameter.
fn asked<T>(f: impl FnOnce(Option<&mut MaybeUninit<T>>) -> c_int) -> Result<T, c_int> {
    let mut place = MaybeUninit::uninit();
    match f(Some(&mut place)) {
        // SAFETY: a call that succeeds has written it.
        0 => Ok(unsafe { place.assume_init() }),
        code => Err(code),
    }
}

/// What NVML says of the fabric, in the structure of this version.
fn fabric_of(device: *mut c_void, version: c_uint) -> Result<FabricInfo, c_int> {
    let mut info = FabricInfo { version, uuid: [0; 16], status: 7, clique: 7, state: 7, health: 7 };
    match nvmlDeviceGetGpuFabricInfoV(device, Some(&mut info)) {
        0 => Ok(info),
        code => Err(code),
    }
}

const VARIABLE: &str = "COLLSPEC_TEST_RACK";

/// In a separate process, because a process can describe its devices only once.
#[test]
fn the_devices_of_a_tray_know_their_rack() {
    if std::env::var(VARIABLE).is_err() {
        return test_process::run("nvml::tests::the_devices_of_a_tray_know_their_rack", VARIABLE, "1");
    }
    let domain = Some(NvLinkDomain { name: "rack".into(), tray: 5 });
    api::configure(Settings { domain, ..Settings::default() }).unwrap();
    assert_eq!(nvmlInit_v2(), 0);
    let device = asked(|place| nvmlDeviceGetHandleByIndex(3, place)).unwrap();
    let known = fabric_of(device, 2 << 24 | 36).unwrap();
    assert_eq!((known.status, known.clique, known.state, known.version), (0, 1, 3, 2 << 24 | 36));
    assert_eq!(known.uuid, fabric_of(device, 2 << 24 | 36).unwrap().uuid);
    assert_ne!(known.uuid[8..], [0; 8]);
    assert_eq!(fabric_of(device, 3 << 24 | 40).err(), Some(VERSION_MISMATCH));
    assert_eq!(nvmlDeviceGetGpuFabricInfoV(device, None), INVALID_ARGUMENT);
    let version = 2 << 24 | 44;
    let mut place =
        PlatformInfo { version, guid: [7; 16], chassis: [0; 16], slot: 7, tray: 7, host: 7, peer: 7, module: 7 };
    assert_eq!(nvmlDeviceGetPlatformInfo(device, Some(&mut place)), 0);
    assert_eq!((place.tray, place.host, place.module, place.chassis[13]), (5, 0, 3, 0));
}

#[test]
fn what_nccl_asks_of_the_library() {
    assert_eq!(asked::<c_uint>(|place| nvmlDeviceGetCount(place)), Err(UNINITIALIZED));
    assert_eq!(nvmlInit_v2(), 0);
    assert_eq!(asked::<c_uint>(|place| nvmlDeviceGetCount_v2(place)), Ok(8));
    assert_eq!(nvmlDeviceGetCount(None), INVALID_ARGUMENT);

    let device = |number| asked(|place| nvmlDeviceGetHandleByIndex(number, place));
    let last = device(7).unwrap();
    assert!((0..8).all(|number| device(number).unwrap().addr().is_multiple_of(16)));
    assert_eq!(device(8), Err(INVALID_ARGUMENT));
    assert_eq!(asked::<c_uint>(|place| nvmlDeviceGetIndex(last, place)), Ok(7));
    assert_eq!(asked::<c_uint>(|place| nvmlDeviceGetIndex(null_mut(), place)), Err(INVALID_ARGUMENT));
    // NCCL asks in small letters.
    let by_place = |text: &std::ffi::CStr| asked(|place| nvmlDeviceGetHandleByPciBusId(text.as_ptr(), place));
    assert_eq!(by_place(c"0000:17:00.0"), Ok(last));
    assert_eq!(by_place(c"0000:10:00.0"), device(0));
    assert_eq!(by_place(c"0000:00:00.0"), Err(NOT_FOUND));
    assert_eq!(by_place(c"nowhere"), Err(INVALID_ARGUMENT));

    let mut minor = MaybeUninit::uninit();
    let major = asked::<c_int>(|place| nvmlDeviceGetCudaComputeCapability(last, place, Some(&mut minor)));
    assert_eq!(major, Ok(12));
    let mut name = [1 as c_char; 64];
    assert_eq!(nvmlDeviceGetName(last, name.as_mut_ptr(), 5), INSUFFICIENT_SIZE);
    assert_eq!(nvmlDeviceGetName(last, name.as_mut_ptr(), 64), 0);
    assert_eq!(asked::<c_int>(|place| nvmlDeviceGetP2PStatus(last, last, 0, place)), Ok(0));
    assert_eq!(fabric_of(last, 2 << 24 | 36).err(), Some(NOT_SUPPORTED));

    let info = asked::<PciInfo>(|place| nvmlDeviceGetPciInfo_v3(last, place)).unwrap();
    assert_eq!((&info.bus_id[..13], info.domain, info.bus), (&b"0000:17:00.0\0"[..], 0, 0x17));
    // NCCL's structure is shorter than NVML's: no more is written than its version says.
    let mut extended = [7u32; 20];
    extended[0] = 1 << 24 | 48;
    assert_eq!(nvmlDeviceGetPciInfoExt(last, extended.as_mut_ptr()), 0);
    assert_eq!((extended[1], extended[6], extended[7], extended[12]), (0, 3, 2, 7));

    let active = |link| asked::<c_int>(|place| nvmlDeviceGetNvLinkState(last, link, place));
    assert_eq!((active(0), active(1), active(18)), (Ok(1), Ok(0), Err(INVALID_ARGUMENT)));
    let remote = |link| asked::<PciInfo>(|place| nvmlDeviceGetNvLinkRemotePciInfo(last, link, place));
    assert_eq!(&remote(0).unwrap().bus_id, b"fffffff:ffff:ff\0");
    assert_eq!(remote(1), Err(NOT_SUPPORTED));
    let mut fields = [(165, 0), (165, 1), (170, 0)].map(|(id, scope)| Field { id, scope, ..Field::default() });
    assert_eq!(nvmlDeviceGetFieldValues(last, 3, fields.as_mut_ptr()), 0);
    assert_eq!(fields.map(|field| (field.result, field.value)), [(0, 1), (0, 0), (NOT_SUPPORTED, 0)]);

    let mut settings = [5; 5];
    assert_eq!(nvmlSystemGetConfComputeSettings(Some(&mut settings)), 0);
    assert_eq!(settings, [5, 0, 0, 0, 0]);
    assert_eq!((nvmlShutdown(), nvmlShutdown()), (0, UNINITIALIZED));
}
