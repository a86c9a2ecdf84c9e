//! Handles of devices, and how long they are valid.
use super::{INVALID_ARGUMENT, NOT_FOUND, UNINITIALIZED, nvml};
use crate::api::{self, PciPlace, Settings, handles};
use std::ffi::{c_int, c_uint, c_void};
use std::sync::atomic::{AtomicU32, Ordering};

/// The largest number of links of a device.
pub(super) const MOST_LINKS: c_uint = 18;

/// Number of `nvmlInit` calls minus `nvmlShutdown` calls.
static INITIALIZED: AtomicU32 = AtomicU32::new(0);

/// The settings, once NVML is initialized.
pub(super) fn ready() -> Result<&'static Settings, c_int> {
    if INITIALIZED.load(Ordering::Relaxed) == 0 { Err(UNINITIALIZED) } else { Ok(api::settings()) }
}

/// Number of devices.
pub(super) fn count() -> Result<c_uint, c_int> {
    Ok(c_uint::try_from(ready()?.devices).unwrap_or(c_uint::MAX))
}

/// The handles of devices, which must not be null, begin here.
const FIRST: usize = 0x7_0000;

pub(super) fn handle(device: c_uint) -> *mut c_void {
    std::ptr::without_provenance_mut(handles::handle(FIRST, device as usize))
}

pub(super) fn device(handle: *mut c_void) -> Result<c_uint, c_int> {
    let count = count()?;
    let number = handles::number(FIRST, handle.addr()).and_then(|number| c_uint::try_from(number).ok());
    number.filter(|number| *number < count).ok_or(INVALID_ARGUMENT)
}

/// The device at a PCI address.
pub(super) fn by_bus_id(text: &str) -> Result<c_uint, c_int> {
    let known = ready()?;
    let place = PciPlace::parse(text).ok_or(INVALID_ARGUMENT)?;
    (0..count()?).find(|device| known.pci(*device as usize) == place).ok_or(NOT_FOUND)
}

nvml! {
    fn nvmlInit() {
        INITIALIZED.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
    fn nvmlInit_v2() {
        INITIALIZED.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
    fn nvmlInitWithFlags(_flags: c_uint) {
        INITIALIZED.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
    fn nvmlShutdown() {
        let less = |count: u32| count.checked_sub(1);
        INITIALIZED.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).map(|_| ()).map_err(|_| UNINITIALIZED)
    }
}
