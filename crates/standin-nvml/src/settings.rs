//! What the devices are.
use crate::{INVALID_ARGUMENT, NOT_FOUND, UNINITIALIZED, nvml};
use std::ffi::{c_int, c_uint, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// The devices, all alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    pub devices: c_uint,
    pub major: c_uint,
    pub minor: c_uint,
    pub nvlinks: c_uint,
    pub first_bus: c_uint,
}

/// As many links as a device has at most.
pub(crate) const MOST_LINKS: c_uint = 18;

const STANDARD: Settings = Settings { devices: 8, major: 12, minor: 0, nvlinks: 1, first_bus: 0x10 };

static SETTINGS: OnceLock<Settings> = OnceLock::new();
/// `nvmlInit` less `nvmlShutdown`.
static INITIALIZED: AtomicU32 = AtomicU32::new(0);

pub(crate) fn settings() -> &'static Settings {
    SETTINGS.get_or_init(|| STANDARD)
}

impl Settings {
    /// PCI domain and bus of a device.
    pub fn pci(&self, device: c_uint) -> (c_uint, c_uint) {
        let place = self.first_bus.saturating_add(device);
        (place / 256, place % 256)
    }
}

/// Settings, once NVML is initialized.
pub(crate) fn ready() -> Result<&'static Settings, c_int> {
    if INITIALIZED.load(Ordering::Relaxed) == 0 { Err(UNINITIALIZED) } else { Ok(settings()) }
}

/// The handle of a device: its number and one, never followed.
pub(crate) fn handle(device: c_uint) -> *mut c_void {
    std::ptr::without_provenance_mut(device as usize + 1)
}

/// The device of a handle.
pub(crate) fn device(handle: *mut c_void) -> Result<c_uint, c_int> {
    let known = ready()?;
    let number = handle.addr().checked_sub(1).and_then(|number| c_uint::try_from(number).ok());
    number.filter(|number| *number < known.devices).ok_or(INVALID_ARGUMENT)
}

/// The device at a PCI place: domain, bus, and what follows them.
pub(crate) fn by_bus_id(text: &str) -> Result<c_uint, c_int> {
    let known = ready()?;
    let mut parts = text.split([':', '.']);
    let mut number = || parts.next().and_then(|part| c_uint::from_str_radix(part, 16).ok()).ok_or(INVALID_ARGUMENT);
    let place = (number()?, number()?);
    (0..known.devices).find(|device| known.pci(*device) == place).ok_or(NOT_FOUND)
}

nvml! {
    /// Says what the devices are, before anything is asked of them: how many, compute capability, NVLinks of each, PCI bus of the first.
    fn collspecNvmlConfigure(devices: c_uint, major: c_uint, minor: c_uint, nvlinks: c_uint, first_bus: c_uint) {
        if nvlinks > MOST_LINKS {
            return Err(INVALID_ARGUMENT);
        }
        let asked = Settings { devices, major, minor, nvlinks, first_bus };
        if *SETTINGS.get_or_init(|| asked) == asked { Ok(()) } else { Err(INVALID_ARGUMENT) }
    }
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
