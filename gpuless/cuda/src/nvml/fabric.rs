//! The NVLink domain of a device, which NVML calls its fabric, and its place in the rack.
use super::handles::{device, ready};
use super::{INVALID_ARGUMENT, NOT_SUPPORTED, VERSION_MISMATCH, nvml};
use crate::api::NvLinkDomain;
use std::ffi::{c_int, c_uint, c_void};

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
