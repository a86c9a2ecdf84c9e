//! Facts about a library from its file, read without loading it.
use object::elf::PT_INTERP;
use object::read::elf::ProgramHeader;
use object::read::{ReadCache, ReadRef};
use object::{File, Object, ObjectSection, ObjectSymbol};
use std::collections::BTreeSet;
use std::path::Path;

/// Bytes of debug information that are searched for the compiler's options.
const MAX_DEBUG: u64 = 512 << 20;

/// The facts found in an ELF file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ElfFacts {
    /// The build id, as hexadecimal digits.
    pub build_id: Option<String>,
    /// The functions and objects that it exports.
    pub exports: BTreeSet<String>,
    /// True if its debug information says that a part of it was compiled without optimisation.
    pub unoptimised: bool,
}

/// The reason a file's facts are unknown.
#[derive(Debug, thiserror::Error)]
pub enum ElfError {
    /// The file cannot be read.
    #[error(transparent)]
    Read(#[from] std::io::Error),
    /// The file is not an ELF file, or is damaged.
    #[error("it is not an ELF file that can be read: {0}")]
    Format(#[from] object::Error),
}

/// The facts of a file.
///
/// # Errors
///
/// The file cannot be read, or is not a sound ELF file.
pub fn read(path: &Path) -> Result<ElfFacts, ElfError> {
    // Read piece by piece: a mapping of a file that is truncated in the meantime would end this process.
    let cache = ReadCache::new(std::fs::File::open(path)?);
    let file = File::parse(&cache)?;
    let build_id = file.build_id()?.map(|id| id.iter().map(|byte| format!("{byte:02x}")).collect());
    let defined = file.dynamic_symbols().filter(|symbol| symbol.is_definition());
    let exports = defined.filter_map(|symbol| Some(symbol.name().ok()?.to_owned())).collect();
    Ok(ElfFacts { build_id, exports, unoptimised: unoptimised(&file) })
}

/// The build id of a file, if it has one that can be read.
pub fn build_id(path: &Path) -> Option<String> {
    read(path).ok()?.build_id
}

/// True for a program that no dynamic loader starts: it gets no preloaded libraries. False if it cannot be read as a program.
pub fn is_static(path: &Path) -> bool {
    let Ok(file) = collspec_core::files::open(path) else { return false };
    let cache = ReadCache::new(file);
    match File::parse(&cache) {
        Ok(File::Elf64(program)) => {
            let endian = program.endian();
            program.elf_program_headers().iter().all(|segment| segment.p_type(endian) != PT_INTERP)
        }
        _ => false,
    }
}

/// GCC writes the options that bear on code into the debug information (DWARF 5, DW_AT_producer).
fn unoptimised<'d, R: ReadRef<'d>>(file: &File<'d, R>) -> bool {
    let strings = [".debug_str", ".debug_line_str"].into_iter().filter_map(|name| file.section_by_name(name));
    strings.filter(|section| section.size() <= MAX_DEBUG).any(|section| {
        let data = section.uncompressed_data().unwrap_or_default();
        data.split(|byte| *byte == 0).any(is_without_optimisation)
    })
}

/// True if the text is GCC's own with its options, and the last option that affects optimisation, if there is one, is `-O0`.
fn is_without_optimisation(text: &[u8]) -> bool {
    if !text.starts_with(b"GNU C") {
        return false;
    }
    let mut options = text.split(|byte| *byte == b' ').filter(|word| word.starts_with(b"-")).peekable();
    options.peek().is_some() && options.rfind(|word| word.starts_with(b"-O")).is_none_or(|level| level == b"-O0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn optimisation_is_read_from_what_the_compiler_says_of_itself() {
        for (producer, without) in [
            ("GNU C17 12.2.0 -mtune=generic -march=x86-64 -g -fPIC", true),
            ("GNU C++17 12.2.0 -mtune=generic -O0 -g", true),
            ("GNU C++17 12.2.0 -mtune=generic -O3 -g -O0", true),
            ("GNU C++17 12.2.0 -mtune=generic -g -O0 -O2", false),
            ("GNU C17 12.2.0 -O -g", false),
            ("GNU C17 12.2.0", false),
            ("GNU AS 2.40", false),
            ("clang LLVM (rustc version 1.88.0)", false),
            ("", false),
        ] {
            assert_eq!(is_without_optimisation(producer.as_bytes()), without, "{producer}");
        }
    }

    #[test]
    fn a_program_is_read_and_other_files_are_refused() {
        let own = read(&std::env::current_exe().unwrap()).unwrap();
        assert!(!own.unoptimised);
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str, bytes: &[u8]| {
            let path = folder.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            path
        };
        let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        for (name, bytes) in [("empty", &b""[..]), ("text", b"libnccl"), ("cut", &own[..100])] {
            assert!(matches!(read(&at(name, bytes)), Err(ElfError::Format(_))), "{name}");
        }
        assert!(matches!(read(&folder.path().join("none")), Err(ElfError::Read(_))));
    }
}
