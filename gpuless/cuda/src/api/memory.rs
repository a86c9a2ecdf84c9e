//! Device memory and pinned host memory.
use super::blocks::{self, Found, Kind};
use super::raw::{In, Room};
use super::settings::settings;
use super::{Handle, Out, Outcome, devices, errors, int, put, runtime, streams, virtual_memory, work};
use std::ffi::{c_int, c_uint};
use std::ptr::{null_mut, with_exposed_provenance_mut};
use std::sync::Arc;

/// `cudaMemoryType`.
const UNREGISTERED: c_int = 0;
const HOST: c_int = 1;
const DEVICE: c_int = 2;
/// No device: of memory that the runtime does not know.
const NO_DEVICE: c_int = -2;
const HOST_ALLOC_FLAGS: c_uint = 7;
const HOST_REGISTER_FLAGS: c_uint = 15;

/// `cudaPointerAttributes`, without the reserved fields at the end of version 13's.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct PointerAttributes {
    pub kind: c_int,
    pub device: c_int,
    pub device_pointer: Handle,
    pub host_pointer: Handle,
}

/// Device memory of the current device. No bytes have no address.
pub(super) fn allocate(place: Out<'_, Handle>, len: usize) -> Outcome {
    let place = place.ok_or(errors::INVALID_VALUE)?;
    errors::check(devices::current())?;
    let start = if len == 0 { 0 } else { blocks::alloc_device(devices::current(), len)? };
    place.write(pointer(start));
    Ok(())
}

fn allocate_pinned(place: Out<'_, Handle>, len: usize, flags: c_uint) -> Outcome {
    let place = place.ok_or(errors::INVALID_VALUE)?;
    if flags & !HOST_ALLOC_FLAGS != 0 {
        return Err(errors::INVALID_VALUE);
    }
    let start = if len == 0 { 0 } else { blocks::alloc_pinned(devices::current(), len)? };
    place.write(pointer(start));
    Ok(())
}

fn pointer(address: usize) -> Handle {
    if address == 0 { null_mut() } else { with_exposed_provenance_mut(address) }
}

/// Frees the block that begins at this address; null is accepted and does nothing.
pub(super) fn free(address: Handle, kind: Kind) -> Outcome {
    if address.is_null() || blocks::end(address.addr(), &[kind]) { Ok(()) } else { Err(errors::INVALID_VALUE) }
}

/// Pinned or registered memory.
fn host_block(address: Handle) -> Result<Found, c_int> {
    let found = blocks::find(address.addr()).filter(|found| !found.kind.on_device());
    found.ok_or(errors::INVALID_VALUE)
}

runtime! {
    fn cudaMalloc(place: Out<'_, Handle>, len: usize) { allocate(place, len) }
    /// Does not wait: the memory stays until all work launched so far has ended.
    fn cudaFree(address: Handle) { free(address, Kind::Device) }
    fn cudaMallocHost(place: Out<'_, Handle>, len: usize) { allocate_pinned(place, len, 0) }
    fn cudaHostAlloc(place: Out<'_, Handle>, len: usize, flags: c_uint) { allocate_pinned(place, len, flags) }
    fn cudaFreeHost(address: Handle) { free(address, Kind::Pinned) }
    fn cudaHostRegister(address: Handle, len: usize, flags: c_uint) {
        if address.is_null() || len == 0 || flags & !HOST_REGISTER_FLAGS != 0 {
            return Err(errors::INVALID_VALUE);
        }
        blocks::register(devices::current(), address.expose_provenance(), len)
    }
    fn cudaHostUnregister(address: Handle) {
        if blocks::end(address.addr(), &[Kind::Registered]) { Ok(()) } else { Err(errors::HOST_MEMORY_NOT_REGISTERED) }
    }
    /// Both sides have the same addresses.
    fn cudaHostGetDevicePointer(place: Out<'_, Handle>, address: Handle, flags: c_uint) {
        if flags != 0 {
            return Err(errors::INVALID_VALUE);
        }
        host_block(address)?;
        put(place, address)
    }
    fn cudaHostGetFlags(flags: Out<'_, c_uint>, address: Handle) {
        host_block(address)?;
        put(flags, 0)
    }
    fn cudaPointerGetAttributes(place: Out<'_, PointerAttributes>, address: Handle) {
        let attributes = match blocks::find(address.addr()) {
            None => PointerAttributes {
                kind: UNREGISTERED, device: NO_DEVICE, device_pointer: null_mut(), host_pointer: address,
            },
            Some(found) => PointerAttributes {
                kind: if found.kind.on_device() { DEVICE } else { HOST },
                device: int(found.device),
                device_pointer: address,
                host_pointer: if found.kind.on_device() { null_mut() } else { address },
            },
        };
        put(place, attributes)
    }
    fn cudaMemGetInfo(free: Out<'_, usize>, total: Out<'_, usize>) {
        let all = settings().memory;
        put(free, all.saturating_sub(blocks::in_use(devices::current())))?;
        put(total, all)
    }
    by_thread cudaMallocAsync_ptsz fn cudaMallocAsync(place: Out<'_, Handle>, len: usize, stream: Handle) {
        streams::lookup(stream)?;
        allocate(place, len)
    }
    /// Frees memory in stream order.
    by_thread cudaFreeAsync_ptsz fn cudaFreeAsync(address: Handle, stream: Handle) {
        let stream = streams::lookup(stream)?;
        let start = address.addr();
        let known = blocks::find(start).is_some_and(|found| found.kind == Kind::Device && found.start == start);
        if !known {
            return Err(errors::INVALID_VALUE);
        }
        work::put(&stream, gpuless_device::NodeKind::Empty, Arc::new(move || _ = blocks::end(start, &[Kind::Device])));
        Ok(())
    }
    /// Address and size of a variable of a kernel.
    fn cudaGetSymbolAddress(place: Out<'_, Handle>, symbol: In<u8>) {
        let (address, _) = symbol_of(symbol)?;
        put(place, pointer(address))
    }
    fn cudaGetSymbolSize(place: Out<'_, usize>, symbol: In<u8>) { put(place, symbol_of(symbol)?.1) }
}

/// Address and size of a variable of a kernel.
pub(super) fn symbol_of(symbol: In<u8>) -> Result<(usize, usize), c_int> {
    let address = symbol.bytes().address().cast_const().cast();
    let found = super::kernels::find(address).ok_or(errors::INVALID_SYMBOL)?;
    let variable = found.kernels.variable(devices::current(), &found.name).ok_or(errors::INVALID_SYMBOL)?;
    let number = |number: u64| usize::try_from(number).map_err(|_| errors::INVALID_SYMBOL);
    Ok((number(variable.0)?, number(variable.1)?))
}

/// Writes one attribute for `cuPointerGetAttribute`.
pub(super) fn pointer_attribute(place: Room, attribute: c_int, address: usize) -> Outcome {
    let found = blocks::find(address).ok_or(errors::INVALID_VALUE)?;
    let on_device = found.kind.on_device();
    match attribute {
        2 => place.write(&(if on_device { DEVICE } else { HOST }).to_ne_bytes()),
        3 => place.write(&address.to_ne_bytes()),
        4 if on_device => Err(errors::INVALID_VALUE),
        4 => place.write(&address.to_ne_bytes()),
        // managed: no memory is
        8 => place.write(&[0]),
        9 => place.write(&int(found.device).to_ne_bytes()),
        // memory of cudaMalloc, which another process can open, or of gpuless-device, which stands for such memory
        10 => place.write(&[u8::from(matches!(found.kind, Kind::Device | Kind::Elsewhere))]),
        11 => place.write(&found.start.to_ne_bytes()),
        12 => place.write(&found.len.to_ne_bytes()),
        13 => place.write(&[1]),
        14 => place.write(&virtual_memory::handle_types(address).unwrap_or(0).to_ne_bytes()),
        // access by network cards
        15 => place.write(&[0]),
        _ => Err(errors::NOT_SUPPORTED),
    }
}

/// The bytes of an attribute's value.
pub(super) fn attribute_size(attribute: c_int) -> usize {
    match attribute {
        2 | 9 => 4,
        8 | 10 | 13 | 15 => 1,
        _ => 8,
    }
}
