//! Device memory of other processes.
use super::blocks::{self, Kind};
use super::process_handle::ProcessHandle;
use super::{Handle, Out, devices, errors, put, runtime};
use gpuless_device::refusals;
use std::collections::BTreeMap;
use std::ffi::{c_int, c_uint};
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::sync::{Mutex, PoisonError};

const MAGIC: u64 = u64::from_ne_bytes(*b"gpuless\0");
const LAZY_PEER_ACCESS: c_uint = 1;

/// The information in a handle.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Meaning {
    process: u64,
    descriptor: u64,
    inode: u64,
    offset: u64,
    /// Number of mapped bytes, and the number requested.
    bytes: u64,
    len: u64,
    device: u64,
}

impl Meaning {
    fn handle(self) -> ProcessHandle {
        let Self { process, descriptor, inode, offset, bytes, len, device } = self;
        ProcessHandle::of_words([MAGIC, process, descriptor, inode, offset, bytes, len, device])
    }

    /// `None` if it is not a handle of this runtime.
    fn of(handle: ProcessHandle) -> Option<Self> {
        let [magic, process, descriptor, inode, offset, bytes, len, device] = handle.words();
        let good = magic == MAGIC && len <= bytes && offset % 4096 == 0;
        good.then_some(Self { process, descriptor, inode, offset, bytes, len, device })
    }
}

/// Open handles: the mapped address, and the number of times it is open.
static OPENED: Mutex<BTreeMap<Meaning, (usize, usize)>> = Mutex::new(BTreeMap::new());

/// The file that a handle names, if it is still that file.
fn open(handle: &Meaning) -> Option<File> {
    let path = format!("/proc/{}/fd/{}", handle.process, handle.descriptor);
    let open = File::options().read(true).write(true).open(path);
    let file = open.inspect_err(|error| refusals::note("another process's memory", 0, error)).ok()?;
    (file.metadata().ok()?.ino() == handle.inode).then_some(file)
}

runtime! {
    /// The handle is that of the whole block.
    fn cudaIpcGetMemHandle(place: Out<'_, ProcessHandle>, address: Handle) {
        let found = blocks::find(address.addr()).filter(|found| found.kind == Kind::Device);
        let found = found.ok_or(errors::INVALID_VALUE)?;
        let start = std::ptr::with_exposed_provenance(found.start);
        let memory = gpuless_device::arena::place(start).ok_or(errors::INVALID_VALUE)?;
        let meaning = Meaning {
            process: std::process::id().into(),
            descriptor: u64::try_from(memory.descriptor).map_err(|_| errors::UNKNOWN)?,
            inode: memory.inode,
            offset: memory.offset,
            bytes: memory.bytes as u64,
            len: found.len as u64,
            device: found.device as u64,
        };
        put(place, meaning.handle())
    }
    /// Fails in the process that owns the memory.
    fn cudaIpcOpenMemHandle(place: Out<'_, Handle>, handle: ProcessHandle, flags: c_uint) {
        let place = place.ok_or(errors::INVALID_VALUE)?;
        let handle = Meaning::of(handle).filter(|_| flags & !LAZY_PEER_ACCESS == 0).ok_or(errors::INVALID_VALUE)?;
        if handle.process == u64::from(std::process::id()) {
            return Err(errors::DEVICE_UNINITIALIZED);
        }
        let mut opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((address, times)) = opened.get_mut(&handle) {
            *times += 1;
            place.write(std::ptr::with_exposed_provenance_mut(*address));
            return Ok(());
        }
        let file = open(&handle).ok_or(errors::INVALID_RESOURCE_HANDLE)?;
        let bytes = usize::try_from(handle.bytes).map_err(|_| errors::INVALID_VALUE)?;
        let pointer = gpuless_device::arena::map(&file, handle.offset, bytes)
            .inspect_err(|error| refusals::note("another process's memory", bytes, error))
            .map_err(|_| errors::INVALID_RESOURCE_HANDLE)?;
        let start = pointer.expose_provenance();
        // It is memory of the device that it was allocated on; a process without that device takes its current one.
        let device = c_int::try_from(handle.device).ok().and_then(|number| devices::device(number).ok());
        let len = usize::try_from(handle.len).unwrap_or(bytes);
        blocks::mapped(device.unwrap_or_else(devices::current), start, len, Kind::Opened);
        opened.insert(handle, (start, 1));
        place.write(pointer.cast());
        Ok(())
    }
    /// Unmaps the memory when it was closed as often as it was opened, and the work launched by then has ended.
    fn cudaIpcCloseMemHandle(address: Handle) {
        let mut opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
        let known = opened.iter_mut().find(|(_, (start, _))| *start == address.addr());
        let (handle, (_, times)) = known.ok_or(errors::INVALID_VALUE)?;
        *times -= 1;
        if *times == 0 {
            let handle = *handle;
            opened.remove(&handle);
            blocks::end(address.addr(), &[Kind::Opened]);
        }
        Ok(())
    }
}
