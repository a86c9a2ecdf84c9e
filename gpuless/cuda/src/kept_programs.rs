//! What an earlier process has found out about the PTX of a library, kept in a file: which units make a program, what their names mean,
//! and what the host asks about kernels.
//!
//! Reading all of a library's PTX takes hundreds of megabytes and most of a short process's time, and a process needs few of its
//! functions. The texts themselves are not kept: a unit is taken out of the library when one of its functions is first needed, and
//! has to have the hash that is noted here. So a file costs little, nothing is mapped that another process could cut off, and what
//! runs is always the library's own code.
//!
//! A file is found by the identity of the library's file and by the source code that wrote it. It is ignored if it is damaged, belongs to
//! another user, or can be written by others. A process that can neither find nor write one reads all of the PTX.
use crate::elf::Source;
use crate::fatbin::Entry;
use crate::file_identity::FileIdentity;
use ptx::link::Linked;
use serde::{Deserialize, Serialize};
use std::fs::{Metadata, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

/// What is kept about a library.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct KeptPrograms {
    /// The units with PTX, as [`FatBinaries::ptx`](crate::fatbin::FatBinaries::ptx) gives them.
    pub(crate) units: Vec<KeptUnit>,
    pub(crate) programs: Vec<KeptProgram>,
    pub(crate) kernels: Vec<KeptKernel>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct KeptUnit {
    pub(crate) entry: Entry,
    /// The hash of its text with the padding.
    pub(crate) hash: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct KeptProgram {
    /// Its units by their numbers, in the order in which they were linked.
    pub(crate) units: Vec<u32>,
    pub(crate) linked: Linked,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct KeptKernel {
    pub(crate) name: String,
    /// Bytes of shared memory of its variables.
    pub(crate) shared: u64,
    /// Most threads of a block.
    pub(crate) most_threads: u32,
}

/// The hash of a unit's text.
pub(crate) fn hash(text: &[u8]) -> u64 {
    xxh3_64(text)
}

const MAGIC: &[u8; 16] = b"gpuless programs";
/// Magic, the hash of the rest, and the hash of the source code that wrote it.
const HEAD: usize = 32;
/// Limit on a file. NCCL 2.32.3 takes 0.2 MB.
const MAX_BYTES: u64 = 16 << 20;
/// The end of a file's name.
const SUFFIX: &str = ".programs";
/// So many files are kept; a folder with more loses those that were written first, which costs their readers one reading of the PTX.
const MAX_FILES: usize = 64;

/// Tells the code that a file was written by from any other: what it keeps has a meaning for that code alone.
fn code() -> u64 {
    let mut hash = Xxh3::new();
    let own = [
        include_str!("attach/loaded.rs"),
        include_str!("attach/mod.rs"),
        include_str!("attach/programs.rs"),
        include_str!("elf.rs"),
        include_str!("fatbin/header.rs"),
        include_str!("fatbin/mod.rs"),
        include_str!("fatbin/payload.rs"),
        include_str!("file_identity.rs"),
        include_str!("kept_programs.rs"),
        include_str!("programs.rs"),
    ];
    for source in ptx::link::SOURCES.iter().chain(&own) {
        hash.update(source.as_bytes());
    }
    hash.digest()
}

fn path_of(folder: &Path, identity: &FileIdentity) -> Option<PathBuf> {
    let key = postcard::to_stdvec(&(identity, code())).ok()?;
    Some(folder.join(format!("{:016x}{SUFFIX}", xxh3_64(&key))))
}

/// What was kept about the library with this identity.
pub(crate) fn read(folder: &Path, identity: &FileIdentity) -> Option<KeptPrograms> {
    let bytes = private_bytes(&path_of(folder, identity)?).ok().flatten()?;
    let (of, kept): (FileIdentity, KeptPrograms) = postcard::from_bytes(contents(&bytes)?).ok()?;
    let numbers = |program: &KeptProgram| program.units.iter().all(|unit| (*unit as usize) < kept.units.len());
    (of == *identity && kept.programs.iter().all(numbers)).then_some(kept)
}

/// Removes what was kept about the library with this identity.
pub(crate) fn forget(folder: &Path, identity: &FileIdentity) {
    // Another process may have removed it, and where nothing can be removed each process finds out for itself.
    let _ = path_of(folder, identity).map(std::fs::remove_file);
}

/// What follows the head, if the head is right.
fn contents(bytes: &[u8]) -> Option<&[u8]> {
    let (head, rest) = bytes.split_at_checked(HEAD)?;
    let number = |at: usize| head.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes);
    let right = head.starts_with(MAGIC) && number(16)? == xxh3_64(rest) && number(24)? == code();
    right.then_some(rest)
}

/// Reads a file; `None` if it belongs to another user, or if others can write to it.
fn private_bytes(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)?;
    let what = file.metadata()?;
    if !what.is_file() || !is_private(&what) || what.len() > MAX_BYTES {
        return Ok(None);
    }
    let mut bytes = Vec::with_capacity(what.len() as usize);
    file.take(MAX_BYTES).read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}

/// True if it belongs to this user, and others cannot write to it.
fn is_private(what: &Metadata) -> bool {
    what.uid() == rustix::process::geteuid().as_raw() && what.mode() & 0o022 == 0
}

/// Keeps what was found out about the library of this source, for which the folder is made if there is none. Nothing is written about
/// a library that was changed while it was read.
///
/// # Errors
///
/// The file cannot be written.
pub(crate) fn write(folder: &Path, library: &Source, identity: &FileIdentity, kept: &KeptPrograms) -> io::Result<()> {
    if FileIdentity::of(&library.metadata()?) != *identity {
        return Ok(());
    }
    let rest = postcard::to_stdvec(&(identity, kept)).map_err(io::Error::other)?;
    let path = path_of(folder, identity).ok_or(io::ErrorKind::InvalidData)?;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    // Readers see the whole file or none. It can be read and written by this user alone, and is told by its name if this process is killed.
    let mut file = tempfile::Builder::new().suffix(SUFFIX).tempfile_in(folder)?;
    file.write_all(MAGIC)?;
    file.write_all(&xxh3_64(&rest).to_le_bytes())?;
    file.write_all(&code().to_le_bytes())?;
    file.write_all(&rest)?;
    file.persist(&path)?;
    leave_newest(folder)
}

/// Removes the oldest files until few enough are left, and touches nothing else that is there.
fn leave_newest(folder: &Path) -> io::Result<()> {
    let mut files: Vec<(SystemTime, PathBuf)> = Vec::new();
    for entry in folder.read_dir()? {
        let entry = entry?;
        if entry.file_name().as_encoded_bytes().ends_with(SUFFIX.as_bytes()) && entry.file_type()?.is_file() {
            files.push((entry.metadata()?.modified()?, entry.path()));
        }
    }
    files.sort();
    let surplus = files.len().saturating_sub(MAX_FILES);
    files.iter().take(surplus).try_for_each(|(_, path)| std::fs::remove_file(path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fatbin::{Kind, Section};
    use ptx::link::Program;
    use ptx::text::Unit;
    use std::os::unix::fs::PermissionsExt;

    /// A file that was last changed before this test was built.
    fn library() -> (Source, FileIdentity) {
        let (source, metadata) = Source::open(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"))).unwrap();
        let identity = FileIdentity::of(&metadata);
        (source, identity)
    }

    fn kept() -> KeptPrograms {
        let unit = Unit::new("t", b".visible .entry k() { ret; } .shared .b32 x;".to_vec()).unwrap();
        let linked = Program::link(vec![unit], 1).unwrap().linked().unwrap();
        let entry = Entry {
            section: Section::Whole,
            fat_binary: 0,
            offset: 16,
            kind: Kind::Ptx,
            version: (8, 8),
            architecture: 90,
            name: "t".into(),
            options: String::new(),
            flags: 0,
            stored_size: 44,
            text_size: 44,
            place: 80,
        };
        let kernel = KeptKernel { name: "k".into(), shared: 4, most_threads: 1024 };
        KeptPrograms {
            units: vec![KeptUnit { entry, hash: 7 }],
            programs: vec![KeptProgram { units: vec![0], linked }],
            kernels: vec![kernel],
        }
    }

    /// Keeps something in a folder; its file, and the library's identity.
    fn written(folder: &Path) -> (PathBuf, FileIdentity) {
        let (source, identity) = library();
        write(folder, &source, &identity, &kept()).unwrap();
        (path_of(folder, &identity).unwrap(), identity)
    }

    fn files(folder: &Path) -> Vec<PathBuf> {
        let mut files: Vec<_> = folder.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        files
    }

    fn text(kept: Option<KeptPrograms>) -> Option<String> {
        kept.map(|kept| format!("{kept:?}"))
    }

    #[test]
    fn what_was_kept_is_found_again_for_the_same_file_alone() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("made/when/needed");
        let (source, identity) = library();
        assert!(read(&folder, &identity).is_none());
        write(&folder, &source, &identity, &kept()).unwrap();
        assert_eq!(text(read(&folder, &identity)), text(Some(kept())));
        let mut other = identity;
        other.changed.1 ^= 1;
        assert!(read(&folder, &other).is_none());
        std::fs::rename(path_of(&folder, &identity).unwrap(), path_of(&folder, &other).unwrap()).unwrap();
        assert!(read(&folder, &other).is_none(), "the identity is in the file, too");
    }

    #[test]
    fn a_damaged_file_counts_for_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let (path, identity) = written(folder.path());
        let bytes = std::fs::read(&path).unwrap();
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x10;
            std::fs::write(&path, &damaged).unwrap();
            assert!(read(folder.path(), &identity).is_none(), "byte {at}");
            std::fs::write(&path, &bytes[..at]).unwrap();
            assert!(read(folder.path(), &identity).is_none(), "{at} bytes");
        }
        std::fs::write(&path, bytes).unwrap();
        assert!(read(folder.path(), &identity).is_some());
    }

    #[test]
    fn a_file_that_others_could_have_written_counts_for_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let (path, identity) = written(folder.path());
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o600);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o620)).unwrap();
        assert!(read(folder.path(), &identity).is_none());
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        let elsewhere = folder.path().join("elsewhere");
        std::fs::rename(&path, &elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
        assert!(read(folder.path(), &identity).is_none(), "a link");
    }

    #[test]
    fn nothing_is_kept_about_a_library_that_has_been_changed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("library");
        std::fs::write(&path, "new").unwrap();
        let (source, metadata) = Source::open(&path).unwrap();
        let identity = FileIdentity::of(&metadata);
        assert!(!identity.is_settled() && library().1.is_settled());
        std::fs::write(&path, "newer").unwrap();
        write(folder.path(), &source, &identity, &kept()).unwrap();
        assert_eq!(files(folder.path()), [path]);
    }

    #[test]
    fn what_is_forgotten_is_not_found() {
        let folder = tempfile::tempdir().unwrap();
        let (_, identity) = written(folder.path());
        forget(folder.path(), &identity);
        assert!(read(folder.path(), &identity).is_none());
        forget(folder.path(), &identity);
    }

    #[test]
    fn the_oldest_files_go_and_other_files_stay() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("mine"), "").unwrap();
        for number in 0..MAX_FILES + 3 {
            let file = std::fs::File::create(folder.path().join(format!("{number:03}{SUFFIX}"))).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(number as u64)).unwrap();
        }
        leave_newest(folder.path()).unwrap();
        let left = files(folder.path());
        assert_eq!(left.len(), MAX_FILES + 1);
        assert!(left[0].ends_with("003.programs") && left[MAX_FILES].ends_with("mine"));
    }
}
