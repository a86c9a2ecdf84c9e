//! NVLinks: all of them lead to a switch, which may reach the devices of other machines (NVML calls that domain a fabric).
use super::handles::{MOST_LINKS, device, ready};
use super::pci::{PciInfo, switch};
use super::{INVALID_ARGUMENT, NOT_SUPPORTED, Out, Outcome, SUCCESS, VERSION_MISMATCH, nvml, put};
use crate::api::NvLinkDomain;
use std::ffi::{c_int, c_longlong, c_uint, c_void};

/// `NVML_FI_DEV_NVLINK_GET_STATE`, of a link, and `NVML_FI_DEV_NVLINK_LINK_COUNT`.
const LINK_STATE: c_uint = 165;
const LINK_COUNT: c_uint = 91;
/// `NVML_VALUE_TYPE_UNSIGNED_INT`.
const UNSIGNED: c_int = 1;
/// `NVML_NVLINK_DEVICE_TYPE_SWITCH`.
const SWITCH: c_int = 2;
/// The last of `nvmlNvLinkCapability_t`.
const LAST_CAPABILITY: c_int = 5;

/// `nvmlFieldValue_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Field {
    pub id: c_uint,
    pub scope: c_uint,
    pub time: c_longlong,
    pub latency: c_longlong,
    pub kind: c_int,
    pub result: c_int,
    pub value: u64,
}

/// True if a device has this link.
fn has(whose: *mut c_void, link: c_uint) -> Result<bool, c_int> {
    device(whose)?;
    if link < MOST_LINKS { Ok(link < ready()?.nvlinks) } else { Err(INVALID_ARGUMENT) }
}

fn field(known: &mut Field, links: c_uint) {
    let value = match known.id {
        LINK_STATE if known.scope < MOST_LINKS => Ok(u64::from(known.scope < links)),
        LINK_STATE => Err(INVALID_ARGUMENT),
        LINK_COUNT => Ok(links.into()),
        _ => Err(NOT_SUPPORTED),
    };
    (known.time, known.latency) = (0, 0);
    (known.kind, known.value) = (UNSIGNED, value.unwrap_or(0));
    known.result = value.err().unwrap_or(SUCCESS);
}

fn fields(whose: *mut c_void, count: c_int, places: *mut Field) -> Outcome {
    device(whose)?;
    let count = usize::try_from(count).ok().filter(|_| !places.is_null()).ok_or(INVALID_ARGUMENT)?;
    for index in 0..count {
        // SAFETY: the caller promises this many structures, with the first two fields set.
        let place = unsafe { &mut *places.add(index) };
        field(place, ready()?.nvlinks);
    }
    Ok(())
}

/// `NVML_GPU_FABRIC_STATE_COMPLETED`: the switches are set up for the device.
const COMPLETED: u8 = 3;
/// The partition of the domain that each device belongs to.
const CLIQUE: c_uint = 1;
/// Of each pair of bits, "false" (2): no degraded bandwidth, route that recovers, unhealthy route, or recovery after a timeout.
const HEALTHY: c_uint = 0b1010_1010;

/// `nvmlGpuFabricInfo_v2_t`, with its version in the first field.
#[repr(C)]
pub(super) struct FabricInfo {
    pub version: c_uint,
    pub uuid: [u8; 16],
    pub status: c_int,
    pub clique: c_uint,
    pub state: u8,
    pub health: c_uint,
}

/// `nvmlPlatformInfo_v2_t`, with its version in the first field.
#[repr(C)]
pub(super) struct PlatformInfo {
    pub version: c_uint,
    pub guid: [u8; 16],
    pub chassis: [u8; 16],
    pub slot: u8,
    pub tray: u8,
    pub host: u8,
    pub peer: u8,
    pub module: u8,
}

/// A switch is between the device and its peers.
const SWITCHED: u8 = 1;

/// The number and the domain of a device that asks for the second version of a structure.
fn in_domain<T>(whose: *mut c_void, version: c_uint) -> Result<(u8, &'static NvLinkDomain), c_int> {
    let number = device(whose)?;
    let domain = ready()?.domain.as_ref().ok_or(NOT_SUPPORTED)?;
    let same_version = usize::try_from(version) == Ok(size_of::<T>() | 2 << 24);
    if same_version { Ok((u8::try_from(number).unwrap_or(u8::MAX), domain)) } else { Err(VERSION_MISMATCH) }
}

nvml! {
    fn nvmlDeviceGetNvLinkState(whose: *mut c_void, link: c_uint, active: Out<'_, c_int>) {
        put(active, c_int::from(has(whose, link)?))
    }
    fn nvmlDeviceGetNvLinkCapability(whose: *mut c_void, link: c_uint, what: c_int, place: Out<'_, c_uint>) {
        if !(0..=LAST_CAPABILITY).contains(&what) {
            return Err(INVALID_ARGUMENT);
        }
        put(place, c_uint::from(has(whose, link)?))
    }
    fn nvmlDeviceGetNvLinkRemotePciInfo(whose: *mut c_void, link: c_uint, place: Out<'_, PciInfo>) {
        if has(whose, link)? { put(place, switch()) } else { Err(NOT_SUPPORTED) }
    }
    fn nvmlDeviceGetNvLinkRemotePciInfo_v2(whose: *mut c_void, link: c_uint, place: Out<'_, PciInfo>) {
        if has(whose, link)? { put(place, switch()) } else { Err(NOT_SUPPORTED) }
    }
    fn nvmlDeviceGetNvLinkRemoteDeviceType(whose: *mut c_void, link: c_uint, place: Out<'_, c_int>) {
        if has(whose, link)? { put(place, SWITCH) } else { Err(NOT_SUPPORTED) }
    }
    fn nvmlDeviceGetFieldValues(whose: *mut c_void, count: c_int, places: *mut Field) { fields(whose, count, places) }
    fn nvmlDeviceGetGpuFabricInfoV(whose: *mut c_void, place: Option<&mut FabricInfo>) {
        let place = place.ok_or(INVALID_ARGUMENT)?;
        let (_, domain) = in_domain::<FabricInfo>(whose, place.version)?;
        let (version, uuid) = (place.version, domain.uuid());
        *place = FabricInfo { version, uuid, status: 0, clique: CLIQUE, state: COMPLETED, health: HEALTHY };
        Ok(())
    }
    /// The serial number is that of the domain's rack.
    fn nvmlDeviceGetPlatformInfo(whose: *mut c_void, place: Option<&mut PlatformInfo>) {
        let place = place.ok_or(INVALID_ARGUMENT)?;
        let (module, domain) = in_domain::<PlatformInfo>(whose, place.version)?;
        let tray = u8::try_from(domain.tray).unwrap_or(u8::MAX);
        let mut chassis = [0; 16];
        // 13 characters, as NVIDIA's have.
        chassis[..13].copy_from_slice(&format!("{:016x}", domain.id()).as_bytes()[..13]);
        let version = place.version;
        *place = PlatformInfo { version, guid: [0; 16], chassis, slot: tray, tray, host: 0, peer: SWITCHED, module };
        Ok(())
    }
}
