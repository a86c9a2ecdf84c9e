//! Finds the units from which the device linker made each program.
//!
//! Every fat binary has a wrapper in the section `.nvFatBinSegment`: a magic `u32`, a version `u32`, the fat binary's address and one
//! more address. Version 2 is a linked program's: the last address is that of a list of its units' fat binaries, ended by zero. The
//! library's constructors fill the list, so it is in memory only.
#![allow(unsafe_code)] // a loaded library's memory is read

use super::error::AttachError;
use super::loaded::{self, Mapping};
use super::memory::read_mapped;

/// The size of a wrapper in bytes.
const WRAPPER: u64 = 24;
/// Magic and version of a linked program's wrapper.
const LINKED: u64 = 0x4662_43b1 | 2 << 32;

/// Magic and version of another wrapper, whose last address does not matter.
const ALONE: u64 = 0x4662_43b1 | 1 << 32;
/// The magic of a fat binary, and the bytes of its header that are read.
const FAT_BINARY: u32 = 0xba55_ed50;
const HEADER: u64 = 16;
/// Limit on the units of a program.
const MOST_UNITS: u64 = 1 << 16;

/// The fat binaries of one program.
#[derive(Debug)]
pub(crate) struct Registered {
    /// Address and contents of each.
    pub(crate) units: Vec<(usize, Vec<u8>)>,
    /// True if they are inputs of the device linker.
    pub(crate) linked: bool,
}

/// The fat binaries that a registered wrapper names.
///
/// # Safety
///
/// What is mapped at the time of the call stays mapped during it.
pub(crate) unsafe fn of_wrapper(wrapper: usize) -> Result<Registered, AttachError> {
    let mappings = loaded::mappings().map_err(AttachError::Maps)?;
    let read = |address: u64, len: u64| {
        let wrong = || AttachError::Memory { address: address as usize, what: format!("does not have {len} bytes") };
        let end = address.checked_add(len).filter(|_| address != 0).ok_or_else(wrong)?;
        // Nothing is allocated for what is not there.
        let mut at = address;
        while at < end {
            let holds = |mapping: &&Mapping| (mapping.start as u64..mapping.end as u64).contains(&at);
            at = mappings.iter().find(holds).ok_or_else(wrong)?.end as u64;
        }
        let mut bytes = vec![0; len as usize];
        // SAFETY: the caller promises it.
        unsafe { read_mapped(address as usize, &mut bytes, &mappings) }.map(|()| bytes)
    };
    let word = |address: u64| {
        let bytes = read(address, 8)?;
        Ok::<u64, AttachError>(bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)))
    };
    let unit = |address: u64| {
        let header = read(address, HEADER)?;
        let number =
            |at: usize, len: usize| header[at..at + len].iter().rev().fold(0, |n, byte| n << 8 | u64::from(*byte));
        if number(0, 4) != u64::from(FAT_BINARY) {
            let what = format!("should be a fat binary, and begins with {:#x}", number(0, 4));
            return Err(AttachError::Memory { address: address as usize, what });
        }
        Ok((address as usize, read(address, number(6, 2).saturating_add(number(8, 8)).max(HEADER))?))
    };
    let wrapper = wrapper as u64;
    let (mark, data, list) = (word(wrapper)?, word(wrapper.wrapping_add(8))?, word(wrapper.wrapping_add(16))?);
    match mark {
        ALONE => Ok(Registered { units: vec![unit(data)?], linked: false }),
        LINKED => {
            let mut units = Vec::new();
            for index in 0..MOST_UNITS {
                match word(list.wrapping_add(8 * index))? {
                    0 => break,
                    address => units.push(unit(address)?),
                }
            }
            Ok(Registered { units, linked: true })
        }
        _ => {
            let what = format!("should be a fat binary's wrapper, and begins with {mark:#x}");
            Err(AttachError::Memory { address: wrapper as usize, what })
        }
    }
}

/// A section's place in memory, from the load address, and its size.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) address: u64,
    pub(super) size: u64,
}

/// The units of each linked program, as places in the section `units`.
///
/// # Safety
///
/// The mappings are those of now.
pub(super) unsafe fn read(
    wrappers: Place,
    units: Place,
    base: usize,
    mappings: &[Mapping],
) -> Result<Vec<Vec<u64>>, AttachError> {
    let word = |address: u64| {
        let mut bytes = [0; 8];
        // SAFETY: the caller promises it.
        unsafe { read_mapped(address as usize, &mut bytes, mappings) }.map(|()| u64::from_le_bytes(bytes))
    };
    let mut programs = Vec::new();
    for index in 0..wrappers.size / WRAPPER {
        let wrapper = (base as u64).wrapping_add(wrappers.address).wrapping_add(index * WRAPPER);
        if word(wrapper)? != LINKED {
            continue;
        }
        let list = word(wrapper.wrapping_add(16))?;
        let mut program = Vec::new();
        // A list has at most one entry per wrapper.
        for unit in (0..wrappers.size / WRAPPER).take_while(|_| list != 0) {
            let address = word(list.wrapping_add(8 * unit))?;
            if address == 0 {
                break;
            }
            let place = address.wrapping_sub(base as u64).wrapping_sub(units.address);
            program.extend(Some(place).filter(|place| *place < units.size));
        }
        programs.push(program);
    }
    Ok(programs)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A fat binary whose header says this, with so many bytes behind it.
    fn fat_binary(magic: u32, says: u64, bytes: usize) -> Vec<u64> {
        let mut words = vec![u64::from(magic) | (HEADER << 48), says];
        words.extend(vec![7; bytes / 8]);
        words
    }

    fn read(wrapper: &[usize; 3]) -> Result<Registered, String> {
        // SAFETY: the test's memory stays as it is.
        unsafe { of_wrapper(wrapper.as_ptr().addr()) }.map_err(|error| error.to_string())
    }

    #[test]
    fn the_fat_binaries_that_a_wrapper_names_are_read_from_memory() {
        let (one, two) = (fat_binary(FAT_BINARY, 32, 32), fat_binary(FAT_BINARY, 8, 8));
        let found = read(&[ALONE as usize, one.as_ptr().addr(), 0]).unwrap();
        assert_eq!((found.linked, found.units.len(), found.units[0].1.len()), (false, 1, 48));
        let list = [one.as_ptr().addr(), two.as_ptr().addr(), 0];
        let found = read(&[LINKED as usize, 0, list.as_ptr().addr()]).unwrap();
        assert_eq!(found.units.iter().map(|unit| unit.1.len()).collect::<Vec<_>>(), [48, 24]);
        assert!(found.linked);
    }

    #[test]
    fn what_leads_elsewhere_is_refused() {
        let (wrong, long) = (fat_binary(1, 32, 32), fat_binary(FAT_BINARY, u64::MAX - 16, 32));
        let large = fat_binary(FAT_BINARY, 1 << 46, 32);
        for (wrapper, message) in [
            ([ALONE as usize, 0, 0], "does not have 16 bytes"),
            ([ALONE as usize, 8, 0], "does not have 16 bytes"),
            ([ALONE as usize, usize::MAX - 4, 0], "does not have 16 bytes"),
            ([ALONE as usize, wrong.as_ptr().addr(), 0], "should be a fat binary, and begins with 0x1"),
            ([ALONE as usize, long.as_ptr().addr(), 0], "does not have 18446744073709551615 bytes"),
            ([ALONE as usize, large.as_ptr().addr(), 0], "does not have 70368744177680 bytes"),
            ([LINKED as usize, 0, 0], "does not have 8 bytes"),
            ([77, 0, 0], "should be a fat binary's wrapper, and begins with 0x4d"),
        ] {
            let error = read(&wrapper).unwrap_err();
            assert!(error.ends_with(message), "{error}");
        }
        // SAFETY: nothing is there.
        assert!(unsafe { of_wrapper(0x10) }.is_err());
    }
}
