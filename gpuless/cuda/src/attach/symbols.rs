//! The functions and imports listed in a library's file.
use super::error::AttachError;
use super::names;
use super::programs::Place;
use crate::elf::{Elf, Segment, Source};
use crate::fatbin::Section;
use object::elf::{
    EM_X86_64, Rela64, SHF_EXECINSTR, SHN_UNDEF, SHT_DYNSYM, SHT_RELA, SHT_SYMTAB, STT_FILE, STT_FUNC, STT_SECTION,
    Sym64,
};
use object::read::StringTable;
use object::read::elf::{FileHeader, Rela, SectionHeader, Sym};
use object::{LittleEndian, SectionIndex};

/// Limit on a table of symbols, and on their names: no library comes near.
const MAX_TABLE: u64 = 256 << 20;
/// x86-64's relocations of a slot that holds an imported function's address: for calls, and for the address itself.
const SLOTS: [u32; 2] = [object::elf::R_X86_64_JUMP_SLOT.0, object::elf::R_X86_64_GLOB_DAT.0];

/// A function that the library has.
#[derive(Clone, Debug)]
pub(super) struct Function {
    pub(super) name: String,
    /// Address relative to the load address.
    pub(super) address: u64,
    /// Size according to the symbol.
    pub(super) size: u64,
    /// Bytes up to the next symbol or the section's end.
    pub(super) room: u64,
}

/// The information read from the file.
#[derive(Debug)]
pub(super) struct Library {
    pub(super) segments: Vec<Segment>,
    pub(super) functions: Vec<Function>,
    /// Names of functions that other libraries have to provide.
    pub(super) undefined: Vec<String>,
    /// Slots for addresses of imported functions, from the load address.
    pub(super) slots: Vec<(String, u64)>,
    /// The sections of fat binaries' wrappers, and of the device linker's inputs.
    pub(super) device_code: Option<(Place, Place)>,
}

fn damaged(error: object::read::Error) -> AttachError {
    AttachError::NotALibrary(error.to_string())
}

/// Reads a library's tables.
pub(super) fn read(source: &Source) -> Result<Library, AttachError> {
    let cache = crate::elf::cache(source);
    let elf = Elf::parse(&cache).map_err(AttachError::NotALibrary)?;
    let machine = elf.header.e_machine(LittleEndian);
    if machine != EM_X86_64 {
        return Err(AttachError::OtherMachine(machine.0));
    }
    let segments = elf.segments().map_err(AttachError::NotALibrary)?;
    let (functions, undefined) = functions(&elf)?;
    let device_code = place(&elf, ".nvFatBinSegment").zip(place(&elf, Section::Linked.name()));
    Ok(Library { segments, functions, undefined, slots: slots(&elf)?, device_code })
}

/// The place of a section in memory.
fn place(elf: &Elf<'_>, name: &str) -> Option<Place> {
    let (_, section) = elf.sections.section_by_name(LittleEndian, name.as_bytes())?;
    Some(Place { address: section.sh_addr(LittleEndian), size: section.sh_size(LittleEndian) })
}

/// A table of symbols and the names in it.
fn table<'a>(elf: &Elf<'a>, index: SectionIndex) -> Result<(&'a [Sym64<LittleEndian>], StringTable<'a>), AttachError> {
    let section = elf.sections.section(index).map_err(damaged)?;
    let names = elf.sections.section(section.link(LittleEndian)).map_err(damaged)?;
    if section.sh_size(LittleEndian).max(names.sh_size(LittleEndian)) > MAX_TABLE {
        return Err(AttachError::NotALibrary("a table of symbols that is larger than any library's".into()));
    }
    let symbols = section.data_as_array(LittleEndian, elf.cache).map_err(damaged)?;
    // Read at once: reading each name separately would be a read of the file each time.
    let bytes: &'a [u8] = names.data(LittleEndian, elf.cache).map_err(damaged)?;
    Ok((symbols, StringTable::new(bytes, 0, bytes.len() as u64)))
}

fn name<'a>(symbol: &Sym64<LittleEndian>, names: &StringTable<'a>) -> Result<&'a str, AttachError> {
    let bytes = symbol.name(LittleEndian, *names).map_err(damaged)?;
    // None of the names that are searched for contains other bytes.
    Ok(std::str::from_utf8(bytes).unwrap_or_default())
}

/// The functions that `.symtab` names, and the names that it leaves to other libraries. The runtime as a library of its own is
/// stripped; what it exports is all that others call.
fn functions(elf: &Elf<'_>) -> Result<(Vec<Function>, Vec<String>), AttachError> {
    let of_type = |wanted| {
        let found = elf.sections.enumerate().find(|(_, section)| section.sh_type(LittleEndian) == wanted);
        found.map(|(index, _)| functions_of(elf, index)).transpose()
    };
    if let Some(found) = of_type(SHT_SYMTAB)? {
        return Ok(found);
    }
    let is_runtime =
        |(functions, _): &(Vec<Function>, _)| functions.iter().any(|function| names::is_runtime(&function.name));
    of_type(SHT_DYNSYM)?.filter(is_runtime).ok_or(AttachError::Stripped)
}

fn functions_of(elf: &Elf<'_>, index: SectionIndex) -> Result<(Vec<Function>, Vec<String>), AttachError> {
    let (symbols, names) = table(elf, index)?;
    // Where something begins, by section.
    let marks = |symbol: &&Sym64<LittleEndian>| ![STT_FILE, STT_SECTION].contains(&symbol.st_type());
    let place = |symbol: &Sym64<LittleEndian>| (symbol.st_shndx(LittleEndian).0, symbol.st_value(LittleEndian));
    let mut begins: Vec<(u16, u64)> = symbols.iter().filter(marks).map(place).collect();
    begins.sort_unstable();
    let (mut functions, mut undefined) = (Vec::new(), Vec::new());
    for symbol in symbols {
        if symbol.st_shndx(LittleEndian) == SHN_UNDEF {
            undefined.push(name(symbol, &names)?.to_owned());
        } else if symbol.st_type() == STT_FUNC {
            let section = elf.sections.section(SectionIndex(symbol.st_shndx(LittleEndian).0.into()));
            let Some(section) = section.ok().filter(|section| section.sh_flags(LittleEndian).contains(SHF_EXECINSTR))
            else {
                continue;
            };
            let here = place(symbol);
            let next = begins.get(begins.partition_point(|begin| *begin <= here)).filter(|next| next.0 == here.0);
            let end = section.sh_addr(LittleEndian).saturating_add(section.sh_size(LittleEndian));
            let room = next.map_or(end, |next| next.1.min(end)).saturating_sub(here.1);
            let (name, size) = (name(symbol, &names)?.to_owned(), symbol.st_size(LittleEndian));
            functions.push(Function { name, address: here.1, size, room });
        }
    }
    Ok((functions, undefined))
}

/// The slots that a loader fills with addresses of imported functions.
fn slots(elf: &Elf<'_>) -> Result<Vec<(String, u64)>, AttachError> {
    let mut slots = Vec::new();
    for section in elf.sections.iter().filter(|section| section.sh_type(LittleEndian) == SHT_RELA) {
        // Relocations that a loader applies have an address.
        if section.sh_addr(LittleEndian) == 0 || section.sh_size(LittleEndian) > MAX_TABLE {
            continue;
        }
        let Some((relocations, link)) = section.rela(LittleEndian, elf.cache).map_err(damaged)? else { continue };
        let of_slot = |relocation: &&Rela64<LittleEndian>| SLOTS.contains(&relocation.r_type(LittleEndian, false).0);
        let mut of_slots = relocations.iter().filter(of_slot).peekable();
        if of_slots.peek().is_none() {
            continue;
        }
        let (symbols, names) = table(elf, link)?;
        for relocation in of_slots {
            let symbol = symbols.get(relocation.r_sym(LittleEndian, false) as usize);
            let symbol = symbol.ok_or_else(|| AttachError::NotALibrary("a relocation names no symbol".into()))?;
            slots.push((name(symbol, &names)?.to_owned(), relocation.r_offset(LittleEndian)));
        }
    }
    Ok(slots)
}
