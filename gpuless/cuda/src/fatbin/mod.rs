//! The fat binaries of a library: the PTX that it carries.
//!
//! A compiler puts a unit's device code into a *fat binary*: entries for several architectures, as machine code (ELF) and as PTX.
//! They are in two sections, which determine how the PTX is to be understood:
//!
//! - [`Section::Linked`] (`__nv_relfatbin`) has the units that were compiled as relocatable device code: inputs of the device
//!   linker. **Together they are a program**: a function that one unit defines is called by others. The linker's output is in
//!   the other section, as machine code alone, so the PTX of the program is in its inputs. A library can have several such
//!   programs; [`Attached::linked_programs`](crate::attach::Attached::linked_programs) lists the units of each.
//! - [`Section::Whole`] (`.nv_fatbin`) has units that are **each a separate program**, and the linked machine code.
//!
//! Headers are read when a file is opened, text when it is requested. The file may be malformed or hostile: any bytes give entries
//! or a [`FatbinError`], never a panic, and never more memory than headers take and [`MAX_TEXT`] allows.
mod error;
mod header;
mod payload;

pub use error::FatbinError;
pub use header::{Compression, Entry, Kind, Section};
pub use payload::MAX_TEXT;

use crate::elf::{Elf, Source, cache};
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// The fat binaries of a library.
#[derive(Debug)]
pub struct FatBinaries {
    source: Source,
    entries: Vec<Entry>,
}

/// The PTX of one unit.
#[derive(Clone, Copy, Debug)]
pub struct Ptx<'a> {
    source: &'a Source,
    entry: &'a Entry,
}

impl FatBinaries {
    /// Reads the headers of all fat binaries in an ELF file.
    ///
    /// # Errors
    ///
    /// The file cannot be read, is not an ELF file of 64 bits, has no section for device code, or its fat binaries are damaged.
    pub fn open(path: &Path) -> Result<Self, FatbinError> {
        let (source, _) = Source::open(path).map_err(|error| FatbinError::Open { path: path.to_owned(), error })?;
        Self::of_source(source)
    }

    /// The same for an ELF file in memory.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self, FatbinError> {
        Self::of_source(Source::Bytes(bytes.into()))
    }

    /// Reads the headers of a single fat binary, whose units are [`Section::Whole`].
    ///
    /// # Errors
    ///
    /// It is damaged.
    pub fn from_fat_binary(bytes: Vec<u8>) -> Result<Self, FatbinError> {
        let (len, source) = (bytes.len() as u64, Source::Bytes(bytes.into()));
        let mut entries = Vec::new();
        header::read(&source, Section::Whole, 0, len, &mut entries)?;
        Ok(Self { source, entries })
    }

    /// The same for a file that is open.
    pub(crate) fn of_source(source: Source) -> Result<Self, FatbinError> {
        let entries = entries(&source)?;
        Ok(Self { source, entries })
    }

    /// Those of these entries, which were read from the same source before.
    pub(crate) fn of_entries(source: Source, entries: Vec<Entry>) -> Self {
        Self { source, entries }
    }

    /// Where they are read from.
    pub(crate) fn source(&self) -> &Source {
        &self.source
    }

    /// Reads and decompresses an entry's text.
    pub(crate) fn text_of(&self, entry: &Entry) -> Result<Vec<u8>, FatbinError> {
        payload::read(&self.source, entry)
    }

    /// All entries, of every kind, in the order of the file: first those of [`Section::Linked`].
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The ranges of GPU machine code in the file, in bytes.
    pub fn machine_code(&self) -> impl Iterator<Item = Range<u64>> {
        let code = self.entries.iter().filter(|entry| entry.kind == Kind::Elf && entry.stored_size > 0);
        code.map(|entry| entry.place..entry.place.saturating_add(entry.stored_size))
    }

    /// True if all GPU machine code is replaced by zeros. A library that was cut down to one architecture still runs on that one.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    pub fn is_slimmed(&self) -> io::Result<bool> {
        let mut slimmed = false;
        for code in self.machine_code() {
            // Both machine code and its compressed forms begin with bytes that are not zero.
            let mut first = [0; 4];
            let size = first.len().min(usize::try_from(code.end - code.start).unwrap_or(usize::MAX));
            self.source.read_at(code.start, &mut first[..size])?;
            if first != [0; 4] {
                return Ok(false);
            }
            slimmed = true;
        }
        Ok(slimmed)
    }

    /// The PTX of every fat binary that contains some; of several, the one for the newest architecture.
    pub fn ptx(&self) -> impl Iterator<Item = Ptx<'_>> {
        let same = |a: &Entry, b: &Entry| (a.section, a.fat_binary) == (b.section, b.fat_binary);
        let newest = |entries: &'_ [Entry]| -> Option<usize> {
            let ptx = entries.iter().enumerate().filter(|(_, entry)| entry.kind == Kind::Ptx);
            ptx.max_by_key(|(_, entry)| entry.architecture).map(|(index, _)| index)
        };
        let chosen = self.entries.chunk_by(same).filter_map(move |group| newest(group).map(|index| &group[index]));
        chosen.map(|entry| Ptx { source: &self.source, entry })
    }

    /// Calls `f` with every unit of [`FatBinaries::ptx`] and its text, on as many threads as can be started up to `threads`.
    /// The values come in the units' order.
    pub fn map_ptx<T: Send>(
        &self,
        threads: usize,
        f: impl Fn(Ptx<'_>, Result<Vec<u8>, FatbinError>) -> T + Sync,
    ) -> Vec<T> {
        let mut units: Vec<(usize, Ptx<'_>)> = self.ptx().enumerate().collect();
        // The largest come first, so that no thread starts one of them when the others are nearly done.
        units.sort_by_key(|(_, unit)| std::cmp::Reverse(unit.entry.text_size));
        let next = AtomicUsize::new(0);
        let work = || {
            let mut done = Vec::new();
            while let Some((index, unit)) = units.get(next.fetch_add(1, Ordering::Relaxed)) {
                done.push((*index, f(*unit, unit.text())));
            }
            done
        };
        let mut done = thread::scope(|scope| {
            let start = |_| thread::Builder::new().spawn_scoped(scope, work).ok();
            let others: Vec<_> = (1..threads.min(units.len())).map_while(start).collect();
            let mut done = work();
            for other in others {
                done.extend(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            }
            done
        });
        done.sort_by_key(|(index, _)| *index);
        done.into_iter().map(|(_, value)| value).collect()
    }
}

impl<'a> Ptx<'a> {
    /// The header of the unit's entry.
    pub fn entry(&self) -> &'a Entry {
        self.entry
    }

    /// Reads and decompresses its text. Zero bytes, with which it is padded, may be at its end.
    ///
    /// # Errors
    ///
    /// It cannot be read, is longer than [`MAX_TEXT`], or does not match its header.
    pub fn text(&self) -> Result<Vec<u8>, FatbinError> {
        payload::read(self.source, self.entry)
    }
}

/// The entries of both sections.
fn entries(source: &Source) -> Result<Vec<Entry>, FatbinError> {
    let cache = cache(source);
    let elf = Elf::parse(&cache).map_err(FatbinError::NotElf)?;
    let (mut entries, mut found) = (Vec::new(), false);
    for section in [Section::Linked, Section::Whole] {
        for (offset, size) in elf.named(section.name()) {
            header::read(source, section, offset, size, &mut entries)?;
            found = true;
        }
    }
    if found { Ok(entries) } else { Err(FatbinError::NoDeviceCode) }
}
