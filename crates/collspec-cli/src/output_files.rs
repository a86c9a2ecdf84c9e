//! Outputs: a file that is written while something runs, one that is replaced as a whole, and one that something is added to.
use rustix::fs::{FlockOperation, Mode, OFlags, fcntl_getfl, fcntl_setfl, flock};
use rustix::io::Errno;
use std::fs::{self, File, Metadata, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Limit on the time that the lock of a just closed file lasts: a process starting at that moment holds it until it runs its program.
const CLOSING: Duration = Duration::from_millis(200);
/// The time to wait for a lock that others hold only briefly.
const LOCKING: Duration = Duration::from_secs(5);
/// Time between two attempts.
const PAUSE: Duration = Duration::from_millis(10);
/// The permissions of a new file, before the process's mask.
const NEW_FILE: u32 = 0o666;

/// Opens for writing, without waiting for the reader of a pipe.
fn open(path: &Path, more: OFlags) -> io::Result<File> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC | more;
    let opened = rustix::fs::open(path, flags, Mode::from_raw_mode(NEW_FILE)).map_err(|error| match error {
        Errno::NXIO => io::Error::other("nobody reads this pipe"),
        error => error.into(),
    })?;
    // Writing itself may wait.
    fcntl_setfl(&opened, fcntl_getfl(&opened)?.difference(OFlags::NONBLOCK))?;
    Ok(File::from(opened))
}

/// False if another process holds the file's lock for longer than this. On a file system without locks it is never held.
fn lock(file: &File, limit: Duration) -> bool {
    let end = Instant::now() + limit;
    while let Err(Errno::WOULDBLOCK) = flock(file, FlockOperation::NonBlockingLockExclusive) {
        if Instant::now() > end {
            return false;
        }
        std::thread::sleep(PAUSE);
    }
    true
}

/// Creates or empties a file, which this process alone writes to until it is closed. Pipes and devices are written to as they are.
///
/// # Errors
///
/// It cannot be written, or another process is writing it.
pub fn create(path: &Path) -> io::Result<File> {
    let file = open(path, OFlags::empty())?;
    if file.metadata()?.is_file() {
        if !lock(&file, CLOSING) {
            return Err(io::Error::other("another process of collspec is writing this file"));
        }
        file.set_len(0)?;
    }
    Ok(file)
}

/// Gives a file this content. Readers see either the old content or the new one, and an error leaves the old one. Pipes and devices
/// are written to directly.
///
/// # Errors
///
/// It cannot be written.
pub fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let there = path.metadata().ok();
    let Some(target) = renamed_to(path, there.as_ref()) else { return write_in_place(path, content) };
    let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let permissions = there.as_ref().map_or_else(|| Permissions::from_mode(NEW_FILE), Metadata::permissions);
    let beside = tempfile::Builder::new().prefix(".collspec-").permissions(permissions.clone()).tempfile_in(folder);
    // The file may be writable where its folder is not.
    let Ok(mut beside) = beside else { return write_in_place(path, content) };
    beside.write_all(content)?;
    if there.is_some() {
        // The process's mask does not bear on a file that has been there.
        fs::set_permissions(beside.path(), permissions)?;
    }
    match beside.persist(&target) {
        Ok(_) => Ok(()),
        // A file on which something is mounted, for example.
        Err(_) => write_in_place(path, content),
    }
}

/// The path from which a new file can replace this one; `None` where that would change more than the content: if it is not a regular
/// file, has other names or another owner, or is a link that leads nowhere yet.
fn renamed_to(path: &Path, there: Option<&Metadata>) -> Option<PathBuf> {
    let owner = rustix::process::geteuid().as_raw();
    match there {
        Some(there) if there.is_file() && there.nlink() == 1 && there.uid() == owner => path.canonicalize().ok(),
        Some(_) => None,
        None => path.symlink_metadata().is_err().then(|| path.to_owned()),
    }
}

fn write_in_place(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = create(path)?;
    file.write_all(content)?;
    file.flush()
}

/// Opens a file so that new text is written after its current content.
///
/// # Errors
///
/// It cannot be written, or is a pipe: its reader may never read it.
pub fn append(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::FileTypeExt;
    let file = open(path, OFlags::APPEND)?;
    let kind = file.metadata()?.file_type();
    if kind.is_fifo() || kind.is_socket() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
    }
    Ok(file)
}

/// Holds a lock that keeps other processes from changing the files that it guards.
#[derive(Debug)]
pub struct Lock {
    _folder: File,
}

impl Lock {
    /// Takes the lock of this folder.
    ///
    /// # Errors
    ///
    /// It cannot be opened, or another process does not let go of it.
    pub fn of_folder(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        if lock(&file, LOCKING) {
            return Ok(Self { _folder: file });
        }
        Err(io::Error::other(format!("another process holds {}", path.display())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_as_a_whole_and_keeps_what_else_it_has() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        replace(&at("new"), b"1").unwrap();
        fs::set_permissions(at("new"), Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink("new", at("link")).unwrap();
        replace(&at("link"), b"2").unwrap();
        assert!(at("link").is_symlink());
        assert_eq!(fs::read(at("new")).unwrap(), b"2");
        assert_eq!(at("new").metadata().unwrap().permissions().mode() & 0o777, 0o640);
        fs::hard_link(at("new"), at("other")).unwrap();
        replace(&at("other"), b"3").unwrap();
        assert_eq!(fs::read(at("new")).unwrap(), b"3", "both names stay those of one file");
        std::os::unix::fs::symlink("later", at("dangling")).unwrap();
        replace(&at("dangling"), b"4").unwrap();
        assert_eq!(fs::read(at("later")).unwrap(), b"4");
        assert!(replace(Path::new("/dev/full"), b"5").is_err());
        replace(Path::new("/dev/null"), b"6").unwrap();
        assert!(replace(&at("nowhere/file"), b"7").is_err());
        let left = fs::read_dir(folder.path()).unwrap().flatten();
        assert_eq!(left.filter(|entry| entry.file_name().as_encoded_bytes().starts_with(b".")).count(), 0);
    }

    #[test]
    fn a_file_has_one_writer_and_a_pipe_needs_a_reader() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let mut first = create(&at("file")).unwrap();
        first.write_all(b"kept").unwrap();
        let second = create(&at("file")).unwrap_err();
        assert_eq!(second.to_string(), "another process of collspec is writing this file");
        assert_eq!(fs::read(at("file")).unwrap(), b"kept");
        drop(first);
        assert_eq!(create(&at("file")).unwrap().metadata().unwrap().len(), 0);
        assert!(std::process::Command::new("mkfifo").arg(at("pipe")).status().unwrap().success());
        for result in [create(&at("pipe")), append(&at("pipe"))] {
            assert_eq!(result.unwrap_err().to_string(), "nobody reads this pipe");
        }
        append(&at("file")).unwrap().write_all(b"a").unwrap();
        append(&at("file")).unwrap().write_all(b"b").unwrap();
        assert_eq!(fs::read(at("file")).unwrap(), b"ab");
    }
}
