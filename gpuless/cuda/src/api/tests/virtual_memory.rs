//! Virtual memory and multicast objects, in one process and in two.
use super::fake::{self, WAITS};
use super::launch::launch;
use super::{alone, asked, bytes, driver, named};
use crate::api::locations::{Access, LocationOf, Properties};
use crate::api::memory::{PointerAttributes, cudaPointerGetAttributes};
use crate::api::multicast::{self, with_members};
use crate::api::raw::{Bytes, In};
use crate::api::transfer::cudaMemset;
use crate::api::virtual_memory::GRANULARITY;
use crate::api::{Handle, Out, Runtime, blocks, errors};
use std::ffi::{c_int, c_ulonglong};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::process::{Command, Stdio};
use std::ptr::{with_exposed_provenance_mut, without_provenance_mut};

const DESCRIPTOR: c_int = 1;

pub(super) fn device(number: c_int) -> LocationOf {
    LocationOf { kind: 1, number }
}

pub(super) fn create(location: LocationOf, len: usize, handles: c_int) -> Result<u64, c_int> {
    let properties =
        Properties { kind: 1, handles, location, windows: 0, compression: 0, network: 0, usage: 0, reserved: [0; 4] };
    let create: extern "C" fn(Out<'_, u64>, usize, In<Properties>, c_ulonglong) -> c_int = driver("cuMemCreate");
    asked(|place| create(place, len, In::of(&properties), 0))
}

fn reserve(len: usize) -> Result<usize, c_int> {
    let reserve: extern "C" fn(Out<'_, usize>, usize, usize, usize, c_ulonglong) -> c_int =
        driver("cuMemAddressReserve");
    asked(|place| reserve(place, len, 0, 0, 0))
}

fn map(at: usize, len: usize, offset: usize, handle: u64) -> c_int {
    driver::<extern "C" fn(usize, usize, usize, u64, c_ulonglong) -> c_int>("cuMemMap")(at, len, offset, handle, 0)
}

fn set_access(at: usize, len: usize, location: LocationOf, flags: c_int) -> c_int {
    let access = Access { location, flags };
    driver::<extern "C" fn(usize, usize, In<Access>, usize) -> c_int>("cuMemSetAccess")(at, len, In::of(&access), 1)
}

fn range(name: &str, at: usize, len: usize) -> c_int {
    driver::<extern "C" fn(usize, usize) -> c_int>(name)(at, len)
}

pub(super) fn release(handle: u64) -> c_int {
    driver::<extern "C" fn(u64) -> c_int>("cuMemRelease")(handle)
}

fn import(descriptor: c_int) -> Result<u64, c_int> {
    let import: extern "C" fn(Out<'_, u64>, Handle, c_int) -> c_int = driver("cuMemImportFromShareableHandle");
    asked(|place| import(place, without_provenance_mut(descriptor as usize), DESCRIPTOR))
}

fn export(handle: u64) -> Result<c_int, c_int> {
    let export: extern "C" fn(Out<'_, c_int>, u64, c_int, c_ulonglong) -> c_int =
        driver("cuMemExportToShareableHandle");
    asked(|place| export(place, handle, DESCRIPTOR, 0))
}

/// Memory at an address of its own, with access.
pub(super) fn mapped(handle: u64, len: usize) -> usize {
    let at = reserve(len).unwrap();
    assert_eq!((map(at, len, 0, handle), set_access(at, len, device(0), 3)), (0, 0));
    at
}

pub(super) fn of<'a>(at: usize, len: usize) -> &'a mut [u8] {
    bytes(with_exposed_provenance_mut(at), len)
}

#[test]
fn memory_is_known_where_it_is_mapped_with_access() {
    let _alone = alone();
    let before = blocks::in_use(5);
    let handle = create(device(5), 2 * GRANULARITY, DESCRIPTOR).unwrap();
    assert_eq!(blocks::in_use(5), before + 2 * GRANULARITY);
    let at = reserve(8 * GRANULARITY).unwrap();
    let about = |at: usize| {
        let known =
            asked::<PointerAttributes>(|place| cudaPointerGetAttributes(place, with_exposed_provenance_mut(at)));
        known.map(|known| (known.kind, known.device))
    };
    assert_eq!(map(at, 2 * GRANULARITY, 0, handle), 0);
    assert_eq!(about(at), Ok((0, -2)), "no device has access yet");
    assert_eq!(set_access(at, 2 * GRANULARITY, device(0), 3), 0);
    assert_eq!(about(at + 7), Ok((2, 5)));
    let get: extern "C" fn(Out<'_, c_ulonglong>, In<LocationOf>, usize) -> c_int = driver("cuMemGetAccess");
    assert_eq!([0, 5].map(|number| asked(|place| get(place, In::of(&device(number)), at)).unwrap()), [3, 0]);
    of(at, 2 * GRANULARITY)[GRANULARITY + 1] = 7;

    // A second address of the same memory; its handle comes back from the address.
    assert_eq!((map(at + 4 * GRANULARITY, GRANULARITY, GRANULARITY, handle), release(handle)), (0, 0));
    assert_eq!(set_access(at + 4 * GRANULARITY, GRANULARITY, device(1), 1), 0);
    assert_eq!(of(at + 4 * GRANULARITY, 2)[1], 7);
    let retain: extern "C" fn(Out<'_, u64>, usize) -> c_int = driver("cuMemRetainAllocationHandle");
    assert_eq!(asked(|place| retain(place, at + 9)), Ok(handle));
    let describe: extern "C" fn(Out<'_, Properties>, u64) -> c_int = driver("cuMemGetAllocationPropertiesFromHandle");
    let told = asked(|place| describe(place, handle)).unwrap();
    assert_eq!((told.kind, told.handles, told.location.kind, told.location.number), (1, 1, 1, 5));
    assert_eq!((release(handle), release(handle)), (0, errors::INVALID_VALUE));

    assert_eq!(range("cuMemAddressFree", at, 8 * GRANULARITY), errors::INVALID_VALUE, "it is in use");
    assert_eq!(range("cuMemUnmap", at, GRANULARITY), errors::INVALID_VALUE, "half of a mapping");
    assert_eq!(range("cuMemUnmap", at, 2 * GRANULARITY), 0);
    assert_eq!(about(at), Ok((0, -2)));
    assert_eq!(range("cuMemUnmap", at + 4 * GRANULARITY, GRANULARITY), 0);
    assert_eq!(blocks::in_use(5), before);
    assert_eq!(range("cuMemAddressFree", at, 8 * GRANULARITY), 0);
    assert_eq!(range("cuMemAddressFree", at, 8 * GRANULARITY), errors::INVALID_VALUE);
}

#[test]
fn what_memory_cannot_be_is_refused() {
    assert_eq!(create(device(0), GRANULARITY + 1, 0), Err(errors::INVALID_VALUE));
    assert_eq!(create(device(0), 0, 0), Err(errors::INVALID_VALUE));
    assert_eq!(create(device(99), GRANULARITY, 0), Err(errors::INVALID_DEVICE));
    assert_eq!(create(LocationOf { kind: 3, number: 1 }, GRANULARITY, 0), Err(errors::INVALID_VALUE));
    assert_eq!(create(device(0), GRANULARITY, 2), Err(errors::NOT_SUPPORTED), "handles of Windows");
    assert_eq!(create(device(0), 1 << 46, 0), Err(errors::MEMORY_ALLOCATION));
    assert_eq!(reserve(GRANULARITY - 1), Err(errors::INVALID_VALUE));
    assert_eq!(reserve(1 << 60), Err(errors::MEMORY_ALLOCATION));
    assert_eq!(
        gpuless_device::refusals::first(),
        None,
        "a full device, and what no machine has, are no lack of this one"
    );
    let handle = create(LocationOf { kind: 3, number: 0 }, GRANULARITY, 0).unwrap();
    let at = reserve(2 * GRANULARITY).unwrap();
    assert_eq!(export(handle), Err(errors::INVALID_VALUE), "it has no type of handle");
    assert_eq!(map(at, 2 * GRANULARITY, 0, handle), errors::INVALID_VALUE, "more than there is");
    assert_eq!(map(at, GRANULARITY, GRANULARITY, handle), errors::INVALID_VALUE);
    // Not an address beside `at`: another test may have reserved that. The system gives none so low.
    assert_eq!(map(GRANULARITY, GRANULARITY, 0, handle), errors::INVALID_VALUE, "not reserved");
    assert_eq!(map(at, GRANULARITY, 0, 5), errors::INVALID_VALUE, "no handle");
    assert_eq!(map(at, GRANULARITY, 0, handle), 0);
    assert_eq!(map(at, GRANULARITY, 0, handle), errors::INVALID_VALUE, "twice");
    let fill = |at: usize, len: usize| cudaMemset(Bytes::of::<u8>(with_exposed_provenance_mut(at)), 1, len);
    assert_eq!(fill(at, 1), errors::INVALID_VALUE, "no device has access");
    assert_eq!(set_access(at, GRANULARITY, device(0), 3), 0);
    assert_eq!(
        (fill(at, GRANULARITY), fill(at, GRANULARITY + 1)),
        (0, errors::INVALID_VALUE),
        "nothing is mapped there"
    );
    assert_eq!(set_access(at, 2 * GRANULARITY, device(0), 3), errors::INVALID_VALUE, "half of it is not mapped");
    assert_eq!(set_access(at, GRANULARITY, device(0), 2), errors::INVALID_VALUE);
    let elsewhere = File::open("/dev/null").unwrap();
    assert_eq!([elsewhere.as_raw_fd(), -1, 1 << 20].map(import), [Err(errors::INVALID_VALUE); 3]);
    assert_eq!((range("cuMemUnmap", at, GRANULARITY), range("cuMemAddressFree", at, 2 * GRANULARITY)), (0, 0));
    assert_eq!(release(handle), 0);
}

fn object(devices: u32, len: usize) -> Result<u64, c_int> {
    create_object(devices, len, 1)
}

pub(super) fn create_object(devices: u32, len: usize, handles: c_ulonglong) -> Result<u64, c_int> {
    let properties = multicast::Properties { devices, bytes: len, handles, flags: 0 };
    let create: extern "C" fn(Out<'_, u64>, In<multicast::Properties>) -> c_int = driver("cuMulticastCreate");
    asked(|place| create(place, In::of(&properties)))
}

pub(super) fn add_device(object: u64, number: c_int) -> c_int {
    driver::<extern "C" fn(u64, c_int) -> c_int>("cuMulticastAddDevice")(object, number)
}

pub(super) fn bind(object: u64, at: usize, memory: u64, len: usize) -> c_int {
    let bind: extern "C" fn(u64, usize, u64, usize, usize, c_ulonglong) -> c_int = driver("cuMulticastBindMem");
    bind(object, at, memory, 0, len, 0)
}

fn unbind(object: u64, number: c_int, at: usize, len: usize) -> c_int {
    driver::<extern "C" fn(u64, c_int, usize, usize) -> c_int>("cuMulticastUnbind")(object, number, at, len)
}

pub(super) fn members(at: usize, len: u64) -> Option<Vec<usize>> {
    let mut found = Vec::new();
    let known = with_members(at as u64, len, &mut |members| found = members.iter().map(|at| *at as usize).collect());
    known.then_some(found)
}

#[test]
fn a_multicast_address_stands_for_what_each_device_has_bound() {
    let _alone = alone();
    let object = object(2, 4 * GRANULARITY).unwrap();
    assert_eq!((add_device(object, 6), add_device(object, 6)), (0, errors::INVALID_VALUE));
    let memory = [4, 6].map(|number| create(device(number), 2 * GRANULARITY, DESCRIPTOR).unwrap());
    assert_eq!(bind(object, 0, memory[0], GRANULARITY), errors::INVALID_VALUE, "its device was not added");
    assert_eq!((add_device(object, 4), add_device(object, 5)), (0, errors::INVALID_VALUE));
    let at = mapped(object, 4 * GRANULARITY);
    assert_eq!(bind(object, GRANULARITY, memory[1], 2 * GRANULARITY), 0);
    assert_eq!(members(at + GRANULARITY, 4), None, "device 4 has bound nothing");
    assert_eq!(bind(object, GRANULARITY, memory[0], GRANULARITY), 0);
    assert_eq!(bind(object, GRANULARITY, memory[0], GRANULARITY), errors::INVALID_VALUE, "twice");
    assert_eq!(bind(object, 3 * GRANULARITY, memory[0], 2 * GRANULARITY), errors::INVALID_VALUE, "beyond the object");

    // In the order of the devices' numbers, and nowhere else than where both have memory.
    let places = members(at + GRANULARITY + 8, 16).unwrap();
    for (place, value) in places.iter().zip([40, 60]) {
        of(*place, 1)[0] = value;
    }
    let seen = memory.map(|memory| of(mapped(memory, 2 * GRANULARITY), 16)[8]);
    assert_eq!(seen, [40, 60]);
    assert_eq!(
        [0, 2 * GRANULARITY - 8, 2 * GRANULARITY, 4 * GRANULARITY].map(|byte| members(at + byte, 16)),
        [const { None }; 4]
    );

    assert_eq!(unbind(object, 6, GRANULARITY, GRANULARITY), errors::INVALID_VALUE, "half of what was bound");
    assert_eq!(unbind(object, 6, GRANULARITY, 2 * GRANULARITY), 0);
    assert_eq!(members(at + GRANULARITY, 4), None);
    assert_eq!(range("cuMemUnmap", at, 4 * GRANULARITY), 0);
    assert_eq!(members(at, 1), None);
    assert_eq!((release(object), object_of_no_devices()), (0, Err(errors::INVALID_VALUE)));
}

fn object_of_no_devices() -> Result<u64, c_int> {
    object(0, GRANULARITY)
}

const VARIABLE: &str = "COLLSPEC_TEST_DESCRIPTORS";

/// The other process: only with descriptors of the first one.
#[test]
fn the_process_that_imports() {
    let Ok(text) = std::env::var(VARIABLE) else { return };
    let files: Vec<File> =
        text.split(' ').map(|path| File::options().read(true).write(true).open(path).unwrap()).collect();
    let [memory, object] = [0, 1].map(|at| import(files[at].as_raw_fd()).unwrap());
    drop(files);
    let at = mapped(memory, GRANULARITY);
    assert_eq!(of(at, 1), [0x5a]);
    of(at, 2)[1] = 0xa5;
    assert_eq!(add_device(object, 1), 0);
    let own = create(device(1), GRANULARITY, DESCRIPTOR).unwrap();
    assert_eq!(bind(object, 0, own, GRANULARITY), 0);
    let places = members(mapped(object, GRANULARITY), 4).unwrap();
    assert_eq!(of(places[0], 2), [0x5a, 0xa5], "the memory of the other process");
    of(places[1], 1)[0] = 9;
    assert_eq!(of(mapped(own, GRANULARITY), 1), [9]);
}

#[test]
fn two_processes_share_memory_and_an_object() {
    let memory = create(device(0), GRANULARITY, DESCRIPTOR).unwrap();
    let at = mapped(memory, GRANULARITY);
    of(at, 1)[0] = 0x5a;
    let object = object(2, GRANULARITY).unwrap();
    assert_eq!((add_device(object, 0), bind(object, 0, memory, GRANULARITY)), (0, 0));
    let paths = [memory, object].map(|handle| format!("/proc/{}/fd/{}", std::process::id(), export(handle).unwrap()));
    let mut other = Command::new(std::env::current_exe().unwrap());
    other.args(["--exact", "api::tests::virtual_memory::the_process_that_imports", "--nocapture"]);
    let output = other.env(VARIABLE, paths.join(" ")).stdin(Stdio::null()).output().unwrap();
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"));
    assert_eq!(of(at, 2), [0x5a, 0xa5]);
    assert_eq!(add_device(object, 1), errors::INVALID_VALUE, "the other process has added it");
    assert_eq!((release(memory), release(object)), (0, 0));
}

/// A rank maps again while a kernel of another rank runs, which may wait for what the rank does next.
#[test]
fn memory_is_mapped_again_while_kernels_run() {
    let _alone = alone();
    for (location, room) in [(device(3), 4 * GRANULARITY), (LocationOf { kind: 3, number: 0 }, 0)] {
        let gate = fake::gate();
        let at = reserve(4 * GRANULARITY).unwrap();
        let old = [0, 2].map(|part| {
            let handle = create(location, 2 * GRANULARITY, DESCRIPTOR).unwrap();
            let at = at + part * GRANULARITY;
            assert_eq!((map(at, 2 * GRANULARITY, 0, handle), set_access(at, 2 * GRANULARITY, device(3), 3)), (0, 0));
            of(at, 1)[0] = 1;
            handle
        });
        let stream = gpuless_device::Stream::new();
        assert_eq!(launch(named(Runtime::V13, "cudaLaunchKernel"), WAITS, stream.raw()), 0);
        let full = blocks::in_use(3);
        assert_eq!((range("cuMemUnmap", at, 4 * GRANULARITY), old.map(release)), (0, [0, 0]));
        assert_eq!(full - blocks::in_use(3), room, "the room of unmapped memory is free at once");

        // In the middle, and then at both ends: parts of what was there before.
        let new = create(location, GRANULARITY, DESCRIPTOR).unwrap();
        let begun = std::time::Instant::now();
        for part in [1, 2, 0, 3] {
            let at = at + part * GRANULARITY;
            assert_eq!((map(at, GRANULARITY, 0, new), set_access(at, GRANULARITY, device(3), 3)), (0, 0));
            assert_eq!(of(at, 1), [if part == 1 { 0 } else { 7 }]);
            of(at, 1)[0] = 7;
        }
        assert!(begun.elapsed() < std::time::Duration::from_secs(1), "mapping waited for the kernel");
        gate.send(()).unwrap();
        stream.synchronize();
        assert_eq!(
            [0, 1, 2, 3].map(|part| of(at + part * GRANULARITY, 1)[0]),
            [7; 4],
            "the old end unmaps nothing new"
        );
        assert_eq!((range("cuMemUnmap", at, 4 * GRANULARITY), release(new)), (0, 0));
        assert_eq!(range("cuMemAddressFree", at, 4 * GRANULARITY), 0);
    }
}
