//! Finds the units from which the device linker made each program.
//!
//! Every fat binary has a wrapper in the section `.nvFatBinSegment`: a magic `u32`, a version `u32`, the fat binary's address and one
//! more address. Version 2 is a linked program's: the last address is that of a list of its units' fat binaries, ended by zero. The
//! library's constructors fill the list, so it is in memory only.
#![allow(unsafe_code)] // a loaded library's memory is read

use super::error::AttachError;
use super::loaded::Mapping;
use super::memory::read_mapped;

/// The size of a wrapper in bytes.
const WRAPPER: u64 = 24;
/// Magic and version of a linked program's wrapper.
const LINKED: u64 = 0x4662_43b1 | 2 << 32;

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
