//! Devices: the current one, their properties, and which can access which.
use super::launch::{MOST_SHARED, MULTIPROCESSOR_BLOCKS, MULTIPROCESSOR_SHARED, MULTIPROCESSOR_THREADS, USUAL_SHARED};
use super::raw::{Room, Text};
use super::settings::{PciPlace, settings};
use super::{Out, errors, int, put, runtime};
use std::collections::BTreeSet;
use std::ffi::{c_int, c_uint};
use std::sync::{Mutex, PoisonError};

/// The last number of `cudaDeviceAttr` that is not refused.
const LAST_ATTRIBUTE: c_int = 255;
/// The last of `cudaLimit`, and the limit of a thread's stack.
const LAST_LIMIT: c_int = 9;
/// `cudaDeviceP2PAttr`: rank, access, atomics, arrays, and those of 13.
const PEER_ATTRIBUTES: std::ops::RangeInclusive<c_int> = 1..=8;

/// Pairs of devices of which the first was given access to the second's memory.
static PEERS: Mutex<BTreeSet<(usize, usize)>> = Mutex::new(BTreeSet::new());

/// The calling thread's device: 0 if it has chosen none, or one that does not exist.
pub(super) fn current() -> usize {
    gpuless_device::current().filter(|device| *device < settings().devices).unwrap_or(0)
}

pub(super) fn device(number: c_int) -> Result<usize, c_int> {
    usize::try_from(number).ok().filter(|device| *device < settings().devices).ok_or(errors::INVALID_DEVICE)
}

/// The device at a PCI address.
fn by_bus_id(text: &str) -> Option<usize> {
    let place = PciPlace::parse(text)?;
    (0..settings().devices).find(|device| settings().pci(*device) == place)
}

/// An attribute; the driver uses the same numbers. 0 if the device does not have it.
pub(super) fn attribute(number: c_int, device: usize) -> Result<c_int, c_int> {
    let known = settings();
    let PciPlace { domain, bus, slot } = known.pci(device);
    let (major, minor) = known.capability;
    let (gpudirect, is_in_domain) = (u32::from(known.gpudirect), u32::from(known.domain.is_some()));
    let of = |number: u32| c_int::try_from(number).unwrap_or(c_int::MAX);
    Ok(match number {
        1..=3 => 1024,                     // threads of a block, its first two dimensions
        4 => 64,                           // its third
        5 => c_int::MAX,                   // the first dimension of a grid
        6 | 7 => 65535,                    // its others
        8 => int(USUAL_SHARED),            // shared memory of a block
        9 => 65536,                        // constants
        10 => 32,                          // threads of a warp
        12 | 82 => 65536,                  // registers of a block, of a multiprocessor
        13 => 1_755_000,                   // clock in kHz
        16 => of(known.multiprocessors),   // multiprocessors
        19 | 31 | 41 => 1,                 // maps host memory, several kernels at once, one address space
        33 => of(bus),                     // PCI bus
        34 => of(slot),                    // PCI slot
        36 => 2_619_000,                   // clock of the memory in kHz
        37 => 5120,                        // width of its bus
        38 => 50 << 20,                    // cache
        39 => int(MULTIPROCESSOR_THREADS), // threads of a multiprocessor
        40 => 3,                           // copy engines
        50 => of(domain),                  // PCI domain
        75 => of(major),                   // compute capability
        76 => of(minor),                   //
        78 | 95 | 115 | 125 => 1,          // priorities, cooperative launches, pools, events of several processes
        102 | 103 => 1,                    // memory with handles that are descriptors
        110 | 116 | 124 => of(gpudirect),  // adapters reach virtual memory, other memory, and by DMA-BUF
        132 => c_int::from(major >= 9),    // multicast
        128 | 143 => of(is_in_domain),     // memory with handles of the fabric, also on the host's nodes
        134 => 0,                          // node of the host's memory
        141 => 1,                          // memory with handles on the host's nodes
        81 => int(MULTIPROCESSOR_SHARED),  // shared memory of a multiprocessor
        97 => int(MOST_SHARED),            // shared memory of a block that asks for it
        106 => int(MULTIPROCESSOR_BLOCKS), // blocks of a multiprocessor
        111 => 1024,                       // shared memory of a block that is the system's
        120 => c_int::from(major >= 9),    // clusters
        n if (1..=LAST_ATTRIBUTE).contains(&n) => 0,
        _ => return Err(errors::INVALID_VALUE),
    })
}

runtime! {
    fn cudaGetDevice(place: Out<'_, c_int>) { put(place, int(current())) }
    fn cudaSetDevice(number: c_int) {
        gpuless_device::set_current(device(number)?);
        Ok(())
    }
    fn cudaGetDeviceCount(place: Out<'_, c_int>) {
        put(place, int(settings().devices))?;
        if settings().devices == 0 { Err(errors::NO_DEVICE) } else { Ok(()) }
    }
    fn cudaDriverGetVersion(place: Out<'_, c_int>) { put(place, settings().driver_version) }
    fn cudaDeviceGetPCIBusId(place: Room, len: c_int, number: c_int) { place.write_text(len, &settings().pci(device(number)?).to_string()) }
    fn cudaDeviceGetByPCIBusId(place: Out<'_, c_int>, text: Text) {
        put(place, int(by_bus_id(&text.get()?).ok_or(errors::INVALID_DEVICE)?))
    }
    fn cudaDeviceGetAttribute(place: Out<'_, c_int>, number: c_int, whose: c_int) {
        put(place, attribute(number, device(whose)?)?)
    }
    /// Waits for the device. Memory and streams stay, and end with the process.
    fn cudaDeviceReset() { super::streams::synchronize_all(current()) }
    /// Accepts any limit, without an effect.
    fn cudaDeviceSetLimit(limit: c_int, _value: usize) {
        if (0..=LAST_LIMIT).contains(&limit) { Ok(()) } else { Err(errors::INVALID_VALUE) }
    }
    fn cudaDeviceGetLimit(place: Out<'_, usize>, limit: c_int) {
        if !(0..=LAST_LIMIT).contains(&limit) {
            return Err(errors::INVALID_VALUE);
        }
        put(place, if limit == 0 { 1024 } else { 0 })
    }
    fn cudaDeviceCanAccessPeer(place: Out<'_, c_int>, one: c_int, other: c_int) {
        put(place, c_int::from(device(one)? != device(other)?))
    }
    fn cudaDeviceEnablePeerAccess(peer: c_int, flags: c_uint) {
        let peer = device(peer)?;
        if flags != 0 {
            return Err(errors::INVALID_VALUE);
        }
        if peer == current() {
            return Err(errors::INVALID_DEVICE);
        }
        let new = PEERS.lock().unwrap_or_else(PoisonError::into_inner).insert((current(), peer));
        if new { Ok(()) } else { Err(errors::PEER_ACCESS_ALREADY_ENABLED) }
    }
    fn cudaDeviceDisablePeerAccess(peer: c_int) {
        let pair = (current(), device(peer)?);
        let known = PEERS.lock().unwrap_or_else(PoisonError::into_inner).remove(&pair);
        if known { Ok(()) } else { Err(errors::PEER_ACCESS_NOT_ENABLED) }
    }
    /// All pairs have the same attributes, and none share arrays.
    fn cudaDeviceGetP2PAttribute(place: Out<'_, c_int>, attribute: c_int, one: c_int, other: c_int) {
        if device(one)? == device(other)? {
            return Err(errors::INVALID_DEVICE);
        }
        if !PEER_ATTRIBUTES.contains(&attribute) {
            return Err(errors::INVALID_VALUE);
        }
        put(place, c_int::from(matches!(attribute, 2 | 3)))
    }
}
