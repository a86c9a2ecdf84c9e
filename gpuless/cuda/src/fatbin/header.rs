//! The headers of fat binaries and of their entries.
//!
//! All numbers are little-endian. A fat binary is a header of 16 bytes or more (magic `u32`, version `u16`, its own size `u16`,
//! size of what follows `u64`) and entries, each with a header and a payload:
//!
//! | at | | |
//! |---|---|---|
//! | 0 | `u16` | kind |
//! | 4 | `u32` | size of the header: 64, 72 in CUDA 12.4, and more if text follows |
//! | 8 | `u64` | size of the payload with its padding |
//! | 16 | `u32` | size of the payload without, if it is compressed |
//! | 20 | `u32` | where in the header the options' place stands: `u32` from the header's start, `u32` length |
//! | 24 | `u16`, `u16` | minor and major version of PTX, or of the machine code's format |
//! | 28 | `u32` | architecture, 90 for sm_90 |
//! | 32 | `u32`, `u32` | where the name stands, from the header's start, and its length |
//! | 40 | `u64` | flags |
//! | 56 | `u64` | size when decompressed |
use super::error::FatbinError;
use crate::elf::Source;
use serde::{Deserialize, Serialize};
use std::fmt;

const MAGIC: u32 = 0xBA55_ED50;
/// The bytes of a fat binary's header that are read.
const BINARY: u64 = 16;
/// The bytes of an entry's header that all versions have.
const FIXED: u64 = 64;
/// Limit on an entry's header: a name and options are the only text in it.
const MAX_HEADER: u64 = 1 << 16;
/// Bytes of padding between fat binaries that are read at once.
const PADDING: u64 = 1 << 16;

const FLAG_LZ4: u64 = 0x2000;
const FLAG_ZSTD: u64 = 0x8000;

/// The section that contains a fat binary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Section {
    /// `__nv_relfatbin`: units that the device linker combined into programs.
    Linked,
    /// `.nv_fatbin`: units that are each a separate program, and the device linker's machine code.
    Whole,
}

impl Section {
    /// Its name in the file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Linked => "__nv_relfatbin",
            Self::Whole => ".nv_fatbin",
        }
    }
}

impl fmt::Display for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The contents of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Kind {
    /// PTX as text.
    Ptx,
    /// Machine code, as an ELF file.
    Elf,
    /// Something else, by its number in the file.
    Other(u16),
}

/// The way an entry's payload is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Compression {
    /// Without compression.
    None,
    /// One block of LZ4, without a frame.
    Lz4,
    /// One frame of Zstandard.
    Zstd,
}

/// An entry of a fat binary.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Entry {
    /// The section that contains the entry.
    pub section: Section,
    /// Offset of its fat binary in the section, in bytes.
    pub fat_binary: u64,
    /// Offset of its header in the section, in bytes.
    pub offset: u64,
    /// The kind of contents.
    pub kind: Kind,
    /// Major and minor version: of the ISA for PTX.
    pub version: (u16, u16),
    /// The architecture that it is for, 90 for sm_90 and sm_90a.
    pub architecture: u32,
    /// The name that the compiler gave it; often empty.
    pub name: String,
    /// The options for compiling the PTX; often empty.
    pub options: String,
    /// All flags, as stored in the file.
    pub flags: u64,
    /// The size of the stored payload in bytes, without padding.
    pub stored_size: u64,
    /// The size when decompressed, as the header says.
    pub text_size: u64,
    /// Offset of the payload in the file.
    pub(crate) place: u64,
}

impl Entry {
    /// The way the payload is stored.
    pub fn compression(&self) -> Compression {
        match self.flags {
            flags if flags & FLAG_ZSTD != 0 => Compression::Zstd,
            flags if flags & FLAG_LZ4 != 0 => Compression::Lz4,
            _ => Compression::None,
        }
    }

    pub(super) fn damaged(&self, what: impl Into<String>) -> FatbinError {
        FatbinError::Damaged { section: self.section, offset: self.offset, what: what.into() }
    }
}

/// A section of a source.
struct Reader<'a> {
    source: &'a Source,
    section: Section,
    /// Offset of the section in the file, and its size.
    start: u64,
    size: u64,
}

/// Reads the entries of all fat binaries in a section.
pub(super) fn read(
    source: &Source,
    section: Section,
    start: u64,
    size: u64,
    entries: &mut Vec<Entry>,
) -> Result<(), FatbinError> {
    let reader = Reader { source, section, start, size };
    if start.checked_add(size).is_none_or(|end| end > source.length()) {
        return Err(reader.damaged(0, format!("the section of {size} bytes at {start:#x} runs past the file's end")));
    }
    let mut at = 0;
    while let Some(binary) = reader.after_padding(at)? {
        at = reader.binary(binary, entries)?;
    }
    Ok(())
}

impl Reader<'_> {
    fn damaged(&self, offset: u64, what: impl Into<String>) -> FatbinError {
        FatbinError::Damaged { section: self.section, offset, what: what.into() }
    }

    /// Bytes of the section.
    fn bytes(&self, offset: u64, buffer: &mut [u8]) -> Result<(), FatbinError> {
        let inside = offset.checked_add(buffer.len() as u64).is_some_and(|end| end <= self.size);
        let place = self.start.checked_add(offset).filter(|_| inside);
        let place = place.ok_or_else(|| self.damaged(offset, "the section ends within a header"))?;
        self.source.read_at(place, buffer).map_err(|error| self.damaged(offset, format!("it cannot be read: {error}")))
    }

    /// Offset of the next fat binary: zero bytes before it are padding.
    fn after_padding(&self, mut at: u64) -> Result<Option<u64>, FatbinError> {
        let mut buffer = Vec::new();
        // Almost always a fat binary begins here.
        let mut size = BINARY;
        while at < self.size {
            buffer.resize(size.min(self.size - at) as usize, 0);
            self.bytes(at, &mut buffer)?;
            if let Some(zeros) = buffer.iter().position(|byte| *byte != 0) {
                return Ok(Some(at + zeros as u64));
            }
            at += buffer.len() as u64;
            size = PADDING;
        }
        Ok(None)
    }

    /// Reads one fat binary; where it ends.
    fn binary(&self, at: u64, entries: &mut Vec<Entry>) -> Result<u64, FatbinError> {
        let mut header = [0; BINARY as usize];
        self.bytes(at, &mut header)?;
        let (magic, own_size, body) = (u32_at(&header, 0), u64::from(u16_at(&header, 6)), u64_at(&header, 8));
        if magic != MAGIC {
            return Err(self.damaged(at, format!("a fat binary begins with {MAGIC:#x}, and here stands {magic:#x}")));
        }
        if own_size < BINARY {
            return Err(self.damaged(at, format!("a fat binary's header of {own_size} bytes")));
        }
        let end = (at + own_size).checked_add(body).filter(|end| *end <= self.size);
        let end =
            end.ok_or_else(|| self.damaged(at, format!("a fat binary of {body} bytes in a section of {}", self.size)))?;
        let mut next = at + own_size;
        while next < end {
            let entry = self.entry(next, end, at)?;
            next = entry.1;
            entries.push(entry.0);
        }
        Ok(end)
    }

    /// Reads one entry of a fat binary that ends at `limit`; where it ends.
    fn entry(&self, at: u64, limit: u64, fat_binary: u64) -> Result<(Entry, u64), FatbinError> {
        let mut fixed = [0; FIXED as usize];
        self.bytes(at, &mut fixed)?;
        let (header_size, payload) = (u64::from(u32_at(&fixed, 4)), u64_at(&fixed, 8));
        if !(FIXED..=MAX_HEADER).contains(&header_size) {
            return Err(self.damaged(at, format!("an entry's header of {header_size} bytes")));
        }
        let end = (at + header_size).checked_add(payload).filter(|end| *end <= limit);
        let end =
            end.ok_or_else(|| self.damaged(at, format!("an entry of {payload} bytes runs past its fat binary")))?;
        let mut header = fixed.to_vec();
        if header_size > FIXED {
            header.resize(header_size as usize, 0);
            self.bytes(at, &mut header)?;
        }
        let compressed = u64::from(u32_at(&fixed, 16));
        if compressed > payload {
            return Err(self.damaged(at, format!("{compressed} compressed bytes in a payload of {payload}")));
        }
        let text = |place: usize| {
            let place: Option<[u8; 8]> = header.get(place..place + 8).and_then(|bytes| bytes.try_into().ok());
            let (from, length) = place.map_or((0, 0), |bytes| (u32_at(&bytes, 0) as usize, u32_at(&bytes, 4) as usize));
            let bytes = header.get(from..).and_then(|rest| rest.get(..length)).unwrap_or_default();
            String::from_utf8_lossy(bytes).trim_matches(['\0', ' ']).to_owned()
        };
        let options_at = u32_at(&fixed, 20) as usize;
        let mut entry = Entry {
            section: self.section,
            fat_binary,
            offset: at,
            kind: match u16_at(&fixed, 0) {
                1 => Kind::Ptx,
                2 => Kind::Elf,
                other => Kind::Other(other),
            },
            version: (u16_at(&fixed, 26), u16_at(&fixed, 24)),
            architecture: u32_at(&fixed, 28),
            name: text(32),
            options: if options_at >= FIXED as usize { text(options_at) } else { String::new() },
            flags: u64_at(&fixed, 40),
            stored_size: payload,
            text_size: payload,
            place: self.start + at + header_size,
        };
        if entry.compression() != Compression::None {
            entry.text_size = u64_at(&fixed, 56);
            entry.stored_size = if compressed == 0 { payload } else { compressed };
        }
        Ok((entry, end))
    }
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from(u16_at(bytes, at)) | u32::from(u16_at(bytes, at + 2)) << 16
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}
