//! Devices by number and by PCI address, and their properties.
use super::handles::{by_bus_id, count, device, handle, ready};
use super::{INVALID_ARGUMENT, NOT_FOUND, NOT_SUPPORTED, Out, nvml, put, put_text};
use crate::api;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

type Device = *mut c_void;

fn at(place: *const c_char) -> Result<Device, c_int> {
    if place.is_null() {
        return Err(INVALID_ARGUMENT);
    }
    // SAFETY: the caller promises a text with its end.
    let text = unsafe { CStr::from_ptr(place) };
    by_bus_id(text.to_str().map_err(|_| INVALID_ARGUMENT)?).map(handle)
}

fn numbered(number: c_uint) -> Result<Device, c_int> {
    if number < count()? { Ok(handle(number)) } else { Err(INVALID_ARGUMENT) }
}

/// `GPU-`, and its number in hexadecimal as the driver has it.
fn uuid(number: c_uint) -> String {
    let mut text = "GPU".to_owned();
    for (at, byte) in gpuless_device::uuid(number as usize).into_iter().enumerate() {
        text.push_str(if [0, 4, 6, 8, 10].contains(&at) { "-" } else { "" });
        text.push_str(&format!("{byte:02x}"));
    }
    text
}

/// `nvmlMemory_t`.
#[repr(C)]
pub(super) struct Amounts {
    total: u64,
    free: u64,
    used: u64,
}

/// `nvmlMemory_v2_t`, with its version in the first field.
#[repr(C)]
pub(super) struct AmountsOfVersion2 {
    version: c_uint,
    total: u64,
    reserved: u64,
    free: u64,
    used: u64,
}

/// All of a device's memory, and what this process has of it.
fn amounts(whose: Device) -> Result<Amounts, c_int> {
    let (number, total) = (device(whose)?, ready()?.memory as u64);
    let used = api::in_use(number as usize) as u64;
    Ok(Amounts { total, free: total.saturating_sub(used), used })
}

nvml! {
    fn nvmlDeviceGetUUID(whose: Device, place: *mut c_char, len: c_uint) { put_text(place, len, &uuid(device(whose)?)) }
    fn nvmlDeviceGetMemoryInfo(whose: Device, place: Out<'_, Amounts>) { put(place, amounts(whose)?) }
    fn nvmlDeviceGetMemoryInfo_v2(whose: Device, place: Option<&mut AmountsOfVersion2>) {
        let place = place.ok_or(INVALID_ARGUMENT)?;
        let Amounts { total, free, used } = amounts(whose)?;
        *place = AmountsOfVersion2 { version: place.version, total, reserved: 0, free, used };
        Ok(())
    }
    fn nvmlDeviceGetCount(place: Out<'_, c_uint>) { put(place, count()?) }
    fn nvmlDeviceGetCount_v2(place: Out<'_, c_uint>) { put(place, count()?) }
    fn nvmlDeviceGetHandleByIndex(number: c_uint, place: Out<'_, Device>) { put(place, numbered(number)?) }
    fn nvmlDeviceGetHandleByIndex_v2(number: c_uint, place: Out<'_, Device>) { put(place, numbered(number)?) }
    fn nvmlDeviceGetHandleByPciBusId(text: *const c_char, place: Out<'_, Device>) { put(place, at(text)?) }
    fn nvmlDeviceGetHandleByPciBusId_v2(text: *const c_char, place: Out<'_, Device>) { put(place, at(text)?) }
    fn nvmlDeviceGetIndex(whose: Device, number: Out<'_, c_uint>) { put(number, device(whose)?) }
    fn nvmlDeviceGetName(whose: Device, place: *mut c_char, len: c_uint) {
        device(whose)?;
        put_text(place, len, &ready()?.name)
    }
    fn nvmlDeviceGetCudaComputeCapability(whose: Device, major: Out<'_, c_int>, minor: Out<'_, c_int>) {
        device(whose)?;
        let capability = ready()?.capability;
        put(major, c_int::try_from(capability.0).unwrap_or(c_int::MAX))?;
        put(minor, c_int::try_from(capability.1).unwrap_or(c_int::MAX))
    }
    /// Every device reaches every other in every way: 0 is "OK".
    fn nvmlDeviceGetP2PStatus(one: Device, other: Device, _way: c_int, status: Out<'_, c_int>) {
        device(one)?;
        device(other)?;
        put(status, 0)
    }
    fn nvmlDeviceGetHandleByUUID(text: *const c_char, place: Out<'_, Device>) {
        if text.is_null() {
            return Err(INVALID_ARGUMENT);
        }
        // SAFETY: the caller promises a text with its end.
        let text = unsafe { CStr::from_ptr(text) };
        let found = (0..count()?).find(|number| uuid(*number).as_bytes() == text.to_bytes());
        put(place, handle(found.ok_or(NOT_FOUND)?))
    }
    fn nvmlDeviceGetMemoryErrorCounter(
        whose: Device,
        _kind: c_int,
        _counter: c_int,
        _location: c_int,
        _count: *mut c_void,
    ) {
        device(whose)?;
        Err(NOT_SUPPORTED)
    }
}
