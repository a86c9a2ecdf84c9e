//! Finds out which addresses refer to the same memory. Shared memory and CUDA's virtual memory can be mapped at several addresses, so each byte
//! gets one number, its place, that is the same for all of its addresses.

use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// Places in files are numbered from here on, above all addresses, with room for this many bytes in each file.
const FIRST: u64 = 1 << 62;
const FILE: u64 = 1 << 44;

/// The shared mappings of this process, as they were last read.
#[derive(Debug, Default)]
pub struct Aliases {
    /// The numbers of files by device and inode.
    files: FxHashMap<(String, u64), u64>,
    /// The end of each mapping and the number of its first place, by its start.
    mappings: BTreeMap<u64, (u64, u64)>,
}

impl Aliases {
    /// Reads this process's mappings again. If the system does not list them, every address counts as a separate place.
    pub fn update(&mut self) {
        let maps = std::fs::read("/proc/self/maps").unwrap_or_default();
        self.read(&String::from_utf8_lossy(&maps));
    }

    fn read(&mut self, maps: &str) {
        self.mappings.clear();
        for line in maps.lines() {
            let _ = self.add(line);
        }
    }

    /// Adds a line's mapping if it is a shared one of a file.
    fn add(&mut self, line: &str) -> Option<()> {
        let number = |text: &str| u64::from_str_radix(text, 16).ok();
        let mut words = line.split_ascii_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        words.next().filter(|access| access.ends_with('s'))?;
        let (offset, device) = (words.next().and_then(number)?, words.next()?);
        let inode = words.next()?.parse().ok().filter(|inode| *inode != 0)?;
        let next = self.files.len() as u64;
        let file = *self.files.entry((device.to_owned(), inode)).or_insert(next);
        let first = FILE.checked_mul(file)?.checked_add(FIRST)?.checked_add(offset)?;
        self.mappings.insert(number(start)?, (number(end)?, first));
        Some(())
    }

    /// The number of the place at an address.
    pub fn place(&self, address: u64) -> u64 {
        let mapping = self.mappings.range(..=address).next_back();
        match mapping.filter(|(_, (end, _))| address < *end) {
            Some((start, (_, first))) => first.wrapping_add(address - start),
            None => address,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_has_one_number_by_all_its_addresses() {
        let mut aliases = Aliases::default();
        aliases.read(
            "10000-20000 rw-s 00000000 00:01 77 /memfd:a (deleted)\n30000-40000 rw-p 00000000 00:01 77 /memfd:a (deleted)\n\
             50000-60000 rw-s 00008000 00:01 77 /memfd:a (deleted)\n70000-80000 rw-s 00000000 00:02 77 /dev/shm/b\nno mapping\n",
        );
        assert_eq!(aliases.place(0x18010), aliases.place(0x50010));
        assert_eq!([0x30000, 0x60000].map(|address| aliases.place(address)), [0x30000, 0x60000]);
        assert!(aliases.place(0x70000) != aliases.place(0x10000));
    }
}
