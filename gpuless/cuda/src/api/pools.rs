//! Memory pools: all of them take from the device's memory, and cache nothing.
use super::raw::{In, Room};
use super::{Handle, Out, devices, errors, handles, memory, put, runtime, streams};
use std::collections::BTreeMap;
use std::ffi::c_int;
use std::ptr::without_provenance_mut;
use std::sync::{Mutex, PoisonError};

/// Handles are numbers from here on; those of the devices' own pools come first.
const FIRST: usize = 0xd0_0000;
const FIRST_MADE: usize = FIRST + 0x10_0000;
/// The last attribute of `cudaMemPoolAttr`.
const LAST_ATTRIBUTE: c_int = 8;

/// `cudaMemAccessFlagsProtReadWrite`.
const READ_AND_WRITE: c_int = 3;

#[derive(Default)]
struct Pools {
    /// The device of each.
    live: BTreeMap<usize, usize>,
    made: usize,
}

static POOLS: Mutex<Option<Pools>> = Mutex::new(None);

/// The first fields of `cudaMemPoolProps`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Properties {
    allocation: c_int,
    handles: c_int,
    location: c_int,
    device: c_int,
}

fn device_of(pool: Handle) -> Result<usize, c_int> {
    let number = pool.addr();
    if (FIRST..FIRST_MADE).contains(&number) {
        let device = handles::number(FIRST, number).map(super::int).ok_or(errors::INVALID_VALUE)?;
        return devices::device(device);
    }
    let pools = POOLS.lock().unwrap_or_else(PoisonError::into_inner);
    pools.as_ref().and_then(|pools| pools.live.get(&number)).copied().ok_or(errors::INVALID_VALUE)
}

runtime! {
    fn cudaMemPoolCreate(place: Out<'_, Handle>, properties: In<Properties>) {
        let place = place.ok_or(errors::INVALID_VALUE)?;
        let properties = properties.get()?;
        // pinned memory at a device, which other processes do not see
        if properties.allocation != 1 || properties.location != 1 {
            return Err(errors::INVALID_VALUE);
        }
        if properties.handles != 0 {
            return Err(errors::NOT_SUPPORTED);
        }
        let device = devices::device(properties.device)?;
        let mut pools = POOLS.lock().unwrap_or_else(PoisonError::into_inner);
        let pools = pools.get_or_insert_default();
        let handle = handles::handle(FIRST_MADE, pools.made);
        pools.made += 1;
        pools.live.insert(handle, device);
        place.write(without_provenance_mut(handle));
        Ok(())
    }
    fn cudaMemPoolDestroy(pool: Handle) {
        let mut pools = POOLS.lock().unwrap_or_else(PoisonError::into_inner);
        let gone = pools.as_mut().and_then(|pools| pools.live.remove(&pool.addr()));
        gone.map(|_| ()).ok_or(errors::INVALID_VALUE)
    }
    /// Attributes are accepted and have no effect.
    fn cudaMemPoolSetAttribute(pool: Handle, attribute: c_int, _value: Handle) {
        device_of(pool)?;
        if (1..=LAST_ATTRIBUTE).contains(&attribute) { Ok(()) } else { Err(errors::INVALID_VALUE) }
    }
    /// A pool holds nothing back, and may reuse memory in every way.
    fn cudaMemPoolGetAttribute(pool: Handle, attribute: c_int, place: Room) {
        device_of(pool)?;
        match attribute {
            1..=3 => place.write(&1u32.to_ne_bytes()),
            4..=LAST_ATTRIBUTE => place.write(&0u64.to_ne_bytes()),
            _ => Err(errors::INVALID_VALUE),
        }
    }
    /// Every device reads and writes every other's memory.
    fn cudaMemPoolSetAccess(pool: Handle, _accesses: In<u8>, _count: usize) { device_of(pool).map(|_| ()) }
    fn cudaMemPoolGetAccess(access: Out<'_, c_int>, pool: Handle, _location: In<u8>) {
        device_of(pool)?;
        put(access, READ_AND_WRITE)
    }
    fn cudaMemPoolTrimTo(pool: Handle, _bytes: usize) { device_of(pool).map(|_| ()) }
    fn cudaDeviceGetDefaultMemPool(place: Out<'_, Handle>, device: c_int) {
        put(place, without_provenance_mut(handles::handle(FIRST, devices::device(device)?)))
    }
    by_thread cudaMallocFromPoolAsync_ptsz fn cudaMallocFromPoolAsync(
        place: Out<'_, Handle>,
        len: usize,
        pool: Handle,
        stream: Handle,
    ) {
        let device = device_of(pool)?;
        streams::lookup(stream)?;
        if device == devices::current() { memory::allocate(place, len) } else { Err(errors::NOT_SUPPORTED) }
    }
}
