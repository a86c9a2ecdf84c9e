//! PCI addresses of devices.
use super::handles::{device, ready};
use super::{INVALID_ARGUMENT, Out, Outcome, nvml, put};
use crate::api::PciPlace;
use std::ffi::{c_int, c_uint, c_void};

/// Device and vendor, and those of the subsystem: those of an H100.
const PCI_DEVICE: c_uint = 0x2330_10de;
const PCI_SUBSYSTEM: c_uint = 0x16c1_10de;
/// Base class and subclass: a 3D controller.
const CLASSES: [c_uint; 2] = [3, 2];

/// `nvmlPciInfo_t`, with the fields that NCCL's copy of it and NVML's have in common; NCCL's ends 16 bytes later and NVML's 32.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PciInfo {
    pub bus_id: [u8; 16],
    pub domain: c_uint,
    pub bus: c_uint,
    pub slot: c_uint,
    pub device: c_uint,
    pub subsystem: c_uint,
}

/// A place as a text with zeros after it.
fn text<const N: usize>(words: &str) -> [u8; N] {
    let mut bytes = [0; N];
    let len = words.len().min(N - 1);
    bytes[..len].copy_from_slice(&words.as_bytes()[..len]);
    bytes
}

pub(super) fn info(whose: *mut c_void) -> Result<PciInfo, c_int> {
    let place = ready()?.pci(device(whose)? as usize);
    let PciPlace { domain, bus, slot } = place;
    let (device, subsystem) = (PCI_DEVICE, PCI_SUBSYSTEM);
    Ok(PciInfo { bus_id: text(&place.to_string()), domain, bus, slot, device, subsystem })
}

/// The PCI address at the other end of an NVLink: it is not a device's, and NCCL recognises it as a switch.
pub(super) fn switch() -> PciInfo {
    let (domain, bus, slot) = (0x0fff_ffff, 0xffff, 0xff);
    PciInfo { bus_id: text("fffffff:ffff:ff"), domain, bus, slot, device: 0, subsystem: 0 }
}

/// Fills `nvmlPciInfoExt_t`, whose first field is its length.
fn extended(whose: *mut c_void, place: *mut c_uint) -> Outcome {
    if place.is_null() {
        return Err(INVALID_ARGUMENT);
    }
    let known = info(whose)?;
    // SAFETY: the caller promises the structure, which begins with its version.
    let len = (unsafe { place.read_unaligned() } & 0x00ff_ffff) as usize;
    let numbers = [known.domain, known.bus, known.slot, known.device, known.subsystem, CLASSES[0], CLASSES[1]];
    let mut bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_ne_bytes()).collect();
    let address = PciPlace { domain: known.domain, bus: known.bus, slot: known.slot };
    bytes.extend(text::<32>(&address.to_string()));
    let room = len.checked_sub(size_of::<c_uint>()).filter(|room| *room >= 44).ok_or(INVALID_ARGUMENT)?;
    let count = bytes.len().min(room);
    // SAFETY: the structure is as long as its version says.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), place.add(1).cast(), count) };
    Ok(())
}

nvml! {
    fn nvmlDeviceGetPciInfo(whose: *mut c_void, place: Out<'_, PciInfo>) { put(place, info(whose)?) }
    fn nvmlDeviceGetPciInfo_v2(whose: *mut c_void, place: Out<'_, PciInfo>) { put(place, info(whose)?) }
    fn nvmlDeviceGetPciInfo_v3(whose: *mut c_void, place: Out<'_, PciInfo>) { put(place, info(whose)?) }
    fn nvmlDeviceGetPciInfoExt(whose: *mut c_void, place: *mut c_uint) { extended(whose, place) }
    /// The speed in megabytes per second.
    fn nvmlDeviceGetPcieLinkMaxSpeed(whose: *mut c_void, speed: Out<'_, c_uint>) {
        device(whose)?;
        put(speed, 32000)
    }
    fn nvmlDeviceGetCurrPcieLinkGeneration(whose: *mut c_void, generation: Out<'_, c_uint>) {
        device(whose)?;
        put(generation, 5)
    }
    fn nvmlDeviceGetCurrPcieLinkWidth(whose: *mut c_void, width: Out<'_, c_uint>) {
        device(whose)?;
        put(width, 16)
    }
}
