//! The check that a file is a shared library of this machine which defines a given symbol. It comes before opening the file,
//! because opening a library runs its code.
//!
//! The check reads the tables that the loader reads (ELF, System V gABI, and GNU's hash table), a few bytes at a time. The `object`
//! crate, which reads libraries elsewhere in this project, finds dynamic symbols only through section headers, which a library may
//! lack, and reads whole symbol tables, however large a damaged file says they are.
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Limit on program headers.
const MAX_HEADERS: u64 = 1024;
/// Limit on entries of the dynamic section.
const MAX_DYNAMIC: u64 = 4096;
/// Limit on symbols that share a slot of the hash table.
const MAX_CHAIN: u64 = 1 << 16;

/// The `e_machine` value of ELF files that this program can open.
#[cfg(target_arch = "x86_64")]
const MACHINE: Option<u16> = Some(62);
#[cfg(target_arch = "aarch64")]
const MACHINE: Option<u16> = Some(183);
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const MACHINE: Option<u16> = None;

/// Why a file is not opened as a library that defines a symbol.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NoLibrary {
    /// Not a shared library of this machine.
    Not(String),
    /// A library without the symbol.
    Lacks,
}

fn not<T>(why: impl Into<String>) -> Result<T, NoLibrary> {
    Err(NoLibrary::Not(why.into()))
}

impl From<io::Error> for NoLibrary {
    fn from(error: io::Error) -> Self {
        Self::Not(match error.kind() {
            io::ErrorKind::UnexpectedEof => "it is cut short, or its tables point beyond its end".to_owned(),
            _ => format!("it cannot be read: {error}"),
        })
    }
}

/// `Ok` if the file is a shared library of this machine which defines `symbol` for others.
pub(crate) fn defines(file: &File, symbol: &str) -> Result<(), NoLibrary> {
    let mut magic = [0; 4];
    if file.read_exact_at(&mut magic, 0).is_err() || magic != *b"\x7fELF" {
        return not("it is not a library (not an ELF file)");
    }
    let header: [u8; 64] = read(file, 0)?;
    let little = if cfg!(target_endian = "little") { 1 } else { 2 };
    if header[4] != 2 || header[5] != little {
        return not("it is for another kind of machine (bits or byte order)");
    }
    let machine = u16_at(&header, 18);
    if MACHINE.is_some_and(|ours| ours != machine) {
        return not(format!("it is for another machine (ELF machine {machine})"));
    }
    // ET_DYN
    if u16_at(&header, 16) != 3 {
        return not("it is an ELF file, but not a shared library");
    }
    Library::read(file, &header)?.find(symbol)
}

/// A segment: a part of the file that the loader maps.
struct Segment {
    address: u64,
    offset: u64,
    size: u64,
}

struct Library<'a> {
    file: &'a File,
    mapped: Vec<Segment>,
    /// Addresses of the tables in memory.
    symbols: u64,
    names: u64,
    gnu_hash: Option<u64>,
    hash: Option<u64>,
}

impl<'a> Library<'a> {
    fn read(file: &'a File, header: &[u8; 64]) -> Result<Self, NoLibrary> {
        let (at, size, count) = (u64_at(header, 32), u16_at(header, 54), u64::from(u16_at(header, 56)));
        if size != 56 || count > MAX_HEADERS {
            return not("its program headers are broken");
        }
        let (mut mapped, mut dynamic) = (Vec::new(), None);
        for index in 0..count {
            let entry: [u8; 56] = read(file, add(at, index * 56)?)?;
            let segment = Segment { address: u64_at(&entry, 16), offset: u64_at(&entry, 8), size: u64_at(&entry, 32) };
            match u32_at(&entry, 0) {
                1 => mapped.push(segment),
                2 => dynamic = Some(segment),
                _ => {}
            }
        }
        let Some(dynamic) = dynamic else { return not("it is an ELF file, but not a shared library") };
        let (mut symbols, mut names, mut gnu_hash, mut hash) = (None, None, None, None);
        for index in 0..(dynamic.size / 16).min(MAX_DYNAMIC) {
            let entry: [u8; 16] = read(file, add(dynamic.offset, index * 16)?)?;
            let value = Some(u64_at(&entry, 8));
            match u64_at(&entry, 0) {
                0 => break,
                4 => hash = value,
                5 => names = value,
                6 => symbols = value,
                0x6fff_fef5 => gnu_hash = value,
                _ => {}
            }
        }
        match (symbols, names) {
            (Some(symbols), Some(names)) => Ok(Self { file, mapped, symbols, names, gnu_hash, hash }),
            _ => Err(NoLibrary::Lacks),
        }
    }

    /// The bytes at an address in memory.
    fn at<const N: usize>(&self, address: u64) -> Result<[u8; N], NoLibrary> {
        let inside = |segment: &&Segment| {
            address.checked_sub(segment.address).is_some_and(|from| segment.size.checked_sub(from) >= Some(N as u64))
        };
        match self.mapped.iter().find(inside) {
            Some(segment) => read(self.file, add(segment.offset, address - segment.address)?),
            None => not("its tables point beyond what it has"),
        }
    }

    fn number(&self, address: u64) -> Result<u32, NoLibrary> {
        Ok(u32::from_ne_bytes(self.at(address)?))
    }

    fn find(&self, symbol: &str) -> Result<(), NoLibrary> {
        match (self.gnu_hash, self.hash) {
            (Some(table), _) => self.by_gnu_hash(table, symbol),
            (None, Some(table)) => self.by_hash(table, symbol),
            (None, None) => Err(NoLibrary::Lacks),
        }
    }

    fn by_gnu_hash(&self, table: u64, symbol: &str) -> Result<(), NoLibrary> {
        let [buckets, first, bloom] = [0, 4, 8].map(|at| add(table, at).and_then(|at| self.number(at)));
        let (buckets, first, bloom) = (buckets?, u64::from(first?), u64::from(bloom?));
        if buckets == 0 {
            return Err(NoLibrary::Lacks);
        }
        let hash = symbol.bytes().fold(5381u32, |hash, byte| hash.wrapping_mul(33).wrapping_add(byte.into()));
        let list = add(table, 16 + 8 * bloom)?;
        let chains = add(list, 4 * u64::from(buckets))?;
        let start = u64::from(self.number(add(list, 4 * u64::from(hash % buckets))?)?);
        if start < first {
            return Err(NoLibrary::Lacks);
        }
        for index in start..start + MAX_CHAIN {
            let value = self.number(add(chains, 4 * (index - first))?)?;
            if value | 1 == hash | 1 && self.is(index, symbol)? {
                return Ok(());
            }
            // The lowest bit marks the end of the chain.
            if value & 1 == 1 {
                break;
            }
        }
        Err(NoLibrary::Lacks)
    }

    fn by_hash(&self, table: u64, symbol: &str) -> Result<(), NoLibrary> {
        let buckets = self.number(table)?;
        if buckets == 0 {
            return Err(NoLibrary::Lacks);
        }
        let hash = symbol.bytes().fold(0u32, |hash, byte| {
            let hash = (hash << 4).wrapping_add(byte.into());
            let high = hash & 0xf000_0000;
            (hash ^ (high >> 24)) & !high
        });
        let chains = add(table, 8 + 4 * u64::from(buckets))?;
        let mut index = u64::from(self.number(add(table, 8 + 4 * u64::from(hash % buckets))?)?);
        for _ in 0..MAX_CHAIN {
            if index == 0 {
                break;
            }
            if self.is(index, symbol)? {
                return Ok(());
            }
            index = u64::from(self.number(add(chains, 4 * index)?)?);
        }
        Err(NoLibrary::Lacks)
    }

    /// True if the symbol with this number has this name and is defined in this file.
    fn is(&self, index: u64, symbol: &str) -> Result<bool, NoLibrary> {
        let entry: [u8; 24] = self.at(add(self.symbols, 24 * index)?)?;
        let name = add(self.names, u32_at(&entry, 0).into())?;
        for (at, byte) in symbol.bytes().chain([0]).enumerate() {
            if self.at::<1>(add(name, at as u64)?)? != [byte] {
                return Ok(false);
            }
        }
        Ok(u16_at(&entry, 6) != 0)
    }
}

fn read<const N: usize>(file: &File, offset: u64) -> Result<[u8; N], NoLibrary> {
    let mut bytes = [0; N];
    // The system takes file offsets as signed numbers.
    if i64::try_from(offset).is_err() {
        return not("its tables point beyond what it has");
    }
    file.read_exact_at(&mut bytes, offset)?;
    Ok(bytes)
}

fn add(a: u64, b: u64) -> Result<u64, NoLibrary> {
    a.checked_add(b).map_or_else(|| not("its tables point beyond what it has"), Ok)
}

fn part<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes.get(at..at + N).and_then(|part| part.try_into().ok()).unwrap_or([0; N])
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_ne_bytes(part(bytes, at))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(part(bytes, at))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(part(bytes, at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    /// The C library that this test is linked with.
    fn own_library() -> Vec<u8> {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let path = maps.lines().find_map(|line| line.split_whitespace().nth(5).filter(|path| path.contains("libc.so")));
        std::fs::read(path.unwrap()).unwrap()
    }

    fn ask(bytes: &[u8], symbol: &str) -> Result<(), NoLibrary> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        defines(&file, symbol)
    }

    #[test]
    fn symbols_are_found_as_the_loader_finds_them() {
        let library = own_library();
        for symbol in ["malloc", "free", "getenv", "strlen", "printf"] {
            assert_eq!(ask(&library, symbol), Ok(()), "{symbol}");
        }
        for symbol in ["ncclGetVersion", "", "mallo", "malloc_"] {
            assert_eq!(ask(&library, symbol), Err(NoLibrary::Lacks), "{symbol}");
        }
    }

    #[test]
    fn what_is_no_library_is_said_to_be() {
        let words = |bytes: &[u8]| match ask(bytes, "malloc") {
            Err(NoLibrary::Not(words)) => words,
            other => panic!("{other:?}"),
        };
        assert!(words(b"").contains("not an ELF") && words(b"#!/bin/sh\n").contains("not an ELF"));
        assert!(words(b"\x7fELF").contains("cut short"));
        let library = own_library();
        let with = |at: usize, byte: u8| {
            let mut bytes = library.clone();
            bytes[at] = byte;
            words(&bytes)
        };
        assert!(with(4, 1).contains("another kind of machine"));
        assert!(with(18, 99).contains("another machine (ELF machine"));
        assert!(with(16, 1).contains("not a shared library"));
        assert!(words(&library[..4096]).contains("cut short"));
    }

    /// The search ends without a panic for any contents of the tables.
    #[test]
    fn broken_tables_end() {
        let library = own_library();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&library).unwrap();
        for at in (0..4096).chain((4096..library.len()).step_by(499)) {
            for value in [0, 0x7f, 0xff] {
                file.write_all_at(&[value], at as u64).unwrap();
                let _ = defines(&file, "malloc");
            }
            file.write_all_at(&library[at..=at], at as u64).unwrap();
        }
        assert_eq!(defines(&file, "malloc"), Ok(()));
    }
}
