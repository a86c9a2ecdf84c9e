//! The check that a file is a shared library of this machine which defines a given symbol. It comes before opening the file,
//! because opening a library runs its code.
use object::read::ReadCache;
use object::{Architecture, Endianness, Object, ObjectKind, ObjectSymbol};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// The kind of processor whose libraries this program can open.
#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: Option<Architecture> = Some(Architecture::X86_64);
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: Option<Architecture> = Some(Architecture::Aarch64);
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const ARCHITECTURE: Option<Architecture> = None;

/// The reason a file is not opened as a library that defines a symbol.
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
        Self::Not(format!("it cannot be read: {error}"))
    }
}

/// `Ok` if the file is a shared library of this machine which defines `symbol` for others.
pub(crate) fn defines(file: &File, symbol: &str) -> Result<(), NoLibrary> {
    let mut magic = [0; 4];
    match file.read_exact_at(&mut magic, 0) {
        Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => return Err(error.into()),
        Ok(()) if magic == *b"\x7fELF" => {}
        _ => return not("it is not a library (not an ELF file)"),
    }
    // Read piece by piece: a mapping of a file that is truncated in the meantime would end this process.
    let cache = ReadCache::new(file);
    let library = match object::File::parse(&cache) {
        Ok(library) => library,
        Err(error) => return not(format!("it is cut short or damaged: {error}")),
    };
    let little = if cfg!(target_endian = "little") { Endianness::Little } else { Endianness::Big };
    if !library.is_64() || library.endianness() != little {
        return not("it is for another kind of machine (bits or byte order)");
    }
    if ARCHITECTURE.is_some_and(|ours| ours != library.architecture()) {
        return not(format!("it is for another machine ({:?})", library.architecture()));
    }
    if library.kind() != ObjectKind::Dynamic {
        return not("it is an ELF file, but not a shared library");
    }
    let is_it = |found: object::Symbol<'_, '_, _>| found.is_definition() && found.name_bytes() == Ok(symbol.as_bytes());
    if library.dynamic_symbols().any(is_it) { Ok(()) } else { Err(NoLibrary::Lacks) }
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
        assert!(with(18, 99).contains("another machine (Unknown)"));
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
