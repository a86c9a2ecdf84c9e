//! ELF files: their bytes, read on demand, and the tables that describe them.
use object::LittleEndian;
use object::elf::{FileHeader64, ProgramHeader64};
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader, SectionTable};
use object::read::{ReadCache, ReadCacheOps};
use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

/// Limit on a file's sections: more than any linker writes, and few enough to read.
const MAX_SECTIONS: u32 = 1 << 16;

/// A file or bytes. A file is not mapped: one that shrinks gives an error, and not a signal.
#[derive(Debug)]
pub(crate) enum Source {
    File { file: File, length: u64 },
    Bytes(Box<[u8]>),
}

impl Source {
    /// Opens a regular file, without waiting for anybody.
    pub(crate) fn open(path: &Path) -> io::Result<(Self, Metadata)> {
        let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC).open(path)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::other("it is not a regular file"));
        }
        Ok((Self::File { file, length: metadata.len() }, metadata))
    }

    /// What the system says about the file that is open.
    pub(crate) fn metadata(&self) -> io::Result<Metadata> {
        match self {
            Self::File { file, .. } => file.metadata(),
            Self::Bytes(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    pub(crate) fn length(&self) -> u64 {
        match self {
            Self::File { length, .. } => *length,
            Self::Bytes(bytes) => bytes.len() as u64,
        }
    }

    /// Fills the buffer with the bytes from `offset` on.
    pub(crate) fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        match self {
            Self::File { file, .. } => file.read_exact_at(buffer, offset),
            Self::Bytes(bytes) => {
                let rest = usize::try_from(offset).ok().and_then(|offset| bytes.get(offset..));
                let found = rest.and_then(|rest| rest.get(..buffer.len()));
                buffer.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
                Ok(())
            }
        }
    }
}

/// A source with a place in it, as `object` reads.
pub(crate) struct Reader<'a> {
    source: &'a Source,
    at: u64,
}

impl ReadCacheOps for Reader<'_> {
    fn len(&mut self) -> Result<u64, ()> {
        Ok(self.source.length())
    }

    fn seek(&mut self, at: u64) -> Result<u64, ()> {
        self.at = at;
        Ok(at)
    }

    fn read(&mut self, buffer: &mut [u8]) -> Result<usize, ()> {
        let rest = self.source.length().saturating_sub(self.at);
        let size = buffer.len().min(usize::try_from(rest).unwrap_or(usize::MAX));
        self.read_exact(&mut buffer[..size])?;
        Ok(size)
    }

    fn read_exact(&mut self, buffer: &mut [u8]) -> Result<(), ()> {
        self.source.read_at(self.at, buffer).map_err(|_| ())?;
        self.at += buffer.len() as u64;
        Ok(())
    }
}

/// The tables that were read from a source.
pub(crate) type Cache<'a> = ReadCache<Reader<'a>>;

/// The tables of a source, with the data read from it kept in the cache.
pub(crate) struct Elf<'a> {
    pub(crate) cache: &'a Cache<'a>,
    pub(crate) header: &'a FileHeader64<LittleEndian>,
    pub(crate) sections: SectionTable<'a, FileHeader64<LittleEndian>, &'a Cache<'a>>,
}

/// The cache for [`Elf::parse`].
pub(crate) fn cache(source: &Source) -> Cache<'_> {
    ReadCache::new(Reader { source, at: 0 })
}

/// A part of a file that is mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    /// Address relative to the library's load address.
    pub(crate) address: u64,
    /// Offset in the file.
    pub(crate) offset: u64,
    /// The bytes that the file gives.
    pub(crate) file_size: u64,
}

impl<'a> Elf<'a> {
    /// Reads the header and the sections' headers. The error describes the problem.
    pub(crate) fn parse(cache: &'a Cache<'a>) -> Result<Self, String> {
        let wrong = |error: object::read::Error| error.to_string();
        let header = FileHeader64::<LittleEndian>::parse(cache).map_err(wrong)?;
        if header.shnum(LittleEndian, cache).map_err(wrong)? > MAX_SECTIONS {
            return Err("it says that it has more sections than a linker makes".into());
        }
        let sections = header.sections(LittleEndian, cache).map_err(wrong)?;
        Ok(Self { cache, header, sections })
    }

    /// The segments that a loader maps.
    pub(crate) fn segments(&self) -> Result<Vec<Segment>, String> {
        let headers = self.header.program_headers(LittleEndian, self.cache).map_err(|error| error.to_string())?;
        let loaded = headers.iter().filter(|header| header.p_type(LittleEndian) == object::elf::PT_LOAD);
        let segment = |header: &ProgramHeader64<LittleEndian>| Segment {
            address: header.p_vaddr(LittleEndian),
            offset: header.p_offset(LittleEndian),
            file_size: header.p_filesz(LittleEndian),
        };
        Ok(loaded.map(segment).collect())
    }

    /// The sections of this name: the offset of each in the file, and its size.
    pub(crate) fn named(&self, name: &str) -> impl Iterator<Item = (u64, u64)> {
        let matching = self.sections.iter().filter(move |section| {
            self.sections.section_name(LittleEndian, section).is_ok_and(|found| found == name.as_bytes())
        });
        matching.filter_map(|section| section.file_range(LittleEndian))
    }
}
