//! Asks the driver for its version and devices, in a child process: a driver may crash or hang.
#![allow(unsafe_code)] // asks the driver

use super::driver::{CudaError, Driver, DriverAbsent, NO_DEVICE};
use cudarc::driver::sys::{CUdevice, CUdevice_attribute, CUuuid};
use serde::{Deserialize, Serialize};
use std::ffi::{CStr, c_char, c_int};

/// With the value 1, runs take turns on stand-in devices as on GPUs.
const EXCLUSIVE: &str = "COLLSPEC_STANDIN_EXCLUSIVE";

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum DriverState {
    /// A driver was not found.
    #[default]
    NoDriver,
    /// The driver lacks this function.
    Incomplete(String),
    /// The driver does not start: the code, and the driver's name of it.
    Driver(u32, String),
    /// The driver has no device.
    NoDevices,
    /// The number of devices.
    Devices(usize),
    /// The number of software GPUs, which have no driver.
    Software(usize),
}

impl std::fmt::Display for DriverState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoDriver => f.write_str("there is no CUDA driver (libcuda.so.1) where the loader looks"),
            Self::Incomplete(name) => write!(f, "the CUDA driver lacks {name}: it is too old, or none"),
            Self::Driver(code, name) => write!(f, "the CUDA driver does not start: {name} ({code})"),
            Self::NoDevices => f.write_str("the CUDA driver has no device to offer"),
            Self::Devices(1) => f.write_str("1 device"),
            Self::Devices(n) => write!(f, "{n} devices"),
            Self::Software(1) => f.write_str("1 software GPU"),
            Self::Software(n) => write!(f, "{n} software GPUs"),
        }
    }
}

/// A device, as the driver describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceInfo {
    /// The device's name.
    pub name: String,
    /// Its compute capability.
    pub compute: (u32, u32),
    /// True if its memory can be part of multicast objects, on which NVLS depends.
    pub multicast: bool,
    /// Bytes of device memory.
    pub memory: u64,
    /// `GPU-...`, as `nvidia-smi -L` prints it.
    pub uuid: String,
    /// Address on the PCI bus.
    pub bus: String,
    /// Devices whose memory it can reach directly, by number.
    pub reaches: Vec<usize>,
    /// True for a device that every process has to itself, so that a run never waits for another.
    pub private: bool,
}

/// The driver and its devices.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DriverReport {
    pub state: DriverState,
    /// CUDA version that the driver supports (12080 is 12.8).
    pub version: Option<i32>,
    /// The description of the library that replaces a driver.
    pub standin: Option<String>,
    /// The devices in the driver's order.
    pub devices: Vec<DeviceInfo>,
}

/// Opens and starts the driver.
pub(super) fn start_driver() -> Result<Driver, DriverState> {
    let driver = Driver::open().map_err(|absent| match absent {
        DriverAbsent::Library => DriverState::NoDriver,
        DriverAbsent::Function(name) => DriverState::Incomplete(name.to_owned()),
    })?;
    // SAFETY: the flags must be 0.
    match unsafe { driver.init(0) } {
        Ok(()) => Ok(driver),
        Err(error) if error.code == NO_DEVICE => Err(DriverState::NoDevices),
        Err(error) => Err(DriverState::Driver(error.code, error.name)),
    }
}

/// The number of devices.
pub(super) fn device_count(driver: &Driver) -> Result<usize, CudaError> {
    let mut count: c_int = 0;
    // SAFETY: a place for the answer.
    unsafe { driver.device_count(&mut count) }?;
    Ok(usize::try_from(count).unwrap_or(0))
}

/// Collects the whole report. Loads the driver into this process.
pub fn probe() -> DriverReport {
    let driver = match start_driver() {
        Ok(driver) => driver,
        Err(state) => return DriverReport { state, ..DriverReport::default() },
    };
    let mut version: c_int = 0;
    // SAFETY: a place for the answer.
    let version = unsafe { driver.driver_version(&mut version) }.ok().map(|()| version);
    let standin = driver.standin();
    let private = standin.is_some() && std::env::var_os(EXCLUSIVE).is_none_or(|value| value != "1");
    let broken = |error: CudaError| DriverState::Driver(error.code, format!("{}: {}", error.call, error.name));
    let devices = device_count(&driver)
        .and_then(|n| (0..n).map(|i| describe_device(&driver, i, n, private)).collect::<Result<Vec<_>, _>>());
    let (state, devices) = match devices {
        Ok(devices) if devices.is_empty() => (DriverState::NoDevices, devices),
        Ok(devices) => (DriverState::Devices(devices.len()), devices),
        Err(error) => (broken(error), Vec::new()),
    };
    DriverReport { state, version, standin, devices }
}

fn handle(driver: &Driver, number: usize) -> Result<CUdevice, CudaError> {
    let mut device: CUdevice = 0;
    // SAFETY: a place for the answer.
    unsafe { driver.device_get(&mut device, c_int::try_from(number).unwrap_or(c_int::MAX)) }?;
    Ok(device)
}

fn describe_device(driver: &Driver, number: usize, of: usize, private: bool) -> Result<DeviceInfo, CudaError> {
    let device = handle(driver, number)?;
    let text = |ask: &dyn Fn(*mut c_char, c_int) -> Result<(), CudaError>| {
        let mut bytes: [c_char; 256] = [0; 256];
        ask(bytes.as_mut_ptr(), 255)?;
        // SAFETY: the last byte is zero whatever the driver wrote before it.
        Ok(unsafe { CStr::from_ptr(bytes.as_ptr()) }.to_string_lossy().into_owned())
    };
    // SAFETY: a place for this many bytes.
    let name = text(&|out, len| unsafe { driver.device_name(out, len, device) })?;
    // SAFETY: as above.
    let bus = text(&|out, len| unsafe { driver.device_bus_id(out, len, device) }).unwrap_or_default();
    let attribute = |which: CUdevice_attribute| {
        let mut value: c_int = 0;
        // SAFETY: a place for the answer.
        unsafe { driver.device_attribute(&mut value, which as u32, device) }?;
        Ok(u32::try_from(value).unwrap_or(0))
    };
    let major = attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
    let minor = attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
    // A driver that does not know the attribute has no multicast objects.
    let multicast = attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED).unwrap_or(0) != 0;
    let mut memory = 0usize;
    // SAFETY: a place for the answer.
    unsafe { driver.device_memory(&mut memory, device) }?;
    let mut uuid = CUuuid { bytes: [0; 16] };
    // SAFETY: a place for the answer.
    unsafe { driver.device_uuid(&mut uuid, device) }?;
    let reaches = (0..of).filter(|other| *other != number && can_reach(driver, device, *other)).collect();
    let uuid = uuid_text(uuid.bytes.map(|byte| byte as u8));
    let compute = (major, minor);
    Ok(DeviceInfo { name, compute, multicast, memory: memory as u64, uuid, bus, reaches, private })
}

fn can_reach(driver: &Driver, from: CUdevice, to: usize) -> bool {
    let mut can: c_int = 0;
    // SAFETY: a place for the answer.
    let asked = handle(driver, to).and_then(|to| unsafe { driver.device_reaches(&mut can, from, to) });
    asked.is_ok() && can != 0
}

fn uuid_text(bytes: [u8; 16]) -> String {
    let mut text = String::from("GPU-");
    for (i, byte) in bytes.iter().enumerate() {
        if matches!(i, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push_str(&format!("{byte:02x}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_reads_as_the_tools_print_it() {
        let bytes: [u8; 16] = std::array::from_fn(|i| i as u8 * 17);
        assert_eq!(uuid_text(bytes), "GPU-00112233-4455-6677-8899-aabbccddeeff");
    }
}
