//! The libraries loaded in this process, and the protection of their memory.
#![allow(unsafe_code)] // the loader tells about its libraries by a callback

use crate::elf::Segment;
use std::ffi::{CStr, OsStr, c_int, c_void};
use std::fs::{File, Metadata};
use std::io::{self, BufRead, BufReader};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

/// A library that the loader has mapped.
#[derive(Debug)]
pub(super) struct Loaded {
    path: PathBuf,
    /// The offset from addresses in the file to addresses in memory.
    pub(super) base: usize,
    pub(super) segments: Vec<Segment>,
}

/// The library that was loaded from this file.
pub(super) fn find(file: &Metadata) -> Option<Loaded> {
    let same = |loaded: &Loaded| {
        let found = std::fs::metadata(&loaded.path);
        found.is_ok_and(|found| (found.dev(), found.ino()) == (file.dev(), file.ino()))
    };
    all().into_iter().find(same)
}

fn all() -> Vec<Loaded> {
    let mut loaded: Vec<Loaded> = Vec::new();
    // SAFETY: `dl_iterate_phdr` calls `add` with this pointer, one call after the other, and does not keep it.
    unsafe { libc::dl_iterate_phdr(Some(add), (&raw mut loaded).cast()) };
    loaded
}

/// Adds a library to the list.
///
/// # Safety
///
/// `list` points to a list that nobody else uses, and `info` to the loader's data on a library.
unsafe extern "C" fn add(info: *mut libc::dl_phdr_info, _size: usize, list: *mut c_void) -> c_int {
    // SAFETY: the caller promises it.
    let (list, info) = unsafe { (&mut *list.cast::<Vec<Loaded>>(), &*info) };
    if info.dlpi_name.is_null() || info.dlpi_phdr.is_null() {
        return 0;
    }
    // SAFETY: the loader's name ends with a zero, and the library stays loaded during this call.
    let name = unsafe { CStr::from_ptr(info.dlpi_name) };
    // SAFETY: the loader gives the number of headers.
    let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
    let segments = headers.iter().filter(|header| header.p_type == libc::PT_LOAD).map(|header| Segment {
        address: header.p_vaddr,
        offset: header.p_offset,
        file_size: header.p_filesz,
    });
    // The program itself has no name.
    let path =
        if name.is_empty() { "/proc/self/exe".into() } else { PathBuf::from(OsStr::from_bytes(name.to_bytes())) };
    list.push(Loaded { path, base: info.dlpi_addr as usize, segments: segments.collect() });
    0
}

/// A mapping of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mapping {
    pub(super) start: usize,
    pub(super) end: usize,
    /// `PROT_READ`, `PROT_WRITE` and `PROT_EXEC`.
    pub(super) protection: c_int,
    /// Writing does not change a file.
    pub(super) private: bool,
}

/// This process's mappings, by address.
pub(super) fn mappings() -> io::Result<Vec<Mapping>> {
    let mut mappings = Vec::new();
    for line in BufReader::new(File::open("/proc/self/maps")?).split(b'\n') {
        mappings.extend(mapping(&String::from_utf8_lossy(&line?)));
    }
    Ok(mappings)
}

/// Parses a line such as `7f0000000000-7f0000001000 r-xp 00000000 08:01 1234 /lib/libc.so.6`.
fn mapping(line: &str) -> Option<Mapping> {
    let mut words = line.split(' ');
    let (start, end) = words.next()?.split_once('-')?;
    let flags = words.next()?;
    let bit = |letter: char, bit: c_int| if flags.contains(letter) { bit } else { 0 };
    Some(Mapping {
        start: usize::from_str_radix(start, 16).ok()?,
        end: usize::from_str_radix(end, 16).ok()?,
        protection: bit('r', libc::PROT_READ) | bit('w', libc::PROT_WRITE) | bit('x', libc::PROT_EXEC),
        private: flags.ends_with('p'),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_maps_is_read() {
        let line = "7f12d4a00000-7f12d4b00000 r-xp 00001000 fe:00 1234    /usr/lib/a file.so";
        let protection = libc::PROT_READ | libc::PROT_EXEC;
        let expected = Mapping { start: 0x7f12_d4a0_0000, end: 0x7f12_d4b0_0000, protection, private: true };
        assert_eq!(mapping(line), Some(expected));
        assert!(!mapping("7f12d4a00000-7f12d4b00000 rw-s 0 0:1 5").unwrap().private);
        assert_eq!([mapping(""), mapping("nothing"), mapping("1-2"), mapping("x-y r-xp")], [None; 4]);
    }

    #[test]
    fn this_program_is_mapped_and_its_libraries_are_found() {
        let here = this_program_is_mapped_and_its_libraries_are_found as fn() as usize;
        let mappings = mappings().unwrap();
        let found = mappings.iter().find(|mapping| (mapping.start..mapping.end).contains(&here)).unwrap();
        assert_ne!(found.protection & libc::PROT_EXEC, 0);
        let libraries = all();
        let libc = libraries.iter().find(|loaded| loaded.path.to_string_lossy().contains("libc.so")).expect("libc");
        assert_eq!(find(&std::fs::metadata(&libc.path).unwrap()).unwrap().base, libc.base);
    }
}
