//! The properties of the software GPUs.
use super::domain::NvLinkDomain;
use std::fmt;
use std::sync::OnceLock;

/// A PCI address: domain, bus and slot. The function is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PciPlace {
    /// At most 16 bits.
    pub domain: u32,
    /// At most 8 bits.
    pub bus: u32,
    /// At most 5 bits.
    pub slot: u32,
}

impl PciPlace {
    /// The address in a text such as `0000:1B:00.0`, in which the slot and the function may be missing.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split([':', '.']);
        // Nothing in place of a part that is missing.
        let mut number = |most| {
            let Some(part) = parts.next() else { return Some(None) };
            let is_hexadecimal = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_hexdigit());
            let number = u32::from_str_radix(part, 16).ok().filter(|number| is_hexadecimal && *number <= most);
            number.map(Some)
        };
        let (domain, bus, slot, _function) = (number(0xffff)??, number(0xff)??, number(0x1f)?, number(7)?);
        parts.next().is_none().then_some(Self { domain, bus, slot: slot.unwrap_or(0) })
    }
}

impl fmt::Display for PciPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04X}:{:02X}:{:02X}.0", self.domain, self.bus, self.slot)
    }
}

/// The devices of this process, all alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Number of devices. NCCL refuses to work with more than 32.
    pub devices: usize,
    /// Compute capability: major and minor.
    pub capability: (u32, u32),
    /// NVLinks of each device; all lead to one switch.
    pub nvlinks: u32,
    /// The NVLink domain that the devices share with those of other machines, if they do.
    pub domain: Option<NvLinkDomain>,
    /// Bytes of memory of each device.
    pub memory: usize,
    /// Name of each device.
    pub name: String,
    /// PCI addresses of the first devices. Each further device has the bus after that of the device before it.
    pub places: Vec<PciPlace>,
    /// Multiprocessors of each device.
    pub multiprocessors: u32,
    /// Network adapters may read and write the devices' memory.
    pub gpudirect: bool,
    /// The network adapters beside them.
    pub network: gpuless_verbs::Settings,
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
            domain: None,
            memory: 80 << 30,
            name: "software GPU".to_owned(),
            places: vec![PciPlace { domain: 0, bus: 0x10, slot: 0 }],
            multiprocessors: 132,
            gpudirect: false,
            network: gpuless_verbs::Settings::default(),
            driver_version: 13000,
            legacy_default_stream: false,
            tells_failures: false,
        }
    }
}

impl Settings {
    /// PCI address of a device.
    pub(crate) fn pci(&self, device: usize) -> PciPlace {
        if let Some(place) = self.places.get(device) {
            return *place;
        }
        let last = self.places.last().copied().unwrap_or_default();
        let more = (device + 1).saturating_sub(self.places.len());
        // A domain has 256 buses.
        let bus = (last.domain * 256 + last.bus).saturating_add(u32::try_from(more).unwrap_or(u32::MAX));
        PciPlace { domain: bus / 256, bus: bus % 256, slot: 0 }
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
    let network = settings.network.clone();
    SETTINGS.set(settings).map_err(|_| AlreadyConfigured)?;
    gpuless_verbs::configure(network).map_err(|_| AlreadyConfigured)
}

pub(crate) fn settings() -> &'static Settings {
    SETTINGS.get_or_init(Settings::default)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_without_an_address_follow_the_last_one() {
        let place = |text: &str| PciPlace::parse(text).unwrap();
        let settings = Settings { places: vec![place("0000:07:03.0"), place("0000:fe:00.0")], ..Settings::default() };
        let places: Vec<_> = (0..4).map(|device| settings.pci(device).to_string()).collect();
        assert_eq!(places, ["0000:07:03.0", "0000:FE:00.0", "0000:FF:00.0", "0001:00:00.0"]);
        for wrong in [
            "",
            "0000",
            "0000:",
            "10000:00:00.0",
            "0000:100:00.0",
            "+1:00",
            "g:0",
            "0000:01:zz",
            "0000:01:00.0zzz",
            "0000:01:00.0.0",
        ] {
            assert_eq!(PciPlace::parse(wrong), None, "{wrong}");
        }
    }
}
