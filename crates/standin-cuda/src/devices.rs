//! Initialisation, and the properties of the devices.
use crate::{Out, Outcome, codes, driver, put};
use std::ffi::{c_char, c_int, c_uint};
use std::sync::OnceLock;

const DEFAULT_DEVICES: usize = 64;
const DEFAULT_VERSION: c_int = 12080;
const NAME: &[u8] = b"collspec stand-in device";
/// The PCI bus that the devices pretend to sit on; each has its own slot.
const BUS: usize = 0xc5;

static DEVICES: OnceLock<usize> = OnceLock::new();

fn setting<T: std::str::FromStr>(name: &str, standard: T) -> Result<T, c_int> {
    match std::env::var(name) {
        Err(_) => Ok(standard),
        Ok(text) => text.trim().parse().map_err(|_| {
            eprintln!("stand-in driver: {name} is {text:?}, which is not such a number");
            codes::INVALID_VALUE
        }),
    }
}

/// The number of devices; an error before `cuInit`.
pub(crate) fn count() -> Result<usize, c_int> {
    DEVICES.get().copied().ok_or(codes::NOT_INITIALIZED)
}

pub(crate) fn device(number: c_int) -> Result<usize, c_int> {
    let count = count()?;
    usize::try_from(number).ok().filter(|n| *n < count).ok_or(codes::INVALID_DEVICE)
}

/// The machine's memory in bytes: all the devices share it.
pub(crate) fn total_memory() -> usize {
    // SAFETY: no pointers are involved.
    let (pages, size) = unsafe { (libc::sysconf(libc::_SC_PHYS_PAGES), libc::sysconf(libc::_SC_PAGESIZE)) };
    usize::try_from(pages).unwrap_or(0).saturating_mul(usize::try_from(size).unwrap_or(0))
}

/// Writes a text with its end, cut to `len` bytes.
fn put_text(place: *mut c_char, len: c_int, text: &[u8]) -> Outcome {
    let room = usize::try_from(len).ok().filter(|len| *len > 0).ok_or(codes::INVALID_VALUE)?;
    if place.is_null() {
        return Err(codes::INVALID_VALUE);
    }
    let n = text.len().min(room - 1);
    // SAFETY: the driver's contract: `len` bytes are writable there, and n + 1 is at most that.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr(), place.cast::<u8>(), n);
        place.add(n).write(0);
    }
    Ok(())
}

fn attribute(number: c_int, device: usize) -> Result<c_int, c_int> {
    Ok(match number {
        1 => 1024,                                                  // threads per block
        10 => 32,                                                   // warp size
        13 => 1_000_000,                                            // clock in kHz
        16 => 1,                                                    // multiprocessors
        31 | 41 => 1,                                               // concurrent kernels, unified addressing
        33 => BUS as c_int,                                         // PCI bus
        34 => c_int::try_from(device).map_err(|_| codes::UNKNOWN)?, // PCI slot
        40 => 1,                                                    // copy engines
        75 => 9,                                                    // compute capability: it knows 8-bit floats
        76 | 50 => 0,                                               // its minor number, PCI domain
        n if (1..=256).contains(&n) => 0,                           // what the device does not have
        _ => return Err(codes::INVALID_VALUE),
    })
}

driver! {
    /// Reads the settings; again only if it failed.
    fn cuInit(flags: c_uint) {
        if flags != 0 {
            return Err(codes::INVALID_VALUE);
        }
        let devices = setting("COLLSPEC_STANDIN_DEVICES", DEFAULT_DEVICES)?;
        if devices == 0 {
            return Err(codes::NO_DEVICE);
        }
        DEVICES.get_or_init(|| devices);
        Ok(())
    }
    fn cuDriverGetVersion(version: Out<'_, c_int>) { put(version, setting("COLLSPEC_STANDIN_DRIVER", DEFAULT_VERSION)?) }
    fn cuDeviceGetCount(number: Out<'_, c_int>) { put(number, c_int::try_from(count()?).unwrap_or(c_int::MAX)) }
    fn cuDeviceGet(handle: Out<'_, c_int>, number: c_int) { device(number).and_then(|_| put(handle, number)) }
    fn cuDeviceGetName(name: *mut c_char, len: c_int, handle: c_int) {
        device(handle)?;
        put_text(name, len, NAME)
    }
    fn cuDeviceGetUuid(place: Out<'_, [u8; 16]>, handle: c_int) { put(place, gpuless_device::uuid(device(handle)?)) }
    fn cuDeviceGetUuid_v2(place: Out<'_, [u8; 16]>, handle: c_int) { put(place, gpuless_device::uuid(device(handle)?)) }
    fn cuDeviceTotalMem_v2(bytes: Out<'_, usize>, handle: c_int) {
        device(handle)?;
        put(bytes, total_memory())
    }
    fn cuDeviceGetAttribute(value: Out<'_, c_int>, number: c_int, handle: c_int) {
        put(value, attribute(number, device(handle)?)?)
    }
    fn cuDeviceComputeCapability(major: Out<'_, c_int>, minor: Out<'_, c_int>, handle: c_int) {
        let device = device(handle)?;
        put(major, attribute(75, device)?)?;
        put(minor, attribute(76, device)?)
    }
    fn cuDeviceGetPCIBusId(place: *mut c_char, len: c_int, handle: c_int) {
        let device = device(handle)?;
        put_text(place, len, format!("0000:{BUS:02x}:{device:02x}.0").as_bytes())
    }
    /// The host's memory is everybody's.
    fn cuDeviceCanAccessPeer(can: Out<'_, c_int>, one: c_int, other: c_int) {
        put(can, c_int::from(device(one)? != device(other)?))
    }
}
