//! Handles of memory and of multicast objects for other processes: descriptors, and handles of the fabric, which are 64 bytes that a process on any
//! machine of the NVLink domain may open.
//!
//! All trays of a domain are processes on one machine, so a handle of the fabric names a process and one of its files. A handle can be out of date or
//! forged. Whatever its bytes are, this module opens only files of the kind that it makes itself, and accepts one only if it is the file that the
//! handle was made for.
use super::process_handle::ProcessHandle;
use super::settings::settings;
use gpuless_device::refusals;
use gpuless_device::virtual_memory::SealedFile;
use std::ffi::{c_int, c_ulonglong};
use std::os::fd::AsRawFd;

/// A type of handle: a value of `CUmemAllocationHandleType`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HandleType {
    /// A POSIX descriptor.
    Descriptor = 1,
    /// Only in an NVLink domain of several machines.
    Fabric = 8,
}

impl HandleType {
    /// The type with this number, if there is one here.
    pub fn of(number: c_int) -> Option<Self> {
        let is_in_domain = settings().domain.is_some();
        match number {
            1 => Some(Self::Descriptor),
            8 => is_in_domain.then_some(Self::Fabric),
            _ => None,
        }
    }
}

/// The types of handle that memory can be exported as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HandleTypes(c_ulonglong);

impl HandleTypes {
    /// The types that a caller asks for, one bit for each, if all of them are here.
    pub fn of(bits: c_ulonglong) -> Option<Self> {
        let fabric = HandleType::of(HandleType::Fabric as c_int).map_or(0, |kind| kind as c_ulonglong);
        let known = HandleType::Descriptor as c_ulonglong | fabric;
        (bits & !known == 0).then_some(Self(bits))
    }

    /// Those of memory that came as a handle of this type.
    pub fn only(kind: HandleType) -> Self {
        Self(kind as c_ulonglong)
    }

    pub fn bits(self) -> c_ulonglong {
        self.0
    }

    pub fn has(self, kind: HandleType) -> bool {
        self.0 & kind as c_ulonglong != 0
    }

    pub fn is_none(self) -> bool {
        self.0 == 0
    }
}

/// Begins every handle of the fabric.
const MAGIC: u64 = u64::from_ne_bytes(*b"fabric\0\0");

/// The handle of the fabric for a file of this process. `None` outside of a domain.
pub(super) fn fabric_handle(file: &SealedFile) -> Option<ProcessHandle> {
    let domain = settings().domain.as_ref()?;
    let descriptor = u64::try_from(file.file().as_raw_fd()).ok()?;
    let process = std::process::id().into();
    Some(ProcessHandle::of_words([MAGIC, domain.id(), process, descriptor, file.inode(), 0, 0, 0]))
}

/// The file that a handle of the fabric was made for. `None` if the bytes are not a handle of this domain, or the file is gone.
pub(super) fn fabric_file(handle: ProcessHandle) -> Option<SealedFile> {
    let [magic, domain, process, descriptor, inode, rest @ ..] = handle.words();
    let is_of_domain = settings().domain.as_ref().is_some_and(|own| own.id() == domain);
    if magic != MAGIC || rest != [0; 3] || !is_of_domain {
        return None;
    }
    let file = SealedFile::of_process(process.try_into().ok()?, descriptor.try_into().ok()?);
    let file = file.inspect_err(|error| refusals::note("another process's memory", 0, error)).ok()?;
    // The process may have closed the file since, and have another under its number.
    (file.inode() == inode).then_some(file)
}
