//! Memory, copies and fills.
use super::fake::{self, WAITS};
use super::{alone, asked, bytes, named};
use crate::api::devices::cudaSetDevice;
use crate::api::memory::*;
use crate::api::pools::*;
use crate::api::raw::{Bytes, In, Room};
use crate::api::streams::*;
use crate::api::transfer::*;
use crate::api::{Change, Handle, Out, Runtime, errors, watch_memory};
use std::ffi::{c_int, c_uint};
use std::ptr::{null, null_mut};
use std::sync::{Arc, Mutex};

fn malloc(len: usize) -> Result<Handle, c_int> {
    asked(|place| cudaMalloc(place, len))
}

#[test]
fn blocks_are_known_by_any_address_in_them() {
    cudaSetDevice(2);
    let block = malloc(5000).unwrap();
    let about = |address: Handle| {
        let known = asked::<PointerAttributes>(|place| cudaPointerGetAttributes(place, address)).unwrap();
        (known.kind, known.device, known.device_pointer, known.host_pointer)
    };
    let inside = block.wrapping_byte_add(4999);
    cudaSetDevice(0);
    assert_eq!(about(inside), (2, 2, inside, null_mut()));
    let own = (&raw mut *Box::leak(Box::new(7u8))).cast();
    assert_eq!(about(own), (0, -2, null_mut(), own));
    let pinned = asked(|place| cudaHostAlloc(place, 10, 1)).unwrap();
    assert_eq!(about(pinned), (1, 0, pinned, pinned));
    assert_eq!(asked(|place| cudaHostGetDevicePointer(place, pinned, 0)), Ok(pinned));
    // Memory that gpuless-device allocated for another caller is device memory.
    let elsewhere = gpuless_device::memory::alloc(64, 64).unwrap();
    assert_eq!(about(elsewhere.cast()), (2, 0, elsewhere.cast(), null_mut()));

    let mut start = 0usize;
    let mut attribute = |what| pointer_attribute(Room::of(&mut start), what, inside.addr());
    assert_eq!(attribute(11), Ok(()));
    assert_eq!(attribute(99), Err(errors::NOT_SUPPORTED));
    assert_eq!(start, block.addr());
    assert_eq!(cudaFree(inside), errors::INVALID_VALUE);
    assert_eq!(cudaFree(pinned), errors::INVALID_VALUE);
    assert_eq!((cudaFree(block), cudaFree(block), cudaFree(null_mut())), (0, errors::INVALID_VALUE, 0));
    assert_eq!((cudaFreeHost(pinned), cudaFreeHost(null_mut())), (0, 0));
    assert_eq!(asked(|place| cudaHostAlloc(place, 10, 64)), Err::<Handle, _>(errors::INVALID_VALUE));
}

#[test]
fn a_device_has_as_much_memory_as_it_says() {
    cudaSetDevice(6);
    assert_eq!(malloc(0), Ok(null_mut()));
    assert_eq!(malloc(81 << 30), Err(errors::MEMORY_ALLOCATION));
    assert_eq!(malloc(usize::MAX), Err(errors::MEMORY_ALLOCATION));
    assert_eq!(cudaMalloc(None, 1), errors::INVALID_VALUE);
    // Memory that is never written to costs nothing, so the device's size is the limit, not the machine's.
    let most = malloc(79 << 30).unwrap();
    let mut total = std::mem::MaybeUninit::uninit();
    assert_eq!(asked::<usize>(|free| cudaMemGetInfo(free, Some(&mut total))), Ok(1 << 30));
    assert_eq!(malloc(2 << 30), Err(errors::MEMORY_ALLOCATION));
    assert_eq!(cudaFree(most), 0);
    assert_eq!(asked::<usize>(|free| cudaMemGetInfo(free, Some(&mut total))), Ok(80 << 30));
}

/// Bytes of this process's shared memory that are resident, if the system reports it.
fn resident() -> Option<usize> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("RssShmem:"))?;
    Some(line.trim().trim_end_matches(" kB").parse::<usize>().ok()? << 10)
}

#[test]
fn zeros_cost_no_memory() {
    let _alone = alone();
    let Some(before) = resident() else { return };
    let block = malloc(1 << 30).unwrap();
    bytes(block, 1 << 30)[12345] = 7;
    assert_eq!(cudaMemset(Bytes::of(block), 0, 1 << 30), 0);
    // SAFETY: it lies in the block.
    assert_eq!(unsafe { block.cast::<u8>().add(12345).read() }, 0);
    let more = resident().unwrap().saturating_sub(before);
    assert!(more < 64 << 20, "{more} bytes");
    assert_eq!(cudaMemset(Bytes::of(block), 0x1ff, 1 << 20), 0);
    assert!(bytes(block, 1 << 20).iter().all(|byte| *byte == 0xff));
    assert_eq!(cudaFree(block), 0);
}

#[test]
fn host_memory_is_registered_once() {
    let mut own = vec![0u8; 4096];
    let address: Handle = own.as_mut_ptr().cast();
    let register = |offset: usize, len| cudaHostRegister(address.wrapping_byte_add(offset), len, 0);
    assert_eq!(register(1024, 1024), 0);
    assert_eq!(register(1500, 8), errors::HOST_MEMORY_ALREADY_REGISTERED);
    assert_eq!(register(0, 1025), errors::HOST_MEMORY_ALREADY_REGISTERED);
    assert_eq!((register(2048, 8), register(0, 0)), (0, errors::INVALID_VALUE));
    assert_eq!(cudaHostUnregister(address), errors::HOST_MEMORY_NOT_REGISTERED);
    for offset in [1024, 2048] {
        assert_eq!(cudaHostUnregister(address.wrapping_byte_add(offset)), 0);
    }
    assert_eq!(register(0, 4096), 0);
    assert_eq!(cudaHostUnregister(address), 0);
}

#[test]
fn what_is_freed_is_there_until_kernels_have_ended() {
    let _alone = alone();
    let changes: Arc<Mutex<Vec<Change>>> = Arc::default();
    let noted = changes.clone();
    watch_memory(Arc::new(move |change| noted.lock().unwrap().push(change)));
    let is_gone = |address: Handle| changes.lock().unwrap().contains(&Change::Unmapped { address: address.addr() });
    let (block, pinned) = (malloc(100).unwrap(), asked(|place| cudaMallocHost(place, 100)).unwrap());
    let mut own = [0u8; 64];
    let registered: Handle = own.as_mut_ptr().cast();
    assert_eq!(cudaHostRegister(registered, 64, 0), 0);
    let is_mapped = |address: usize, bytes| changes.lock().unwrap().contains(&Change::Mapped { address, bytes });
    assert!(is_mapped(block.addr(), 100));
    // Memory that gpuless-device gives to others is memory of kernels, too.
    let elsewhere = gpuless_device::memory::alloc(77, 64).unwrap();
    assert!(is_mapped(elsewhere.addr(), 77));

    let gate = fake::gate();
    let stream = asked(|place| cudaStreamCreateWithFlags(place, 1)).unwrap();
    let launch: super::launch::LaunchKernel = named(Runtime::V12, "cudaLaunchKernel");
    assert_eq!(super::launch::launch(launch, WAITS, stream), 0);
    bytes(block, 100).fill(3);
    assert_eq!((cudaFree(block), cudaFreeHost(pinned), cudaHostUnregister(registered)), (0, 0, 0));
    assert_eq!(cudaFree(block), errors::INVALID_VALUE);
    assert!(![block, pinned, registered].into_iter().any(is_gone));
    assert_eq!(bytes(block, 100), [3; 100]);
    // Memory that is registered again in the meantime stays when its first registration ends.
    assert_eq!(cudaHostRegister(registered, 64, 0), 0);
    gate.send(()).unwrap();
    assert_eq!(cudaStreamSynchronize(stream), 0);
    assert!(is_gone(block) && is_gone(pinned) && !is_gone(registered));
    assert_eq!(cudaHostUnregister(registered), 0);
    assert!(is_gone(registered));
    assert_eq!(cudaStreamDestroy(stream), 0);
}

#[test]
fn copies_take_pageable_memory_at_once() {
    let _alone = alone();
    let block = malloc(64).unwrap();
    let stream = asked(|place| cudaStreamCreate(place)).unwrap();
    let gate = fake::gate();
    let launch: super::launch::LaunchKernel = named(Runtime::V12, "cudaLaunchKernel");
    assert_eq!(super::launch::launch(launch, WAITS, stream), 0);
    let mut own = [1u8; 64];
    assert_eq!(cudaMemcpyAsync(Bytes::of(block), Bytes::of(own.as_mut_ptr()), 64, 1, stream), 0);
    own.fill(2);
    assert_eq!(cudaStreamQuery(stream), errors::NOT_READY);
    gate.send(()).unwrap();
    // A copy to pageable memory waits for its stream.
    assert_eq!(cudaMemcpyAsync(Bytes::of(own.as_mut_ptr()), Bytes::of(block), 32, 2, stream), 0);
    assert_eq!((own[0], own[31], own[32]), (1, 1, 2));
    let mut memcpy = |kind| cudaMemcpy(Bytes::of(own.as_mut_ptr()), Bytes::of(block), 8, kind);
    assert_eq!((memcpy(4), memcpy(5)), (0, errors::INVALID_VALUE));
    assert_eq!(cudaMemcpy(Bytes::of(null_mut::<u8>()), Bytes::of(block), 8, 4), errors::INVALID_VALUE);
    assert_eq!(cudaMemcpy(Bytes::of(null_mut::<u8>()), Bytes::of(block), 0, 4), 0);
    let lost = std::ptr::without_provenance_mut(0x77);
    assert_eq!(cudaMemsetAsync(Bytes::of(block), 1, 8, lost), errors::INVALID_RESOURCE_HANDLE);
    assert_eq!((cudaFree(block), cudaStreamDestroy(stream)), (0, 0));
}

#[test]
fn pools_give_memory_of_their_device() {
    cudaSetDevice(1);
    let properties = |kind: c_int, device: c_int| [kind, 0, 1, device];
    let create =
        |properties: [c_int; 4]| asked(|place| cudaMemPoolCreate(place, In::of((&raw const properties).cast())));
    let pool = create(properties(1, 1)).unwrap();
    assert_eq!(create(properties(7, 1)), Err(errors::INVALID_VALUE));
    assert_eq!(create(properties(1, 9)), Err(errors::INVALID_DEVICE));
    assert_eq!((cudaMemPoolSetAttribute(pool, 4, null_mut()), cudaMemPoolTrimTo(pool, 0)), (0, 0));
    assert_eq!(cudaMemPoolSetAttribute(pool, 99, null_mut()), errors::INVALID_VALUE);
    let block = asked(|place| cudaMallocFromPoolAsync(place, 100, pool, null_mut())).unwrap();
    bytes(block, 100).fill(1);
    assert_eq!(cudaFreeAsync(block, null_mut()), 0);
    assert_eq!(cudaStreamSynchronize(null_mut()), 0);
    assert_eq!(cudaFree(block), errors::INVALID_VALUE);
    assert_eq!(cudaFreeAsync(block, null_mut()), errors::INVALID_VALUE);
    assert_eq!((cudaMemPoolDestroy(pool), cudaMemPoolDestroy(pool)), (0, errors::INVALID_VALUE));
    let own = asked(|place| cudaDeviceGetDefaultMemPool(place, 1)).unwrap();
    let block = asked(|place| cudaMallocFromPoolAsync(place, 100, own, null_mut())).unwrap();
    assert_eq!(cudaFree(block), 0);
    let flags: Out<'_, c_uint> = None;
    assert_eq!(cudaHostGetFlags(flags, block), errors::INVALID_VALUE);
}

#[test]
fn variables_are_those_of_the_current_device() {
    cudaSetDevice(3);
    let symbol = In::of(fake::variable());
    assert_eq!(asked(|place| cudaGetSymbolAddress(place, symbol)).map(|address: Handle| address.addr()), Ok(0x1003));
    assert_eq!(asked(|place| cudaGetSymbolSize(place, symbol)), Ok(24));
    let unknown = In::of(null());
    assert_eq!(asked::<usize>(|place| cudaGetSymbolSize(place, unknown)), Err(errors::INVALID_SYMBOL));
}

#[test]
fn batches_of_copies_name_the_one_that_fails() {
    type Batch = extern "C" fn(
        *const Handle,
        *const Handle,
        *const usize,
        usize,
        *const (),
        *const usize,
        usize,
        Out<'_, usize>,
        Handle,
    ) -> c_int;
    type Later = extern "C" fn(
        *const Handle,
        *const Handle,
        *const usize,
        usize,
        *const (),
        *const usize,
        usize,
        Handle,
    ) -> c_int;
    let batch: Batch = named(Runtime::V12, "cudaMemcpyBatchAsync");
    let later: Later = named(Runtime::V13, "cudaMemcpyBatchAsync");
    let (from, to) = (malloc(16).unwrap(), malloc(16).unwrap());
    bytes(from, 16).copy_from_slice(b"0123456789abcdef");
    let stream = asked(|place| cudaStreamCreate(place)).unwrap();
    let at = |block: Handle, offset| block.wrapping_byte_add(offset);
    let (targets, sources, sizes) = ([at(to, 8), to], [from, at(from, 12)], [8, 4]);
    let (targets, sources) = (targets.as_ptr(), sources.as_ptr());
    assert_eq!(later(targets, sources, sizes.as_ptr(), 2, null(), null(), 0, stream), 0);
    assert_eq!(cudaStreamSynchronize(stream), 0);
    assert_eq!(bytes(to, 16), b"cdef\0\0\0\x0001234567");
    let failed = |targets: *const Handle, stream| {
        let mut index = std::mem::MaybeUninit::new(7);
        let code = batch(targets, sources, sizes.as_ptr(), 2, null(), null(), 0, Some(&mut index), stream);
        // SAFETY: it was initialized with a value.
        (code, unsafe { index.assume_init() })
    };
    assert_eq!(failed(targets, stream), (0, 7));
    assert_eq!(failed([to, null_mut()].as_ptr(), stream), (errors::INVALID_VALUE, 1));
    assert_eq!(failed(targets, null_mut()), (errors::INVALID_VALUE, usize::MAX));
    assert_eq!((cudaStreamSynchronize(stream), cudaStreamDestroy(stream)), (0, 0));
    assert_eq!((cudaFree(from), cudaFree(to)), (0, 0));
}
