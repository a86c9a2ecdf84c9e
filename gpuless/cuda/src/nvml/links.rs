//! NVLinks: all of them lead to a switch.
use super::handles::{MOST_LINKS, device, ready};
use super::pci::{PciInfo, switch};
use super::{INVALID_ARGUMENT, NOT_SUPPORTED, Out, Outcome, SUCCESS, nvml, put};
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
}
