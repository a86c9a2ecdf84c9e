//! Cuts the machine code of GPUs out of a library's file: software GPUs execute its PTX, which stays.
use collspec_run::backend::software_gpus;
use gpuless_cuda::fatbin::{FatBinaries, FatbinError};
use gpuless_cuda::library::LibraryError;
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// The amount of a library that was kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Bytes that were kept.
    pub bytes: u64,
    /// Bytes that there were.
    pub of: u64,
}

/// The reason nothing was cut.
#[derive(Debug, thiserror::Error)]
pub enum SlimError {
    /// The library cannot run on software GPUs, so the rest of the file would be useless.
    #[error("it cannot be slimmed, because it cannot run on software GPUs: {0}")]
    NotForSoftwareGpus(#[from] LibraryError),
    /// Its machine code is not found.
    #[error("it cannot be slimmed: {0}")]
    Fatbin(#[from] FatbinError),
    /// The file cannot be changed.
    #[error("it cannot be slimmed: {0}")]
    Write(#[from] io::Error),
}

/// Puts zeros in the place of all machine code, as holes where the file system has them. Sizes and places stay, so that everything else
/// in the file still holds, and [`FatBinaries::is_slimmed`] is true.
///
/// # Errors
///
/// The library cannot run on software GPUs, or its file cannot be read or written.
pub fn slim(path: &Path) -> Result<Kept, SlimError> {
    software_gpus::check(path)?;
    let binaries = FatBinaries::open(path)?;
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    let of = file.metadata()?.len();
    let mut cut = 0;
    for place in binaries.machine_code() {
        cut += place.end - place.start;
        clear(&file, place)?;
    }
    file.sync_all()?;
    Ok(Kept { bytes: of.saturating_sub(cut), of })
}

fn clear(file: &File, place: Range<u64>) -> io::Result<()> {
    static ZEROS: [u8; 1 << 16] = [0; 1 << 16];
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    match fallocate(file, flags, place.start, place.end - place.start) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => {}
        done => return Ok(done?),
    }
    let mut at = place.start;
    while at < place.end {
        let zeros = &ZEROS[..(place.end - at).min(ZEROS.len() as u64) as usize];
        file.write_all_at(zeros, at)?;
        at += zeros.len() as u64;
    }
    Ok(())
}
