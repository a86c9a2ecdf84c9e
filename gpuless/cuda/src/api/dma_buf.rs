//! Device memory as a file descriptor, by which network adapters reach it (DMA-BUF).
use super::blocks::{self, Kind};
use super::virtual_memory::{self, no_flags};
use super::{Out, errors, put, runtime};
use std::ffi::{c_int, c_ulonglong};
use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::os::fd::{AsRawFd, IntoRawFd};

/// `CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD`.
const DMA_BUF: c_int = 1;
const PAGE: usize = 4096;

/// The descriptor of the file that a range lies in, and its place there.
fn file_of(start: usize, bytes: usize) -> Result<(c_int, u64), c_int> {
    if let Ok(parts) = virtual_memory::mapped_parts(start, bytes) {
        // One descriptor cannot stand for several files.
        let [(object, offset, _)] = parts.as_slice() else { return Err(errors::INVALID_VALUE) };
        return Ok((object.file().file().as_raw_fd(), *offset));
    }
    let found = blocks::find(start).filter(|found| found.kind == Kind::Device);
    let found = found.filter(|found| found.start + found.len >= start.saturating_add(bytes));
    let found = found.ok_or(errors::INVALID_VALUE)?;
    let place = gpuless_device::arena::place(std::ptr::with_exposed_provenance(found.start));
    let place = place.ok_or(errors::NOT_SUPPORTED)?;
    Ok((place.descriptor, place.offset + (start - found.start) as u64))
}

runtime! {
    /// The range begins at the descriptor's file position, so that is the offset from which it has to be mapped.
    fn cuMemGetHandleForAddressRange(place: Out<'_, c_int>, start: usize, bytes: usize, kind: c_int, flags: c_ulonglong) {
        no_flags(flags)?;
        if kind != DMA_BUF || bytes == 0 || !start.is_multiple_of(PAGE) || !bytes.is_multiple_of(PAGE) {
            return Err(errors::INVALID_VALUE);
        }
        let (descriptor, offset) = file_of(start, bytes)?;
        // A duplicate would share its position with all others.
        let own = File::options().read(true).write(true).open(format!("/proc/self/fd/{descriptor}"));
        let mut own = own.map_err(|_| errors::UNKNOWN)?;
        own.seek(SeekFrom::Start(offset)).map_err(|_| errors::UNKNOWN)?;
        put(place, own.into_raw_fd())
    }
}
