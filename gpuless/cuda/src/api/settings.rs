//! The properties of the software GPUs.
use std::sync::OnceLock;

/// The devices of this process, all alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Number of devices. NCCL refuses to work with more than 32.
    pub devices: usize,
    /// Compute capability: major and minor.
    pub capability: (u32, u32),
    /// NVLinks of each device; all lead to one switch.
    pub nvlinks: u32,
    /// Bytes of memory of each device.
    pub memory: usize,
    /// Name of each device.
    pub name: String,
    /// PCI bus of the first device; each has its own, and a domain has 256.
    pub first_bus: u32,
    /// Multiprocessors of each device.
    pub multiprocessors: u32,
    /// The answer of `cudaDriverGetVersion`.
    pub driver_version: i32,
    /// Streams without `cudaStreamNonBlocking` and the default stream wait for each other, as for programs.
    pub legacy_default_stream: bool,
    /// A kernel that cannot be launched, or that fails, is named on stderr when it happens, once.
    pub tells_failures: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            devices: 8,
            capability: (12, 0),
            nvlinks: 1,
            memory: 80 << 30,
            name: "software GPU".to_owned(),
            first_bus: 0x10,
            multiprocessors: 132,
            driver_version: 13000,
            legacy_default_stream: false,
            tells_failures: false,
        }
    }
}

impl Settings {
    /// PCI domain and bus of a device.
    pub(crate) fn pci(&self, device: usize) -> (u32, u32) {
        let place = self.first_bus.saturating_add(u32::try_from(device).unwrap_or(u32::MAX));
        (place / 256, place % 256)
    }
}

/// The settings are fixed already: they were set, or a function was called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the software GPUs are configured already")]
pub struct AlreadyConfigured;

static SETTINGS: OnceLock<Settings> = OnceLock::new();

/// Sets the properties of the devices, before any function is called.
///
/// # Errors
/// They were configured already.
pub fn configure(settings: Settings) -> Result<(), AlreadyConfigured> {
    SETTINGS.set(settings).map_err(|_| AlreadyConfigured)
}

pub(crate) fn settings() -> &'static Settings {
    SETTINGS.get_or_init(Settings::default)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_the_last_bus_of_a_domain_comes_the_next_domain() {
        let settings = Settings { first_bus: 0xfe, ..Settings::default() };
        assert_eq!([0, 1, 2].map(|device| settings.pci(device)), [(0, 0xfe), (0, 0xff), (1, 0)]);
    }
}
